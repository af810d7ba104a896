"""The checks of a rule or filter before it becomes a candidate, and again before it is approved.

Each check is a function that returns what is wrong, or an empty text. All are recorded for the reviewer.
"""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from gpulake.core.diagnosis import NOT_A_FAILURE, UNKNOWN
from gpulake.core.packaged import packaged_toml
from gpulake.core.words import label
from gpulake.diagnose.learn.candidates import SILENCING, Candidate, Check, Ground, agreed_recovery
from gpulake.diagnose.learn.pattern_checks import backtracking, fixed_characters, fixed_letters
from gpulake.diagnose.rulebook.book import Rulebook, compiled
from gpulake.diagnose.rulebook.rule import EXPLAINING, Rule

LEAST_FIXED = 8  # letters and digits that every match has
LEAST_LETTERS = 3  # of these, from g to z: a pattern of numbers only would be searched in every line
MOST_PATTERN = 1_000
MOST_PROGRAM = 4_000  # steps of the automaton; the shipped rules take some dozens each
MOST_EXAMPLES = 20
MOST_EXAMPLE = 4_000
MOST_WORDS = 600
RANDOM_LINES = 300
MODEL_STRENGTH = 50  # a model's rule never outranks a person's
_NAME = re.compile(r"[a-z][a-z0-9_]{2,60}")
_TROUBLE = ("Traceback (most recent call last): ", " CUDA error: an illegal memory access was encountered")


def examined(candidate: Candidate, ground: Ground) -> tuple[Check, ...]:
    """Every check with its outcome; a failed check of the form ends the list."""
    found: list[Check] = []
    for check in (*_FORM, *_EFFECT):
        wrong = check(candidate, ground)
        found.append(Check(check.__name__.lstrip("_"), not wrong, wrong))
        if wrong and check in _FORM:
            break
    return tuple(found)


def failures(checks: Iterable[Check]) -> list[str]:
    """What is wrong, a sentence each."""
    return [check.says for check in checks if not check.passed]


# Of its form


def _is_well_formed(candidate: Candidate, _: Ground) -> str:
    rule = candidate.rule
    patterns = (rule.pattern, rule.unless, rule.traceback)
    words = (rule.cause, rule.remedy, rule.why, rule.source)
    examples = (*rule.matches, *rule.ignores)
    if not all(isinstance(text, str) for text in (rule.name, *patterns, *words, *examples)):
        return "a text is no text"
    if not _NAME.fullmatch(rule.name):
        return f"the name {label(rule.name, 80)!r} is not made of small letters, digits and underscores"
    if (longest := max(map(len, patterns))) > MOST_PATTERN:
        return f"a pattern has {longest:,} characters; {MOST_PATTERN:,} are allowed"
    if max(map(len, words)) > MOST_WORDS:
        return f"cause, remedy, why and source may have {MOST_WORDS} characters each"
    if not rule.matches or len(examples) > MOST_EXAMPLES:
        return f"it needs 1 to {MOST_EXAMPLES} examples"
    is_line = all(0 < len(example) <= MOST_EXAMPLE and "\n" not in example for example in examples)
    return "" if is_line else f"an example is not one line of at most {MOST_EXAMPLE:,} characters"


def _compiles(candidate: Candidate, _: Ground) -> str:
    for pattern in filter(None, (candidate.rule.pattern, candidate.rule.unless, candidate.rule.traceback)):
        try:
            program = compiled(pattern)
        except ValueError as error:
            return label(error, MOST_WORDS)
        if program.programsize > MOST_PROGRAM:
            return f"it takes {program.programsize:,} steps of the automaton; {MOST_PROGRAM:,} are allowed"
    return "" if candidate.rule.pattern else "it has no pattern"


def _cannot_hang_other_engines(candidate: Candidate, _: Ground) -> str:
    rule = candidate.rule
    try:
        return next(filter(None, map(backtracking, (rule.pattern, rule.unless, rule.traceback))), "")
    except ValueError as error:
        return str(error)


def _fills_in_its_words(candidate: Candidate, _: Ground) -> str:
    """{group} of cause and remedy is a named group of the pattern, and nothing cleverer."""
    rule = candidate.rule
    try:
        known = set(compiled(rule.pattern).groupindex)
        used = [field for words in (rule.cause, rule.remedy) for field in string.Formatter().parse(words)]
    except ValueError as error:
        return f"cause or remedy: {label(error, MOST_WORDS)}"
    for _before, group, form, conversion in used:
        if group is not None and (group not in known or form or conversion):
            return f"{{{label(group, 40)}}} of cause or remedy is no named group of the pattern"
    return ""


def _names_a_failure(candidate: Candidate, _: Ground) -> str:
    rule = candidate.rule
    if rule.role in EXPLAINING and rule.reason in ("", NOT_A_FAILURE, UNKNOWN):
        return f"a rule of role {rule.role} needs the reason of a failure, not {rule.reason or 'none'}"
    return ""


def _is_modest(candidate: Candidate, ground: Ground) -> str:
    """A model may not choose an action, hide failures or outrank a person's rule."""
    rule = candidate.rule
    if not candidate.is_by_model or candidate.kind == "filter":
        return ""
    if rule.role not in EXPLAINING:
        return f"a model may not propose a rule of role {rule.role}"
    if rule.strength > MODEL_STRENGTH:
        return f"a model's rule may have a strength of at most {MODEL_STRENGTH}"
    if rule.recovery not in (UNKNOWN, agreed_recovery(rule.reason, ground.rules)):
        return "a model may not choose the recovery"
    return ""


# Of its effect


def _matches_its_own_lines(candidate: Candidate, _: Ground) -> str:
    book = Rulebook([candidate.rule])  # as it will be searched for, among all others and in bytes
    for line in candidate.rule.matches:
        if not candidate.matches(line) or not book.hits(line):
            return f"does not match its own line: {label(line, 160)}"
    for line in candidate.rule.ignores:
        if candidate.matches(line):
            return f"matches what it must ignore: {label(line, 160)}"
    return ""


def _is_specific(candidate: Candidate, _: Ground) -> str:
    if found := next(filter(candidate.matches, common_words()), None):
        return f"matches the plain words {found!r}"
    if candidate.matches(""):
        return "matches the empty line"
    if any(map(candidate.matches, random_lines())):
        return "matches text at random"
    fixed = fixed_characters(candidate.rule.pattern)
    if fixed < LEAST_FIXED:
        return f"only {fixed} letters and digits of it are fixed; it needs {LEAST_FIXED}"
    letters = fixed_letters(candidate.rule.pattern)
    if letters < LEAST_LETTERS:
        return f"it is mostly numbers: only {letters} letters from g to z are fixed; it needs {LEAST_LETTERS}"
    return ""


def _spares_healthy_logs(candidate: Candidate, ground: Ground) -> str:
    if candidate.kind == "filter" or candidate.is_silencing:
        return ""
    for line, source in (*healthy_lines(), *ground.healthy):
        if candidate.matches(line):
            return f"matches a line of a healthy log ({label(source, 80)}): {label(line, 160)}"
    return ""


def _steals_from_no_rule(candidate: Candidate, ground: Ground) -> str:
    rule = candidate.rule
    alike = [other for other in ground.rules if _belong_together(candidate, other)]
    others = [other for other in ground.rules if other not in alike and other.name != rule.name]
    for other in others:
        for line in filter(candidate.matches, other.matches):
            return f"matches an example of rule {other.name}: {label(line, 160)}"
    if candidate.kind == "filter" or candidate.is_silencing:
        return ""
    book = Rulebook(alike)
    for other in others:
        # A line that another rule ignores may be of this reason, if a rule of this reason matches it. Lines that a rule
        # of noise ignores are failures of any reason.
        for line in filter(candidate.matches, other.ignores):
            if other.role not in SILENCING and not book.hits(line):
                return f"matches a line that rule {other.name} must ignore: {label(line, 160)}"
    for proof in ground.proofs:
        if proof.is_confirmed and proof.reason != rule.reason and candidate.matches(proof.line):
            return f"matches what proved {proof.reason} in incident {proof.incident_id}: {label(proof.line, 160)}"
    return ""


def _hides_nothing(candidate: Candidate, ground: Ground) -> str:
    """Filters and silencing rules must not match any evidence of a failure."""
    if candidate.kind == "rule" and not candidate.is_silencing:
        return ""
    for proof in ground.proofs:
        if candidate.matches(proof.line):
            return f"matches what proved {proof.reason} in incident {proof.incident_id}: {label(proof.line, 160)}"
    if candidate.kind == "rule" and candidate.rule.role in ("noise", "teardown"):
        return ""  # they are for lines that look like trouble
    for line in candidate.rule.matches:
        if sign := marker(line):
            return f"its own line has a sign of trouble, {sign!r}: {label(line, 160)}"
        if candidate.kind == "filter" and any(map(candidate.matches, (_TROUBLE[0] + line, line + _TROUBLE[1]))):
            return "a filter has to match a line from end to end: begin it with ^ and end it with $"
    return ""


def _is_new(candidate: Candidate, ground: Ground) -> str:
    rule = candidate.rule
    known = ground.filters if candidate.kind == "filter" else ground.rules
    for other in (*ground.rules, *ground.filters):
        if other.name == rule.name:
            return f"there is a rule named {other.name}"
    for other in known:
        together = candidate.kind == "filter" or _belong_together(candidate, other)
        # A rule that also needs a traceback does not cover these lines.
        if together and not other.traceback and not _refines(rule, other) and _covers(other, rule.matches):
            return f"rule {other.name} matches all of its lines already"
        if other.pattern == rule.pattern and other.unless == rule.unless and other.traceback == rule.traceback:
            return f"rule {other.name} has the same pattern"
    return ""


def _belong_together(candidate: Candidate, other: Rule) -> bool:
    rule = candidate.rule
    if candidate.kind == "filter":
        return False
    if rule.role in EXPLAINING and other.role in EXPLAINING:
        return rule.reason == other.reason
    return rule.role == other.role


def _refines(rule: Rule, other: Rule) -> bool:
    """Whether a stronger rule with another remedy refines a general one."""
    return rule.role in EXPLAINING and rule.strength > other.strength and rule.remedy != other.remedy


def _covers(rule: Rule, lines: Iterable[str]) -> bool:
    known = Candidate(rule)
    return all(map(known.matches, lines))


_Test = Callable[[Candidate, Ground], str]
_FORM: tuple[_Test, ...] = (
    _is_well_formed,
    _compiles,
    _cannot_hang_other_engines,
    _fills_in_its_words,
    _names_a_failure,
    _is_modest,
)
_EFFECT: tuple[_Test, ...] = (
    _matches_its_own_lines,
    _is_specific,
    _spares_healthy_logs,
    _steals_from_no_rule,
    _hides_nothing,
    _is_new,
)


# Lines that a rule is tested on: of healthy jobs, common words, random text, signs of trouble.


def _probes() -> dict[str, Any]:
    return packaged_toml("gpulake.diagnose.learn", "probes.toml")


@cache
def healthy_lines() -> tuple[tuple[str, str], ...]:
    """Lines of healthy jobs, each with its source."""
    logs: Sequence[Mapping[str, str]] = _probes()["healthy"]
    return tuple((line, log["source"]) for log in logs for line in log["lines"].splitlines() if line.strip())


@cache
def common_words() -> tuple[str, ...]:
    return ("", *_probes()["common"])


@cache
def random_lines() -> tuple[str, ...]:
    """The same ones each time, so that checks are reproducible."""
    draw = random.Random(5)
    letters = string.ascii_letters + string.digits + " .:,-_/()[]='"
    vocabulary = " ".join(word for word in common_words() if word.isalpha()).split()
    noise = ["".join(draw.choices(letters, k=draw.randint(5, 200))) for _ in range(RANDOM_LINES)]
    salad = [" ".join(draw.choices(vocabulary, k=draw.randint(3, 12))) for _ in range(RANDOM_LINES)]
    return (*noise, *salad)


@cache
def _markers() -> Any:
    return compiled("(?i)" + "|".join(_probes()["markers"]))


def marker(line: str) -> str:
    """The sign of trouble in a line; empty where there is none."""
    found = _markers().search(line)
    return str(found[0]) if found else ""

"""Drafts of rules and filters, from a line and the rules of its reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gpulake.core.diagnosis import Action
from gpulake.core.errors import UsageError
from gpulake.core.redaction import redacted
from gpulake.diagnose.learn.candidates import Candidate, agreed_recovery
from gpulake.diagnose.learn.proposals import generalised, message, plain, tokens, whole_line
from gpulake.diagnose.learn.trials import MODEL_STRENGTH, MOST_WORDS
from gpulake.diagnose.rulebook.book import Rulebook
from gpulake.diagnose.rulebook.rule import EXPLAINING, Role, Rule

PERSON_STRENGTH = 50
MOST_STRENGTH = 90


def rule_draft(
    line: str,
    reason: str,
    known: Sequence[Rule],
    taken: Iterable[str] = (),
    *,
    source: str,
    cause: str = "",
    remedy: str = "",
    role: Role = "cause",
    recovery: Action | None = None,
    pattern: str = "",
    keep: Sequence[str] = (),
    name: str = "",
    is_by_model: bool = False,
) -> Candidate:
    """A rule for lines like this one. Defaults come from the rules of this reason."""
    one = _one_line(line)
    alike = sorted((rule for rule in known if rule.reason == reason), key=lambda rule: -rule.strength)
    rule = Rule(
        name=name or name_for(_words(one), (*(rule.name for rule in known), *taken)),
        pattern=pattern or generalised(one, keep),
        role=role,
        matches=(one,),
        reason=reason if role in EXPLAINING else "",
        cause=_sentence(redacted(cause) or _message_of(one)),
        remedy=_sentence(redacted(remedy) or _first(rule.remedy for rule in alike)),
        recovery=recovery or agreed_recovery(reason, known),  # type: ignore[arg-type]
        source=_sentence(source),
        strength=_strength(one, known, MODEL_STRENGTH if is_by_model else MOST_STRENGTH),
    )
    if role in EXPLAINING and not rule.remedy:
        raise UsageError(f"no rule of {reason} says what to do about it", "say it with --remedy")
    return Candidate(rule, "rule", is_by_model)


def filter_draft(
    line: str, taken: Iterable[str] = (), *, source: str, pattern: str = "", keep: Sequence[str] = (), name: str = ""
) -> Candidate:
    """A filter for lines like this one, from end to end."""
    one = _one_line(line)
    rule = Rule(
        name=name or name_for(f"routine {_words(one)}", taken),
        pattern=pattern or whole_line(one, keep),
        role="noise",
        matches=(one,),
        source=_sentence(source),
    )
    return Candidate(rule, "filter")


def _one_line(line: str) -> str:
    one = redacted(plain(line))
    if not one.strip() or "\n" in one:
        raise UsageError("that is not one line of a log", "give the line that tells what happened")
    return one


def _words(line: str) -> str:
    """The fixed words of the line, for the name of a rule: no paths, no hosts."""
    return " ".join(token.text for token in tokens(message(line)) if not token.kind)


def _message_of(line: str) -> str:
    """The message of the line, without the parts that differ from job to job."""
    return "".join("…" if token.kind and token.kind != "gap" else token.text for token in tokens(message(line)))


def _sentence(words: str) -> str:
    """Without braces, which would stand for groups of the pattern."""
    return plain(words).replace("{", "(").replace("}", ")")[:MOST_WORDS]


def _first(words: Iterable[str]) -> str:
    return next((word for word in words if word and "{" not in word), "")


def _strength(line: str, known: Sequence[Rule], most: int) -> int:
    """Above the rules that explain the line otherwise: a person disagreed with them."""
    hits = Rulebook(known).hits(line)
    strongest = max((hit.rule.strength for hit in hits if hit.rule.role in EXPLAINING), default=0)
    return min(max(PERSON_STRENGTH, strongest + 5), most)


def name_for(text: str, taken: Iterable[str]) -> str:
    """A name for a rule from the words of its line."""
    words = re.findall(r"[a-z]{2,}", text.lower())[:6]
    stem = "_".join(("learned", *words))[:50].rstrip("_")
    used = set(taken)
    if stem not in used:
        return stem
    return next(name for number in range(2, len(used) + 3) if (name := f"{stem}_{number}") not in used)

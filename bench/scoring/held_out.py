"""Rules without what only one repository supports: how a diagnosis fares on logs that no rule was written for.

Knowledge is held out phrase by phrase, a phrase being a branch of a pattern: rules of many alternatives match lines of
many repositories, and each line by a branch of its own. A phrase that matches lines of one repository only is disabled
for the cases of that repository. Rules made of a vendor's whole catalogue were written for no case, and stay.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from bench.scoring.cases import Case
from gpulake.diagnose.logs.digest import Line
from gpulake.diagnose.logs.scan import scan
from gpulake.diagnose.rulebook.book import Rulebook, compiled, shipped
from gpulake.diagnose.rulebook.rule import Rule
from gpulake.diagnose.rulebook.xids import FAMILIES
from gpulake.diagnose.story.lines import ParsedLine, parse_line
from gpulake.diagnose.story.tracebacks import read_tracebacks

# Families of rules that were written for no case: NVIDIA's catalogues, exceptions by their class, codes of systems.
CATALOGUES = (*FAMILIES, "python", "classes", "codes")
HELD_OUT = "a phrase that is held out"  # stands where a branch was: no log has it
Span = tuple[int, int]
# What a rule matched: its texts, by repository. The second is of the rule's condition on tracebacks.
Support = dict[tuple[str, str], dict[str, set[str]]]


def branches(pattern: str) -> list[tuple[Span, list[Span]]]:
    """The groups of a pattern that have several branches, the pattern itself included: their spans."""
    found, stack, at = [], [[0]], 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 1
        elif char == "[":
            at = _end_of_class(pattern, at)
        elif char == "(":
            begin = at + 1
            if pattern[begin : begin + 1] == "?":
                begin = next(i for i in range(begin, len(pattern)) if pattern[i] in ":>)") + 1
                if pattern[begin - 1] == ")":  # flags alone
                    at = begin
                    continue
            stack.append([begin])
            at = begin - 1
        elif char == "|":
            stack[-1] += [at, at + 1]
        elif char == ")":
            found.append(_spans([*stack.pop(), at]))
        at += 1
    found.append(_spans([*stack.pop(), len(pattern)]))
    return [group for group in found if len(group[1]) > 1]


def _spans(edges: list[int]) -> tuple[Span, list[Span]]:
    return (edges[0], edges[-1]), list(zip(edges[::2], edges[1::2], strict=True))


def _end_of_class(pattern: str, at: int) -> int:
    at += 2 if pattern[at + 1] == "^" else 1
    if pattern[at] == "]":
        at += 1
    while pattern[at] != "]":
        at += 2 if pattern[at] == "\\" else pattern.index(":]", at) + 2 - at if pattern.startswith("[:", at) else 1
    return at


def without(pattern: str, supported: dict[str, set[str]], repository: str) -> str | None:
    """The pattern without the branches that only match texts of this repository; None if nothing is left of it."""
    own = supported.get(repository, set())
    others = set().union(*(texts for name, texts in supported.items() if name != repository))
    if not own:
        return pattern
    if not others:
        return None
    removed = []
    for (begin, end), spans in branches(pattern):
        for first, last in spans:
            alone = compiled(pattern[:begin] + pattern[first:last] + pattern[end:])
            if not any(alone.search(text) for text in others) and any(alone.search(text) for text in own):
                removed.append((first, last))
    outermost = [span for span in removed if not any(_is_within(span, other) for other in removed)]
    for first, last in sorted(outermost, reverse=True):
        pattern = pattern[:first] + HELD_OUT + pattern[last:]
    return pattern


def _is_within(span: Span, other: Span) -> bool:
    return span != other and other[0] <= span[0] and span[1] <= other[1]


def support(cases: Iterable[Case]) -> Support:
    """The lines and tracebacks that each rule matches, by repository."""
    found: Support = defaultdict(lambda: defaultdict(set))
    book = shipped()
    for case in cases:
        for rule, text in _matched(case, book):
            found[rule.name, "pattern"][case.repository].add(text)
        stacks = ["\n".join(one.texts) for one in read_tracebacks(_lines(case, book))]
        for rule in book.rules:
            for stack in stacks if rule.traceback else ():
                if compiled(rule.traceback).search(stack):
                    found[rule.name, "traceback"][case.repository].add(stack)
    return found


def _lines(case: Case, book: Rulebook) -> list[tuple[Line, ParsedLine]]:
    return [(line, parse_line(line.text)) for line in scan("", [case.log], book).lines]


def _matched(case: Case, book: Rulebook) -> Iterator[tuple[Rule, str]]:
    for line, parsed in _lines(case, book):
        for text in dict.fromkeys((line.text, parsed.body)):
            yield from ((hit.rule, text) for hit in book.hits(text))


def rulebook_without(repository: str, supported: Support, by_rule: bool = False) -> Rulebook:
    """The shipped rules without the phrases, or only without the rules, that this repository alone supports."""
    kept = (_held_out(rule, repository, supported, by_rule) for rule in shipped().rules)
    return Rulebook([rule for rule in kept if rule is not None])


def _held_out(rule: Rule, repository: str, supported: Support, by_rule: bool) -> Rule | None:
    if rule.family in CATALOGUES:
        return rule
    if by_rule:
        return None if set(supported.get((rule.name, "pattern"), {})) == {repository} else rule
    pattern = without(rule.pattern, supported.get((rule.name, "pattern"), {}), repository)
    if pattern is None:
        return None
    traceback = rule.traceback and without(rule.traceback, supported.get((rule.name, "traceback"), {}), repository)
    return replace(rule, pattern=pattern, traceback=HELD_OUT if traceback is None else traceback)

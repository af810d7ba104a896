"""Searches many patterns at once: which of them may match which lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import re2

from gpulake.diagnose.logs.prefilter import relaxed
from gpulake.diagnose.logs.shapes import DIGITS

# With too little memory an automaton restarts again and again, and a set finds nothing without an error.
MOST_MEMORY_BYTES = 48 << 20
FEW_LINES = 16
FEW_SHAPES = 4096  # to begin the search for any pattern costs as much as to ask the set about so many


def bytes_options() -> Any:
    """For patterns over bytes of many lines, matched line by line."""
    options = re2.Options()
    options.max_mem = MOST_MEMORY_BYTES
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_nl = True
    options.never_capture = True
    options.log_errors = False
    return options


def any_of(patterns: Sequence[bytes]) -> Any:
    """One pattern that matches where any of these does."""
    return re2.compile(b"(?m)" + b"|".join(b"(?:%s)" % pattern for pattern in dict.fromkeys(patterns)), bytes_options())


class Automaton:
    """A pattern is identified by its place."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = tuple(patterns)
        self._exact: dict[int, Any] = {}
        self._loose: dict[bytes, _Loose] = {}

    def candidates(self, shapes: Sequence[bytes], dropped: bytes = DIGITS) -> dict[bytes, list[int]]:
        """Of lines from which these characters were dropped: those that patterns may match, and which patterns."""
        if not self._patterns:
            return {}
        if dropped not in self._loose:
            self._loose[dropped] = _Loose([relaxed(pattern, dropped) for pattern in self._patterns])
        return self._loose[dropped].candidates(shapes)

    def matching(self, pattern: int, lines: Sequence[bytes]) -> Iterator[int]:
        """Places of the lines that the weaker pattern matches."""
        return _places(self._line_pattern(pattern), lines)

    def spans(self, pattern: int, line: bytes) -> Iterator[tuple[int, int]]:
        """Where it matches in one line."""
        for match in self._line_pattern(pattern).finditer(line):
            yield match.span()

    def _line_pattern(self, pattern: int) -> Any:
        if pattern not in self._exact:
            self._exact[pattern] = any_of([relaxed(self._patterns[pattern])])
        return self._exact[pattern]


class _Loose:
    """Which patterns match; of many shapes first whether any does."""

    def __init__(self, patterns: Sequence[bytes]) -> None:
        self._patterns = patterns
        self._asked = 0

    def candidates(self, shapes: Sequence[bytes]) -> dict[bytes, list[int]]:
        self._asked += len(shapes)
        if self._asked <= FEW_SHAPES and self._set is not None:
            return {shape: found for shape in shapes if (found := self._set.Match(shape))}
        return {shapes[place]: self._which(shapes[place]) for place in _places(self._any, shapes)}

    def _which(self, shape: bytes) -> list[int]:
        # A set that runs out of memory finds nothing; one pattern matches, so any may.
        found = self._set.Match(shape) if self._set is not None else None
        return found or [*range(len(self._patterns))]

    @cached_property
    def _any(self) -> Any:
        return any_of(self._patterns)

    @cached_property
    def _set(self) -> Any:
        found = re2.Set.SearchSet(bytes_options())
        for pattern in self._patterns:
            found.Add(pattern)
        try:
            found.Compile()
        except re2.error:  # it does not fit
            return None
        return found


def _places(pattern: Any, lines: Sequence[bytes]) -> Iterator[int]:
    """One search over all lines: a call for each line costs more than the search."""
    if len(lines) < FEW_LINES:
        yield from (place for place, line in enumerate(lines) if pattern.search(line))
        return
    buffer = b"\n".join(lines)
    place = begin = 0
    while match := pattern.search(buffer, begin):
        place += buffer.count(b"\n", begin, match.start())
        yield place
        begin = buffer.find(b"\n", match.start()) + 1
        place += 1
        if begin == 0:
            return

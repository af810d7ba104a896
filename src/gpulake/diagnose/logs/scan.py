"""Reads a log once, from end to end, in bounded memory.

Most lines of a log differ only in their digits. So lines are counted by their shape (the line without its digits),
which is fast; patterns are searched in new shapes; and only lines of a shape that may match are searched themselves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from gpulake.diagnose.logs.blocks import BLOCK_BYTES, Block, Cutter
from gpulake.diagnose.logs.census import EXAMPLE_BYTES, ROUTINE_LINES, Census
from gpulake.diagnose.logs.digest import Digest, Line, Template
from gpulake.diagnose.logs.filters import Filters, shipped_filters
from gpulake.diagnose.logs.kept_lines import Spot, excerpts
from gpulake.diagnose.logs.selection import LineSelector
from gpulake.diagnose.logs.shapes import DIGITS, HEX_DIGITS, readable, template_of
from gpulake.diagnose.rulebook.book import Rulebook

HEAD_LINES = 200
TAIL_LINES = 400
# Of very long lines this holds fewer than TAIL_LINES.
MOST_TAIL_BYTES = 8 << 20
MOST_FREQUENT = 200
MOST_TEMPLATES = 500


def scan(name: str, chunks: Iterable[bytes], rulebook: Rulebook, filters: Filters | None = None) -> Digest:
    """The digest of a file, independent of how it is cut into chunks."""
    scanner = Scanner(rulebook, filters, name)
    for chunk in chunks:
        scanner.feed(chunk)
    return scanner.finish()


class Scanner:
    """Takes a log in chunks, and gives its digest at the end."""

    def __init__(
        self, rulebook: Rulebook, filters: Filters | None = None, name: str = "", block_bytes: int = BLOCK_BYTES
    ) -> None:
        self.name = name
        self._rulebook = rulebook
        self._filters = filters if filters is not None else shipped_filters()
        self._cutter = Cutter(block_bytes)
        self._census = Census()
        self._selector = LineSelector(rulebook)
        self._dropped = DIGITS
        self._head: dict[Spot, bytes] = {}
        self._recent: deque[Block] = deque()
        self._recent_lines = self._recent_bytes = 0

    def feed(self, chunk: bytes) -> None:
        for text, is_open in self._cutter.feed(chunk):
            self._read(text, is_open)

    def finish(self) -> Digest:
        rest, is_open = self._cutter.rest()
        if rest or not is_open:
            self._read(rest, is_open)
        last = self._recent[-1] if self._recent else None
        lines_read = last.number + last.lines - 1 if last else 0
        kept, templates = _compressed(self._census, self._selector, self._filters)
        return Digest(self.name, self._lines(), lines_read, min(kept, lines_read), self._cutter.bytes_read, templates)

    def _read(self, text: bytes, is_open: bool) -> None:
        previous = self._recent[-1] if self._recent else None
        block = Block(text, is_open, *(previous.following() if previous else (1, 0)))
        shapes = block.shapes(self._dropped)
        fresh = self._census.add(block, shapes)
        beyond = self._selector.look(block, shapes, fresh, self._census.counts)
        if (self._census.is_full or self._selector.is_full) and self._dropped != HEX_DIGITS:
            self._dropped = HEX_DIGITS
            self._census.drop(HEX_DIGITS)
            beyond += self._selector.drop(HEX_DIGITS, [*self._census.counts])
        for shape in beyond:
            self._census.forget(shape, is_protected=True)
        if self._census.is_full:
            self._census.fold(self._selector.shapes)
        for line in range(min(block.lines, HEAD_LINES + 1 - block.number)):
            self._head.update(excerpts(block, block.shown(line)))
        self._remember(block)

    def _remember(self, block: Block) -> None:
        """Keeps as many blocks as hold the last lines."""
        self._recent.append(block)
        self._recent_lines += block.lines
        self._recent_bytes += len(block.text)
        while len(self._recent) > 1 and (
            self._recent_bytes > MOST_TAIL_BYTES or self._recent_lines - self._recent[0].lines >= TAIL_LINES
        ):
            oldest = self._recent.popleft()
            self._recent_lines -= oldest.lines
            self._recent_bytes -= len(oldest.text)

    def _lines(self) -> tuple[Line, ...]:
        texts = {**self._head, **self._selector.kept()}
        wanted = TAIL_LINES
        for block in reversed(self._recent):
            for line in range(max(0, block.lines - wanted), block.lines):
                texts.update(excerpts(block, block.shown(line)))
            wanted = max(0, wanted - block.lines)
            block.forget_segments()
        shown = ((spot[0], readable(texts[spot])) for spot in sorted(texts))
        return tuple(Line(number, text, self._rulebook.has_hits(text), self.name) for number, text in shown)


@dataclass
class _Kind:
    """Lines of one template."""

    first_line: int
    example: bytes
    lines: int = 0
    protected: int | None = 0  # lines that may never be dropped; None: not counted


def _compressed(census: Census, selector: LineSelector, filters: Filters) -> tuple[int, tuple[Template, ...]]:
    """The number of lines that are not dropped, and the templates."""
    kinds = _kinds(census, selector)
    kept = census.forgotten_kept
    templates = []
    for template, kind in kinds.items():
        example = readable(kind.example)
        is_routine = kind.lines >= ROUTINE_LINES or filters.is_routine(example)
        if kind.protected is None or not is_routine:
            kept += kind.lines
        else:
            kept += min(kind.protected, kind.lines)
        text = readable(template)[:EXAMPLE_BYTES]
        is_dropped = is_routine and kind.protected == 0
        templates.append(Template(text, kind.lines, kind.first_line, example, is_dropped))
    return kept, tuple(_chosen(templates))


def _kinds(census: Census, selector: LineSelector) -> dict[bytes, _Kind]:
    kinds: dict[bytes, _Kind] = {}
    for shape, (number, example) in census.firsts.items():
        if not example.strip():
            continue
        kind = kinds.setdefault(template_of(example), _Kind(number, example))
        if number < kind.first_line:
            kind.first_line, kind.example = number, example
        kind.lines += census.counts[shape]
        protected = selector.protected_hits(shape)
        kind.protected = None if protected is None or kind.protected is None else kind.protected + protected
    return kinds


def _chosen(templates: Iterable[Template]) -> list[Template]:
    by_lines = sorted(templates, key=lambda template: (-template.lines, template.first_line))
    kept = [template for template in by_lines[MOST_FREQUENT:] if not template.is_routine]
    return by_lines[:MOST_FREQUENT] + kept[: MOST_TEMPLATES - MOST_FREQUENT]

"""The templates of a log's lines, and which of them are routine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpulake.diagnose.logs.census import EXAMPLE_BYTES, ROUTINE_LINES, Census
from gpulake.diagnose.logs.digest import Template
from gpulake.diagnose.logs.filters import Filters
from gpulake.diagnose.logs.selection import LineSelector
from gpulake.diagnose.logs.shapes import readable, template_of

MOST_FREQUENT = 200
MOST_TEMPLATES = 500


@dataclass
class _Kind:
    """Lines of one template."""

    first_line: int
    example: bytes
    lines: int = 0
    protected: int | None = 0  # lines that may never be dropped; None: not counted


def compressed(census: Census, selector: LineSelector, filters: Filters) -> tuple[int, tuple[Template, ...]]:
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

"""The smoke run: ratios of CPU times against those that are committed, which a busy machine hardly changes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from bench import page
from bench.data import Bench
from bench.lines import Line, as_text, figure
from bench.measure import BenchError

Part = Callable[[Bench], Iterable[Line]]
FALL = 0.2
TITLE = "Smoke run"
WORDS = (
    "CPU ratios on 1 % and 10 % of the trace, written by `scripts/bench --smoke --record`. `scripts/bench --smoke`,\n"
    "which is part of `make test`, fails when two sides disagree, or when one of these falls by more than a fifth."
)
HINT = "hint: make it fast again, or commit what `scripts/bench --smoke --record` writes and say why"


def compare(bench: Bench, parts: Mapping[str, Part], path: Path = page.PAGE) -> int:
    """The exit code: 1 where a ratio fell, is missing, or cannot be measured since two sides disagree."""
    committed = page.figures(page.read_sections(path.read_text(encoding="utf-8")).get(TITLE, ""))
    try:
        lines = measure(bench, parts, committed)
    except BenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print("\n".join([as_text(lines), *page.changes(committed, lines)]))
    failed = fallen(committed, {line.what: line.value for line in lines})
    for what, why in failed.items():
        print(f"error: {what}: {why}", file=sys.stderr)
    if failed:
        print(HINT, file=sys.stderr)
    return 1 if failed else 0


def record(bench: Bench, parts: Mapping[str, Part], titles: Sequence[str], path: Path = page.PAGE) -> None:
    """Writes the ratios of this machine and commit into the page: the lower of two runs, to allow for chance."""
    twice = [{line.what: line for line in measure(bench, parts, {})} for _ in range(2)]
    lines = [min(line, twice[1][what], key=lambda each: each.value) for what, line in twice[0].items()]
    print(as_text(lines))
    page.write({TITLE: page.section(lines, WORDS)}, titles, path)


def fallen(committed: Mapping[str, float], measured: Mapping[str, float]) -> dict[str, str]:
    """By line, why it fails: a ratio that fell by more than a fifth, or one that is missing on either side."""
    failed = {what: "not measured any more" for what in committed if what not in measured}
    for what, ratio in measured.items():
        if what not in committed:
            failed[what] = "not in the committed table"
        elif ratio < (1 - FALL) * committed[what]:
            failed[what] = f"{figure(committed[what])} -> {figure(ratio)}"
    return failed


def measure(bench: Bench, parts: Mapping[str, Part], committed: Mapping[str, float]) -> list[Line]:
    """The ratios of all parts; a part with a ratio that fell is measured again, and the better of the two counts."""
    found: dict[str, Line] = {}
    for name, part in parts.items():
        lines = _ratios(bench, name, part)
        fell = fallen(committed, {what: line.value for what, line in lines.items()})
        if any(what in committed for what in fell if what in lines):
            print(f"{name}: measured again, since a ratio fell", file=sys.stderr)
            for what, line in _ratios(bench, name, part).items():
                lines[what] = max(lines[what], line, key=lambda each: each.value)
        found |= lines
    return list(found.values())


def _ratios(bench: Bench, name: str, part: Part) -> dict[str, Line]:
    print(f"{name} …", file=sys.stderr)
    return {line.what: line for line in part(bench) if line.kind == "CPU ratio"}

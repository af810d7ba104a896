"""docs/performance.md: a section a part, each with machine, date and commit; read back to say what has changed."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.lines import COLUMNS, Line, figure

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
HEAD = """# Performance

Written by `make bench`, which runs every part, or by `scripts/bench --PART` for one of them. Ours and its peers run in
turn, and the best run of each counts. CPU time is user and system time of all processes of a run; a CPU ratio is the
peer's CPU time over ours, so that more is better. Compare ratios, not seconds: machines differ, and the load (over 15
minutes, all programs) says how busy this one was.
"""
CHANGE = 0.1
ROW = re.compile(r"^\| ([^|]+) \| ([\d,.]+)[^|]* \|", flags=re.MULTILINE)
Sections = dict[str, str]


def read_sections(text: str) -> Sections:
    """The text of each section, by its title, in the order of the page."""
    _, *parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    return {title: body.strip() for title, body in zip(parts[::2], parts[1::2], strict=True)}


def figures(section: str) -> dict[str, float]:
    """What a section says, by line."""
    return {what: float(value.replace(",", "")) for what, value in ROW.findall(section)}


def changes(before: Mapping[str, float], lines: Sequence[Line]) -> list[str]:
    """What is better or worse than before by more than a tenth, and which lines are gone; peers are not judged."""
    said = []
    for line in lines:
        old = before.get(line.what)
        if line.kind == "peer" or not old or abs(line.value / old - 1) <= CHANGE:
            continue
        is_better = (line.value > old) == (line.side == "at least")
        values = f"{figure(old)} -> {figure(line.value)} {line.unit}".rstrip()
        said.append(f"{'better' if is_better else 'worse'}: {line.what}: {values}")
    measured = {line.what for line in lines}
    return [*said, *(f"not measured any more: {what}" for what in before if what not in measured)]


def section(lines: Sequence[Line], words: str = "") -> str:
    rows = [COLUMNS, ("---", "---:", "---", "---"), *(line.cells() for line in lines)]
    table = "".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |\n" for row in rows)
    head = f"{_machine()}, {datetime.now(UTC):%Y-%m-%d}, commit {_commit()}."
    return "\n\n".join(part.strip() for part in (words, head, table) if part)


def write(sections: Sections, order: Sequence[str], page: Path = PAGE) -> None:
    """The given sections take the place of those of the same titles; titles that are not in the order go."""
    kept = {**read_sections(page.read_text(encoding="utf-8")), **sections}
    parts = [HEAD, *(f"## {title}\n\n{kept[title]}\n" for title in order if title in kept)]
    page.write_text("\n".join(parts), encoding="utf-8")


def _machine() -> str:
    gibibytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = f"load {os.getloadavg()[2]:.1f}"
    words = (f"{os.cpu_count()} cores", f"{gibibytes:.0f} GiB", platform.machine(), load)
    return f"{', '.join(words)}, Python {platform.python_version()}"


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, cwd=PAGE.parent, capture_output=True, text=True, check=False).stdout.strip()

"""The table of docs/reliability.md: what the last long run of each suite came to."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from attack import suites
from attack.score import Score

PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"
BEGIN, END = "<!-- written by scripts/attack -->\n", "<!-- end -->\n"
HEAD = "| suite | tries | faults | measured | seconds | on |\n|---|---:|---:|---|---:|---|\n"


def write(name: str, score: Score, seconds: float) -> None:
    """Puts the row of this suite in its place; the others stay."""
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    table, after = rest.split(END)
    rows = {row.split("`")[1]: row for row in table.splitlines() if row.startswith("| `")}
    measured = ", ".join(f"{what} {figure}" for what, figure in score.measured.items())
    cells = (f"`{name}`: {suites.doc(name)}", f"{score.tries:,}", f"{len(score.faults):,}", measured, f"{seconds:.0f}")
    rows[name] = f"| {' | '.join(cells)} | {datetime.now(UTC):%Y-%m-%d} |"
    table = HEAD + "".join(f"{rows[suite]}\n" for suite in suites.LONG if suite in rows)
    PAGE.write_text(before + BEGIN + table + END + after, encoding="utf-8")

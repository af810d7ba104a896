"""The table of docs/reliability.md: what the last whole run of the attacks came to."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from attack import suites
from attack.score import Score

PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"
BEGIN, END = "<!-- written by scripts/attack -->\n", "<!-- end -->\n"


def write(scores: dict[str, tuple[Score, float]]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(before + BEGIN + _table(scores) + END + after, encoding="utf-8")


def _table(scores: dict[str, tuple[Score, float]]) -> str:
    lines = [
        f"Measured on {datetime.now(UTC):%Y-%m-%d}.\n",
        "| suite | tries | faults | measured | seconds |",
        "|---|---:|---:|---|---:|",
    ]
    for name, (score, seconds) in scores.items():
        measured = ", ".join(f"{what} {figure}" for what, figure in score.measured.items())
        doc = suites.doc(name)
        lines.append(f"| `{name}`: {doc} | {score.tries:,} | {len(score.faults):,} | {measured} | {seconds:.0f} |")
    return "\n".join(lines) + "\n"

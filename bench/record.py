"""docs/performance.md: the figures of the last run; a test compares those in the README with them."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.lines import COLUMNS, Line

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
HEAD = """# Performance

Written by `make bench` (or by `scripts/bench --quick`: one percent of the trace alone), ours and its peers in one run.
Compare ratios, not seconds: machines differ.

{machine}, {day}, commit {commit}.

"""


def write(lines: Sequence[Line]) -> None:
    rows = [COLUMNS, ("---", "---:", "---", "---"), *(line.cells() for line in lines)]
    table = "".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |\n" for row in rows)
    head = HEAD.format(machine=_machine(), day=f"{datetime.now(UTC):%Y-%m-%d}", commit=_commit())
    PAGE.write_text(head + table, encoding="utf-8")


def _machine() -> str:
    gibibytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores, {gibibytes:.0f} GiB, {platform.machine()}, Python {platform.python_version()}"


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, cwd=PAGE.parent, capture_output=True, text=True, check=False).stdout.strip()

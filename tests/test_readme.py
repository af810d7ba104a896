"""What the README says is what its commands say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpulake.cli import root

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_demo_of_a_fixed_time_says_what_the_readme_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(root, ["demo", "--out", "demo", "--until", "2026-03-02T09:00"], catch_exceptions=False)
    (shown,) = re.findall(r"\$ make demo[^\n]*\n(.*?)```", README, flags=re.DOTALL)
    lines = [line for line in shown.splitlines() if line.strip() != "…"]
    said = iter(result.output.splitlines())
    # In this order, with others in between.
    assert [line for line in lines if line not in said] == []


def test_each_figure_stands_in_the_page_that_its_command_writes() -> None:
    rows = re.findall(r"^\| ([^|]+) \| ([^|]*\d[^|]*) \| `[^`]+`, \[[^]]+\]\(([^)]+)\) \|$", README, flags=re.MULTILINE)
    assert len(rows) >= 6
    for what, figure, page in rows:
        written = (ROOT / page).read_text(encoding="utf-8")
        # A number with its unit or its whole; a bare one stands in a cell of its own.
        for part in re.split(", | against ", figure.replace(" times", "")):
            assert f" {part} " in written.replace(",", " "), f"{what}: {part} is not in {page}"

"""The words that rooms share are defined once, and every finding uses them."""

from __future__ import annotations

import re
from pathlib import Path

import gpulake.detect
from gpulake.core.kinds import FACTS, KINDS, SEVERITIES, Kind, kind_of, kinds_about, rank, worse


def test_every_kind_that_the_package_finds_is_in_the_table() -> None:
    folder = Path(gpulake.detect.__path__[0])
    texts = [path.read_text(encoding="utf-8") for path in folder.rglob("*.py")]
    found = {kind for text in texts for kind in re.findall(r'\bkind="(\w+)"', text)} - {"stable"}
    assert found
    assert found - set(KINDS) == set()


def test_a_kind_that_nobody_defined_is_a_warning_of_unknown_scope() -> None:
    assert kind_of("of_a_third_party") == Kind(None, "warning", is_fact=False)


def test_kinds_are_asked_for_by_what_they_are_about() -> None:
    assert kinds_about("user") == ("idle_gpus", "runaway_user")
    assert FACTS == (
        "ledger",
        "missing_demand",
        "missing_begin",
        "idle_gpus",
        "flagged_day",
        "fewer_rows",
        "failed_job",
    )


def test_severities_are_ordered_and_a_word_that_is_none_counts_as_the_least() -> None:
    assert sorted((*SEVERITIES, "loud"), key=rank, reverse=True) == ["critical", "warning", "info", "loud"]
    assert (worse("info", "critical"), worse("warning", "loud")) == ("critical", "warning")

"""Root causes of logs of our own, each after the manner of a launcher or a framework."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from diagnosing import diagnose
from examples import each
from gpulake.core.diagnosis import CATEGORY_OF

FOLDER = Path(__file__).parent.parent / "fixtures" / "diagnose"


def logs(*names: str) -> list[Any]:
    return [log for name in names for log in tomllib.loads((FOLDER / f"{name}.toml").read_text("utf-8"))["log"]]


@each(
    "log", logs("distributed", "single", "reasons", "frameworks", "unseen", "structures"), name=lambda log: log["name"]
)
def test_the_root_cause_is_found(log: dict[str, Any]) -> None:
    found = diagnose(log["text"])
    assert (found.verdict, found.reason, found.category) == ("failed", log["reason"], CATEGORY_OF[log["reason"]])
    assert log.get("says", "") in found.evidence[0].text
    if "action" in log:
        assert found.recovery.action == log["action"]
    for place in ("rank", "node"):
        if place in log:
            assert getattr(found, place) == log[place]


@each("log", logs("healthy"), name=lambda log: log["name"])
def test_what_is_no_failure_is_reported_as_none(log: dict[str, Any]) -> None:
    assert diagnose(log["text"]).verdict == log["verdict"]


@each(
    "log",
    logs("distributed", "single", "reasons", "frameworks", "unseen", "structures", "healthy"),
    name=lambda log: log["name"],
)
def test_evidence_is_word_for_word_in_the_log(log: dict[str, Any]) -> None:
    lines = log["text"].lstrip("\n").split("\n")
    for quote in diagnose(log["text"]).evidence:
        assert quote.text.strip() in lines[quote.line - 1]

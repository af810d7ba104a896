"""A small cluster with one strange day: forty days of windows on machine v, and jobs whose GPU-hours are known."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from gpulake.core.config import Config
from gpulake.core.types import Finding
from gpulake.flow import Flow
from gpulake.lake import Lake
from hand_made import Attempt, hour, seconds, write_trace

DAYS = 40
STRANGE = 35  # the day
HOSTILE = "\x1b[31m</script><b>ann</b>"
SMALL = 25


def ratio_of(day: int) -> float:
    """Busy share of machine v."""
    return 0.8 if day == STRANGE else 0.3 + 0.01 * (day * 7 % 3 - 1)


def attempts() -> list[Attempt]:
    """On the strange day: two large jobs on machine v, many small ones, and one on machine t."""
    noon = 24 * STRANGE + 12
    return [
        Attempt(
            "large", HOSTILE, noon - 24, noon + 6, gpus=8, used=7, status="failed"
        ),  # 18 of its hours are on the day
        Attempt("second", "bob", noon, noon + 10, gpus=4, used=3),
        *(Attempt(f"small{number:02}", "cyd", noon, noon + 1, gpus=0.5) for number in range(SMALL)),
        Attempt("elsewhere", "dan", noon, noon + 2, gpus=2, machine="t"),
        Attempt("later", "bob", noon + 30, noon + 31, gpus=8),
    ]


def watched_lake(folder: Path) -> Lake:
    """Built, and with findings that are written by hand; their series are the lake's."""
    trace = write_trace(folder / "trace", attempts())
    windows = [
        f"w{day},v,{seconds(24 * day)},{seconds(24 * day + 24)},0,0,0,{1600 * ratio_of(day)},1,1,1,20.0"
        for day in range(DAYS)
    ]
    (trace / "pai_machine_metric.csv").write_text("".join(f"{line}\n" for line in windows))
    config = Config(lake=folder / "lake", threads=1)
    flow = Flow(config)
    flow.land([trace])
    flow.build()
    lake = flow.lake
    with lake.writing(), lake.stage("20260101T000000-findings", lake.builds.current()) as staging:
        staging.write("findings", [{"rank": rank, **asdict(one)} for rank, one in enumerate(findings(), start=1)])
        staging.publish()
    flow.update_incidents()
    return lake


def day_at(day: int) -> datetime:
    return hour(24 * day)


def findings() -> list[Finding]:
    """A day and its hours, a machine that no watch sees any more, a day of no series, and a fact without a time."""
    begin, end = day_at(STRANGE), day_at(STRANGE + 1)
    cluster = {"cluster_id": "pai", "severity": "warning", "began_at": begin, "ended_at": end, "series": "pai"}
    machine = {"cluster_id": "pai", "severity": "critical", "node": "t", "watch": "gone", "series": "t"}
    hot = {"began_at": begin + timedelta(hours=11), "ended_at": begin + timedelta(hours=13)}
    reported: list[tuple[tuple[str, str, str], dict[str, Any]]] = [
        (("unusual_utilisation", "pai", "by hand"), {**cluster, "series": ""}),
        (("unusual_utilisation", "pai", "a day"), {**cluster, "finding_id": "f-day", "watch": "cluster_days"}),
        (("unusual_utilisation", "pai", "hours"), {**cluster, "finding_id": "f-hours", "watch": "cluster_hours"}),
        (("hot_machine", "t", "machine t is \x1b[31mhot"), {**machine, **hot, "finding_id": "f-machine"}),
        (("failure_burst", "2026-02-05", "many failed"), {"day": "2026-02-05"}),
        (("ledger", "pai", "so many GPU-hours"), {}),
    ]
    return [Finding(*names, "as it was told", 0.8, "ratio", **values) for names, values in reported]

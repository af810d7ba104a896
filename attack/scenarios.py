"""What is cut off at every call: landing, building, incidents, alerts, the journal of recoveries, collecting.

A scenario tells what it has acknowledged, and doing it again from wherever it was cut off comes to the same end.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import gpulake.detect.days
import gpulake.detect.findings
import gpulake.flow.building
import gpulake.land.landing
import gpulake.model.build
import gpulake.show.health
from counting import IDENTITY, Counter, SteppingClock, numbers_in, waits
from gpulake.act.alerts.alert import Alert, Outbox
from gpulake.act.alerts.sending import Sending
from gpulake.collect.sampler import Sampler, header_of
from gpulake.collect.segments import SegmentWriter, last_positions
from gpulake.core.alert_settings import Alerts, SinkSettings
from gpulake.core.clock import FrozenClock
from gpulake.core.config import Config
from gpulake.core.incidents import Incident
from gpulake.diagnose.diagnoser import DiagnosisRequest
from gpulake.flow import Flow
from gpulake.flow.alerting import queue_alerts
from gpulake.flow.incidents import change, read_incidents
from gpulake.lake import Lake, delta

Tell = Callable[[str], None]
CLOCK = FrozenClock(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
JOBS = "bronze_job_events"
INCIDENTS = 8
LOG = "step 1\ntorch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"


class Scenario(Protocol):
    def prepare(self, root: Path) -> None: ...

    def act(self, root: Path, tell: Tell) -> None:
        """All of it, or what is left to do."""
        ...

    def lost(self, root: Path, words: list[str]) -> list[str]:
        """What was acknowledged and is not there, before anybody writes again."""
        ...

    def wrong(self, root: Path) -> list[str]:
        """What is not as it should be in the end."""
        ...


def differs(what: str, found: object, expected: object) -> list[str]:
    return [] if found == expected else [f"{what}: {found!r} instead of {expected!r}"]


def _config(root: Path, **settings: Any) -> Config:
    return Config(lake=root / "lake", threads=1, **settings)


def _rows(lake: Lake, query: str) -> list[tuple[Any, ...]]:
    with lake.open().reading() as reader:
        return [tuple(row.values()) for row in reader.query(query).to_pylist()]


def _jobs(path: Path, *names: str, rest: str = "") -> Path:
    path.mkdir(parents=True, exist_ok=True)
    lines = [f"{name},i-{name},u,Terminated,{86_400 * 3},{86_400 * 3 + 7200}\n" for name in names]
    (path / "pai_job_table.csv").write_text("".join(lines) + rest)
    return path / "pai_job_table.csv"


def _orphans(lake: Lake) -> list[str]:
    folders = [*lake.bronze.folder.iterdir(), lake.quarantine.folder]
    return [f"no commit names {path}" for folder in folders for path in delta.remove_orphans(folder)]


class Land:
    """Into a lake that there is, or into none: a new file, one with a bad row, and a new version of one that landed."""

    def __init__(self, has_lake: bool) -> None:
        self._has_lake = has_lake

    def prepare(self, root: Path) -> None:
        if self._has_lake:
            Flow(_config(root)).land([_jobs(root / "in" / "first", "a1", "a2"), _jobs(root / "in" / "other", "old")])
        _jobs(root / "in" / "first", "a1", "a2")
        _jobs(root / "in" / "other", "new1", "new2")
        _jobs(root / "in" / "third", "c1", rest="c2,i-c2,u,Failed,never,2.0\n")

    def act(self, root: Path, tell: Tell) -> None:
        for name in ("first", "other", "third"):
            Flow(_config(root)).land([root / "in" / name / "pai_job_table.csv"], is_replacing=name == "other")
            tell(name)

    def lost(self, root: Path, words: list[str]) -> list[str]:
        lake = Lake(_config(root))
        if not self._has_lake and not words:
            return []
        found = {name for (name,) in _rows(lake, f"SELECT job_name FROM {JOBS}")}
        must = {"first": {"a1", "a2"}, "other": {"new1", "new2"}, "third": {"c1"}}
        wanted = set[str]().union(*(must[word] for word in words), {"a1", "a2"} if self._has_lake else set())
        bad = {"c2": "third"} if "third" in words else {}
        counted = _rows(lake, "SELECT count(*) FROM quarantine")
        return differs("lost", sorted(wanted - found), []) + (differs("quarantine", counted, [(1,)]) if bad else [])

    def wrong(self, root: Path) -> list[str]:
        lake = Lake(_config(root))
        names = _rows(lake, f"SELECT job_name FROM {JOBS} ORDER BY 1")
        live = _rows(lake, "SELECT source, count(*) FROM landings WHERE is_live GROUP BY 1 ORDER BY 1")
        return [
            *differs("rows", [name for (name,) in names], ["a1", "a2", "c1", "new1", "new2"]),
            *differs("quarantine", _rows(lake, "SELECT line_number FROM quarantine"), [(2,)]),
            *differs(
                "landings",
                [(Path(source).parent.name, n) for source, n in live],
                [("first", 1), ("other", 1), ("third", 1)],
            ),
            *_orphans(lake),
        ]


class Build:
    """A second build of a few tables, with one more file."""

    SELECT = ("gold_cluster_util_daily_reference", "gold_user_gpu_usage_daily", "silver_jobs")

    def prepare(self, root: Path) -> None:
        flow = Flow(_config(root), CLOCK)
        flow.land([_jobs(root / "in" / "first", "a1", "a2")])
        flow.build(self.SELECT)
        flow.land([_jobs(root / "in" / "second", "b1")])

    def act(self, root: Path, tell: Tell) -> None:
        tell(Flow(_config(root)).build(self.SELECT).build_id)

    def lost(self, root: Path, words: list[str]) -> list[str]:
        (count,) = _rows(Lake(_config(root)), "SELECT count(*) FROM silver_jobs")[0]
        return differs("jobs", count, 3) if words else differs("jobs", count in (2, 3), True)

    def wrong(self, root: Path) -> list[str]:
        lake = Lake(_config(root))
        current = lake.builds.current()
        assert current is not None
        exported = [path.name for path in lake.gold.iterdir() if path.is_dir()]
        builds = {lake.exports.build(table) for table in exported if lake.exports.is_readable(table)}
        sick = [check.detail for check in gpulake.show.health.check_all(lake.config) if check.status == "fail"]
        return [
            *differs("jobs", _rows(lake, "SELECT count(*) FROM silver_jobs"), [(3,)]),
            *differs("gold", (builds, len(exported)), ({current.stem}, len(self._gold(lake)))),
            *differs("doctor", sick, []),
        ]

    def _gold(self, lake: Lake) -> list[tuple[Any, ...]]:
        return _rows(lake, "FROM duckdb_tables() WHERE schema_name = 'main' AND starts_with(table_name, 'gold_')")


def _incidents(lake: Lake) -> list[str]:
    names = [f"{number:016x}" for number in range(1, INCIDENTS + 1)]
    now = CLOCK.now()
    rows = [Incident(name, now, "opened", "watch", kind="hot_gpu", subject=name, opened_at=now) for name in names]
    lake.append("incident_events", [row.row() for row in rows])
    return names


class Incidents:
    """Acknowledged one by one; then a log is diagnosed."""

    def prepare(self, root: Path) -> None:
        _incidents(Lake(_config(root)).create())
        (root / "job.log").write_text(LOG)

    def act(self, root: Path, tell: Tell) -> None:
        lake = Lake(_config(root)).open()
        for one in read_incidents(lake, kind="hot_gpu"):
            if one.state == "open":
                change(lake, CLOCK, "acknowledge", one.incident_id, "ann")
            tell(one.incident_id)
        tell(Flow(lake.config, CLOCK).diagnose(DiagnosisRequest(root / "job.log")).diagnosis.incident_id)

    def lost(self, root: Path, words: list[str]) -> list[str]:
        standing = {one.incident_id: one for one in read_incidents(Lake(_config(root)).open())}
        gone = [word for word in words if word not in standing]
        late = [word for word in words if word in standing and word.startswith("0000")]
        return [f"{word} is gone" for word in gone] + [
            f"{word} is {standing[word].state}" for word in late if standing[word].state != "acknowledged"
        ]

    def wrong(self, root: Path) -> list[str]:
        lake = Lake(_config(root))
        states = Tally(one.state for one in read_incidents(lake))
        torn = [line for line in lake.journals.damaged_lines() if not line.is_cut]
        return differs("incidents", states, Tally(acknowledged=INCIDENTS, open=1)) + differs("damage", torn, [])


class _Told:
    """A sink that tells what was delivered."""

    deduplicates = True

    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def send(self, alert: Alert) -> None:
        self._tell(f"delivered {alert.incident_id}")


class Sent:
    """Alerts are queued and sent."""

    def _config(self, root: Path) -> Config:
        sink = SinkSettings(kind="webhook", url="https://localhost:9/", most_per_minute=0)
        return _config(root, alerts=Alerts(sinks={"ops": sink}))

    def prepare(self, root: Path) -> None:
        _incidents(Lake(self._config(root)).create())

    def act(self, root: Path, tell: Tell) -> None:
        lake = Lake(self._config(root)).open()
        queue_alerts(lake, CLOCK)
        Sending(lake, lake.config.alerts, CLOCK, {}, lambda _: _Told(tell)).drain()
        for alert in Outbox(lake.journal("alert_events")):
            tell(f"{alert.state} {alert.incident_id}")

    def lost(self, root: Path, words: list[str]) -> list[str]:
        known = {alert.incident_id: alert.state for alert in Outbox(Lake(self._config(root)).journal("alert_events"))}
        may = {"delivered": ("sending", "sent"), "sent": ("sent",)}
        reported = [word.split() for word in words]
        return [
            f"{name} was {how} and is {known.get(name)}" for how, name in reported if known.get(name) not in may[how]
        ]

    def wrong(self, root: Path) -> list[str]:
        lake = Lake(self._config(root))
        alerts = Tally(alert.state for alert in Outbox(lake.journal("alert_events")))
        return differs("alerts", alerts, Tally(sent=INCIDENTS))


class Recoveries:
    """The audit trail of recoveries: a row before and after each step."""

    NAMES = tuple(f"step-{number}" for number in range(12))

    def prepare(self, root: Path) -> None:
        Lake(_config(root)).create()

    def act(self, root: Path, tell: Tell) -> None:
        lake = Lake(_config(root)).open()
        known = self._known(lake)
        for name in self.NAMES:
            if name not in known:
                lake.append("recoveries", [{"recovery_id": name, "status": "started", "detail": {"node": "n1"}}])
            tell(name)

    def lost(self, root: Path, words: list[str]) -> list[str]:
        return differs("lost", sorted(set(words) - set(self._known(Lake(_config(root)).open()))), [])

    def wrong(self, root: Path) -> list[str]:
        return differs("rows", self._known(Lake(_config(root))), list(self.NAMES))

    def _known(self, lake: Lake) -> list[str]:
        return [row["recovery_id"] for row in lake.journal("recoveries", is_strict=True)]


class Collect:
    """Twenty ticks of a resumable source, in a folder that the collector makes; segments are small."""

    TICKS, STEP = 20, 40

    def prepare(self, root: Path) -> None:
        pass

    def act(self, root: Path, tell: Tell) -> None:
        folder = root / "runs" / "n1"
        clock = SteppingClock()
        writer = SegmentWriter(folder, header_of(IDENTITY, 1.0), segment_bytes=8 << 10)
        sampler = Sampler(
            {"numbers": Counter(self.STEP)},
            writer,
            replace(IDENTITY),
            clock,
            positions=last_positions(folder, IDENTITY.boot_id),
            acknowledged=lambda _, positions: tell(str(positions["numbers"])),
        )
        sampler.run(waits(clock, self.TICKS))
        sampler.close()

    def lost(self, root: Path, words: list[str]) -> list[str]:
        found = numbers_in(root / "runs" / "n1")
        must = int(words[-1]) if words else 0
        return differs("numbers", found, list(range(max(must, len(found)))))

    def wrong(self, root: Path) -> list[str]:
        return differs("numbers", numbers_in(root / "runs" / "n1"), list(range(self.TICKS * self.STEP)))


SCENARIOS: dict[str, Scenario] = {
    "land": Land(has_lake=True),
    "create": Land(has_lake=False),
    "build": Build(),
    "incidents": Incidents(),
    "alerts": Sent(),
    "recoveries": Recoveries(),
    "collect": Collect(),
}

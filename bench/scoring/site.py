"""Scores the whole product on a generated site: lands and builds it, and compares ledger and findings with the truth.

GPU-hours by bucket, user and account, down-time, the unused share of each job, and injected incidents. A distance is a
share of the bucket's true hours, of the hours that the user or account held, or of a thousandth of capacity, where that
is more. A job's unused share is to be within two points, and what samples cannot say: of the part of its time that none
covers, its samples give the mean with a standard error. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bench.scoring.servers import backfill, running
from gpulake.core.config import Cluster, Config
from gpulake.core.errors import GpulakeError
from gpulake.core.ledger import BUCKETS, HELD
from gpulake.core.types import Finding
from gpulake.flow import Flow
from gpulake.pull.kubernetes import KubernetesPull
from gpulake.pull.prometheus import PrometheusPull
from gpulake.pull.slurm import SlurmPull
from gpulake.synth.site import Site, write_site

UNTIL = datetime(2026, 3, 2, 9, tzinfo=UTC)
BOUNDS = {"bucket": 0.005, "down": 0.01, "user": 0.005, "account": 0.005}
UNUSED_POINTS = 0.02
SPREAD = 0.0625  # of the use of a GPU from one sample to the next, at most, as a standard deviation
ERRORS = 4  # standard errors
SLACK = timedelta(hours=1)
SOURCES = ("slurm", "kubernetes", "prometheus", "kernel")
SUMS = ", ".join(f"sum({bucket}_gpu_hours) AS {bucket}" for bucket in BUCKETS)
LEDGER = f"SELECT {SUMS} FROM gold_ledger_daily"
BY_USER = f"SELECT user_id AS name, {SUMS} FROM gold_ledger_daily WHERE user_id IS NOT NULL GROUP BY user_id"
HELD_SUMS = ", ".join(f"sum({bucket}_gpu_hours) AS {bucket}" for bucket in HELD)
BY_ACCOUNT = f"""
SELECT account_id AS name, {HELD_SUMS}
FROM gold_job_efficiency_daily WHERE account_id IS NOT NULL GROUP BY account_id
"""
JOBS = """
SELECT
    jobs.job_id AS name,
    1 - sum(usage.used_gpus * seconds) / sum(instances.gpus * seconds) AS unused
FROM (
    SELECT *, epoch(coalesce(ended_at, cast($until AS timestamptz))) - epoch(started_at) AS seconds
    FROM silver_instances
) AS instances
JOIN silver_jobs AS jobs USING (job_key)
JOIN silver_instance_usage AS usage USING (worker_key)
WHERE usage.used_gpus IS NOT NULL AND instances.gpus > 0 AND seconds > 0
GROUP BY jobs.job_id
"""


@dataclass(frozen=True)
class Difference:
    what: str
    name: str
    truth: float
    ours: float
    distance: float
    bound: float

    @property
    def is_within(self) -> bool:
        return self.distance <= self.bound


@dataclass(frozen=True)
class SiteScore:
    differences: tuple[Difference, ...]
    jobs: int
    jobs_apart: int  # by more than two points, with so few samples that this may be
    jobs_off: tuple[str, ...]
    worst_points: float
    found: tuple[str, ...]
    missed: tuple[str, ...]
    invented: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        return {
            "differences_off": [f"{one.what} {one.name}" for one in self.differences if not one.is_within],
            "jobs": self.jobs,
            "jobs_apart": self.jobs_apart,
            "jobs_off": len(self.jobs_off),
            "worst_points": round(100 * self.worst_points, 2),
            **{name: list(getattr(self, name)) for name in ("found", "missed", "invented")},
        }


def land_files(flow: Flow, folder: Path, _: dict[str, Any]) -> None:
    flow.land([folder / source for source in SOURCES if (folder / source).is_dir()])


def pull_all(flow: Flow, folder: Path, truth: dict[str, Any]) -> None:
    """Samples from a real Prometheus that has them, jobs and nodes from saved output; kernel logs land as files."""
    site = truth["site"]
    span = datetime.fromisoformat(site["begins_at"]), datetime.fromisoformat(site["until"])
    if (folder / "slurm").is_dir():
        flow.pull(SlurmPull(truth["cluster"], saved=folder / "slurm", time_zone="UTC"), *span)
    else:
        flow.pull(KubernetesPull(cluster=truth["cluster"], saved=folder / "kubernetes"), *span)
    with tempfile.TemporaryDirectory() as place:
        backfill(Path(place), sorted((folder / "prometheus").glob("*.prom")))
        # A scrape marks the end of a series, which a history cannot: without this a GPU has two holders for minutes.
        step = site["interval_seconds"]
        with running(Path(place), lookback_seconds=max(1, step // 2)) as server:
            flow.pull(PrometheusPull(server.url, timedelta(seconds=step), environment={}), *span)
    flow.land([folder / "kernel"])


WAYS: dict[str, Callable[[Flow, Path, dict[str, Any]], None]] = {"files": land_files, "pull": pull_all}


def score_site(folder: Path, lake: Path, through: str = "files") -> SiteScore:
    """Brings a generated site into a new lake and builds it."""
    truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    # What a pull says by itself: since when and until when the sources were read.
    site = Cluster(observed_from=truth["site"]["begins_at"], observed_until=truth["site"]["until"])
    flow = Flow(Config(lake=lake, clusters={truth["cluster"]: site}))
    WAYS[through](flow, folder, truth)
    findings = flow.build().findings or ()
    with flow.lake.reading() as reader:
        (whole,) = reader.query(LEDGER).to_pylist()
        users, accounts = (_named(reader.query(query).to_pylist()) for query in (BY_USER, BY_ACCOUNT))
        jobs = reader.query(JOBS.replace("$until", f"'{truth['site']['until']}'")).to_pylist()
    unused = {row["name"]: row["unused"] for row in jobs}
    differences = [
        *_buckets(truth, whole),
        *_held("user", truth["users"], users, truth),
        *_held("account", truth["accounts"], accounts, truth),
    ]
    apart = {job: abs(unused.get(job, 2.0) - one["unused_ratio"]) for job, one in truth["jobs"].items()}
    off = tuple(job for job, points in apart.items() if points > _bound(truth["jobs"][job]))
    few = sum(points > UNUSED_POINTS for points in apart.values()) - len(off)
    worst = max(apart.values(), default=0.0)
    return SiteScore(tuple(differences), len(apart), few, off, worst, *_incidents(truth, findings))


def _bound(job: dict[str, float]) -> float:
    return UNUSED_POINTS + ERRORS * SPREAD * (1 - job["seen_ratio"]) / math.sqrt(job["samples"])


def _named(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    return {row["name"]: row for row in rows}


def _buckets(truth: dict[str, Any], ours: dict[str, float]) -> Iterator[Difference]:
    for bucket in BUCKETS:
        bound = BOUNDS["down" if bucket == "down" else "bucket"]
        hours = truth["buckets"].get(bucket, 0.0)
        yield _difference("bucket", bucket, hours, ours[bucket] or 0.0, max(hours, _least(truth)), bound)


def _held(
    what: str, expected: dict[str, dict[str, float]], ours: dict[str, dict[str, float]], truth: dict[str, Any]
) -> Iterator[Difference]:
    for name, buckets in expected.items():
        whole = max(sum(buckets.values()), _least(truth))
        for bucket in HELD:
            mine = ours.get(name, {}).get(bucket) or 0.0
            yield _difference(what, f"{name} {bucket}", buckets.get(bucket, 0.0), mine, whole, BOUNDS[what])
    for name in set(ours) - set(expected):
        yield Difference(what, name, 0.0, sum(ours[name][bucket] or 0.0 for bucket in HELD), 1.0, BOUNDS[what])


def _least(truth: dict[str, Any]) -> float:
    return float(truth["capacity_gpu_hours"]) / 1000


def _difference(what: str, name: str, truth: float, ours: float, whole: float, bound: float) -> Difference:
    return Difference(what, name, truth, ours, abs(ours - truth) / whole, bound)


def _incidents(
    truth: dict[str, Any], findings: Sequence[Finding]
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Kinds that were found and missed; findings that are about nothing that was injected."""
    told = [one for one in findings if one.severity in ("warning", "critical") or one.kind == "idle_gpus"]
    found = [entry["kind"] for entry in truth["incidents"] if any(is_about(one, entry) for one in told)]
    missed = [entry["kind"] for entry in truth["incidents"] if entry["kind"] not in found]
    # Of idle GPUs the findings list whoever holds most, and a node may be out of service as was planned.
    invented = [
        f"{one.kind}: {one.headline}"
        for one in told
        if one.kind != "idle_gpus"
        and not any(_is_there_then(one, entry) for entry in truth["incidents"])
        and not any(_is_there_then(one, outage) for outage in truth["outages"])
    ]
    return tuple(found), tuple(missed), tuple(invented)


def is_about(finding: Finding, entry: dict[str, Any]) -> bool:
    """Whether a finding tells of an injected incident: its kind, its subject, its time."""
    return finding.kind in entry["findings"] and _is_there_then(finding, entry)


def _is_there_then(finding: Finding, entry: dict[str, Any]) -> bool:
    """The same node, user or, where an incident has none, cluster; a finding without a time is of the whole site."""
    names = [*entry.get("nodes", []), *entry.get("users", []), *([entry["node"]] if "node" in entry else [])]
    text = " ".join(filter(None, (finding.subject, finding.node, finding.headline)))
    if names and not any(name in text for name in names):
        return False
    if finding.began_at is None:
        return bool(names)
    first, last = (
        datetime.fromisoformat(entry[long] if long in entry else entry[short])
        for long, short in (("first", "started_at"), ("last", "ended_at"))
    )
    return finding.began_at <= last + SLACK and (finding.ended_at or last) >= first - SLACK


def print_score(score: SiteScore, is_verbose: bool) -> None:
    print(f"{'what':<32}{'truth':>12}{'ours':>12}{'distance':>10}{'bound':>8}")
    for one in score.differences:
        if is_verbose or one.what == "bucket" or not one.is_within:
            mark = "" if one.is_within else "  off"
            name = f"{one.what} {one.name}"
            print(f"{name:<32}{one.truth:>12,.2f}{one.ours:>12,.2f}{one.distance:>10.4f}{one.bound:>8.3f}{mark}")
    within = sum(one.is_within for one in score.differences)
    print(f"{within} of {len(score.differences)} figures within their bounds")
    points, worst = 100 * UNUSED_POINTS, 100 * score.worst_points
    close = score.jobs - score.jobs_apart - len(score.jobs_off)
    print(
        f"unused share of {score.jobs} jobs: {close} within {points:.0f} points, {score.jobs_apart} within what their"
    )
    print(f"few samples can say, {len(score.jobs_off)} off; the worst is {worst:.2f} points off")
    print(f"incidents found: {', '.join(score.found) or 'none'}; missed: {', '.join(score.missed) or 'none'}")
    for line in score.invented:
        print(f"invented: {line}")
    print(json.dumps(score.document()))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/score site", description=__doc__)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--days", type=int, default=14)
    parser.add_argument("--interval", type=int, default=300, help="seconds between samples")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tell", choices=("slurm", "kubernetes"), default="slurm", help="who tells of jobs and nodes")
    parser.add_argument("--through", choices=WAYS, default="files", help="pull needs the Debian package prometheus")
    parser.add_argument("--verbose", action="store_true", help="every user and account")
    chosen = parser.parse_args(arguments)
    site = Site(UNTIL, chosen.nodes, days=chosen.days, seed=chosen.seed, interval_seconds=chosen.interval)
    try:
        with tempfile.TemporaryDirectory() as place:
            write_site(Path(place) / "site", site, tell=chosen.tell)
            score = score_site(Path(place) / "site", Path(place) / "lake", chosen.through)
    except GpulakeError as error:
        print(f"error: {error.message}", file=sys.stderr)
        return error.exit_code
    print_score(score, chosen.verbose)
    return 0


if __name__ == "__main__":
    sys.exit(main())

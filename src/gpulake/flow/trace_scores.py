"""Scores the watches on generated traces: what was injected and found, and what was called without a reason.

Finds the incidents of truth.json among the findings of a build, by kind, subject and time. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from gpulake.core.config import Config
from gpulake.core.errors import GpulakeError, InputError
from gpulake.core.types import Finding
from gpulake.flow import Flow
from gpulake.synth import write_trace

TRUTH = "truth.json"
SLACK = timedelta(hours=1)
WEEK_SECONDS = 7 * 86_400
# What is injected, and what it is called when it is found.
KINDS = {
    "hot_weekend": "unusual_utilisation",
    "runaway_user": "runaway_user",
    "failure_burst": "failure_burst",
    "dead_rack": "dead_machines",
    "slow_machine": "slow_machine",
}
SPAN = "SELECT epoch(max(observed_until)) - epoch(min(observed_from)) AS seconds FROM silver_clusters"


@dataclass(frozen=True)
class TraceScore:
    name: str
    injected: int
    missed: tuple[str, ...]
    false_alarms: tuple[str, ...]
    weeks: float


def score_trace(folder: Path, name: str) -> TraceScore:
    """Lands and builds a trace in a lake that is thrown away."""
    try:
        truth = json.loads((folder / TRUTH).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"no truth in {folder}: {error}", "make a trace with: gpulake synth --out DIR") from error
    with tempfile.TemporaryDirectory() as place:
        flow = Flow(Config(lake=Path(place) / "lake"))
        flow.land([folder])
        found = flow.build().findings or ()
        with flow.lake.reading() as reader:
            (span,) = reader.query(SPAN).to_pylist()
    told = [one for one in found if one.watch and one.severity in ("warning", "critical")]
    missed = [entry["kind"] for entry in truth if not any(is_about(one, entry) for one in told)]
    false = [one.headline for one in told if not any(is_about(one, entry) for entry in truth)]
    return TraceScore(name, len(truth), tuple(missed), tuple(false), span["seconds"] / WEEK_SECONDS)


def is_about(finding: Finding, entry: dict[str, Any]) -> bool:
    """Whether a finding tells of an injected incident: its kind, its subject, its time."""
    if finding.kind != KINDS.get(entry["kind"]) or finding.began_at is None or finding.ended_at is None:
        return False
    first, last = (datetime.fromtimestamp(entry[name], UTC) for name in ("first_second", "last_second"))
    is_then = finding.began_at <= last + SLACK and finding.ended_at >= first - SLACK
    is_named = entry["subject"] in ("cluster", "job") or any(name in finding.subject for name in entry["subject_ids"])
    return is_then and is_named


def document(scores: Sequence[TraceScore]) -> dict[str, Any]:
    injected, missed = sum(one.injected for one in scores), sum(len(one.missed) for one in scores)
    false, weeks = sum(len(one.false_alarms) for one in scores), sum(one.weeks for one in scores)
    return {
        "traces": len(scores),
        "injected": injected,
        "found": injected - missed,
        "recall": (injected - missed) / injected if injected else None,
        "false_alarms": false,
        "weeks": round(weeks, 1),
        "false_alarms_a_week": false / weeks if weeks else None,
        "missed": [f"{one.name}: {kind}" for one in scores for kind in one.missed],
    }


def generated(jobs: int, seed: int, has_incidents: bool) -> TraceScore:
    with tempfile.TemporaryDirectory() as folder:
        write_trace(Path(folder), jobs=jobs, seed=seed, has_incidents=has_incidents)
        return score_trace(Path(folder), f"{jobs} jobs, seed {seed}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/score detect-trace", description=__doc__)
    parser.add_argument("--data", type=Path, action="append", default=[], help="a folder that gpulake synth wrote")
    parser.add_argument("--jobs", type=int, default=8_000, help="jobs of generated traces [8000]")
    parser.add_argument("--seed", type=int, action="append", default=[], help="a seed to generate; may be repeated")
    parser.add_argument("--no-incidents", action="store_true", help="generate traces in which nothing is injected")
    options = parser.parse_args()
    scores: list[TraceScore] = []
    try:
        scores.extend(score_trace(folder, str(folder)) for folder in options.data)
        seeds = options.seed or ([] if options.data else [0])
        scores.extend(generated(options.jobs, seed, not options.no_incidents) for seed in seeds)
    except GpulakeError as error:
        sys.stderr.write(f"error: {error.message}\nhint: {error.hint}\n")
        return error.exit_code
    for one in scores:
        found = one.injected - len(one.missed)
        sys.stdout.write(f"{one.name}: {found} of {one.injected} found, {len(one.false_alarms)} false alarms\n")
        sys.stdout.writelines(f"  missed: {kind}\n" for kind in one.missed)
        sys.stdout.writelines(f"  false: {headline}\n" for headline in one.false_alarms)
    sys.stdout.write(json.dumps(document(scores)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

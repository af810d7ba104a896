"""Scores the watches on generated traces: what was injected and found, and what was called without a reason.

Finds the incidents of truth.json among the findings of a build, by kind, subject and time, and counts them by kind and
strength. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Sequence
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
NAMES = ("all", *KINDS)
SPAN = "SELECT epoch(max(observed_until)) - epoch(min(observed_from)) AS seconds FROM silver_clusters"


@dataclass(frozen=True)
class Injected:
    kind: str
    strength: float
    is_found: bool


@dataclass(frozen=True)
class TraceScore:
    name: str
    injected: tuple[Injected, ...]
    false_alarms: tuple[str, ...]
    weeks: float

    @property
    def missed(self) -> list[str]:
        return [one.kind for one in self.injected if not one.is_found]


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
    reported = [one for one in found if one.watch and one.severity in ("warning", "critical")]
    injected = [
        Injected(entry["kind"], entry["strength"], any(is_about(one, entry) for one in reported)) for entry in truth
    ]
    false = [one.headline for one in reported if not any(is_about(one, entry) for entry in truth)]
    return TraceScore(name, tuple(injected), tuple(false), span["seconds"] / WEEK_SECONDS)


def is_about(finding: Finding, entry: dict[str, Any]) -> bool:
    """Whether a finding tells of an injected incident: its kind, its subject, its time."""
    if finding.kind != KINDS.get(entry["kind"]) or finding.began_at is None or finding.ended_at is None:
        return False
    first, last = (datetime.fromtimestamp(entry[name], UTC) for name in ("first_second", "last_second"))
    is_then = finding.began_at <= last + SLACK and finding.ended_at >= first - SLACK
    is_named = entry["subject"] in ("cluster", "job") or any(name in finding.subject for name in entry["subject_ids"])
    return is_then and is_named


def document(scores: Sequence[TraceScore]) -> dict[str, Any]:
    injected = [one for score in scores for one in score.injected]
    false, weeks = sum(len(one.false_alarms) for one in scores), sum(one.weeks for one in scores)
    found = sum(one.is_found for one in injected)
    return {
        "traces": len(scores),
        "injected": len(injected),
        "found": found,
        "recall": found / len(injected) if injected else None,
        "false_alarms": false,
        "weeks": round(weeks, 1),
        "false_alarms_a_week": false / weeks if weeks else None,
        "by_strength": by_strength(injected),
        "missed": [f"{one.name}: {kind}" for one in scores for kind in one.missed],
    }


def by_strength(injected: Iterable[Injected]) -> list[dict[str, Any]]:
    """How many were injected and found of each strength and, within it, of each kind; the strongest first."""
    counts: dict[float, dict[str, tuple[int, int]]] = {}
    for one in injected:
        kinds = counts.setdefault(one.strength, {})
        for name in ("all", one.kind):
            total, found = kinds.get(name, (0, 0))
            kinds[name] = total + 1, found + one.is_found
    return [
        {
            "strength": strength,
            **{
                name: dict(zip(("injected", "found"), counts[strength].get(name, (0, 0)), strict=True))
                for name in NAMES
            },
        }
        for strength in sorted(counts, reverse=True)
    ]


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Found of injected: a line a strength, a column a kind."""
    heads = ["strength", *NAMES]
    lines = [
        [f"{row['strength']:.0%}", *(f"{row[name]['found']} of {row[name]['injected']}" for name in NAMES)]
        for row in rows
    ]
    return ["".join(f"{cell:>15}" for cell in line).rstrip() for line in [heads, *lines]] if rows else []


def generated(jobs: int, seed: int, strength: float | None) -> TraceScore:
    """Of a trace that is made for it; without a strength nothing is injected."""
    name = f"{jobs} jobs, seed {seed}, " + ("no incidents" if strength is None else f"strength {strength:g}")
    with tempfile.TemporaryDirectory() as folder:
        write_trace(
            Path(folder), jobs=jobs, seed=seed, has_incidents=strength is not None, incident_strength=strength or 1.0
        )
        return score_trace(Path(folder), name)


def main() -> int:
    options = _options()
    scores: list[TraceScore] = []
    try:
        scores.extend(score_trace(folder, str(folder)) for folder in options.data)
        seeds = options.seed or ([] if options.data else [0])
        strengths = [None] if options.no_incidents else options.incident_strength
        scores.extend(generated(options.jobs, seed, strength) for seed in seeds for strength in strengths)
    except GpulakeError as error:
        sys.stderr.write(f"error: {error.message}\nhint: {error.hint}\n")
        return error.exit_code
    for one in scores:
        found = len(one.injected) - len(one.missed)
        sys.stdout.write(f"{one.name}: {found} of {len(one.injected)} found, {len(one.false_alarms)} false alarms\n")
        sys.stdout.writelines(f"  missed: {kind}\n" for kind in one.missed)
        sys.stdout.writelines(f"  false: {headline}\n" for headline in one.false_alarms)
    reported = document(scores)
    sys.stdout.writelines(f"{line}\n" for line in table(reported["by_strength"]))
    sys.stdout.write(json.dumps(reported) + "\n")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/score detect-trace", description=__doc__)
    parser.add_argument("--data", type=Path, action="append", default=[], help="a folder that gpulake synth wrote")
    parser.add_argument("--jobs", type=int, default=8_000, help="jobs of generated traces [8000]")
    parser.add_argument("--seed", type=int, action="append", default=[], help="a seed to generate; may be repeated")
    parser.add_argument("--no-incidents", action="store_true", help="generate traces in which nothing is injected")
    parser.add_argument(
        "--incident-strength",
        type=float,
        nargs="+",
        action="extend",
        help="of generated incidents, above 0 and up to 1; several make a trace each [1]",
    )
    options = parser.parse_args()
    options.incident_strength = options.incident_strength or [1.0]
    return options


if __name__ == "__main__":
    sys.exit(main())

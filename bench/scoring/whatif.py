"""How far the simulator of the past can be believed: the kernel beside a naive simulator, pasts made by known policies,
run times predicted at submission, and real records. Each part prints a table; the last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpulake.core.config import Config
from gpulake.core.errors import InputError, UsageError
from gpulake.core.pai import published
from gpulake.flow import Flow
from gpulake.flow.advising import predicted_run_times
from gpulake.flow.whatif import backtest as backtest_of_lake
from gpulake.replay.backtest import Backtest, backtest
from gpulake.replay.policies import POLICIES
from gpulake.synth import write_trace
from made_pasts import made_past
from random_cases import difference

# These displace jobs: their runs are recorded as one, from the first start to the last end.
DISPLACING = {"las", "priority"}
MOST_OFF = 0.02  # of p50 and p90 of waits of unseen time
SLURM = (
    "sample-sacct-output.txt",
    "sample-sacct-running-output-large.txt",
    "sample-sacct-output-midnight-edge-case.txt",
)
Rows = list[dict[str, Any]]


def kernel(cases: int) -> Rows:
    """Cases in which the compiled kernel and the naive simulator differ, in anything."""
    return [
        {
            "policy": name,
            "cases": cases,
            "differ": sum(bool(difference(seed, POLICIES.get(name), is_compiled=True)) for seed in range(cases)),
        }
        for name in POLICIES
    ]


def made() -> Rows:
    """Pasts of 1,500 jobs on 48 GPUs: which policy is found, and by how much the waits of unseen time are off."""
    rows = []
    for name in sorted(set(POLICIES) - DISPLACING):
        tested = backtest(made_past(name))
        pairs = list(zip(tested.whole.recorded, tested.whole.simulated, strict=True))[:2]
        rows.append(
            {
                "policy": name,
                "found": tested.fit.policy,
                "ties": list(tested.fit.ties),
                "is_named": name in (tested.fit.policy, *tested.fit.ties),
                **{f"p{level}_seconds": wait for level, (wait, _) in zip((50, 90), pairs, strict=True)},
                **{f"p{level}_off_ratio": _off(*pair) for level, pair in zip((50, 90), pairs, strict=True)},
            }
        )
    return rows


def _off(recorded: float, simulated: float) -> float:
    return abs(simulated - recorded) / max(recorded, 1.0)


def run_times(jobs: int) -> tuple[Rows, Rows]:
    """Of a generated trace whose groups recur as published: predictions within 25 %, and their calibration."""
    with tempfile.TemporaryDirectory() as place:
        write_trace(Path(place) / "trace", jobs=jobs, seed=0)
        flow = Flow(Config(lake=Path(place) / "lake"))
        flow.land([Path(place) / "trace"])
        flow.build()
        _, scores, rows = predicted_run_times(flow, None)
    return [vars(one) for one in scores if one.method == "recurrence"], [vars(row) for row in rows]


def real(data: Path) -> Rows:
    """Back-tests of real records, or why there is none."""
    nodes = data / "slurm" / "sample-scontrol-output-large.txt"
    sources = {"openb": [data / "alibaba_openb_v2023"]} | {name: [data / "slurm" / name, nodes] for name in SLURM}
    rows = []
    for name, paths in sources.items():
        with tempfile.TemporaryDirectory() as place:
            flow = Flow(Config(lake=Path(place) / "lake"))
            flow.land(paths)
            flow.build()
            try:
                rows.append(_answer(name, backtest_of_lake(flow, None)[1]))
            except (InputError, UsageError) as error:
                rows.append({"records": name, "runs": 0, "refusals": [error.message]})
    return rows


def _answer(name: str, tested: Backtest) -> dict[str, Any]:
    whole = tested.whole
    return {
        "records": name,
        "runs": whole.runs,
        "policy": tested.fit.policy,
        "recorded_seconds": whole.recorded,
        "simulated_seconds": whole.simulated,
        **{f"off, {words}": distance for words, distance in whole.distances.items()},
        "refusals": tested.refusals,
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """In Markdown, as the page of documentation has it."""
    heads = list(dict.fromkeys(key for row in rows for key in row))
    lines = [heads, ["---"] * len(heads), *([_cell(key, row.get(key)) for key in heads] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _cell(key: str, value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(_cell(key, one) for one in value)
    if isinstance(value, float):
        return f"{value:.1%}" if key.endswith("ratio") else f"{value:,.0f}"
    return "" if value is None else str(value)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/score whatif", description=__doc__)
    parser.add_argument("--cases", type=int, default=1_000, help="random cases of each policy [1000]")
    parser.add_argument("--jobs", type=int, default=20_000, help="jobs of the trace for run times [20000]")
    parser.add_argument("--data", type=Path, help="a folder with alibaba_openb_v2023/ and slurm/")
    options = parser.parse_args()
    found: dict[str, Rows] = {"kernel": kernel(options.cases), "made": made()}
    if options.jobs:
        found["run_times"], found["calibration"] = run_times(options.jobs)
    if options.data:
        found["real"] = real(options.data)
    for name, rows in found.items():
        sys.stdout.write(f"## {name}\n\n{table(rows)}\n")
    bars = {
        "differ": sum(row["differ"] for row in found["kernel"]),
        "named": sum(row["is_named"] for row in found["made"]),
        "pasts": len(found["made"]),
        "within_2_percent": sum(is_close(row) for row in found["made"]),
        "published_within_quarter_ratio": published()["paper"]["predicted_within_quarter_percent"] / 100,
    }
    sys.stdout.write(json.dumps(bars) + "\n")
    return 0


def is_close(row: dict[str, Any]) -> bool:
    return all(row[f"p{level}_off_ratio"] <= MOST_OFF for level in (50, 90))


if __name__ == "__main__":
    sys.exit(main())

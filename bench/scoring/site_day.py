"""One more day of a generated site: what extending the last build takes, of what a whole build takes, in CPU and time.

All but the last day lands and is built as it was known then (jobs that had not ended run or wait), then the last day.
The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from bench.scoring.site import UNTIL
from gpulake.core.config import Config
from gpulake.flow import Flow
from gpulake.synth.site import Site, write_site


def split(folder: Path, out: Path, cut: datetime) -> tuple[list[Path], list[Path]]:
    """What had landed at a moment, and what is new after it."""
    early, late = out / "early", out / "late"
    for place in (early, late):
        place.mkdir(parents=True)
    head, *rows = (folder / "slurm" / "sacct.txt").read_text(encoding="utf-8").splitlines()
    parts = [_as_of(dict(zip(head.split("|"), row.split("|"), strict=True)), cut) for row in rows]
    (early / "sacct-1.txt").write_text("\n".join([head, *(row for row, _ in parts if row)]) + "\n", encoding="utf-8")
    new = (row for row, (_, is_new) in zip(rows, parts, strict=True) if is_new)
    (late / "sacct-2.txt").write_text("\n".join([head, *new]) + "\n", encoding="utf-8")
    for page in sorted((folder / "prometheus").glob("*.prom")):
        with page.open() as lines, (early / page.name).open("w") as old, (late / page.name).open("w") as fresh:
            for line in lines:
                if line.startswith("#"):
                    # Both parts need the last line, which says that times are seconds.
                    old.write(line)
                    fresh.write(line)
                else:
                    (old if int(line.rsplit(" ", 1)[1]) < cut.timestamp() else fresh).write(line)
    for file in (*early.glob("*.prom"), *late.glob("*.prom")):
        if all(line.startswith("#") for line in file.read_text(encoding="utf-8").splitlines()):
            file.unlink()
    states = sorted((folder / "slurm").glob("scontrol-*.txt"))
    old_states = [path for path in states if path.stat().st_mtime < cut.timestamp()]
    return [early, *old_states], [late, *(path for path in states if path not in old_states)]


def _as_of(row: dict[str, str], cut: datetime) -> tuple[str, bool]:
    """A line of sacct as it was at a moment, empty if there was none; and whether it changed since."""
    moment = cut.strftime("%Y-%m-%dT%H:%M:%S")
    if row["Submit"] >= moment:
        return "", True
    is_over = row["End"][:1].isdigit() and row["End"] < moment
    if is_over:
        return "|".join(row.values()), False
    if row["Start"][:1].isdigit() and row["Start"] < moment:
        lasted = cut - datetime.fromisoformat(f"{row['Start']}+00:00")
        runs = {"End": "Unknown", "State": "RUNNING", "ElapsedRaw": f"{lasted.total_seconds():.0f}"}
        return "|".join({**row, **runs}.values()), True
    waits = {"Start": "Unknown", "End": "Unknown", "State": "PENDING", "AllocTRES": "", "NodeList": "None assigned"}
    return "" if "." in row["JobID"] else "|".join({**row, **waits}.values()), True


def measured(folder: Path, out: Path, cut: datetime) -> Iterator[tuple[str, float]]:
    early, late = split(folder, out / "split", cut)
    extended, whole = (Flow(Config(lake=out / name)) for name in ("extended", "whole"))
    extended.land(early)
    extended.build()
    extended.land(late)
    whole.land([*early, *late])
    for name, flow in (("one_more_day", extended), ("whole", whole)):
        cpu, wall = time.process_time(), time.perf_counter()
        result = flow.build()
        yield f"{name}_cpu_seconds", time.process_time() - cpu
        yield f"{name}_seconds", time.perf_counter() - wall
        yield f"{name}_is_extended", float(result.touched is not None)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/score site-day", description=__doc__)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--days", type=int, default=14)
    parser.add_argument("--interval", type=int, default=900, help="seconds between samples")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "site"
        write_site(folder, Site(UNTIL, chosen.nodes, days=chosen.days, interval_seconds=chosen.interval))
        figures = dict(measured(folder, Path(place), UNTIL - timedelta(days=1)))
    figures["cpu_ratio"] = figures["one_more_day_cpu_seconds"] / figures["whole_cpu_seconds"]
    for name, value in figures.items():
        print(f"{name:<32}{value:>10.3f}")
    print(json.dumps({name: round(value, 3) for name, value in figures.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

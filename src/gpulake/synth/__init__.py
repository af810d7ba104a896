"""A generator of traces: PAI v2020 raw tables at any scale, close to what is public, with known incidents inside."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from gpulake.core.errors import UsageError
from gpulake.core.pai import published
from gpulake.core.progress import Report, silent
from gpulake.synth import tables, trace, truth
from gpulake.synth.draws import Ids
from gpulake.synth.facts import HEADERS, gpu_models
from gpulake.synth.incidents import Incident
from gpulake.synth.telemetry import write_telemetry
from gpulake.synth.usage import measured, observed
from gpulake.synth.writer import Folder

__all__ = ["Incident", "TraceSummary", "write_trace"]

LEAST_JOBS = 1_000
MOST_SEED = 2**32 - 1


@dataclass(frozen=True)
class TraceSummary:
    """What was written: rows per table, files, and what was injected."""

    jobs: int
    seed: int
    rows: dict[str, int]
    files: tuple[Path, ...]
    incidents: tuple[Incident, ...]


def write_trace(
    out: Path,
    *,
    jobs: int = 20_000,
    seed: int = 0,
    is_tar: bool = False,
    has_incidents: bool = True,
    incident_strength: float = 1.0,
    has_telemetry: bool = False,
    report: Report = silent,
) -> TraceSummary:
    """Writes the seven tables, their headers, tpu_gpus.csv and truth.json. Same jobs, seed and strength, same bytes.

    The strength of incidents scales what each adds to what is usual; 1 is all of it. With telemetry, the folder has one
    of half a day of a few nodes below it, too.
    """
    _check(out, jobs, seed, incident_strength)
    made = trace.make(jobs, seed, has_incidents=has_incidents, report=report, incident_strength=incident_strength)
    report("measuring usage", 0.45)
    usage = measured(made)
    source = tables.Source(made, usage, observed(made, usage), Ids(seed))
    found = truth.injected(made, source.ids)
    rows: dict[str, int] = {}
    telemetry = Folder(out / "telemetry") if has_telemetry else None
    with Folder(out) as folder, telemetry or nullcontext():
        if telemetry:
            more = write_telemetry(telemetry, made, usage, source.ids)
            found = tuple(sorted((*found, *more), key=lambda incident: incident.first_second))
        # Two writers: Arrow formats text outside the interpreter's lock.
        pool = ThreadPoolExecutor(max_workers=2)
        try:
            pending = {
                pool.submit(folder.write_table, table, make(source), is_tar=is_tar): table
                for table, make in tables.MAKERS.items()
            }
            for done in as_completed(pending):
                rows[pending[done]] = done.result()
                report(f"wrote {pending[done]}", 0.5 + 0.5 * len(rows) / len(pending))
        finally:
            pool.shutdown(cancel_futures=True)
        for table, header in HEADERS.items():
            folder.write(f"{table}.header", f"{header}\n".encode())
        folder.write("tpu_gpus.csv", gpu_models())
        folder.write("truth.json", truth.as_json(found))
    files = folder.files + (telemetry.files if telemetry else ())
    return TraceSummary(jobs, seed, {table: rows[table] for table in HEADERS}, files, found)


def _check(out: Path, jobs: int, seed: int, strength: float) -> None:
    most = published()["counts"]["jobs"]
    if not LEAST_JOBS <= jobs <= most:
        raise UsageError(f"cannot make a trace of {jobs:,} jobs", f"choose from {LEAST_JOBS:,} to {most:,}")
    if not 0 <= seed <= MOST_SEED:
        raise UsageError(f"cannot use seed {seed}", f"choose from 0 to {MOST_SEED}")
    if not 0.0 < strength <= 1.0:
        raise UsageError(
            f"cannot inject incidents of strength {strength:g}",
            "choose above 0 and up to 1; --no-incidents injects nothing",
        )
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file", "name a folder")

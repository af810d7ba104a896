"""The diagnosis of a log, with telemetry and dumps where there are any, for scripts and notebooks.

from gpulake.diagnose.api import diagnose
print(diagnose("slurm-4711.out").diagnosis.cause)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from gpulake.core.clock import is_time_zone
from gpulake.core.diagnosis import UNKNOWN, Diagnosis
from gpulake.core.errors import UsageError
from gpulake.core.progress import Report, silent
from gpulake.core.words import count, sentence
from gpulake.diagnose.cause.explaining import explain, explain_last
from gpulake.diagnose.commands import command_of
from gpulake.diagnose.cost import gpu_hours_lost
from gpulake.diagnose.logs.digest import Digest
from gpulake.diagnose.logs.filters import Filters
from gpulake.diagnose.logs.reading import Logs, open_logs
from gpulake.diagnose.logs.scan import scan
from gpulake.diagnose.losses import with_losses
from gpulake.diagnose.rulebook.book import Rulebook, shipped
from gpulake.diagnose.scheduler import EXEC, Record, with_record
from gpulake.diagnose.story.events import Story
from gpulake.diagnose.story.stories import read_stories

if TYPE_CHECKING:
    from gpulake.diagnose.telemetry import Samples

# Names that every machine gives itself: no node can be found or drained by them.
LOCAL_NAMES = ("localhost", "localhost.localdomain", "127.0.0.1", "::1")
# Samples of the nodes and minutes of a story, from wherever they are kept.
Witness = Callable[[Diagnosis, Story], "Samples"]
# GPU-hours that the failure of a story cost, where they are known.
Cost = Callable[[Diagnosis, Story], float | None]


@dataclass(frozen=True)
class Answer:
    """A diagnosis, and what it rests on."""

    diagnosis: Diagnosis
    story: Story
    digests: tuple[Digest, ...]
    notes: tuple[str, ...] = ()  # remarks for the reader

    @property
    def context(self) -> dict[tuple[str, int], str]:
        """The lines that were kept, by file and number; a file has a name where the log is a folder."""
        return {(digest.name, line.number): line.text for digest in self.digests for line in digest.lines}


def diagnose(
    log: str | Path | Logs,
    *,
    telemetry: Path | None = None,
    flight_recorder: Path | None = None,
    run: int | None = None,
    time_zone: str = "UTC",
    rulebook: Rulebook | None = None,
    filters: Filters | None = None,
    job_id: str | None = None,
    cluster_id: str | None = None,
    witness: Witness | None = None,
    cost: Cost = gpu_hours_lost,
    now: datetime | None = None,
    report: Report = silent,
) -> Answer:
    """By rules, flight recorder and telemetry. Needs no lake, and writes nothing."""
    check_zone(time_zone)
    book = rulebook or shipped()
    logs = log if isinstance(log, Logs) else open_logs(log)
    digests, notes = _read(logs, book, filters, report)
    story, diagnosis = _explained(read_stories(digests, book, time_zone), run)
    if story.run == story.runs:
        diagnosis = with_losses(diagnosis, logs)
    diagnosis = replace(diagnosis, job_id=job_id, cluster_id=cluster_id)
    if diagnosis.node in LOCAL_NAMES:
        diagnosis = replace(diagnosis, node=None)
    dumps = (*logs.flight_dumps, *((flight_recorder,) if flight_recorder else ()))
    if dumps:
        from gpulake.diagnose.hang.blockage import explain_hang
        from gpulake.diagnose.hang.flight_recorder import read_dumps

        # Without a log there is no diagnosis by rules to keep.
        diagnosis = explain_hang(read_dumps(dumps), diagnosis if logs.files else None)
    if telemetry or witness is not None:
        from gpulake.diagnose.telemetry import consult, read_samples, window_of
    if telemetry:
        command, timed = command_of(telemetry, logs, story) if telemetry.is_dir() else (None, story)
        samples = read_samples([telemetry], window_of(timed), time_zone)
        # The age of the telemetry is unknown, so silence at its end means nothing.
        seen = consult(diagnosis, timed, samples, book)
        # A process that ended by itself was slow to end, and did not hang.
        if seen.reason != "HangStraggler" or command is None or command.status != 0:
            diagnosis = seen
        if command and command.record:
            diagnosis = _with_exit(diagnosis, command.record, notes)
    if witness is not None:
        diagnosis = consult(diagnosis, story, witness(diagnosis, story), book, now)
    recovery = replace(diagnosis.recovery, why=sentence(diagnosis.recovery.why))
    diagnosis = replace(diagnosis, recovery=recovery, gpu_hours_lost=cost(diagnosis, story))
    return Answer(diagnosis, story, digests, tuple(notes))


def _with_exit(diagnosis: Diagnosis, record: Record, notes: list[str]) -> Diagnosis:
    """With the exit code that the collector's `exec` saw."""
    decided, note = with_record(diagnosis, record, EXEC)
    notes += [note] if note else []
    return replace(decided, method="telemetry") if decided.method == "scheduler" else decided


def check_zone(name: str) -> None:
    if not is_time_zone(name):
        raise UsageError(f"no time zone named {name!r}", "use a name such as UTC or Asia/Shanghai")


def _read(
    logs: Logs, rulebook: Rulebook, filters: Filters | None, report: Report
) -> tuple[tuple[Digest, ...], list[str]]:
    digests = []
    notes = []
    for place, file in enumerate(logs.files):
        report(f"reading {file.name}", place / len(logs.files))
        digests.append(scan(file.name if logs.is_folder else "", file.chunks(), rulebook, filters))
        if file.trouble:
            notes.append(file.trouble)
    return tuple(digests), notes


def _explained(stories: list[Story], run: int | None) -> tuple[Story, Diagnosis]:
    """The requested run, else the last one with a known end."""
    stories = stories or [Story((), run=1, runs=1, lines_read=0, lines_kept=0, is_whole=False)]
    if run is None and stories[-1].lines_read == 0:
        return stories[-1], Diagnosis("unknown", "unknown", UNKNOWN, "The log is empty")
    if run is None:
        return explain_last(stories)
    if run > len(stories):
        hint = f"give --run 1 to {len(stories)}" if len(stories) > 1 else "leave --run out"
        raise UsageError(f"the log holds {count(len(stories), 'run')}, not {run}", hint)
    return stories[run - 1], explain(stories[run - 1])

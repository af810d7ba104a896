"""What Slurm knows: its accounting, its nodes and their outages, and why jobs wait, from its own programs.

sacct lists the jobs that were running or waiting in a window, so a window after another misses no end of a job. What
changes later (a database that was away, a job that was mended) is asked for again: jobs that had not ended when they
were last seen by their ids, all others within the overlap.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path

from gpulake.core.clock import is_time_zone
from gpulake.core.errors import PullError, UsageError, require
from gpulake.core.words import label
from gpulake.formats.sacct import header_of
from gpulake.formats.scontrol import NOTE, Note, fields
from gpulake.pull import PULLS, Desk, Piece, Span

WINDOW = timedelta(days=1)
NOW = timedelta(minutes=5)  # a span that ends this close to now is followed by the state of now
MOST_IDS = 500  # of jobs in one call
MOST_ERROR_BYTES = 4096
DELIMITER = "|#"
FIELDS = (
    *("JobID", "JobIDRaw", "User", "Account", "Cluster", "Partition", "QOS", "Reservation", "State", "ExitCode"),
    *("Reason", "Submit", "Eligible", "Start", "End", "ElapsedRaw", "TimelimitRaw", "Restarts", "Priority"),
    *("NNodes", "NTasks", "NCPUS", "ReqCPUS", "ReqMem", "ReqTRES", "AllocTRES", "NodeList", "TRESUsageInAve"),
    *("TRESUsageInTot", "MaxRSS", "TotalCPU", "ConsumedEnergyRaw", "Constraints", "AdminComment", "Comment", "JobName"),
)
EVENT_FIELDS = "Cluster,NodeName,TimeStart,TimeEnd,State,Reason,User"
PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "KRB5CCNAME", "SLURM_CONF", "SLURM_CLUSTERS")


@PULLS.register("slurm")
@dataclass(frozen=True)
class SlurmPull:
    cluster: str = ""
    bin_folder: Path | None = None
    saved: Path | None = None  # a folder with their output, instead of running them
    time_zone: str = ""  # of the times in saved output; empty: that of the cluster's settings
    overlap: timedelta = timedelta(hours=1)
    timeout_seconds: float = 600.0
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    name: str = "slurm"

    def __post_init__(self) -> None:
        require(
            is_time_zone(self.time_zone or "UTC"), f"no time zone named {self.time_zone!r}", "such as Europe/Berlin"
        )

    @property
    def scope(self) -> str:
        return str(self.saved) if self.saved else ""

    @cached_property
    def address(self) -> str:
        """The name of the cluster."""
        if self.cluster:
            return self.cluster
        if self.saved:
            texts = (text for file in _files(self.saved) if (text := _head(file)).startswith("Configuration data"))
            found = next((name for text in texts if (name := _cluster_name(text))), "")
            hint = "save `scontrol show config` there, or give --cluster NAME"
        else:
            found, hint = _cluster_name(self._text("scontrol", "show", "config")), "give --cluster NAME"
        if not found:
            raise PullError("nothing says what the cluster is called", hint)
        return found

    def pieces(self, span: Span, desk: Desk) -> Iterator[Piece]:
        if self.saved:
            yield Piece(span, tuple(self._noted(file, desk) for file in _files(self.saved)))
            return
        known = self._known_fields()
        at = span.since
        while at < span.until:
            until = min(at + WINDOW, span.until)
            part = Span(at, until)
            is_last = until == span.until and until >= desk.clock.now() - NOW
            files = [self._accounting(part, desk, known)]
            if is_last:
                files += [*self._unfinished(part, desk, known), *self._events(span, desk), self._nodes(span, desk)]
                files += [*self._queue(span, desk), *self._setup(span, desk)]
            yield Piece(part, tuple(file for file in files if file))
            at = until

    def _known_fields(self) -> str:
        """Those that this version of sacct has."""
        listed = set(self._text("sacct", "--helpformat").split())
        return ",".join(name for name in FIELDS if name in listed or not listed)

    def _accounting(self, span: Span, desk: Desk, known: str) -> Path | None:
        window = (f"--starttime={_local(span.since)}", f"--endtime={_local(span.until)}")
        return self._jobs(f"sacct-{_stamp(span)}", span, desk, known, window)

    def _unfinished(self, span: Span, desk: Desk, known: str) -> Iterator[Path]:
        """Jobs that had not ended when they were last built: the window has those whose end is in it, or still open."""
        ids = sorted({job.split("_[")[0] for job in desk.open_jobs(self.address.lower())})
        for number, begin in enumerate(range(0, len(ids), MOST_IDS)):
            chosen = f"--jobs={','.join(ids[begin : begin + MOST_IDS])}"
            if file := self._jobs(f"sacct-open{number}-{_stamp(span)}", span, desk, known, (chosen,)):
                yield file

    def _jobs(self, name: str, span: Span, desk: Desk, known: str, which: Sequence[str]) -> Path | None:
        every = ("--allusers", "--duplicates", "--parsable2", f"--delimiter={DELIMITER}", f"--format={known}")
        file = self._saved(desk, name, span, "sacct", *every, *which)
        with file.open("rb") as lines:
            rows = [line for _, line in zip(range(3), lines, strict=False)]
        if len(rows) < 2 or header_of(rows[1].decode(errors="replace").rstrip("\n")) is None:
            raise PullError("sacct printed no header", "is its output filtered, or another program called sacct?")
        return file if len(rows) > 2 else None

    def _nodes(self, span: Span, desk: Desk) -> Path:
        return self._saved(desk, f"nodes-{_stamp(span)}", span, "scontrol", "--detail", "--oneliner", "show", "node")

    def _events(self, span: Span, desk: Desk) -> Iterator[Path]:
        """Clusters without a database have none."""
        asked = (
            "show",
            "event",
            f"clusters={self.address}",
            f"start={_local(span.since)}",
            f"end={_local(span.until)}",
        )
        try:
            file = self._saved(
                desk, f"events-{_stamp(span)}", span, "sacctmgr", "--parsable2", *asked, f"format={EVENT_FIELDS}"
            )
        except PullError:
            return
        if file.read_bytes().count(b"\n") > 2:
            yield file

    def _queue(self, span: Span, desk: Desk) -> Iterator[Path]:
        """Why jobs wait, and which GPUs those that run hold: accounting says neither, but for reasons other than
        priority and resources."""
        asked = ("--detail", "--oneliner", "show", "job")
        file = self._saved(desk, f"queue-{_stamp(span)}", span, "scontrol", *asked)
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        kept = [line for line in lines[1:] if "(IDX:" in line or fields(line).get("JobState") == "PENDING"]
        file.write_text("".join([lines[0], *kept]), encoding="utf-8")
        if kept:
            yield file

    def _setup(self, span: Span, desk: Desk) -> Iterator[Path]:
        """Partitions and reservations of now; the configuration once a day, since it hardly changes."""
        for kind, first in (("partition", "PartitionName="), ("reservation", "ReservationName=")):
            file = self._saved(desk, f"{kind}s-{_stamp(span)}", span, "scontrol", "--oneliner", "show", kind)
            if f"\n{first}" in _head(file):
                yield file
        if span.since.date() != span.until.date():
            yield self._saved(desk, f"config-{_stamp(span)}", span, "scontrol", "show", "config")

    def _noted(self, file: Path, desk: Desk) -> Path:
        """A copy with what the output itself does not say, unless it was pulled or is JSON."""
        text = file.read_bytes()
        target = desk.folder / file.name
        if not text.startswith((NOTE.encode(), b"{")):
            written = datetime.fromtimestamp(file.stat().st_mtime, UTC)
            text = Note(self.address, _iso(written), self.time_zone, "").line().encode() + text
        target.write_bytes(text)
        os.utime(target, (file.stat().st_atime, file.stat().st_mtime))
        return target

    def _saved(self, desk: Desk, name: str, span: Span, program: str, *arguments: str) -> Path:
        target = desk.folder / f"{self.address}-{name}.txt"
        note = Note(self.address, _iso(min(span.until, desk.clock.now())), "UTC", _iso(span.since))
        with target.open("wb") as file:
            file.write(note.line().encode())
            file.flush()
            self._run(file.fileno(), program, arguments)
        return target

    def _text(self, program: str, *arguments: str) -> str:
        with open(os.memfd_create("output"), "w+b") as file:  # noqa: PTH123 - it has no path
            self._run(file.fileno(), program, arguments)
            file.seek(0)
            return file.read().decode(errors="replace")

    def _run(self, output: int, program: str, arguments: Sequence[str]) -> None:
        path = str(self.bin_folder / program) if self.bin_folder else program
        chosen = (f"--clusters={self.cluster}",) if self.cluster and program in ("sacct", "scontrol") else ()
        try:
            process = subprocess.Popen(  # noqa: S603 - a list of arguments, never a shell
                [path, *chosen, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.PIPE,
                env={name: self.environment[name] for name in PASSED_ON if name in self.environment} | {"TZ": "UTC"},
                start_new_session=True,
            )
        except OSError as error:
            raise PullError(
                f"cannot run {label(path)}: {error.strerror}",
                "run it where Slurm is installed, give --bin FOLDER, or --from FOLDER with saved output",
            ) from error
        with process:
            try:
                _, errors = process.communicate(timeout=self.timeout_seconds)
            except subprocess.TimeoutExpired as error:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                raise PullError(
                    f"{program} did not end within {self.timeout_seconds:g} seconds", "give a longer --timeout"
                ) from error
        if process.returncode:
            lines = errors[:MOST_ERROR_BYTES].decode(errors="replace").splitlines()
            said = label("; ".join(filter(None, map(str.strip, lines))) or "nothing", 400)
            raise PullError(
                f"{program} ended with {process.returncode}: {said}", f"try it: {program} {' '.join(arguments[:4])}"
            )


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise UsageError(f"no folder {folder}", "give the folder with the saved output of sacct and scontrol")
    found = sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))
    if not found:
        raise UsageError(f"nothing in {folder}", "save there what sacct and scontrol print")
    return found


def _head(file: Path) -> str:
    with file.open("rb") as opened:
        return opened.read(1 << 16).decode(errors="replace")


def _cluster_name(text: str) -> str:
    """Of `scontrol show config`."""
    pairs = (line.partition("=") for line in text.splitlines())
    return next((value.strip() for key, _, value in pairs if key.strip() == "ClusterName"), "")


def _local(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _iso(moment: datetime) -> str:
    return f"{_local(moment)}+00:00"


def _stamp(span: Span) -> str:
    return f"{span.since.astimezone(UTC):%Y%m%dT%H%M%S}-{span.until.astimezone(UTC):%Y%m%dT%H%M%S}"

"""Slurm accounting, as `sacct --parsable2` prints it: an invocation per ended job, a placement per node of it.

The invocation is on the first node of the job; placement events are on all of them, with the job id as instance. Steps,
jobs that have not ended and jobs that never got a node are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, tzinfo

from gpulake.collect.adapters import ADAPTERS, EMPTY, AdapterOptions, Line, Outcome, Parsed, Rejected, Skipped
from gpulake.collect.tracing.access_log import epoch_ms
from gpulake.collect.tracing.invocation import Row, Times, id_from, row_of, text_of
from gpulake.core.types import BadRow, TextRow
from gpulake.formats import slurm as words
from gpulake.formats.sacct import NO_NODES, Header, header_of, joined_rows

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", re.ASCII)
NO_TIME = {"", "Unknown", "None", "N/A"}
EXIT = re.compile(r"(?P<code>\d{1,4}):(?P<signal>\d{1,3})", re.ASCII)
STEP = "steps of jobs"
NOT_OVER = "jobs that have not ended"
NO_END = "jobs whose End was not printed"
NEVER_RAN = "jobs that were never given a node"
NO_HEADER = "there is no header row: print it with `sacct --parsable2`, without --noheader"


@ADAPTERS.register("sacct")
class Sacct:
    is_resumable = False  # the header gives the meaning of the lines

    def __init__(self, options: AdapterOptions) -> None:
        self._options = options

    def read(self, lines: Iterator[Line]) -> Iterator[Outcome]:
        header: Header | None = None
        for line in lines:
            if not line.text.strip():
                yield Skipped(line.number, EMPTY)
                continue
            header = header_of(line.text.removeprefix("\ufeff"))
            if header:
                yield Skipped(line.number, "header rows")
                break
            yield Rejected(line.number, NO_HEADER, line.text)
        if header is None:
            return
        for row in joined_rows(((line.number, line.text) for line in lines), header):
            if isinstance(row, BadRow):
                yield Rejected(row.line_number, row.reason, row.text)
            else:
                yield self._job(row, dict(zip(header.names, row.fields, strict=True)))

    def _job(self, row: TextRow, job: Mapping[str, str]) -> Outcome:
        try:
            shown = words.job_id(job.get("JobID") or job.get("JobIDRaw", ""))
            state, _ = words.state(job["State"])
            nodes = [] if job.get("NodeList", "") in NO_NODES else words.hosts(job["NodeList"])
            times = _times(job, self._options.zone)
            cpu_time_ms = _cpu_ms(job)
        except ValueError as error:
            return Rejected(row.line_number, str(error), row.text)
        if shown.step:
            return Skipped(row.line_number, STEP)
        if times is None:
            return Skipped(row.line_number, NOT_OVER if "End" in job else NO_END)
        if "NodeList" in job and not nodes:
            return Skipped(row.line_number, NEVER_RAN)
        name = self._options.module or text_of(job.get("JobName", "")) or "slurm"
        invocation = row_of(
            "invocations",
            trace_id=shown.job_id,
            span_id=id_from("sacct", job.get("Cluster", ""), shown.job_id, times.ts_enqueue, times.ts_start),
            module_id=name,
            instance_id=shown.job_id,
            **times.columns,
            node=nodes[0] if nodes else self._options.node,
            stage=self._options.stage,
            method="CLI",
            path=name,
            cpu_time_ms=cpu_time_ms,
            status=_exit_code(job.get("ExitCode", "")),
            host_id=None if nodes else self._options.host_id,
            state=state,
        )
        return Parsed(row.line_number, invocation, tuple(self._placements(invocation, nodes)))

    def _placements(self, job: Row, nodes: list[str]) -> Iterator[Row]:
        same = {name: job[name] for name in ("module_id", "instance_id", "stage", "host_id")}
        for node in nodes or [job["node"]]:
            for event, at in (("start", job["ts_start"]), ("stop", job["ts_end"])):
                if at is not None:
                    yield row_of("placement_events", ts=at, event=event, node_id=node, app_id=job["module_id"], **same)


def _times(job: Mapping[str, str], zone: tzinfo) -> Times | None:
    """None: the job has not ended."""
    end = _local(job.get("End", ""))
    if end is None:
        return None
    submit, start = _local(job.get("Submit", "")), _local(job.get("Start", ""))
    enqueued = None if submit is None else _ms(submit, zone)
    if start is None:
        return Times(enqueued, None, _ms(end, zone))
    elapsed = words.elapsed_seconds(job.get("ElapsedRaw", ""), job.get("Elapsed", "")) or 0
    return Times(enqueued, *_span(start, end, zone, elapsed * 1000))


def _span(start: datetime, end: datetime, zone: tzinfo, elapsed_ms: float) -> tuple[int, int]:
    """In the repeated hour when clocks are set back, the shortest span that is no shorter than the run."""
    begins, ends = ([_ms(at.replace(fold=fold), zone) for fold in (1, 0)] for at in (start, end))
    ways = [(begin, stop) for begin in begins for stop in ends if stop - begin >= elapsed_ms]
    return min(ways, key=lambda way: way[1] - way[0], default=(begins[-1], ends[-1]))


def _local(text: str) -> datetime | None:
    if text in NO_TIME:
        return None
    if not TIME.fullmatch(text):
        raise ValueError(f"{text[:64]!r} is not a time")
    return datetime.fromisoformat(text)


def _ms(local: datetime, zone: tzinfo) -> int:
    return epoch_ms(local.replace(tzinfo=zone))


def _cpu_ms(job: Mapping[str, str]) -> float | None:
    """CPU used, steps included; sacct's CPUTime is allocated CPU."""
    parts = ("UserCPU", "SystemCPU") if "UserCPU" in job and "SystemCPU" in job else ("TotalCPU",)
    texts = [job.get(name, "") for name in parts]
    return sum(round(words.seconds(text) * 1000, 6) for text in texts) if all(texts) else None


def _exit_code(text: str) -> int | None:
    """`0:9`: the code, or 128 plus the signal, as shells report it."""
    found = EXIT.fullmatch(text)
    if not found:
        return None
    return 128 + int(found["signal"]) if int(found["signal"]) else int(found["code"])

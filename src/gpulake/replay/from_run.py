"""A workload from a collected run: a task for each command or request that was traced.

What a process and its children used belongs to the invocations that it was serving at the time. A command has its
process for itself. The requests of a service share one: what it used is shared by those under way, so that nothing is
counted twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gpulake.core.config import GpuType
from gpulake.replay.fragments import Measured, Rates, Sizes, Stretch, fragments_of
from gpulake.replay.processes import (
    HostKey,
    Node,
    Processes,
    ProcessKey,
    Row,
    Usage,
    find_run,
    host_key,
    number,
    process_key,
    read_usage,
    whole,
)
from gpulake.replay.workload import Clockwork, Fragment, Host, Notes, Part, Task, Workload, part_of, powered

TASKS_OF_A_PART = 10_000
GUESSED_BYTES = 64 * 2**20


class Invocation(NamedTuple):
    submission_ms: int
    begin: int
    end: int
    name: str
    host: HostKey
    process: ProcessKey | None
    cpu_ms: float | None  # as traced
    bytes_moved: int


@dataclass(frozen=True)
class Run:
    nodes: Mapping[HostKey, Node]
    invocations: list[Invocation]
    usage: Usage


def from_run(path: Path, clock: Clockwork, gpu_types: Mapping[str, GpuType]) -> Workload:
    files = find_run(path)
    notes = Notes()
    nodes = files.nodes()
    processes = Processes(files)
    found = _invocations(files.rows("invocations.jsonl"), processes, notes)
    invocations = sorted(found, key=lambda each: each[:4])
    processes.name({each.process for each in invocations if each.process})
    usage = read_usage(files, processes)
    for name, count in files.unread.items():
        notes.remarks[f"lines of {name} that are no JSON objects"] += count
    if files.unparsed:
        notes.remarks["nodes left out, since they were not parsed: gpulake collect parse RUN_DIR"] += files.unparsed
    run = Run(nodes, invocations, usage)
    hosts = [powered(host, gpu_types) for host in _hosts(run, clock, notes)]
    origin = {"kind": "run", "path": str(path), "folders": len(files.folders)}
    return Workload(path.resolve().name, origin, _parts(run, clock, notes), notes, hosts, clock=clock)


def _invocations(rows: Iterable[tuple[str, Row]], processes: Processes, notes: Notes) -> Iterator[Invocation]:
    for folder, row in rows:
        notes.read += 1
        begin, end = whole(row.get("ts_start")), whole(row.get("ts_end"))
        service_ms = number(row.get("service_time_ms"))
        if begin is None and end is not None and service_ms is not None:
            begin = end - round(service_ms)
            notes.inferred["begin, from the end and the service time"] += 1
        reason = _reason(begin, end)
        if reason or begin is None or end is None:
            notes.left_out[reason] += 1
            continue
        if begin == end:
            end += 1
            notes.inferred["duration of 1 ms: it began and ended in the same millisecond"] += 1
        asked = whole(row.get("ts_enqueue"))
        if asked is None or asked > begin:
            notes.inferred["submission, from the begin"] += 1
            asked = begin
        name = "/".join(str(row[part]) for part in ("trace_id", "span_id") if row.get(part))
        host = host_key(folder, row)
        moved = (whole(row.get("bytes_in")) or 0) + (whole(row.get("bytes_out")) or 0)
        yield Invocation(
            max(0, asked),
            begin,
            end,
            name or f"{row.get('node')}:{row.get('pid')}",
            host,
            processes.find(host, process_key(folder, row), whole(row.get("pid")), begin, end),
            number(row.get("cpu_time_ms")),
            moved,
        )


def _reason(begin: int | None, end: int | None) -> str:
    if end is None:
        return "end unknown"
    if begin is None:
        return "begin unknown"
    if end < begin:
        return "ends before it begins"
    return "before the epoch" if begin < 0 else ""


def _parts(run: Run, clock: Clockwork, notes: Notes) -> Iterator[Part]:
    sharing = _sharing(run.invocations)
    tasks: list[Task] = []
    fragments: list[Fragment] = []
    for number_, invocation in enumerate(run.invocations):
        task, pieces = _task(number_, invocation, run, sharing, clock, notes)
        tasks.append(task)
        fragments += pieces
        if len(tasks) == TASKS_OF_A_PART:
            yield part_of(tasks, fragments)
            tasks, fragments = [], []
    if tasks:
        yield part_of(tasks, fragments)


def _sharing(invocations: Iterable[Invocation]) -> dict[ProcessKey, Rates]:
    """Of each process how many invocations it was serving, by time."""
    found: dict[ProcessKey, Rates] = defaultdict(Rates)
    for each in invocations:
        if each.process:
            found[each.process].add(Stretch(each.begin, each.end, 1.0))
    return found


def _task(
    number_: int,
    invocation: Invocation,
    run: Run,
    sharing: Mapping[ProcessKey, Rates],
    clock: Clockwork,
    notes: Notes,
) -> tuple[Task, list[Fragment]]:
    node = run.nodes.get(invocation.host)
    core_mhz = node.core_mhz if node and node.core_mhz else clock.core_mhz
    measured = Measured(
        invocation.begin,
        invocation.end,
        run.usage.cpu.get(invocation.process) if invocation.process else None,
        run.usage.gpu.get(invocation.process) if invocation.process else None,
        sharing[invocation.process] if invocation.process else None,
        invocation.cpu_ms,
        run.usage.gpus_between(invocation.process, invocation.begin, invocation.end),
    )
    sizes = Sizes(core_mhz, node.cores if node else None, clock.gpu_mhz, clock.gpu_cores)
    cut = fragments_of(number_, measured, sizes, notes)
    memory_kb = _memory_kb(invocation, node, run.usage, cut.sharers, notes)
    task = Task(
        number_,
        invocation.name,
        invocation.submission_ms,
        invocation.end - invocation.begin,
        cut.cpu_count,
        cut.cpu_count * core_mhz,
        memory_kb,
        cut.gpu_count,
        cut.gpu_capacity_mhz,
    )
    return task, cut.fragments


def _memory_kb(invocation: Invocation, node: Node | None, usage: Usage, sharers: int, notes: Notes) -> int:
    """In thousands of bytes, as the loader counts them."""
    peak = usage.peak_bytes(invocation.process, invocation.begin, invocation.end)
    if peak is None:
        notes.guessed["memory: twice the bytes moved, and 64 MiB at least"] += 1
        peak = max(GUESSED_BYTES, 2 * invocation.bytes_moved)
    kb = max(1, -(-peak // (sharers * 1000)))
    # What processes share counts for each; and OpenDC takes the megabytes of a task for mebibytes of its host.
    most_kb = max(1, node.memory_bytes // 2**20 * 1000) if node and node.memory_bytes else kb
    if kb > most_kb:
        notes.remarks["tasks with all memory of their node, or more: a little less, since OpenDC takes MB for MiB"] += 1
    return min(kb, most_kb)


def _hosts(run: Run, clock: Clockwork, notes: Notes) -> list[Host]:
    """The nodes of the run, those alike together; a node that an invocation names and nothing describes is one, too."""
    alike: dict[tuple[int | None, float, int | None, int, str | None], int] = defaultdict(int)
    for node in run.nodes.values():
        if not node.core_mhz:
            notes.guessed[f"clock rate of a core: {clock.core_mhz:g} MHz"] += 1
        alike[node.cores, node.core_mhz or clock.core_mhz, node.memory_bytes, node.gpus, node.gpu_name] += 1
    strange = {each.host for each in run.invocations} - set(run.nodes)
    if strange:
        notes.guessed["nodes of invocations that nodes.json does not have"] += len(strange)
        alike[None, clock.core_mhz, None, 0, None] += len(strange)
    kinds = sorted(alike.items(), key=str)
    return [
        Host(f"node-{place}", count, cores, mhz, memory, gpus, gpu_name if gpus else None)
        for place, ((cores, mhz, memory, gpus, gpu_name), count) in enumerate(kinds, start=1)
    ]

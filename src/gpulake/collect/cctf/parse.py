"""gpulake collect parse: the raw files of a node into RUN_DIR/cctf."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gpulake import __version__
from gpulake.collect.cctf import audit
from gpulake.collect.cctf.blocks import BlockCounts, Layout, Tick, names_of, ticks
from gpulake.collect.cctf.calendar import zone
from gpulake.collect.cctf.events import Events, invocation_files, with_processes
from gpulake.collect.cctf.files import (
    SUBJECTS,
    Rejects,
    SortedFile,
    key_of,
    line_key,
    locked,
    open_text,
    temporary,
    text_of,
    whole,
    write_json,
)
from gpulake.collect.cctf.logs import TICKS_PER_SECOND, Logs, read_processes
from gpulake.collect.cctf.metas import Metas, link_rows, module_rows, node_row, read_metas, run_id_of
from gpulake.collect.cctf.processes import Processes, ProcessFiles
from gpulake.collect.cctf.series import HostSeries, LinkSeries, cost_rows, event_rows, gpu_rows
from gpulake.collect.cctf.sysstat import LogReport
from gpulake.collect.rundir import RunDir
from gpulake.collect.segments import Block, Damage, read_moments
from gpulake.core.disk import replace
from gpulake.core.errors import GpulakeError, InputError
from gpulake.core.tables import cctf_tables

REJECTED = "rejected.jsonl"
# Raised by rows of a valid block that no collector wrote.
INVALID_ROWS = (TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError)
RAW_PROCESSES = "proc_metrics.jsonl"


@dataclass(frozen=True)
class Options:
    """How to read ambiguous text."""

    tz: str = "UTC"
    vmstat_unit: str = "auto"


@dataclass
class Tables:
    """The files being written, each with its sort key."""

    folder: Path
    files: dict[str, SortedFile] = field(default_factory=dict)
    _keys: dict[str, Callable[[Mapping[str, Any]], tuple[Any, ...]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for table in SUBJECTS:
            self.files[table] = SortedFile(self.folder / cctf_tables()[table].file, line_key(table))
            self._keys[table] = key_of(table)

    def add(self, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
        for row in rows:
            full = whole(table, row)
            self.files[table].add(self._keys[table](full), text_of(full))

    @property
    def processes(self) -> ProcessFiles:
        return ProcessFiles(self.files["proc_metrics"], self.files["proc_cpu"], self.files["proc_rss"])

    def finish(self) -> None:
        for file in self.files.values():
            if file.lines:
                file.finish()
            else:
                file.path.unlink(missing_ok=True)  # of an earlier parse


def parse(folder: Path, options: Options | None = None) -> dict[str, Any]:
    """Writes RUN_DIR/cctf and returns its audit."""
    options = options or Options()
    zone(options.tz)
    run = RunDir(folder)
    _check(run)
    try:
        with locked(run.cctf), _rejects(run.cctf / REJECTED) as rejects:
            return _Parse(run, options, rejects).write()
    except OSError as error:
        raise GpulakeError(f"cannot parse {folder}: {error}", "is there room, and may it be written?") from error


@contextmanager
def _rejects(path: Path) -> Iterator[Rejects]:
    """The file of rejected lines, which exists only if there are any."""
    source = temporary(path)
    with open_text(source) as output:
        rejects = Rejects(output)
        yield rejects
    if rejects.by_reason:
        replace(source, path)
    else:
        source.unlink()
        path.unlink(missing_ok=True)


def _check(run: RunDir) -> None:
    if not run.path.is_dir():
        raise InputError(f"no run directory at {run.path}", "name the folder of a node: runs/RUN/NODE")
    known = [
        run.segments,
        run.node_meta,
        *(run.path / name for name in ("cpu.log", "mem.log", "net.log", RAW_PROCESSES)),
    ]
    if not any(path.exists() for path in known) and not invocation_files(run.path):
        raise InputError(
            f"{run.path} has nothing that a collector left", "name the folder of a node, which has segments/ or cpu.log"
        )


class _Parse:
    """The state of one parse."""

    def __init__(self, run: RunDir, options: Options, rejects: Rejects) -> None:
        self.run = run
        self.options = options
        self.rejects = rejects
        self.metas: Metas = read_metas(run)
        self.counts = BlockCounts()
        self.tables = Tables(run.cctf)
        # For rows without names: those of the collector, if there was one.
        header = next((header for header, _, _ in read_moments(run.segments)), {})
        self.names = names_of(header, self.metas.names)
        self.events = Events(self.names, rejects)
        self.headers: dict[tuple[Any, Any], Mapping[str, Any]] = {}  # by node and host
        self.links = LinkSeries()
        self.gpus: dict[tuple[Any, Any], dict[str, str | None]] = {}  # by node and host: uuid and name
        self.logs: list[LogReport] = []
        self.left_alone: list[str] = []
        self.samples_without_process = 0

    def write(self) -> dict[str, Any]:
        invocations = SortedFile(self.run.cctf / "invocations", line_key("invocations"))
        try:
            self._read_events(invocations)
            processes = Processes(self.tables.processes, frozenset(self.events.pids))
            self._read_segments(processes)
            self._read_text()
            target = self.tables.files["invocations"]
            key = line_key("invocations")
            for line in with_processes(invocations.drain(), processes.lives):
                target.add(key(line), line)
            self.tables.finish()
        except BaseException:
            for file in (invocations, *self.tables.files.values()):
                file.discard()
            raise
        self._write_documents()
        return audit.write(self.run.cctf, self._facts(), processes.checks())

    def _read_events(self, invocations: SortedFile) -> None:
        for path in invocation_files(self.run.path):
            self.events.read("invocations", path, invocations)
        for path in (self.run.placement_events, self.run.system_stats):
            if path.is_file():
                self.events.read(path.stem, path, self.tables.files[path.stem])

    def _read_segments(self, processes: Processes) -> None:
        host = HostSeries()
        for tick, layout, block in ticks(self.run.segments, self.names, self.counts):
            self.headers.setdefault((tick.names.node, tick.names.host_id), layout.header)
            try:
                self._read_block(tick, layout, block, host, processes)
            except INVALID_ROWS as error:
                reason = f"rows of tick {block.tick} are not of their kind: {error}"
                self.counts.note_damage(Damage("segments", 0, reason, is_torn_tail=False))
        self.samples_without_process = processes.samples_without_process

    def _read_block(self, tick: Tick, layout: Layout, block: Block, host: HostSeries, processes: Processes) -> None:
        self.tables.add("host_metrics", host.rows(tick, layout, block))
        self.tables.add("link_metrics", self.links.rows(tick, layout, block))
        processes.tick(tick, layout, block)
        gpus, gpu_processes = gpu_rows(tick, layout, block, processes)
        for row in gpus:
            if not row["parent_uuid"]:
                self.gpus.setdefault((row["node"], row["host_id"]), {})[row["gpu_uuid"]] = row["gpu_name"]
        self.tables.add("gpu_metrics", gpus)
        self.tables.add("gpu_processes", gpu_processes)
        self.tables.add("node_events", event_rows(tick, layout, block))
        self.tables.add("system_stats", cost_rows(tick, layout, block))

    def _read_text(self) -> None:
        """The files of the reference collector, unless the segments contain the same."""
        logs = Logs(self.run.path, self.metas, self.names, zone(self.options.tz), self.options.vmstat_unit)
        files = self.tables.files
        if logs.has_host() and self._is_free("host_metrics", "cpu.log, mem.log"):
            self.logs += logs.write_host(files["host_metrics"])
        if logs.has_links() and self._is_free("link_metrics", "net.log"):
            self.logs.append(logs.write_links(files["link_metrics"]))
        path = self.run.path / RAW_PROCESSES
        if path.is_file() and self._is_free("proc_metrics", path.name):
            hertz = self.metas.node.get("ticks_per_second")
            ticks_per_second = hertz if isinstance(hertz, int) and hertz > 0 else TICKS_PER_SECOND
            read_processes(path, self.names, self.tables.processes, self.rejects, ticks_per_second)

    def _is_free(self, table: str, words: str) -> bool:
        if self.tables.files[table].lines:
            self.left_alone.append(words)
            return False
        return True

    def _write_documents(self) -> None:
        folder = self.run.cctf
        headers = self.headers or {(self.metas.names.node, self.metas.names.host_id): {}}
        nodes = []
        for names, header in headers.items():
            row = node_row(self.metas, header)
            gpus = self.gpus.get(names, {})
            if header:
                row["gpus"] = len(gpus)
                row["gpu_name"] = next((name for _, name in sorted(gpus.items(), key=str) if name), None)
            nodes.append(row)
        run_id = run_id_of(self.metas, self.headers.values(), self.run)
        for row in nodes:
            row["run_id"] = row["run_id"] or run_id
        write_json(folder / "nodes.json", nodes)
        write_json(folder / "links.json", link_rows(self.metas, self.links.links()))
        write_json(folder / "module_inventory.json", module_rows(self.metas, self.events.modules))
        write_json(folder / "run_meta.json", {"run_id": run_id, "meta": self._run_meta()})

    def _run_meta(self) -> dict[str, Any]:
        given = self.metas.run.get("meta") if isinstance(self.metas.run.get("meta"), dict) else self.metas.run
        return {
            **(given or {}),
            "format": "cctf",
            "parsed_by": f"gpulake {__version__}",
            "blocks": self.counts.blocks,
            "sessions": len(self.counts.sessions),
            "boots": len(self.counts.boots),
            "interval_ms": next((header.get("interval_ms") for header in self.headers.values()), None),
        }

    def _facts(self) -> dict[str, Any]:
        """Facts that the files themselves do not contain."""
        counts, rejects = self.counts, self.rejects
        return {
            "blocks": counts.blocks,
            "sessions": len(counts.sessions),
            "boots": len(counts.boots),
            "damaged_blocks": counts.damaged_blocks,
            "torn_tails": counts.torn_tails,
            "first_damage": [asdict(damage) for damage in counts.damage],
            "unknown_kinds": dict(sorted(counts.unknown_kinds.items())),
            "clock_steps": counts.clock_steps,
            "largest_clock_step_ms": counts.largest_clock_step_ms,
            "samples_without_process": self.samples_without_process,
            "logs": [report.as_dict() for report in self.logs],
            "left_alone": self.left_alone,
            "event_rows": dict(sorted(self.events.rows.items())),
            "duplicate_events": self.events.duplicates,
            "contradicting_spans": self.events.contradictions,
            "rejected_lines": [
                {"file": file, "reason": reason, "lines": lines}
                for (file, reason), lines in sorted(rejects.by_reason.items())
            ],
            "torn_lines": dict(sorted(rejects.torn.items())),
            "values_of_wrong_type": dict(sorted(rejects.misfits.items())),
            "unknown_fields": dict(sorted(rejects.unknown_fields.items())),
            "unreadable_files": list(self.metas.unreadable),
        }

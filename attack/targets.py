"""What reads files of others: every reader of `land`, and every parser of `collect`, `diagnose` and `act`."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import tarfile
import tomllib
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from attack.examples import EXAMPLES
from gpulake.act import weights
from gpulake.collect.adapters import ADAPTERS, AdapterOptions, Line
from gpulake.collect.cctf.parse import parse
from gpulake.collect.live.web_config import read_web_config
from gpulake.collect.lock import holder_of
from gpulake.collect.rundir import read_object
from gpulake.collect.segments import last_positions, read_blocks_once
from gpulake.core.clock import SystemClock
from gpulake.core.config import Config
from gpulake.core.progress import silent
from gpulake.diagnose.api import diagnose
from gpulake.diagnose.hang.blockage import find_hang
from gpulake.diagnose.hang.flight_recorder import read_dumps
from gpulake.diagnose.steps import read_steps
from gpulake.diagnose.telemetry import read_samples
from gpulake.lake import Lake
from gpulake.lake.rewritten import rewritten
from gpulake.lake.sanitise import sanitise
from gpulake.land.inputs import find_inputs, unpack
from gpulake.land.landing import land, recognise

MEMORY_LIMIT_MIB = 200
FIXTURES = Path(__file__).parents[1] / "tests" / "fixtures"


@dataclass(frozen=True)
class Target:
    name: str
    seeds: tuple[tuple[str, bytes], ...]  # names of files, and what they hold
    read: Callable[[Path], object]  # the file that was made worse, in a folder of its own
    weight: int = 1


def targets(folder: Path) -> list[Target]:
    seeds = tuple((example.name, example.whole) for examples in EXAMPLES.values() for example in examples)
    logs = tuple((f"job{number}.log", text) for number, text in enumerate(_logs()))
    packed = tuple((f"{name}{end}", pack(name, content)) for name, content in seeds for end, pack in PACKS.items())
    whole = Whole(folder / "lake")
    return [
        Target("land", seeds, _land_carefully, 20),
        Target("land whole", seeds, whole.land, 1),
        Target("unpack", packed, _unpack, 4),
        Target("adapters", _adapter_seeds(), _adapt, 5),
        Target("parse", _run_files(), _parse, 1),
        Target("segments", (("000001-000001.seg", _segment()),), _segments, 2),
        Target("diagnose", logs, diagnose, 2),
        Target("flight recorder", (("dump_0.json", json.dumps(DUMP).encode()),), _hang, 3),
        Target("steps", STEPS, read_steps, 2),
        Target("telemetry", _telemetry_seeds(seeds), lambda path: read_samples([path]), 2),
        Target("web config", (("web.yml", WEB.encode()),), read_web_config, 1),
        Target("weights", _weights(), weights.damage, 1),
        Target("run files", (("status.json", b'{"state": "stopped"}'), ("collector.lock", HOLDER)), _run_state, 1),
    ]


def _land_carefully(path: Path) -> None:
    (plain,) = unpack(find_inputs([path])[0], path.parent)
    layout = recognise(plain)
    if layout is None:
        return
    if layout.rewrite:
        with rewritten(plain.path, layout, path.with_name("clean")):
            return
    sanitise(plain.path, layout, path.with_name("clean.csv"))


@dataclass(frozen=True)
class Whole:
    """Through the engine, too, into a lake that is made anew now and then."""

    folder: Path

    def land(self, path: Path) -> None:
        lake = Lake(Config(lake=self.folder, threads=1, memory_limit=f"{MEMORY_LIMIT_MIB}MB"))
        if self.folder.exists() and sum(1 for _ in self.folder.rglob("*.parquet")) > 40:
            shutil.rmtree(self.folder)
        lake.create()
        with lake.writing():
            land(lake, [path], SystemClock(), silent)


def _unpack(path: Path) -> None:
    for plain in unpack(find_inputs([path])[0], path.parent):
        recognise(plain)


def _adapt(path: Path) -> None:
    content = path.read_bytes().decode("utf-8", "backslashreplace")
    lines = (Line(number, text) for number, text in enumerate(content.split("\n"), start=1))
    for _ in ADAPTERS.get(path.name)(AdapterOptions(node="n1")).read(lines):
        pass


def _parse(path: Path) -> None:
    parse(path.parent)


def _segments(path: Path) -> None:
    """Half of them with checksums that fit: whoever can write a segment can work them out."""
    content = path.read_bytes()
    if len(content) % 2:
        path.write_bytes(b"\n".join(map(_checked, content.split(b"\n"))))
    for _ in read_blocks_once(path.parent):
        pass
    last_positions(path.parent, "b00t")
    run = path.parent / "run"
    shutil.rmtree(run, ignore_errors=True)
    (run / "segments").mkdir(parents=True)
    path.rename(run / "segments" / path.name)
    parse(run)


def _checked(line: bytes) -> bytes:
    text = line.partition(b" ")[2]
    return b"%08x %s" % (zlib.crc32(text), text) if text else line


def _hang(path: Path) -> None:
    find_hang(read_dumps([path]))


def _run_state(path: Path) -> None:
    read_object(path)
    holder_of(path)


def _logs() -> Iterator[bytes]:
    for path in sorted((FIXTURES / "diagnose").glob("*.toml")):
        for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("log", []):
            if isinstance(entry.get("text"), str):
                yield entry["text"].encode()


def _tarred(name: str, content: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.size, member.mtime = len(content), 1_700_000_000
        member.pax_headers = {"comment": "x"}
        archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def zstd(content: bytes) -> bytes:
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, "zstd") as stream:
        stream.write(content)
    return bytes(out.getvalue())


PACKS: dict[str, Callable[[str, bytes], bytes]] = {
    ".gz": lambda _, content: gzip.compress(content, 1, mtime=0),
    ".zst": lambda _, content: zstd(content),
    ".tar": _tarred,
    ".tar.gz": lambda name, content: gzip.compress(_tarred(name, content), 1, mtime=0),
}


def _adapter_seeds() -> tuple[tuple[str, bytes], ...]:
    span = {"traceId": "a" * 32, "spanId": "b" * 16, "startTimeUnixNano": "1700000000000000000"}
    span["endTimeUnixNano"] = "1700000001000000000"
    texts = {
        "nginx": '10.0.0.1 - - [15/Nov/2025:15:28:01 +0100] "GET /a HTTP/1.1" 200 5 "-" "curl" 312 0.250 t1\n' * 2,
        "envoy": '[2016-04-15T20:17:00.310Z] "POST /a HTTP/2" 204 - 154 0 226 100 "1.0.3.2" "n" "r1" "x" "tcp://a:8"\n'
        '{"start_time":"2016-04-15T20:17:00.310Z","duration":12,"method":"GET","path":"/x","request_id":"r2"}\n',
        "sacct": "JobID|State|Submit|Start|End|NodeList\n"
        "7|COMPLETED|2024-05-01T09:00:00|2024-05-01T10:00:00|2024-05-01T11:00:00|n[1-2]\n",
        "otlp": json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}) + "\n",
    }
    return tuple((name, texts[name].encode()) for name in ADAPTERS)


def _segment() -> bytes:
    """The beginning of one that a collector wrote."""
    with tarfile.open(FIXTURES / "h200_run.tar.gz") as archive:
        file = archive.extractfile("gpu0/segments/000001-000001.seg")
        assert file
        lines = [line for line in file.read().split(b"\n") if line]
    return b"\n".join(lines[:2] + lines[10:16]) + b"\n"


def _run_files() -> tuple[tuple[str, bytes], ...]:
    names = "CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle"
    values = "all    6.00    1.00    1.00    1.00    0.50    0.50    0.00    0.00    0.00   90.00"
    title = " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st                 UTC"
    texts = {
        "cpu.log": f"Linux 5.4.0 (vm) \t09/16/25 \t_x86_64_\t(4 CPU)\n\n10:00:00     {names}\n10:00:01     {values}\n",
        "mem.log": f"procs\n{title}\n 1  2      3  4096    152   4582    0    0     0     4    3    3  1  0 99  0  0 "
        "2025-09-16 10:00:01\n",
        "net.log": "  Time           ens2       \nHH:MM:SS   KB/s in  KB/s out\n10:00:01      1.00      2.00\n",
        "proc_metrics.jsonl": '{"ts_ms": 1, "pid": 7, "rss_kb": 3, "utime": 0, "stime": 1}\n' * 2,
        "events.nginx.7.jsonl": '{"trace_id": "t", "ts_enqueue": 1, "ts_start": 1, "ts_end": 3, "node": "a"}\n' * 2,
        "node_meta.json": '{"run_id": "r", "node": "n1", "host": "h", "cpu_cores": 2, "mem_mb": 64}',
        "run_meta.json": '{"run_id": "r", "options": {"interval": 1}}',
        "link_meta.json": '{"iface": "e0", "BW_bps": 1000, "PR_s": null}',
        "placement_events.jsonl": '{"ts": 1, "event": "start", "node_id": "a", "pid": 7}\n',
        "system_stats.jsonl": '{"ts_ms": 1, "metric": "in_flight", "value": 0}\n',
        "module_inventory.json": '[{"module_id": "m"}]',
    }
    return tuple((name, text.encode()) for name, text in texts.items())


def _telemetry_seeds(seeds: tuple[tuple[str, bytes], ...]) -> tuple[tuple[str, bytes], ...]:
    known = ("page.prom", "node.csv", "n1.dmesg.log", "gpu_metrics.jsonl", "host_metrics.jsonl", "node_events.jsonl")
    return tuple((name, content) for name, content in seeds if name in known)


def _weights() -> tuple[tuple[str, bytes], ...]:
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    return (("model.safetensors", len(header).to_bytes(8, "little") + header + bytes(4)),)


ENTRY = {
    "record_id": 0,
    "pg_id": 0,
    "process_group": ["0", "default_pg"],
    "collective_seq_id": 1,
    "p2p_seq_id": 0,
    "op_id": 1,
    "profiling_name": "nccl:all_reduce",
    "time_created_ns": 1,
    "input_sizes": [[3]],
    "is_p2p": False,
    "output_sizes": [[3]],
    "state": "started",
    "retired": False,
    "timeout_ms": 600000,
    "frames": [],
}
DUMP = {
    "version": "2.4",
    "rank": 0,
    "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
    "pg_status": {"0": {"last_enqueued_collective": 1, "last_started_collective": 1, "last_completed_collective": 0}},
    "entries": [ENTRY, {**ENTRY, "record_id": 1, "collective_seq_id": 2, "state": "scheduled"}],
}
STEPS = (
    ("steps.jsonl", b'{"ts_ms": 1794733040858, "step_ms": 37.4}\n{"ts_ms": 1794733040900, "step_ms": 38}\n'),
    ("steps.csv", b"time,seconds\n2026-01-01T00:00:00Z,1.5\n2026-01-01T00:00:02Z,1.5\n"),
    ("train.log", b"2026-01-01 00:00:00 step 1 of 9 took 1.5 s\n2026-01-01 00:00:02 iteration 2 elapsed 1.5 s\n"),
)
WEB = """tls_server_config: {cert_file: a.pem, key_file: a.key, min_version: TLS12}
http_server_config: {headers: {X-Frame-Options: deny}}
basic_auth_users: {prometheus: $2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW}
"""
HOLDER = b'{"pid": 1, "start_ticks": 1, "boot_id": "b", "host_id": "h", "host_name": "n"}'

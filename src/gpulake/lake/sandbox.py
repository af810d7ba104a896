"""Untrusted queries: each in a separate process without privileges, killed at its limits and used once."""

from __future__ import annotations

import json
import logging
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
import zoneinfo
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gpulake.core.config import Config
from gpulake.core.errors import GpulakeError, LakeError, UsageError
from gpulake.lake.child import MOST_BYTES

START_SECONDS = 60.0  # to open the lake, before the query is looked at
JUDGE_SECONDS = 20.0  # to start, and to refuse a query or let it through
END_SECONDS = 2.0
MOST_ERROR = 2**18  # bytes
ENGINE_SHARE = 0.7  # of the memory; rows on their way out take the rest
MOST_ANSWER = MOST_BYTES + 2**20  # with the names of its columns
# Rights go before anything that starts a thread is imported.
PROGRAM = """
import json, sys
from gpulake.core.confinement import drop_privileges
given = json.loads(sys.argv[1])
drop_privileges(given["readable"])
from gpulake.lake import child
getattr(child, given["work"])(given)
"""
# Of all that a server's environment holds, such as tokens, a query gets nothing. Threads and heaps cost memory.
ENVIRONMENT = {"LANG": "C.UTF-8", "MALLOC_ARENA_MAX": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
SYSTEM_FILES = (
    *("/dev/null", "/dev/urandom", "/etc/ld.so.cache", "/proc/self", "/proc/meminfo", "/proc/cpuinfo", "/proc/sys/vm"),
    *("/sys/devices/system/cpu", "/sys/fs/cgroup"),
)
_READY, _ROWS, _ERROR = b"ready\n", b"rows\n", b"error\n"
_UNITS = {"K": 1, "M": 2, "G": 3, "T": 4}
_LOG = logging.getLogger(__name__)
Child = subprocess.Popen[bytes]


class Sandbox:
    """Answers queries. One process waits, warm, for the next; one judges queries, and runs none."""

    def __init__(self, config: Config) -> None:
        self._config, self._limits = config, config.serve
        self._lock, self._spare = threading.Lock(), list[Child]()
        self._judging, self._judge = threading.Lock(), list[Child]()
        self._ending = weakref.finalize(self, _end_all, self._spare, self._judge)

    def prepare(self) -> None:
        """Starts what the next query needs, ahead of it."""
        with self._lock:
            if not self._spare and self._ending.alive:
                self._spare.append(self._start("main"))
        with self._judging:
            if not self._judge and self._ending.alive:
                self._judge.append(self._start("judge"))

    def close(self) -> None:
        with self._lock, self._judging:
            self._ending()

    def ask(self, query: str) -> bytes:
        """The answer as JSON: columns, rows, is_cut. It is passed on as it is: nothing here looks into it."""
        if refused := self._refused(query):
            raise refused
        with self._child() as child:
            _send(child, query)
            answer, is_ready, is_late = _read(child, self._limits.sql_seconds)
            status = _status(child, 0.0 if is_late else END_SECONDS)
        if status == 0 and answer.startswith(_ROWS) and len(answer) <= MOST_ANSWER:
            return answer.removeprefix(_ROWS)
        if status == 0 and answer.startswith(_ERROR) and len(answer) <= MOST_ERROR:
            raise _error_of(answer.removeprefix(_ERROR))
        if not is_ready:
            words = f"the process of a query ended with status {status} before it began"
            raise LakeError(words, "see what is missing with: gpulake doctor")
        if is_late or status == -signal.SIGXCPU:
            words = f"the query took more than {self._limits.sql_seconds:g} seconds"
            raise UsageError(words, "narrow it, or raise sql_seconds in [serve] of gpulake.toml")
        if len(answer) > MOST_ANSWER:
            raise UsageError(f"the answer has more than {MOST_ANSWER:,} bytes", "name fewer columns, or add a LIMIT")
        _LOG.warning("a query crashed its process status=%d", status)
        words = f"the query crashed the engine ({_signal(status)})"
        hint = f"narrow it, in case it needs more memory than {self._limits.sql_memory}; only its process was affected"
        raise UsageError(words, hint)

    def _refused(self, query: str) -> GpulakeError | None:
        """What is let through is judged again where it runs: a judge that fails is replaced, and that is all."""
        with self._judging:
            if not self._judge:
                self._judge.append(self._start("judge"))
            found = _verdict(self._judge[0], query)
            if not found.endswith(b"\n") or not self._ending.alive:
                _end_all(self._judge)
        return _error_of(found) if found.endswith(b"\n") and found != b"{}\n" else None

    @contextmanager
    def _child(self) -> Iterator[Child]:
        with self._lock:
            child = self._spare.pop() if self._spare else None
        if child is not None and child.poll() is not None:
            _end(child)
            child = None
        child = child or self._start("main")
        try:
            yield child
        finally:
            _end(child)
            self.prepare()

    def _start(self, work: str) -> Child:
        modules, memory = _module_folders(), size(self._limits.sql_memory)
        given = {
            "work": work,
            "lake": str(self._config.lake.absolute()),
            "threads": self._config.threads or os.cpu_count() or 1,
            "memory_bytes": memory,
            "memory_limit": f"{int(memory * ENGINE_SHARE / 1000)}KB",
            "seconds": self._limits.sql_seconds,
            "rows": self._limits.sql_rows,
            "readable": [*modules, *_library_folders(), *_lake_folders(self._config.lake), *SYSTEM_FILES],
        }
        environment = {**ENVIRONMENT, "PYTHONPATH": os.pathsep.join(modules)}
        return subprocess.Popen(  # noqa: S603 - our own program; the query goes to its stdin
            [sys.executable, "-P", "-c", PROGRAM, json.dumps(given)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
            env=environment,
            # Ctrl-C is for the server, which ends them.
            start_new_session=True,
        )


def size(words: str) -> int:
    """Bytes of a setting such as 400MB or 2GiB."""
    found = re.fullmatch(r"([\d.]+) ?([KMGT])(i?)B", words)
    if found is None:
        raise UsageError(f"a size is {words!r}", "write it like 400MB or 2GB")
    return int(float(found[1]) * (1024 if found[3] else 1000) ** _UNITS[found[2]])


def _module_folders() -> list[str]:
    """Where Python finds its modules, without the current directory."""
    ours = Path(__file__).parents[2]
    found = [str(ours), *(path for path in sys.path if path and Path(path) != Path.cwd())]
    return list(dict.fromkeys(found))


def _library_folders() -> set[str]:
    """Of the shared libraries that this process uses: the engine's too, wherever a distribution puts them."""
    maps = Path("/proc/self/maps")
    mapped = {line.split(maxsplit=5)[-1] for line in (maps.read_text().splitlines() if maps.exists() else ())}
    libraries = {str(Path(path).parent) for path in mapped if path.startswith("/") and ".so" in path}
    return {*libraries, sys.prefix, sys.base_prefix, *zoneinfo.TZPATH}


def _lake_folders(lake: Path) -> set[str]:
    """Parts of a lake may be links to another disk."""
    parts = (part for part in lake.iterdir() if part.is_symlink()) if lake.is_dir() else ()
    return {str(path.resolve()) for path in (lake, *parts)}


def _send(child: Child, query: str) -> None:
    assert child.stdin is not None
    with suppress(BrokenPipeError):  # it has ended; how is seen later
        child.stdin.write(query.encode())
    with suppress(BrokenPipeError):
        child.stdin.close()


def _read(child: Child, seconds: float) -> tuple[bytes, bool, bool]:
    """What it wrote after `ready`, whether it came to that, and whether it was too late: its time begins there."""
    assert child.stdout is not None
    parts, length, is_ready = list[bytes](), 0, False
    source, deadline = child.stdout.fileno(), time.monotonic() + START_SECONDS
    waiting = select.poll()
    waiting.register(source, select.POLLIN)
    while length <= MOST_ANSWER:
        if not waiting.poll(max(0.0, deadline - time.monotonic()) * 1000):
            return b"", is_ready, True
        part = os.read(source, 2**16)
        if not part:
            break
        if not is_ready and part.startswith(_READY):
            is_ready, part, deadline = True, part.removeprefix(_READY), time.monotonic() + seconds
        parts.append(part)
        length += len(part)
    else:
        child.kill()
    return b"".join(parts), is_ready, False


def _status(child: Child, seconds: float) -> int:
    """The exit status. Its output is complete, so a process that does not end by itself is killed."""
    try:
        return child.wait(seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.wait()


def _verdict(judge: Child, query: str) -> bytes:
    """A line of JSON, empty if the query may run; incomplete after a timeout."""
    assert judge.stdin is not None
    assert judge.stdout is not None
    found, deadline = b"", time.monotonic() + JUDGE_SECONDS
    try:
        judge.stdin.write(json.dumps(query).encode() + b"\n")
        judge.stdin.flush()
    except BrokenPipeError:
        return b""
    waiting = select.poll()
    waiting.register(judge.stdout, select.POLLIN)
    while not found.endswith(b"\n") and len(found) < MOST_ERROR:
        if not waiting.poll(max(0.0, deadline - time.monotonic()) * 1000):
            break
        part = os.read(judge.stdout.fileno(), 2**16)
        if not part:
            break
        found += part
    return found


def _error_of(words: bytes) -> GpulakeError:
    try:
        found = json.loads(words)
        kind = UsageError if found["is_usage"] else LakeError
        return kind(str(found["error"]), str(found["hint"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return UsageError("the process of the query answered with what is no answer", "write it in another way")


def _signal(status: int) -> str:
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"status {status}"


def _end(child: Child) -> None:
    child.kill()
    child.wait()
    for pipe in (child.stdin, child.stdout):
        assert pipe is not None
        with suppress(BrokenPipeError):
            pipe.close()


def _end_all(*lists: list[Child]) -> None:
    for children in lists:
        while children:
            _end(children.pop())

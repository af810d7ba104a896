"""Trace a command: when it began and ended, its exit code and resources. It runs as it would untraced.

Its placement, an open invocation and the file named by its pid are on the disk before it runs; if the tracer is killed,
the invocation stays open: without a status, and with its start as its end. If the trace cannot be written, the command
still runs.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import stat
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from gpulake.collect.machine.owners import TRACE_VARIABLE
from gpulake.collect.machine.procfs import read_text
from gpulake.collect.rundir import open_file
from gpulake.collect.tracing.appending import append_synced
from gpulake.collect.tracing.invocation import Place, Row, Times, TraceContext, context_from, row_of
from gpulake.core.clock import Clock
from gpulake.core.errors import UsageError

NOT_FOUND = 127
NOT_RUN = 126
FROM_TERMINAL = {signal.SIGINT, signal.SIGQUIT}
FORWARDED = FROM_TERMINAL | {signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM}
SI_KERNEL = 0x80
CPUS = re.compile(r"\d{1,5}(-\d{1,5})?(,\d{1,5}(-\d{1,5})?)*", re.ASCII)
DEFAULT_AGAIN = (signal.SIGPIPE, signal.SIGXFSZ)  # Python ignores them


@dataclass(frozen=True)
class Command:
    arguments: tuple[str, ...]
    module: str = ""
    app: str = ""
    input: str | None = None
    output: str | None = None
    enqueued_ms: int | None = None
    cpus: frozenset[int] = frozenset()
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def program(self) -> str:
        return Path(self.arguments[0]).name or self.arguments[0]


@dataclass(frozen=True)
class Ended:
    code: int
    error: str  # why it could not run; empty if it ran
    context: TraceContext


def run_command(command: Command, place: Place, clock: Clock, say: Callable[[str], None]) -> Ended:
    """Runs the command to its end. Its exit code is 128 plus the signal if a signal killed it."""
    names = {"traceparent": "TRACEPARENT", "x-trace-id": "TRACE_ID", "tracestate": "TRACESTATE"}
    context = context_from({name: command.environment.get(variable, "") for name, variable in names.items()})
    # Blocked from here on, and forwarded one by one; the command gets the original mask.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED | {signal.SIGCHLD})
    # With SIGCHLD ignored, as a parent may have set it, the exit status of a child is lost.
    on_end = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        child = _Child(command, context, place, clock, _Signals(before, on_end))
        trace = _Trace(command, context, place, child, say)
        trace.begin()
        error = child.release()
        child.wait()
        trace.end(clock)
        return Ended(child.code if not error else _code_of(error), os.strerror(error) if error else "", context)
    finally:
        signal.signal(signal.SIGCHLD, on_end)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Signals(NamedTuple):
    """The original signal settings, which the command gets."""

    mask: set[int | signal.Signals]
    on_end: Any  # handler of SIGCHLD


class _Child:
    """A forked process that waits before it executes the command, until it is released."""

    def __init__(self, command: Command, context: TraceContext, place: Place, clock: Clock, signals: _Signals) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        gate_in, self._gate = os.pipe()
        self._errors, errors_out = os.pipe()
        self._began_ms = clock.now().timestamp() * 1000
        self._began = clock.elapsed()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._gate)
            os.close(self._errors)
            _become(command, context, gate_in, errors_out, signals)
        os.close(gate_in)
        os.close(errors_out)
        self.proc_id = place.proc_id(self.pid)
        self.cpu_time_ms: float | None = None
        self.bytes_in: int | None = None
        self.bytes_out: int | None = None
        self.code = 0

    def release(self) -> int:
        """Lets the command run. The error number if it cannot; 0 if it runs."""
        os.write(self._gate, b".")
        os.close(self._gate)
        error = os.read(self._errors, 16)
        os.close(self._errors)
        return int(error or b"0")

    def wait(self) -> None:
        """Forwards signals until the process has ended; /proc is read before it is reaped."""
        while os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            received = signal.sigwaitinfo(FORWARDED | {signal.SIGCHLD})
            # The keys of a terminal signal the whole foreground group: the command has this one already.
            is_delivered = received.si_signo in FROM_TERMINAL and received.si_code == SI_KERNEL
            if received.si_signo != signal.SIGCHLD and not is_delivered:
                with suppress(ProcessLookupError):
                    os.kill(self.pid, received.si_signo)
        self.bytes_in, self.bytes_out = _bytes(self.pid)
        _, status, usage = os.wait4(self.pid, 0)
        self.cpu_time_ms = round((usage.ru_utime + usage.ru_stime) * 1000, 3)
        code = os.waitstatus_to_exitcode(status)
        self.code = 128 - code if code < 0 else code

    @property
    def began_ms(self) -> int:
        return int(self._began_ms)

    def times(self, clock: Clock | None, enqueued_ms: int | None) -> Times:
        """The duration is measured by a clock that cannot be set; without one, it has only begun."""
        ended_ms = int(self._began_ms + (clock.elapsed() - self._began if clock is not None else 0.0) * 1000)
        is_before = enqueued_ms is not None and 0 <= enqueued_ms <= self.began_ms
        return Times(enqueued_ms if is_before else self.began_ms, self.began_ms, ended_ms)


class _Trace:
    """The files of a traced command."""

    def __init__(
        self, command: Command, context: TraceContext, place: Place, child: _Child, say: Callable[[str], None]
    ) -> None:
        self._command = command
        self._context = context
        self._place = place
        self._child = child
        self._say = say
        self._module = command.module or command.program
        self._sentinel = place.run.path / "pids" / str(child.pid)
        written = place.run.events("exec", os.getpid())
        self._open = written.with_name(f"{written.stem}.open.jsonl")  # sorted after the file with the end

    def begin(self) -> None:
        try:
            self._sentinel.parent.mkdir(parents=True, exist_ok=True)
            with os.fdopen(open_file(self._sentinel, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "w") as sentinel:
                sentinel.write(f"{self._child.proc_id or ''}\n")
            append_synced(self._place.run.placement_events, [self._placement("start", self._child.began_ms)])
            append_synced(self._open, [self._invocation(self._child.times(None, self._command.enqueued_ms))])
        except OSError as error:
            self._say(f"the start is not traced: {error}")

    def end(self, clock: Clock) -> None:
        times = self._child.times(clock, self._command.enqueued_ms)
        invocation = self._invocation(times) | {"status": self._child.code}
        try:
            append_synced(self._place.run.events("exec", os.getpid()), [invocation])
            append_synced(self._place.run.placement_events, [self._placement("stop", times.ts_end)])
            self._open.unlink(missing_ok=True)
            self._sentinel.unlink(missing_ok=True)
        except OSError as error:
            self._say(f"the end is not traced: {error}")

    def _invocation(self, times: Times) -> Row:
        command, child, place = self._command, self._child, self._place
        return row_of(
            "invocations",
            trace_id=self._context.trace_id,
            span_id=self._context.span_id,
            parent_id=self._context.parent_id,
            module_id=self._module,
            instance_id=f"pid-{child.pid}",
            **times.columns,
            node=place.node,
            stage=place.stage,
            method="CLI",
            path=command.program,
            bytes_in=child.bytes_in,
            bytes_out=child.bytes_out,
            cpu_time_ms=child.cpu_time_ms,
            pid=child.pid,
            host_id=place.host_id,
            proc_id=child.proc_id,
            input=command.input,
            output=command.output if command.output is not None else _written_file(),
        )

    def _placement(self, event: str, at_ms: int) -> Row:
        app = self._command.app or self._module
        pid = self._child.pid
        return self._place.placement(
            event, at_ms, app_id=app, module_id=self._module, instance_id=f"pid-{pid}", pid=pid
        )


def _become(command: Command, context: TraceContext, gate: int, errors: int, signals: _Signals) -> None:
    """In the child: waits to be released, and executes the command. Never returns."""
    code = NOT_RUN
    try:
        if not os.read(gate, 1):
            os._exit(NOT_RUN)  # the tracer was killed
        for number in DEFAULT_AGAIN:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGCHLD, signals.on_end)
        signal.pthread_sigmask(signal.SIG_SETMASK, signals.mask)
        if command.cpus:
            os.sched_setaffinity(0, command.cpus)
        environment = dict(command.environment) | context.environment() | {TRACE_VARIABLE: context.trace_id}
        os.execvpe(command.arguments[0], list(command.arguments), environment)  # noqa: S606 - a list, no shell
    except (OSError, ValueError) as error:
        reason = error.errno if isinstance(error, OSError) and error.errno else errno.EINVAL
        code = _code_of(reason)
        os.write(errors, b"%d" % reason)
    finally:
        os._exit(code)


def _written_file() -> str | None:
    """The file that the command's output goes to: by it a log is known to be this command's."""
    for number in (1, 2):
        with suppress(OSError):
            if stat.S_ISREG(os.fstat(number).st_mode):
                return str(Path(f"/proc/self/fd/{number}").readlink())
    return None


def _code_of(error: int) -> int:
    """The exit code of shells."""
    return NOT_FOUND if error in (errno.ENOENT, errno.ENOTDIR) else NOT_RUN


def cpus_of(text: str, allowed: set[int]) -> frozenset[int]:
    """`0-3,7`; empty: no restriction."""
    if not text:
        return frozenset()
    if not CPUS.fullmatch(text):
        raise UsageError(f"{text!r} are not CPUs", "write them like 0-3,7")
    chosen: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        chosen.update(range(int(first), int(last or first) + 1))
    if not chosen or not chosen <= allowed:
        raise UsageError(f"CPUs {text} are not all here", f"choose from: {','.join(map(str, sorted(allowed)))}")
    return frozenset(chosen)


def _bytes(pid: int) -> tuple[int | None, int | None]:
    """Bytes read and written by the process and its children, files and all else; None if not permitted."""
    try:
        counters = dict(line.split(": ") for line in read_text(f"/proc/{pid}/io").splitlines())
        return int(counters["rchar"]), int(counters["wchar"])
    except (ValueError, KeyError):
        return None, None

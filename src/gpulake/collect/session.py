"""One session of a collector in this process: lock, sources, metadata, files and loop."""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from gpulake import __version__
from gpulake.collect import lock
from gpulake.collect.identity import Identity, identify
from gpulake.collect.machine.ping import split_peer
from gpulake.collect.machine.process_table import Selection
from gpulake.collect.reading import Notices
from gpulake.collect.rows import Row
from gpulake.collect.rundir import RunDir, StatusFile, prepare, read_object
from gpulake.collect.sampler import Acknowledged, Observer, Sampler, SourceObserver, Wait, header_of
from gpulake.collect.segments import SegmentWriter, last_positions
from gpulake.collect.settings import LEAST_CAP_BYTES, LEAST_INTERVAL_SECONDS, Settings
from gpulake.collect.sources import SOURCES, Closable, Machine, NoData, Source
from gpulake.collect.sources.nic import default_interfaces
from gpulake.core.clock import Clock, SystemClock
from gpulake.core.disk import replace_text
from gpulake.core.errors import GpulakeError, UsageError


def write_metas(run: RunDir, identity: Identity, settings: Settings) -> None:
    """Writes node_meta.json, link_meta.json and run_meta.json, each atomically. Raises OSError."""
    iface = settings.interface or next(iter(default_interfaces(Path("/proc"))), "")
    _write(run.node_meta, node_meta(identity, iface))
    _write(run.link_meta, link_meta(iface))
    # Keys that other tools wrote, such as the load, are kept.
    _write(run.run_meta, read_object(run.run_meta) | run_meta(identity, settings))


def node_meta(identity: Identity, iface: str) -> dict[str, Any]:
    return {
        "run_id": identity.run_id,
        "node": identity.node_id,
        "stage": identity.stage,
        "host": identity.host_name,
        "iface": iface,
        "cpu_cores": identity.cpu_cores,
        "mem_mb": identity.memory_bytes >> 20,
        "cpu_model": identity.cpu_model,
        "cpu_freq_mhz": identity.cpu_freq_mhz,
        "host_id": identity.host_id,
    }


def link_meta(iface: str) -> dict[str, Any]:
    """The propagation delay is unknown until round trips are sampled."""
    try:
        megabits = int((Path("/sys/class/net") / iface / "speed").read_text())
    except (OSError, ValueError):
        megabits = 0
    return {"iface": iface, "BW_bps": max(megabits, 0) * 1_000_000, "PR_s": None}


def run_meta(identity: Identity, settings: Settings) -> dict[str, Any]:
    return {
        "run_id": identity.run_id,
        "node_id": identity.node_id,
        "host_id": identity.host_id,
        "boot_id": identity.boot_id,
        "stage": identity.stage,
        "gpulake": __version__,
        "options": {name: _plain(value) for name, value in asdict(settings).items()},
    }


def _plain(value: object) -> object:
    if isinstance(value, Path):
        return str(value)
    return None if value == float("inf") else value


def _write(path: Path, content: Mapping[str, Any]) -> None:
    replace_text(path, json.dumps(content, indent=2) + "\n")


LONGEST_WAIT_SECONDS = 86_400.0  # poll cannot wait longer than some weeks
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class StopSignals:
    """While open, a stop signal ends the wait, but does not interrupt a tick."""

    def __enter__(self) -> Self:
        self._is_asked = False
        self._woken, self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(self._woken, select.POLLIN)
        self._wakeup = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        self._former = {name: signal.signal(name, self._noted) for name in STOP_SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for name, former in self._former.items():
            signal.signal(name, former)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._woken)
        os.close(self._wake)

    def wait(self, seconds: float) -> bool:
        """Whether it is time to stop. The wait may end early, by another signal or after a day."""
        if not self._is_asked and self._poll.poll(math.ceil(min(seconds, LONGEST_WAIT_SECONDS) * 1000)):
            os.read(self._woken, 4096)
        return self._is_asked

    def _noted(self, _number: int, _frame: FrameType | None) -> None:
        self._is_asked = True


@dataclass(frozen=True)
class Absent:
    """Placeholder for a source that could not be built on this host."""

    reason: str

    def read(self, clock: Clock) -> Iterable[Row]:  # noqa: ARG002 - the protocol's signature
        raise NoData(self.reason)


def collect(
    settings: Settings,
    wait: Wait,
    *,
    echo: Callable[[str], None],
    observers: Sequence[Observer] = (),
    source_observers: Sequence[SourceObserver] = (),
    acknowledged: Acknowledged = lambda *_: None,
) -> RunDir:
    """Collects until it is time to stop. Wrong settings raise before anything is written."""
    check(settings)
    identity = identity_of(settings)
    run = RunDir(settings.base / identity.run_id / identity.node_id)
    notices = Notices(echo)
    sources = build_sources(settings, notices)
    with _held(run, identity):
        try:
            write_metas(run, identity, settings)
        except OSError as error:
            notices.say("meta", str(error))
        writer, status = _files(run, identity, settings)
        sampler = Sampler(
            sources,
            writer,
            identity,
            SystemClock(),
            interval_seconds=settings.interval_seconds,
            positions=last_positions(run.segments, identity.boot_id),
            notices=notices,
            status=status,
            observers=observers,
            source_observers=source_observers,
            acknowledged=acknowledged,
        )
        with contextlib.closing(status), contextlib.closing(sampler):
            sampler.run(wait, settings.duration_seconds)
    return run


def check(settings: Settings) -> None:
    """Raises UsageError for settings that no collector accepts."""
    for name in settings.sources:
        SOURCES.get(name)
    if settings.interval_seconds < LEAST_INTERVAL_SECONDS:
        raise UsageError(
            f"the interval is {settings.interval_seconds:g} s", f"the shortest is {LEAST_INTERVAL_SECONDS * 1000:g}ms"
        )
    if settings.cap_bytes < LEAST_CAP_BYTES:
        raise UsageError(f"the cap is {settings.cap_bytes} bytes", f"the least is {LEAST_CAP_BYTES >> 20}MiB")
    Selection(Machine(match=settings.match))
    if settings.peer:
        split_peer(settings.peer)


def identity_of(settings: Settings) -> Identity:
    return identify(
        run_id=settings.run_id,
        node_id=settings.node_id,
        stage=settings.stage,
        cpu_freq_mhz=settings.cpu_freq_mhz,
    )


def build_sources(settings: Settings, notices: Notices) -> dict[str, Source]:
    """What the host does not have or does not permit is skipped and reported; mistakes of the user raise."""
    machine = Machine(
        interface=settings.interface,
        peer=settings.peer,
        match=settings.match,
        pid_dir=settings.pid_dir,
        cgroup=settings.cgroup,
        refresh_seconds=settings.interval_seconds if settings.has_refresh else 0.0,
        interval_seconds=settings.interval_seconds,
    )
    sources: dict[str, Source] = {}
    for name in settings.sources or SOURCES:
        build = SOURCES.get(name)
        try:
            sources[name] = build(replace(machine, say=partial(_say, notices, name)))
        except (NoData, OSError) as absence:
            sources[name] = Absent(str(absence))
    return sources


def try_sources(settings: Settings) -> None:
    """Raises UsageError for settings that a source of this machine rejects."""
    for source in build_sources(settings, Notices(lambda _: None)).values():
        if isinstance(source, Closable):
            source.close()


def _say(notices: Notices, name: str, message: str) -> None:
    notices.say(name, message.removeprefix(f"{name}: "))


@contextlib.contextmanager
def _held(run: RunDir, identity: Identity) -> Iterator[None]:
    try:
        prepare(run)
        file = lock.take(run.lock, boot_id=identity.boot_id, host_id=identity.host_id, host_name=identity.host_name)
    except lock.LockedError as error:
        who = f"by process {error.holder.pid} of {error.holder.host_name}" if error.holder else "by another process"
        raise UsageError(
            f"{run.path} is being collected {who}", "stop it with: gpulake collect stop; or use another --node-id"
        ) from error
    except OSError as error:
        raise _no_files(run, error) from error
    try:
        yield
    finally:
        os.close(file)


def _files(run: RunDir, identity: Identity, settings: Settings) -> tuple[SegmentWriter, StatusFile]:
    header = header_of(identity, settings.interval_seconds)
    try:
        return SegmentWriter(run.segments, header, cap_bytes=settings.cap_bytes), StatusFile(run.status)
    except OSError as error:
        raise _no_files(run, error) from error


def _no_files(run: RunDir, error: OSError) -> GpulakeError:
    return GpulakeError(f"no files in {run.path}: {error.strerror or error}", "choose another --dir, or make room")

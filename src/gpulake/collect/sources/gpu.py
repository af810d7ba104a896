"""GPUs through NVML. A worker process makes the calls, so that a driver that hangs or crashes does not stop the
collector or its other sources. This side starts the worker, reads its lines and kills it when it hangs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from gpulake.collect.gpus.child import Child
from gpulake.collect.rows import GpuProcess, GpuSample, NodeEvent, Row
from gpulake.collect.sources import SOURCES, Machine, NoData
from gpulake.core.clock import Clock

PATIENCE_SECONDS = 10.0  # without a line: the driver hangs
OPENING_SECONDS = 60.0  # the same while the driver is opened: many GPUs wake up slowly
LEAST_WAIT_SECONDS = 1.0  # before the restart of a failed worker; doubled each time
MOST_WAIT_SECONDS = 60.0
# One of these exists where a driver is installed: Linux, and Linux under Windows.
DRIVER_FILES = ("nvidiactl", "nvidia0", "dxg")
LOADED = "driver/nvidia/version"  # in /proc, once the module is loaded
SUBJECT = "gpu"


@SOURCES.register("gpu")
class Gpus:
    """`values_dropped` counts impossible values, `worker_cpu_seconds` is the CPU time of the workers."""

    def __init__(self, machine: Machine, *, nvml: str = "pynvml", patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._machine = machine
        self._nvml = nvml
        interval = machine.interval_seconds
        # With a long interval the first line comes only after it.
        self._patience_seconds = max(patience_seconds, interval + patience_seconds / 2)
        self._longest_pause_seconds = max(patience_seconds / 2, 2 * interval)
        self._child: Child | None = None
        self._is_killed = False
        self._started_at = 0.0
        self._heard_at = 0.0
        self._checked_at = 0.0
        self._silent_seconds = 0.0
        self._start_at = 0.0
        self._wait_seconds = LEAST_WAIT_SECONDS
        self._is_out = False  # reported as unresponsive
        self._has_answered = False
        self._known: dict[str, int] = {}  # GPUs: index by PCI address
        self._lost: set[str] = set()
        self._refused: set[str] = set()  # calls, reported
        self._former_dropped = 0
        self._former_cpu_seconds = 0.0
        self._child_dropped = 0
        self._child_cpu_seconds = 0.0

    @property
    def values_dropped(self) -> int:
        return self._former_dropped + self._child_dropped

    @property
    def worker_cpu_seconds(self) -> float:
        return self._former_cpu_seconds + self._child_cpu_seconds

    @property
    def worker_pid(self) -> int | None:
        return self._child.pid if self._child else None

    def read(self, clock: Clock) -> Iterable[Row]:
        """Rows of the worker since the last read. Never waits."""
        now = clock.elapsed()
        if self._child is None:
            self._start(now)
            return []
        return self._check(self._child, clock, now)

    def close(self) -> None:
        """Ends the worker permanently."""
        self._start_at = float("inf")
        if self._child:
            self._child.kill()
            self._child.wait()
            self._end(self._child)

    def _start(self, now: float) -> None:
        if now < self._start_at:
            return
        if not self._has_answered and not self._is_driver_here():
            raise NoData(f"no NVIDIA driver: none of {', '.join(DRIVER_FILES)} is in {self._machine.dev}")
        self._child = Child(
            {
                "nvml": self._nvml,
                "proc": str(self._machine.proc),
                "interval_seconds": self._machine.interval_seconds,
                "known": self._known,
            }
        )
        self._is_killed = False
        self._silent_seconds = 0.0
        self._started_at = self._heard_at = self._checked_at = now

    def _is_driver_here(self) -> bool:
        """The devices may not exist until the driver is first opened."""
        devices = (self._machine.dev / name for name in DRIVER_FILES)
        return any(path.exists() for path in (*devices, self._machine.proc / LOADED))

    def _check(self, child: Child, clock: Clock, now: float) -> list[Row]:
        # Pauses of the collector itself, stopped or asleep, do not count as silence of the worker.
        self._silent_seconds += min(now - self._checked_at, self._longest_pause_seconds)
        self._checked_at = now
        ending = child.ending()  # before reading lines, so that none is missed
        rows: list[Row] = []
        failure = ""
        for line in child.lines():
            self._silent_seconds = 0.0
            self._heard_at = now
            if "none" in line and not self._has_answered:
                self.close()
                raise NoData(line["none"])
            failure = line.get("none") or line.get("failed") or ""
            rows += self._rows(line, clock)
        if ending:
            if not self._is_killed:
                rows += self._fail(clock, failure or f"{ending}{_during(child.note)}")
            self._end(child)
            if self._heard_at - self._started_at >= MOST_WAIT_SECONDS:  # it worked for long
                self._wait_seconds = LEAST_WAIT_SECONDS
            self._start_at = now + self._wait_seconds
            self._wait_seconds = min(self._wait_seconds * 2, MOST_WAIT_SECONDS)
        elif self._silent_seconds >= self._patience_seconds and not self._is_killed:
            since = clock.now() - timedelta(seconds=self._silent_seconds)
            rows += self._fail(clock, f"no answer since {since:%Y-%m-%dT%H:%M:%SZ}{_during(child.note)}")
            if child.has_written or self._silent_seconds >= OPENING_SECONDS:
                child.kill()
                self._is_killed = True
        return rows

    def _rows(self, line: dict[str, Any], clock: Clock) -> list[Row]:
        if "rows" not in line:
            return []
        self._has_answered = True
        self._child_dropped = line["dropped"]
        self._child_cpu_seconds = line["cpu_seconds"]
        for call in set(line["refused"]) - self._refused:
            self._refused.add(call)
            self._machine.say(f"gpu: {call} needs more permission than the collector has: left out")
        samples = [GpuSample(*row) for row in line["rows"]["gpu"]]
        self._known |= {
            row.pci_bus_id: row.gpu_index for row in samples if row.pci_bus_id and row.gpu_index is not None
        }
        self._lost -= self._known.keys() & {row.pci_bus_id for row in samples}
        rows: list[Row] = []
        if samples:
            rows += self._back(clock)
        rows += samples
        rows += [GpuProcess(*row) for row in line["rows"]["gpu_process"]]
        for event in (NodeEvent(*row) for row in line["rows"]["event"]):
            if event.kind == "gpu_lost":
                if event.subject in self._lost:  # reported by an earlier worker
                    continue
                self._lost.add(event.subject)
            rows.append(event)
        return rows

    def _fail(self, clock: Clock, reason: str) -> list[Row]:
        if self._is_out:
            return []
        self._is_out = True
        return [self._event("gpu_unresponsive", clock, f"the worker that reads GPUs gave no samples: {reason}")]

    def _back(self, clock: Clock) -> list[Row]:
        if not self._is_out:
            return []
        self._is_out = False
        return [self._event("gpu_back", clock, "the worker that reads GPUs gives samples again")]

    def _event(self, kind: str, clock: Clock, message: str) -> NodeEvent:
        self._machine.say(f"gpu: {message}")
        return NodeEvent(int(clock.elapsed() * 1000), kind, SUBJECT, None, None, message, "collector")

    def _end(self, child: Child) -> None:
        child.close()
        self._child = None
        self._former_dropped, self._child_dropped = self.values_dropped, 0
        self._former_cpu_seconds, self._child_cpu_seconds = self.worker_cpu_seconds, 0.0


def _during(note: str) -> str:
    return f", in the call {note}" if note else ""

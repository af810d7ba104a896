"""GPUs through NVML. The calls are made by a worker, a process of its own, so that a driver that hangs or crashes stops
neither the collector nor its other sources. This side starts the worker, reads its lines and ends it when it hangs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from gpulake.collect.gpus.child import Child
from gpulake.collect.rows import GpuProcess, GpuSample, NodeEvent, Row
from gpulake.collect.sources import SOURCES, Machine, NoData
from gpulake.core.clock import Clock

PATIENCE_SECONDS = 10.0  # without a line, before the driver is said to hang
OPENING_SECONDS = 60.0  # without a line, before a worker that opens the driver is ended: many GPUs wake up slowly
LEAST_WAIT_SECONDS = 1.0  # before a worker that failed is followed by the next; doubled each time
MOST_WAIT_SECONDS = 60.0
# Any of these is there where a driver is: Linux, and Linux under Windows.
DRIVER_FILES = ("nvidiactl", "nvidia0", "dxg")
LOADED = "driver/nvidia/version"  # in /proc, once the kernel has it
SUBJECT = "gpu"


@SOURCES.register("gpu")
class Gpus:
    """`values_dropped` counts impossible values, `worker_cpu_seconds` is what the workers cost."""

    def __init__(self, machine: Machine, *, nvml: str = "pynvml", patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._machine = machine
        self._nvml = nvml
        interval = machine.interval_seconds
        # With a long interval, silence is nothing strange until it is over.
        self._patience_seconds = max(patience_seconds, interval + patience_seconds / 2)
        self._longest_look_seconds = max(patience_seconds / 2, 2 * interval)
        self._child: Child | None = None
        self._is_killed = False
        self._started_at = 0.0
        self._heard_at = 0.0
        self._looked_at = 0.0
        self._silent_seconds = 0.0
        self._start_at = 0.0
        self._wait_seconds = LEAST_WAIT_SECONDS
        self._is_out = False  # told to be unresponsive, and not back
        self._has_answered = False
        self._known: dict[str, int] = {}  # GPUs: index by PCI address
        self._lost: set[str] = set()
        self._said: set[str] = set()
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
        """What the worker wrote since the read before. It never waits."""
        now = clock.elapsed()
        if self._child is None:
            self._start(now)
            return []
        return self._look(self._child, clock, now)

    def close(self) -> None:
        """Ends the worker, for good."""
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
        self._started_at = self._heard_at = self._looked_at = now

    def _is_driver_here(self) -> bool:
        """Its devices may only be made once somebody opens it."""
        devices = (self._machine.dev / name for name in DRIVER_FILES)
        return any(path.exists() for path in (*devices, self._machine.proc / LOADED))

    def _look(self, child: Child, clock: Clock, now: float) -> list[Row]:
        # A collector that did not look, because it was stopped or the machine asleep, has not heard a silence.
        self._silent_seconds += min(now - self._looked_at, self._longest_look_seconds)
        self._looked_at = now
        ending = child.ending()  # before its lines: then the last of them is in the pipe
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
            if self._heard_at - self._started_at >= MOST_WAIT_SECONDS:  # it was well for long
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
        for call in line["refused"]:
            self._say(f"gpu: {call} needs more permission than the collector has: left out")
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
                if event.subject in self._lost:  # said by a worker before
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

    def _say(self, message: str) -> None:
        if message not in self._said:
            self._said.add(message)
            self._machine.say(message)


def _during(note: str) -> str:
    return f", in the call {note}" if note else ""

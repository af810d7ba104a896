"""Events in the kernel log: GPU errors (Xid), NVSwitch errors (SXid), OOM kills, links that go down and up.

/dev/kmsg is a ring buffer since boot: a restarted collector resumes at its position, and a new one begins with the
oldest record. A record has its own time.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable

from gpulake.collect.rows import NodeEvent
from gpulake.collect.sources import SOURCES, Machine, NoData
from gpulake.core.clock import Clock
from gpulake.formats.kernel import Kills, event_in

READ_BYTES = 1 << 14  # a record is at most 8 KiB
MOST_RECORDS = 20_000  # in one read; the rest waits for the next
_RECORD = re.compile(rb"\d+,(?P<seq>\d+),(?P<usec>\d+),[^;]*;(?P<message>.*)", re.DOTALL)


@SOURCES.register("kernel")
class Kernel:
    def __init__(self, machine: Machine) -> None:
        self._path = machine.dev / "kmsg"
        self._file = -1
        self._rest = b""  # of an incomplete line
        self._position = 0
        self._resumed_at = 0
        self._kills = Kills()
        self._killed_at = 0  # number of the first record of the last kill

    def position(self) -> int:
        """The number of the next record; 0 before the first."""
        return self._position

    def resume(self, position: int) -> None:
        """Resumes at the record of this number. After a reboot there is no record with such a high number."""
        self._position = self._resumed_at = position
        # Only a new descriptor reads from the start again.
        if self._file >= 0:
            os.close(self._file)
        self._file = -1
        self._rest = b""
        if position <= self._killed_at:  # its event was lost, and must be reported again
            self._kills = Kills()

    def read(self, clock: Clock) -> Iterable[NodeEvent]:
        self._open()
        records = self._records()
        if self._resumed_at and records:
            records = self._after_resumption(records)
        rows = []
        for sequence, elapsed_ms, message in records:
            if self._position and sequence > self._position:
                now_ms, lost = round(clock.elapsed() * 1000), sequence - self._position
                text = f"{lost} records of the kernel were overwritten before they were read"
                rows.append(NodeEvent(now_ms, "dropped", "kernel", None, None, text, "collector"))
            self._position = sequence + 1
            event = event_in(message)
            if event and self._kills.is_new(event, elapsed_ms):
                rows.append(NodeEvent(elapsed_ms, *event, message=message, source="kernel"))
                self._killed_at = sequence if event.kind == "oom_kill" else self._killed_at
        return rows

    def _open(self) -> None:
        if self._file >= 0:
            return
        try:
            self._file = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise NoData(f"there is no {self._path}") from error
        except OSError as error:
            raise NoData(f"{self._path}: {error.strerror}") from error

    def _records(self) -> list[tuple[int, int, str]]:
        """Number, milliseconds since boot and message of the available records."""
        records: list[tuple[int, int, str]] = []
        while len(records) < MOST_RECORDS or self._resumed_at:
            try:
                chunk = os.read(self._file, READ_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno == errno.EPIPE:  # records were overwritten: the next number shows how many
                    continue
                raise
            if not chunk:
                break
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            # Lines that begin with a space continue the record before.
            found = (_RECORD.fullmatch(line) for line in lines if not line.startswith(b" "))
            records += [
                (int(record["seq"]), int(record["usec"]) // 1000, record["message"].decode("utf-8", "replace"))
                for record in found
                if record
            ]
        return records

    def _after_resumption(self, records: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
        resumed_at, self._resumed_at = self._resumed_at, 0
        if records[-1][0] < resumed_at - 1:  # rebooted: numbers begin again
            self._position = 0
            return records
        return [record for record in records if record[0] >= resumed_at]

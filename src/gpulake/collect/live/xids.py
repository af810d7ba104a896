"""Xids since the collector began: total, recent and last, by GPU."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from gpulake.collect.rows import GpuSample

WINDOW_MS = 300_000  # dcgm-exporter's default
MOST_RECENT = 10_000
MOST_KEYS = 1_000  # a bound for untrusted text

PCI = re.compile(r"(?:PCI:)?(?:[0-9a-f]{4})?([0-9a-f]{4}):([0-9a-f]{2}):([0-9a-f]{2})(?:\.[0-9a-f])?", re.IGNORECASE)

Key = tuple[str, int]  # GPU (or the subject of the event, if it is no known GPU) and Xid


@dataclass(frozen=True)
class XidCounts:
    total: Mapping[Key, int]
    recent: Mapping[Key, int]
    last: Mapping[str, int]


class Xids:
    def __init__(self) -> None:
        self._total: dict[tuple[str, int, str], int] = {}  # by subject, code and source
        self._recent: deque[tuple[int, str, int, str]] = deque(maxlen=MOST_RECENT)
        self._last: dict[str, tuple[int, int]] = {}

    def add(self, elapsed_ms: int, subject: str, code: int, source: str) -> None:
        key = (subject, code, source)
        if key not in self._total and len(self._total) >= MOST_KEYS:
            return
        self._total[key] = self._total.get(key, 0) + 1
        self._recent.append((elapsed_ms, *key))
        self._last[subject] = max(self._last.get(subject, (0, 0)), (elapsed_ms, code))

    def counts(self, elapsed_ms: int, gpus: Mapping[str, GpuSample]) -> XidCounts:
        gpu_of = _by_address(gpus)
        recent: dict[tuple[str, int, str], int] = dict.fromkeys(self._total, 0)
        for at_ms, subject, code, source in self._recent:
            if elapsed_ms - at_ms <= WINDOW_MS:
                recent[subject, code, source] += 1
        last: dict[str, tuple[int, int]] = {}
        for subject, found in self._last.items():
            gpu = gpu_of(subject)
            last[gpu] = max(found, last.get(gpu, (0, 0)))
        return XidCounts(
            total=_once(self._total.items(), gpu_of),
            recent=_once(recent.items(), gpu_of),
            last={gpu: code for gpu, (_, code) in last.items()},
        )


def _once(counts: Iterable[tuple[tuple[str, int, str], int]], gpu_of: Callable[[str], str]) -> dict[Key, int]:
    """The kernel and NVML both report an Xid: the count is that of the source with more reports."""
    by_source: dict[tuple[str, int, str], int] = {}
    for (subject, code, source), count in counts:
        key = (gpu_of(subject), code, source)
        by_source[key] = by_source.get(key, 0) + count
    most: dict[Key, int] = {}
    for (gpu, code, _), count in by_source.items():
        most[gpu, code] = max(count, most.get((gpu, code), 0))
    return most


def _by_address(gpus: Mapping[str, GpuSample]) -> Callable[[str], str]:
    """The kernel names a GPU by its PCI address, NVML by its uuid."""
    uuids = {
        address(sample.pci_bus_id): uuid
        for uuid, sample in gpus.items()
        if sample.pci_bus_id is not None and sample.parent_uuid is None
    }
    return lambda subject: uuids.get(address(subject), subject)


def address(text: str) -> str:
    """A PCI address in one spelling; other texts unchanged."""
    found = PCI.fullmatch(text)
    return ":".join(found.groups()).lower() if found else text

"""One file a format. A reader says what it recognises, and how its text maps onto a bronze table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from gpulake.core.registry import Registry
from gpulake.core.types import CsvLayout


@dataclass(frozen=True)
class Sample:
    """The beginning of a file: enough to recognise it."""

    name: str  # without folders and without the suffix of a compression
    lines: tuple[str, ...]


class Reader(Protocol):
    def recognise(self, sample: Sample) -> CsvLayout | None: ...


READERS: Registry[Callable[[], Reader]] = Registry("reader", "gpulake.land.readers")

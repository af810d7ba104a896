"""A note that the worker leaves for its parent: which call into the driver it began last. It is shared memory, so that
it costs no system call, and it can be read when the worker hangs or is gone."""

from __future__ import annotations

import mmap
import os

SIZE_BYTES = 256


class Note:
    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, SIZE_BYTES)

    def write(self, text: str) -> None:
        self._memory[:] = text.encode("ascii", "replace")[:SIZE_BYTES].ljust(SIZE_BYTES, b"\0")

    def read(self) -> str:
        return self._memory[:].rstrip(b"\0").decode("ascii", "replace")

    def close(self) -> None:
        self._memory.close()


def create() -> int:
    """The descriptor of an empty note; it can be given to a child."""
    descriptor = os.memfd_create("gpulake-gpu-note")
    os.ftruncate(descriptor, SIZE_BYTES)
    return descriptor

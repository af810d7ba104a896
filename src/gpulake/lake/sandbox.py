"""A query of a stranger: in an engine of its own, with so much memory, time and so many rows, and no disk."""

from __future__ import annotations

import re
import resource
import threading
from pathlib import Path

import pyarrow as pa

from gpulake.core.config import Config
from gpulake.core.errors import UsageError
from gpulake.lake.store import Lake

MOST_BYTES = 64 * 2**20  # of an answer
ROOM_BYTES = 2 * 2**30  # for everything that is not the engine's
_UNITS = {"K": 1, "M": 2, "G": 3, "T": 4}


def ask(lake: Lake, query: str, seconds: float, rows: int) -> pa.Table:
    """One row more than asked for, where there are more. What takes too long is interrupted."""
    is_late = threading.Event()
    with lake.open().reading(may_spill=False) as reader:

        def interrupt() -> None:
            is_late.set()
            reader.connection.interrupt()

        timer = threading.Timer(seconds, interrupt)
        timer.daemon = True
        timer.start()
        try:
            found = reader.first(query, rows + 1)
        except UsageError as error:
            if is_late.is_set():
                hint = "narrow it, or raise sql_seconds in [serve] of gpulake.toml"
                raise UsageError(f"the query took more than {seconds:g} seconds", hint) from error
            raise
        except MemoryError as error:
            raise UsageError("the query needs more memory than there is", "narrow it") from error
        finally:
            timer.cancel()
    if found.nbytes > MOST_BYTES:
        raise UsageError(f"the answer has {found.nbytes:,} bytes", "name fewer columns, or add a LIMIT")
    return found


def bound_memory(config: Config, at_once: int) -> None:
    """Keeps this process from taking all of the machine: one long value is not counted by the engine's own limit."""
    engines = size(config.memory_limit) + at_once * size(config.serve.sql_memory)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    wanted = pages * resource.getpagesize() + 2 * engines + ROOM_BYTES
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    if most == resource.RLIM_INFINITY or wanted < most:
        resource.setrlimit(resource.RLIMIT_AS, (wanted, most))


def size(words: str) -> int:
    """Bytes of a setting such as 400MB or 2GiB."""
    found = re.fullmatch(r"([\d.]+) ?([KMGT])(i?)B", words)
    if found is None:
        raise UsageError(f"a size is {words!r}", "write it like 400MB or 2GB")
    return int(float(found[1]) * (1024 if found[3] else 1000) ** _UNITS[found[2]])

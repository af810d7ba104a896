"""A query of a stranger: in an engine of its own, with so much memory, time and so many rows, and no disk."""

from __future__ import annotations

import threading

import pyarrow as pa

from gpulake.core.errors import UsageError
from gpulake.lake.store import Lake


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
            return reader.first(query, rows + 1)
        except UsageError as error:
            if is_late.is_set():
                hint = "narrow it, or raise sql_seconds in [serve] of gpulake.toml"
                raise UsageError(f"the query took more than {seconds:g} seconds", hint) from error
            raise
        finally:
            timer.cancel()

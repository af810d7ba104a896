"""One row of `runs` a step: every command that writes to a lake does so inside `recorded`."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

from gpulake.core.clock import Clock
from gpulake.core.errors import LakeBusyError
from gpulake.core.types import Run
from gpulake.lake import Lake


def new_run_id() -> str:
    return uuid.uuid4().hex[:12]


@contextmanager
def recorded(
    lake: Lake, clock: Clock, step: str, run_id: str = "", is_reader: bool = False
) -> Iterator[dict[str, object]]:
    """Yields the detail of the row. A step that only reads leaves no row in a lake that cannot be written to."""
    started_at = clock.now()
    begin = time.perf_counter()
    detail: dict[str, object] = {}

    def record(status: Any) -> None:
        with suppress(LakeBusyError) if is_reader else nullcontext():
            seconds = time.perf_counter() - begin
            lake.record(Run(run_id or new_run_id(), step, status, started_at, seconds, detail))

    try:
        yield detail
    except BaseException as error:
        detail["error"] = str(error)
        record("failed")
        raise
    record("skipped" if "skipped" in detail else "succeeded")

"""Waiting for a condition, with a deadline: no test sleeps for a while and hopes."""

from __future__ import annotations

import time
from collections.abc import Callable

MOST_SECONDS = 60.0


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + MOST_SECONDS
    while not is_so():
        assert time.monotonic() < end, f"it did not come true within {MOST_SECONDS:.0f} s"
        time.sleep(0.01)

"""Progress of long work: what is being done, and the share that is done, from 0 to 1."""

from __future__ import annotations

from collections.abc import Callable

Report = Callable[[str, float], None]


def silent(what: str, share: float) -> None:
    """A report that is discarded."""

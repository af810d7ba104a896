"""How long work says where it is: what is being done, and how much of it, from 0 to 1."""

from __future__ import annotations

from collections.abc import Callable

Report = Callable[[str, float], None]


def silent(what: str, share: float) -> None:
    """A report that nobody hears."""

"""What an incident is made of: findings and diagnoses about one subject, each with the time that it speaks of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class Sighting:
    """Something that was seen, and from when to when. All of its words come from data: none of them is trusted."""

    kind: str
    subject: str
    began_at: datetime
    ended_at: datetime  # when it was last seen
    severity: str = "warning"
    headline: str = ""
    detail: str = ""
    remedy: str = ""
    cluster_id: str | None = None
    node: str | None = None
    job_id: str | None = None

    def is_same_as(self, other: Sighting) -> bool:
        """The same thing told again, though its begin may have been found a little earlier or later."""
        is_same = (self.kind, self.subject) == (other.kind, other.subject)
        return is_same and self.began_at <= other.ended_at and other.began_at <= self.ended_at

    def row(self) -> dict[str, Any]:
        named = {column: getattr(self, column) for column in _COLUMNS}
        told = {name: value for name, value in sorted(named.items()) if value not in (None, "")}
        return {**told, "began_at": self.began_at.isoformat(), "ended_at": self.ended_at.isoformat()}


_COLUMNS = frozenset(column.name for column in fields(Sighting))


def sighting(row: Mapping[str, Any]) -> Sighting | None:
    """As a journal has it; nothing where it is none of ours."""
    try:
        values = {name: value for name, value in row.items() if name in _COLUMNS}
        for name in ("began_at", "ended_at"):
            values[name] = datetime.fromisoformat(values[name])
        found = Sighting(**values)
    except (TypeError, ValueError, KeyError):
        return None
    return found if found.began_at.tzinfo is not None and found.ended_at.tzinfo is not None else None

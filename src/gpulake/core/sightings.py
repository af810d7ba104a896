"""What an incident is made of: findings and diagnoses about one subject, each with its time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpulake.core.rows import as_row


@dataclass(frozen=True)
class Sighting:
    """What was seen, and from when to when. Its texts come from data and are not trusted."""

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
        """The same thing seen again, though its begin may differ a little."""
        is_same = (self.kind, self.subject) == (other.kind, other.subject)
        return is_same and self.began_at <= other.ended_at and other.began_at <= self.ended_at

    def row(self) -> dict[str, Any]:
        values = {name: value for name, value in sorted(as_row(self).items()) if value not in (None, "")}
        return {**values, "began_at": self.began_at.isoformat(), "ended_at": self.ended_at.isoformat()}

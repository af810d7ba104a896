"""What people add to the dashboard: views that they save, and annotations that charts show."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpulake.core.rows import as_row

ANNOTATIONS = ("deployment", "maintenance", "note")  # kinds


@dataclass(frozen=True)
class SavedView:
    """The columns of saved_view_events, in the order of the table."""

    view_id: str
    changed_at: datetime
    changed_by: str
    is_removed: bool = False
    title: str = ""
    address: str = ""

    def row(self) -> dict[str, Any]:
        return as_row(self)


@dataclass(frozen=True)
class Annotation:
    """The columns of annotation_events, in the order of the table."""

    annotation_id: str
    changed_at: datetime
    changed_by: str
    is_removed: bool = False
    kind: str = "note"
    text: str = ""
    cluster_id: str = ""
    starts_at: datetime | None = None
    ends_at: datetime | None = None

    def row(self) -> dict[str, Any]:
        return as_row(self)

"""The store of incidents: the one reader and the one writer of table incident_events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpulake.core.incidents import LOCK, TRANSITIONS, Incident, histories

if TYPE_CHECKING:
    from gpulake.lake.store import Lake

TABLE = "incident_events"


@dataclass(frozen=True)
class IncidentStore:
    lake: Lake

    def histories(self) -> dict[str, tuple[Incident, ...]]:
        """The events of each incident, oldest first: by their time and revision, in whatever order they were written.

        Read without the engine, which takes longer to start.
        """
        return histories(self.lake.journal(TABLE))

    def standing(self) -> dict[str, Incident]:
        """Each incident after its last event."""
        return {name: history[-1] for name, history in self.histories().items()}

    @contextmanager
    def changing(self) -> Iterator[IncidentChanges]:
        """Current incidents, locked against changes by others. It does not wait for a build."""
        with self.lake.alone(LOCK, is_patient=True):
            yield IncidentChanges(self.lake, self.histories())


@dataclass(frozen=True)
class IncidentChanges:
    lake: Lake
    histories: dict[str, tuple[Incident, ...]]

    def append(self, events: Sequence[Incident]) -> None:
        """Appends all of them; they are on disk when this returns. Each must be a transition from the current state."""
        for after in events:
            history = self.histories.get(after.incident_id, ())
            comes_from, leads_to = TRANSITIONS[after.event].comes_from, TRANSITIONS[after.event].leads_to
            before = history[-1] if history else None
            if before is not None:
                is_next = before.state in comes_from and after.order > before.order
            else:
                is_next = after.event == "opened"
            if not is_next or after.state != (leads_to or (before and before.state)):
                raise AssertionError(f"{after.event} cannot follow {before and before.event} of {after.incident_id}")
            self.histories[after.incident_id] = (*history, after)
        self.lake.append(TABLE, [event.row() for event in events])

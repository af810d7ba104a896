"""How the service stands: service.json in the lake, written by the one process that holds its lock."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from gpulake.core.disk import replace_text
from gpulake.core.errors import LakeBusyError, LakeError
from gpulake.core.locks import is_locked, locked

FILE = "service.json"
LOCK = ".service.lock"


@dataclass
class PartState:
    name: str
    state: Literal["waiting", "working", "up", "failing", "stopped"] = "waiting"
    runs: int = 0  # since the service started
    failures: int = 0  # in a row
    rows_landed: int = 0
    covered_until: str = ""  # of a source: the time up to which the lake has it
    lag: int | None = None  # of a stream: messages that have not landed yet
    succeeded_at: datetime | None = None
    next_at: datetime | None = None
    error: str = ""  # of the last try, if it failed


@dataclass
class ServiceState:
    pid: int
    started_at: datetime
    changed_at: datetime
    parts: list[PartState] = field(default_factory=list)

    def write(self, lake: Path) -> None:
        replace_text(lake / FILE, json.dumps(asdict(self), default=datetime.isoformat, indent=1))


def the_only_one(lake: Path) -> AbstractContextManager[None]:
    busy = LakeBusyError(f"another gpulake run works on {lake}", "see it with: gpulake run status")
    return locked(lake / LOCK, busy)


def read_state(lake: Path) -> dict[str, Any]:
    """As the service last wrote it, and whether it is running."""
    try:
        found: dict[str, Any] = json.loads((lake / FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise LakeError(f"no gpulake run has worked on {lake}", "start it with: gpulake run") from None
    except ValueError as error:
        raise LakeError(f"{lake / FILE} cannot be read: {error}", "start the service anew: gpulake run") from error
    return {"is_running": is_locked(lake / LOCK), **found}

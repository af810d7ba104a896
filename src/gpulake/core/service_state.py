"""How the service stands: service.json in the lake, written by the one process that holds its lock.

Its roles may be processes of their own, on several machines: each has a lock and a file, and the whole service holds
the locks of them all.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from gpulake.core.disk import replace_text
from gpulake.core.errors import LakeBusyError, LakeError
from gpulake.core.locks import is_locked, locked

FILE = "service.json"
LOCK = ".service.lock"
ROLES = ("ingest", "build", "serve")


@dataclass
class PartState:
    name: str
    state: Literal["waiting", "working", "up", "failing", "stopped"] = "waiting"
    runs: int = 0  # since the service started
    failures: int = 0  # in a row
    rows_landed: int = 0
    rows_per_second: float = 0.0  # over the minute before the last success
    covered_until: str = ""  # of a source: the time up to which the lake has it
    lag: int | None = None  # of a stream: messages that have not landed yet
    succeeded_at: datetime | None = None
    next_at: datetime | None = None
    error: str = ""  # of the last try, if it failed
    memory_mebibytes: int = 0  # of its processes, when last seen


@dataclass
class ServiceState:
    pid: int
    started_at: datetime
    changed_at: datetime
    parts: list[PartState] = field(default_factory=list)
    role: str = ""  # the whole
    host: str = field(default_factory=socket.gethostname)

    def write(self, lake: Path) -> None:
        replace_text(lake / file_of(self.role), json.dumps(asdict(self), default=datetime.isoformat, indent=1))


def file_of(role: str) -> str:
    return f"service-{role}.json" if role else FILE


def lock_of(role: str) -> str:
    return f".service-{role}.lock" if role else LOCK


@contextmanager
def the_only_one(lake: Path, role: str = "") -> Iterator[None]:
    """In this role; what others left that cannot run beside it is removed."""
    with ExitStack() as held:
        for one in (role,) if role else ("", *ROLES):
            works = f"another gpulake run{f' {one}' if one else ''} works on {lake}"
            held.enter_context(locked(lake / lock_of(one), LakeBusyError(works, "see it with: gpulake run status")))
        for other in ("",) if role else ROLES:
            (lake / file_of(other)).unlink(missing_ok=True)
        yield


def read_state(lake: Path) -> dict[str, Any]:
    """As the service last wrote it, and whether it is running; of roles, what all of them wrote."""
    found = [state for role in ("", *ROLES) if (state := _read(lake, role)) is not None]
    if not found:
        raise LakeError(f"no gpulake run has worked on {lake}", "start it with: gpulake run")
    if not found[0].get("role"):
        return found[0]
    return {
        "is_running": all(state["is_running"] for state in found),
        "changed_at": max(state["changed_at"] for state in found),
        "roles": [{key: value for key, value in state.items() if key != "parts"} for state in found],
        "parts": [part for state in found for part in state["parts"]],
    }


def _read(lake: Path, role: str) -> dict[str, Any] | None:
    path = lake / file_of(role)
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise LakeError(f"{path} cannot be read: {error}", "start the service anew: gpulake run") from error
    return {"is_running": is_locked(lake / lock_of(role)), **found}

"""Jobs that died, by hand: their incident and diagnosis in a lake, and programs of a cluster that note their calls."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from gpulake.act.execution import Rescue
from gpulake.act.recovery import Asked
from gpulake.core.clock import FrozenClock
from gpulake.core.config import Config
from gpulake.core.recovery_settings import Recoveries
from gpulake.flow import Flow
from gpulake.lake import Lake

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
# Commands of the site's own, for executors that have no other.
HOOKS = {
    "restart_command": ("hook", "restart", "{job_id}", "{attempt}"),
    "rollback_command": ("hook", "rollback", "{job_id}", "{checkpoint}", "{skip_from_step}-{skip_to_step}"),
    "cordon_command": ("hook", "cordon", "{node}", "{reason}: {cause}"),
    "uncordon_command": ("hook", "uncordon", "{node}", "{reason}: {cause}"),
    "tell_command": ("hook", "tell", "{job_id}", "{message}"),
    "nodes_command": ("hook", "nodes", "{job_id}"),
}
_PROGRAM = """#!{python}
import json, pathlib, re, sys
folder = pathlib.Path({folder!r})
name = pathlib.Path(sys.argv[0]).name
call = " ".join([name, *sys.argv[1:]])
is_asked = re.match("sacct|sinfo|kubectl get|hook nodes", call)
with (folder / ("asked.jsonl" if is_asked else "calls.jsonl")).open("a") as calls:
    calls.write(json.dumps([name, *sys.argv[1:]]) + "\\n")
answers = folder / "answers.json"
for words, code, said in json.loads(answers.read_text()) if answers.exists() else []:
    # A pattern is for questions only where it begins with one.
    asks = re.match(r"\\^(sacct|sinfo|kubectl get|hook nodes)", words)
    if re.search(words, call) and bool(is_asked) == bool(asks):
        print(said)
        sys.exit(code)
if is_asked and not call.startswith("kubectl get job "):  # of which there is none
    job = call.partition("--jobs=")[2].split()
    print(job[0] + "|n[1-9]" if job else "n1 n2 n3 n4 n5 n6 n7 n8 n9")
"""


@dataclass(frozen=True)
class Programs:
    """Small programs by the names of a cluster's own, first on the PATH. They note how they were called."""

    folder: Path

    def answer(self, *answers: tuple[str, int, str]) -> None:
        """(pattern of the call, exit code, what is said); the first that fits."""
        (self.folder / "answers.json").write_text(json.dumps(answers))

    def calls(self) -> list[list[str]]:
        """That would change something."""
        return self._noted("calls.jsonl")

    def asked(self) -> list[list[str]]:
        """For the nodes of a job: n1 to n9, unless an answer says otherwise."""
        return self._noted("asked.jsonl")

    def _noted(self, name: str) -> list[list[str]]:
        path = self.folder / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def programs(folder: Path, monkeypatch: Any) -> Programs:
    folder.mkdir()
    for name in ("scontrol", "kubectl", "hook", "srun", "sacct", "sinfo"):
        path = folder / name
        path.write_text(_PROGRAM.format(python=sys.executable, folder=str(folder)))
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return Programs(folder)


def died(lake: Lake, incident_id: str = "4f1c2d", minutes: float = 0.0, **reported: Any) -> None:
    """An incident that was opened so many minutes after NOW; what is told of it goes where it belongs."""
    at = NOW + timedelta(minutes=minutes)
    diagnosis: dict[str, Any] = {
        "diagnosis_id": f"d-{incident_id}",
        "incident_id": incident_id,
        "diagnosed_at": at,
        "job_id": "77",
        "claimed_job_id": None,
        "cluster_id": "c",
        "verdict": "failed",
        "category": "infrastructure",
        "reason": "NetworkError",
        "cause": "the link went down",
        "remedy": "Look at the switch.",
        "action": "auto_restart",
        "action_why": "links come back",
        "method": "rule",
        "confidence": 0.9,
        "evidence": [{"line": 12, "text": "link down"}],
        "ended_at": at,
    }
    incident: dict[str, Any] = {
        "event": "opened",
        "changed_by": "gpulake",
        "kind": "failure",
        "state": "open",
        "is_confirmed": False,
    }
    diagnosis |= {name: value for name, value in reported.items() if name not in incident}
    incident |= {name: value for name, value in reported.items() if name in incident}
    shared = ("incident_id", "diagnosis_id", "cluster_id", "job_id", "reason", "cause")
    lake.append("diagnoses", [diagnosis])
    lake.append(
        "incident_events",
        [{**{name: diagnosis[name] for name in shared}, **incident, "opened_at": at, "changed_at": at}],
    )


def died_just_now(lake: Lake, incident_id: str = "4f1c2d", **reported: Any) -> None:
    """For commands, which go by the clock on the wall."""
    died(lake, incident_id, (datetime.now(UTC) - NOW).total_seconds() / 60, **reported)


def settings(**changes: Any) -> Recoveries:
    return Recoveries(**{**HOOKS, **changes})


def recover(
    lake: Lake, incident: str = "4f1c2d", minutes: float = 1.0, own: Recoveries | None = None, **asked: Any
) -> Rescue:
    """Carried out, so many minutes after NOW."""
    config: Config = replace(lake.config, recoveries=own or settings())
    clock = FrozenClock(NOW + timedelta(minutes=minutes))
    return Flow(config, clock).recover(Asked(incident, **{"executor": "slurm", "is_executed": True, **asked}))


def trail(lake: Lake, *columns: str) -> list[tuple[Any, ...]]:
    """The audit trail, less what every row has."""
    return [tuple(row[name] for name in columns or ("step", "node", "status")) for row in lake.journal("recoveries")]


def statuses(rescue: Rescue) -> list[tuple[str, str | None]]:
    return [(taken.step.step, taken.status) for taken in rescue.steps]


def commands(rescue: Rescue) -> Sequence[Sequence[str]]:
    return [command.arguments for taken in rescue.steps for command in taken.commands]


def details(lake: Lake, step: str) -> list[Mapping[str, Any]]:
    return [row["detail"] for row in lake.journal("recoveries") if row["step"] == step]

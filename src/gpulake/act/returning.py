"""Nodes that gpulake cordoned are returned to service once they pass the site's check.

A node that somebody else has taken out of service meanwhile stays out, and so does one that failed again before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from gpulake.act.audit import AuditRow, Status, StepName, is_done, is_real, last_of_each, read_rows
from gpulake.act.commands import Outcome, ask, small_environment
from gpulake.act.recoveries import RECOVERIES, Command, Order, safe_node
from gpulake.core.config import Config
from gpulake.core.errors import ActError, UsageError
from gpulake.core.placeholders import filled
from gpulake.lake import Lake


@dataclass(frozen=True)
class Returned:
    """A node that was checked; without a status: the plan."""

    node: str
    incident_id: str
    executor: str
    commands: tuple[tuple[str, ...], ...]
    check: Status | None = None
    uncordon: Status | None = None
    detail: str = ""


@dataclass(frozen=True)
class Returning:
    lake: Lake
    config: Config
    now: Callable[[], datetime]
    run_id: str
    run: Callable[[Sequence[str], float], Outcome]

    def due(self) -> list[AuditRow]:
        """The cordons whose nodes are to be checked now."""
        settings, now, rows = self.config.recoveries, self.now(), self._rows()
        if not settings.check_command:
            return []
        since, before = (
            now - timedelta(hours=settings.cordoned_for_hours),
            timedelta(minutes=settings.check_after_minutes),
        )
        back = [row.node for row in rows if row.step == "uncordon" and is_done(row) and row.stepped_at > since]
        found = []
        for cordon in _standing(rows):
            looks = [row for row in rows if _is_of(row, cordon)]
            is_left = any(row.step == "uncordon" and row.status == "refused" for row in looks)
            waited = now - max(row.stepped_at for row in looks)
            if cordon.stepped_at > since and waited >= before and not is_left:
                found += [cordon] if back.count(cordon.node) < settings.most_uncordons else []
        return found

    def cordon_of(self, node: str) -> AuditRow:
        """The cordon of a node that a person names."""
        for cordon in _standing(self._rows()):
            if cordon.node == node:
                return cordon
        raise UsageError(
            f"gpulake has not cordoned node {node!r}",
            "list what it did with: gpulake recover --history; or return it by hand",
        )

    def give_back(self, cordon: AuditRow, is_executed: bool) -> Returned:
        settings, node = self.config.recoveries, safe_node(cordon.node or "")
        if not settings.check_command:
            hint = "set check_command in [recoveries] of gpulake.toml, or return it by hand"
            raise ActError(f"node {node} cannot be checked", hint)
        executor = RECOVERIES.get(cordon.executor)(settings)
        order = Order(cordon.incident_id, cordon.attempt, cordon.job_id, cordon.cluster_id, node)
        check, commands = filled(settings.check_command, {"node": node}), executor.uncordon(order)
        plan = Returned(node, cordon.incident_id, cordon.executor, (check, *(one.arguments for one in commands)))
        if not is_executed:
            return plan
        tested = self._step(cordon, "check", (Command(check),), settings.test_seconds)
        if tested.status != "done":
            return replace(plan, check=tested.status, detail=tested.detail)
        if why := self._of_another(cordon, executor.why_cordoned(order)):
            self._write(cordon, "uncordon", "refused", {"why": why})
            return replace(plan, check="done", uncordon="refused", detail=why)
        outcome = self._step(cordon, "uncordon", commands, settings.command_seconds)
        return replace(plan, check="done", uncordon=outcome.status, detail=outcome.detail)

    def _of_another(self, cordon: AuditRow, question: tuple[str, ...]) -> str:
        """Why the node is not ours to return; empty: it is."""
        if not question:
            return ""
        said = ask(question, self.config.recoveries.command_seconds, small_environment())
        if said is None:
            return "the scheduler does not say why the node is out of service"
        reasons = {line.strip() for line in said.splitlines() if line.strip()}
        others = sorted(reason for reason in reasons if not reason.startswith(f"gpulake {cordon.incident_id}"))
        return f"it is out of service for another reason: {others[0]}" if others else ""

    def _step(self, cordon: AuditRow, step: StepName, commands: Sequence[Command], most_seconds: float) -> Outcome:
        self._write(cordon, step, "started", {"commands": [list(one.arguments) for one in commands]})
        outcome = Outcome("done")
        for command in commands:
            outcome = self.run(command.arguments, most_seconds)
            if outcome.status != "done":
                break
        self._write(cordon, step, outcome.status, {"exit_code": outcome.exit_code, "said": outcome.detail})
        return outcome

    def _write(self, cordon: AuditRow, step: StepName, status: Status, detail: Mapping[str, Any]) -> None:
        row = replace(cordon, stepped_at=self.now(), run_id=self.run_id, step=step, status=status, detail=detail)
        self.lake.append("recoveries", [asdict(row)])

    def _rows(self) -> list[AuditRow]:
        return [row for row in read_rows(self.lake.journal("recoveries", is_strict=True)) if is_real(row)]


def _standing(rows: Sequence[AuditRow]) -> list[AuditRow]:
    """The last cordon of each node that was not returned since."""
    last: dict[tuple[str | None, str | None], AuditRow] = {}
    for row in last_of_each(row for row in rows if row.step in ("cordon", "uncordon") and row.node and is_done(row)):
        last.pop((row.cluster_id, row.node), None)
        if row.step == "cordon":
            last[row.cluster_id, row.node] = row
    return list(last.values())


def _is_of(row: AuditRow, cordon: AuditRow) -> bool:
    return (row.recovery_id, row.node) == (cordon.recovery_id, cordon.node) and row.step in (
        "cordon",
        "check",
        "uncordon",
    )

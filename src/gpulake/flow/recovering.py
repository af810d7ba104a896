"""Recoveries with the lake: of one incident, of a node, and of all that fails, unattended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime

from gpulake.act.audit import is_real, read_rows
from gpulake.act.execution import Rescue
from gpulake.act.recovery import Asked, Recovering, run_small
from gpulake.act.returning import Returned, Returning
from gpulake.act.watching import Watching, held_back, stopped, summary
from gpulake.core.clock import Clock
from gpulake.core.errors import ActError, InputError, LakeBusyError, UsageError
from gpulake.flow.runs import new_run_id, recorded
from gpulake.lake import Lake

LOOK_SECONDS = 10.0
BUSY_SECONDS = 1.0  # builds and landings come one after the other: a recovery takes the gap
GOING_ON = "recoveries go on"
Event = Rescue | Returned | str  # a recovery, a node that was checked, or why there is none


def recover(lake: Lake, clock: Clock, asked: Asked, run_id: str = "", is_stopping: Callable[[], bool] = bool) -> Rescue:
    """The plan that restarts a failed job; is_executed carries it out."""

    def may_not() -> str:
        return stopped(lake.root, lake.config.recoveries) or ("gpulake is stopping" if is_stopping() else "")

    lake.open()
    if asked.is_executed and (why := may_not()):
        raise ActError(why, "remove that file once steps may be taken again")
    run_id = run_id or new_run_id()
    alone = lake.writing() if asked.is_executed else nullcontext()
    with recorded(lake, clock, "recover", run_id, is_reader=not asked.is_executed) as detail, alone:
        rescue = Recovering(lake, lake.config, clock, run_id, stopped=may_not).recover(asked)
        statuses = {taken.step.step: taken.status for taken in rescue.steps}
        detail.update(incident_id=rescue.failure.incident_id, is_executed=asked.is_executed, steps=statuses)
    return rescue


def uncordon(lake: Lake, clock: Clock, node: str, is_executed: bool) -> Returned:
    """The check of a node that gpulake cordoned, and its return to service if it passes."""
    returning = _returning(lake.open(), clock)
    cordon = returning.cordon_of(node)
    if not is_executed:
        return returning.give_back(cordon, is_executed=False)
    if why := stopped(lake.root, lake.config.recoveries):
        raise ActError(why, "remove that file once steps may be taken again")
    with recorded(lake, clock, "recover", returning.run_id) as detail, lake.writing():
        found = returning.give_back(cordon, is_executed=True)
        detail.update(node=node, check=found.check, uncordon=found.uncordon)
    return found


def watch(
    lake: Lake,
    clock: Clock,
    asked: Asked,
    since: datetime,
    wait: Callable[[float], bool],
    is_stopping: Callable[[], bool],
) -> Iterator[Event]:
    """Until `wait` says that it is over. Without is_executed each plan is shown once."""
    watching, said = Watching(since), ""
    shown: dict[str, str] = {}
    while True:
        busy, why = False, _brake(lake, clock, asked)
        if why != said:
            yield why or GOING_ON
            said = why
        try:
            for event in () if why else _look(lake, clock, watching, asked, is_stopping):
                if isinstance(event, str) or _is_news(event, shown, asked.is_executed):
                    yield event
        except LakeBusyError:
            busy = True
        if wait(BUSY_SECONDS if busy else LOOK_SECONDS):
            return


def _brake(lake: Lake, clock: Clock, asked: Asked) -> str:
    """Why nothing is done for now; empty: something may be."""
    settings, now = lake.config.recoveries, clock.now()
    if not asked.is_executed:
        return ""
    if settings.is_quiet(now):
        return "these are quiet hours"
    rows = read_rows(lake.journal("recoveries", is_strict=True))
    return stopped(lake.root, settings) or held_back(filter(is_real, rows), now, settings)


def _look(
    lake: Lake, clock: Clock, watching: Watching, asked: Asked, is_stopping: Callable[[], bool]
) -> Iterator[Event]:
    for incident in watching.due(lake.incidents.standing(), clock.now()):
        if is_stopping() or _brake(lake, clock, asked):
            return
        try:
            rescue = recover(lake, clock, replace(asked, incident=incident.incident_id), is_stopping=is_stopping)
        except (ActError, UsageError, InputError) as error:
            if is_stopping() or _brake(lake, clock, asked):
                return
            watching.leave(incident)
            yield f"incident {incident.incident_id}: {error.message}"
            continue
        watching.note(incident, rescue, clock.now(), asked.is_executed)
        yield rescue
    for cordon in _returning(lake, clock).due() if asked.is_executed else ():
        if not is_stopping():
            yield uncordon(lake, clock, cordon.node or "", is_executed=True)


def _is_news(event: Rescue | Returned, shown: dict[str, str], is_executed: bool) -> bool:
    """Whether it differs from what was said of the same incident, or node, before."""
    if isinstance(event, Rescue):
        name, text = event.failure.incident_id, summary(event, is_executed)
        is_news = not event.done_at and shown.get(name) != text
    else:
        name, text = event.node, f"{event.check} {event.uncordon} {event.detail}"
        is_news = shown.get(name) != text
    shown[name] = text
    return is_news


def _returning(lake: Lake, clock: Clock) -> Returning:
    return Returning(lake, lake.config, clock.now, new_run_id(), run_small)

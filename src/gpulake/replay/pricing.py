"""What findings, incidents and actions are worth: the past is simulated once more, as it would have been without them.

A finding or an incident is priced by the change that would have avoided it; an action by the past in which it was not
taken. Where the simulation has nothing to change the reason is said instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulake.core.packaged import built_tables, queries
from gpulake.core.progress import Report, silent
from gpulake.core.words import span
from gpulake.lake import LakeReader
from gpulake.replay.backtest import Backtest, shared
from gpulake.replay.policies import POLICIES
from gpulake.replay.simulation import Outcome
from gpulake.replay.window import Window, run

SQL = queries("gpulake.replay", "pricing.sql")
OF = {"findings": "finding", "incidents": "incident", "cancellations": "cancellation", "recoveries": "recovery"}
RELEASE_SECONDS = 3600
FAILS_AFTER_SECONDS = 60  # of a run whose failure is noticed at its begin
MOST_PRICED = 100  # of each kind, the most important first: each is a simulation
AROUND_SECONDS = 3600  # an outage belongs to what was seen so close to it


class NotPricedError(Exception):
    """Why the simulation says nothing about it."""


@dataclass(frozen=True)
class Priced:
    """What is to be priced."""

    of: str  # finding, incident, cancellation or recovery
    subject_id: str
    kind: str
    subject: str
    node: str
    job_id: str
    begin: float | None  # seconds since 1970
    end: float | None


@dataclass(frozen=True)
class Price:
    of: str
    subject_id: str
    kind: str
    subject: str
    change: str  # what is different in the other past
    reason: str  # why there is no price; empty: there is one
    saved_gpu_hours: float | None = None
    p90_before_seconds: float | None = None
    p90_after_seconds: float | None = None
    p90_error_seconds: float | None = None

    @property
    def words(self) -> str:
        if self.saved_gpu_hours is None or self.p90_before_seconds is None:
            return f"not priced: {self.reason}"
        assert self.p90_after_seconds is not None
        assert self.p90_error_seconds is not None
        before, after = span(self.p90_before_seconds), span(self.p90_after_seconds)
        waits = (
            f"left the p90 wait at {before}" if before == after else f"changed the p90 wait from {before} to {after}"
        )
        # An action that was taken did save; what was only found would have.
        verb = "did save" if self.of in ("cancellation", "recovery") else "would have saved"
        return (
            f"{self.change} {verb} {self.saved_gpu_hours:,.1f} GPU-hours and {waits}"
            f" (± {span(self.p90_error_seconds)} by back-test)"
        )


@dataclass(frozen=True)
class Change:
    words: str
    window: Window
    touched: NDArray[np.bool_]  # runs whose length differs
    is_undone: bool = False  # the other past is the one without the action: what was taken is the better


def read_priced(reader: LakeReader, cluster: str) -> list[Priced]:
    reader.need(built_tables(SQL))
    return [
        Priced(of, *(row[name] for name in ("subject_id", "kind", "subject", "node", "job_id", "begin_s", "end_s")))
        for query, of in OF.items()
        for row in reader.rows(SQL[query], cluster=cluster)[:MOST_PRICED]
    ]


def prices(window: Window, tested: Backtest, listed: list[Priced], report: Report = silent) -> list[Price]:
    """One simulation for each; those that change nothing of the past have a reason instead."""
    window = replace(window, machines=shared(window.machines, tested.fit.capacity_share))
    before = _simulated(window, tested)
    found = []
    for number, one in enumerate(listed):
        report(f"pricing {one.of} {number + 1} of {len(listed)}", number / len(listed))
        try:
            change = changed_by(window, one)
        except NotPricedError as error:
            found.append(Price(one.of, one.subject_id, one.kind, one.subject, "", str(error)))
            continue
        found.append(_price(window, tested, one, change, before))
    return found


def refused(listed: list[Priced], tested: Backtest) -> Iterator[Price]:
    """Where the back-test says nothing, nothing has a price."""
    for one in listed:
        reason = f"cannot say for {tested.cluster}: {tested.refusals[0]}"
        yield Price(one.of, one.subject_id, one.kind, one.subject, "", reason)


def _simulated(window: Window, tested: Backtest) -> Outcome:
    return run(window, POLICIES.get(tested.fit.policy), tested.fit.tuning)


def _price(window: Window, tested: Backtest, one: Priced, change: Change, before: Outcome) -> Price:
    other = _simulated(change.window, tested)
    worse, better = (other, before) if change.is_undone else (before, other)

    def used(outcome: Outcome) -> float:
        """By the runs that differ; where none does, what failures cost. Other runs are as long in both pasts, and which
        of them a failure strikes is chance."""
        if change.touched.any():
            return float((outcome.held_gpu_seconds - outcome.lost_gpu_seconds)[change.touched].sum())
        return float(outcome.lost_gpu_seconds.sum())

    def p90(outcome: Outcome) -> float:
        return float(np.quantile(window.waits(outcome)[~window.is_warm], 0.9))

    saved = (used(worse) - used(better)) / 3600
    return Price(
        one.of, one.subject_id, one.kind, one.subject, change.words, "", saved, p90(worse), p90(better), tested.error(1)
    )


def changed_by(window: Window, one: Priced) -> Change:
    """The past without it."""
    if one.kind in _CHANGES:
        return _CHANGES[one.kind](window, one)
    if one.node:
        return _without_outages(window, one)
    raise NotPricedError(f"a simulation of waits does not know {one.kind}")


def _shorter(window: Window, which: NDArray[np.bool_], most: int, words: str, nothing: str) -> Change:
    which = which & (window.trace.work > most)
    if not which.any():
        raise NotPricedError(nothing)
    work = np.where(which, most, window.trace.work)
    return Change(words, replace(window, trace=replace(window.trace, work=work)), which)


def _released(window: Window, one: Priced) -> Change:
    is_all = one.kind == "ledger"
    which = window.past.is_idle & (is_all | (window.past.user_id == one.subject))
    whose = "idle GPUs" if is_all else f"the idle GPUs of {one.subject}"
    nothing = f"no run was idle all its life for more than an hour: {whose}"
    return _shorter(window, which, RELEASE_SECONDS, f"releasing {whose} after {span(RELEASE_SECONDS)}", nothing)


def _failed_at_once(window: Window, one: Priced) -> Change:
    which = window.past.job_id == one.job_id
    nothing = f"no run of job {one.job_id or '(unknown)'} held GPUs for more than a minute"
    words = f"noticing the failure of job {one.job_id} within {span(FAILS_AFTER_SECONDS)}"
    return _shorter(window, which & (one.job_id != ""), FAILS_AFTER_SECONDS, words, nothing)


def _without_submissions(window: Window, one: Priced) -> Change:
    begin, end = one.begin or window.begin, one.end or window.until
    came = (window.eligible >= begin) & (window.eligible <= end)
    words = (
        f"holding back the {int((came & (window.past.user_id == one.subject)).sum())} runs that {one.subject} submitted"
    )
    nothing = f"{one.subject} submitted no run then"
    return _shorter(window, came & (window.past.user_id == one.subject), 1, words, nothing)


def _without_outages(window: Window, one: Priced) -> Change:
    """Of a machine, while it was seen to be faulty."""
    machines = window.machines
    begin = (one.begin or window.begin) - AROUND_SECONDS - window.begin
    end = (one.end or one.begin or window.until) + AROUND_SECONDS - window.begin
    is_its = np.isin(machines.out_machine, np.flatnonzero(np.array(window.past.machine_ids) == one.node))
    is_its &= (machines.out_from <= end) & (machines.out_until >= begin)
    if not is_its.any():
        raise NotPricedError(f"{one.node} had no outage then; that work was slower is not simulated")
    kept = machines.with_outages(machines.out_machine[~is_its], machines.out_from[~is_its], machines.out_until[~is_its])
    untouched = np.zeros(len(window.trace), np.bool_)
    return Change(f"avoiding the outage of {one.node}", replace(window, machines=kept), untouched)


def _not_cancelled(window: Window, one: Priced) -> Change:
    """A cancelled job would have gone on to its limit, or as long as its like."""
    estimate = window.trace.estimate
    which = (window.past.job_id == one.job_id) & (estimate > window.trace.work)
    if not which.any():
        raise NotPricedError(f"job {one.job_id} had no time left to its limit")
    window = replace(window, trace=replace(window.trace, work=np.where(which, estimate, window.trace.work)))
    return Change(f"cancelling job {one.job_id}", window, which, is_undone=True)


def _not_restarted(window: Window, one: Priced) -> Change:
    """Without the checkpoint the restarted run would have done again what the runs before it had done: at most that."""
    of_job = window.past.job_id == one.job_id
    after = of_job & (window.past.start >= (one.begin or 0))
    before = of_job & ~after
    if not after.any() or not before.any():
        raise NotPricedError(f"job {one.job_id} has no run after its restart")
    place = int(np.flatnonzero(after)[0])
    which = np.arange(len(of_job)) == place
    again = int((window.past.end - window.past.start)[before].sum())
    work = window.trace.work + np.where(which, again, 0)
    changed = replace(window, trace=replace(window.trace, work=work))
    return Change(f"restarting job {one.job_id} from its checkpoint", changed, which, is_undone=True)


_CHANGES: dict[str, Callable[[Window, Priced], Change]] = {
    "idle_gpus": _released,
    "ledger": _released,
    "failure": _failed_at_once,
    "runaway_user": _without_submissions,
    "cancelled": _not_cancelled,
    "restarted": _not_restarted,
}


def row(price: Price, **of_run: Any) -> dict[str, Any]:
    """As in the table sim_prices."""
    return {**of_run, **vars(price), "words": price.words}

"""docs/ledger.md, "Missing begins and ends" and "What is lost": what each attempt held, since when and until when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from oracle.facts import DAY, LOST, Attempt, Facts

IDLE_RATIO = 0.01
# In the order in which the document lists them: of equally near ones the first counts.
Bounds = list[tuple[str, int | None]]


@dataclass
class Holding:
    attempt: Attempt
    held_from: int | None
    held_until: int | None
    start_basis: str
    end_basis: str
    bucket: str = ""
    lost_from: int | None = None
    has_checkpoint: bool = False

    @property
    def is_inferred(self) -> bool:
        return not self.start_basis == self.end_basis == "recorded"

    @property
    def span(self) -> tuple[int, int] | None:
        """None: nothing bounds it; it holds no time."""
        if self.held_from is None or self.held_until is None or self.held_until < self.held_from:
            return None
        return self.held_from, self.held_until

    @property
    def gpus(self) -> float:
        return self.attempt.gpus or 0.0

    def gpu_type(self, facts: Facts) -> str | None:
        """Of its machine, or else the one assigned."""
        return facts.machines.get(self.attempt.machine or "", (None, 0))[0] or self.attempt.task.gpu_type

    @property
    def use_bucket(self) -> str:
        used = self.attempt.used_gpus
        if used is None:
            return "unobserved"
        return "idle" if used < IDLE_RATIO * self.gpus else "used"


def number_tries(facts: Facts) -> None:
    """An attempt is numbered in the order of its begin (else end) among the tries of its instance."""

    def moment(attempt: Attempt) -> float:
        found = attempt.began if attempt.began is not None else attempt.recorded_end
        return float("inf") if found is None else found

    for tries in _by(facts, lambda attempt: attempt.instance).values():
        for number, attempt in enumerate(sorted(tries, key=moment), start=1):
            attempt.number = number


def _by(facts: Facts, key: Callable[[Attempt], object]) -> dict[object, list[Attempt]]:
    found: dict[object, list[Attempt]] = {}
    for attempt in facts.attempts:
        found.setdefault(key(attempt), []).append(attempt)
    return found


def all_holdings(facts: Facts, until: int) -> list[Holding]:
    """One per attempt that asked for GPUs, or nobody knows how many, but for waiting ones."""
    number_tries(facts)
    by_instance = _by(facts, lambda attempt: attempt.instance)
    by_task = _by(facts, lambda attempt: id(attempt.task))
    found = []
    for attempt in facts.attempts:
        if attempt.status == "waiting" or attempt.gpus == 0:
            continue
        tries = {other.number: other for other in by_instance[attempt.instance]}
        holding = _bounded(facts, attempt, tries, by_task[id(attempt.task)], until)
        _say_what_became_of_it(facts, holding)
        found.append(holding)
    return found


def _bounded(facts: Facts, attempt: Attempt, tries: dict[int, Attempt], gang: list[Attempt], until: int) -> Holding:
    begin, start_basis = attempt.began, "recorded"
    end, end_basis = attempt.recorded_end, "recorded"
    if begin is None and attempt.window:
        begin, start_basis = attempt.window[0], "metric"
    if end is None and attempt.window:
        end, end_basis = attempt.window[1], "metric"
    if begin is None:
        # A begin is the latest of these that is not after the end.
        known = [one for one in _begins(attempt, tries, gang) if one[1] is not None and (end is None or one[1] <= end)]
        start_basis, begin = max(known, key=lambda one: one[1] or 0, default=("none", None))
    if end is None and begin is not None:
        # An end is the earliest that is not before the begin.
        after = [one for one in _ends(attempt, tries, gang) if one[1] is not None and one[1] >= begin]
        end_basis, end = min(after, key=lambda one: one[1] or 0, default=("none", None))
        if end is None and attempt.status == "running" and _is_believed(facts, attempt, until):
            end_basis, end = "censored", max(until, begin)
    elif end is None:
        end_basis = "none"
    # Nothing bounds it: it holds no time.
    begin, end = (end if begin is None else begin), (begin if end is None else end)
    return Holding(attempt, begin, end, start_basis, end_basis)


def _begins(attempt: Attempt, tries: dict[int, Attempt], gang: list[Attempt]) -> Bounds:
    before = tries.get(attempt.number - 1)
    retry = None
    if before:
        retry = before.recorded_end if before.recorded_end is not None else before.began
    first = min((one.began for one in gang if one.began is not None), default=None)
    return [("retry", retry), ("gang", first), ("task", attempt.task.launched), ("job", attempt.job.submitted)]


def _ends(attempt: Attempt, tries: dict[int, Attempt], gang: list[Attempt]) -> Bounds:
    after = tries.get(attempt.number + 1)
    retry = None
    if after:
        retry = after.began if after.began is not None else after.recorded_end
    lost = [one.recorded_end for one in gang if one.status in LOST and one.recorded_end is not None]
    return [
        ("retry", retry),
        ("gang", min(lost, default=None)),
        ("task", attempt.task.ended),
        ("job", attempt.job.ended),
    ]


def _is_believed(facts: Facts, attempt: Attempt, until: int) -> bool:
    if not facts.has_stale_running:
        return True
    known = (attempt.began, attempt.task.launched, attempt.job.submitted)
    since = next((moment for moment in known if moment is not None), None)
    return since is not None and since >= until - DAY


def _say_what_became_of_it(facts: Facts, holding: Holding) -> None:
    attempt = holding.attempt
    holding.bucket = LOST.get(attempt.status, holding.use_bucket)
    if attempt.status not in LOST or holding.held_from is None or holding.held_until is None:
        return
    saved = [at for job, at in facts.checkpoints if job == attempt.job.job_id and at <= holding.held_until]
    holding.has_checkpoint = bool(saved)
    # From the attempt's begin, if that is later than the checkpoint.
    holding.lost_from = max([*saved, holding.held_from]) if saved else holding.held_from

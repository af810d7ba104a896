"""The ranks that caused a hang, from the flight recorder's dumps.

Many groups are blocked at once, most of them because a member is stuck in another group. A rank is the cause where
others wait for it and it waits for no other, or where its GPU does not finish what its peers finished.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gpulake.core.diagnosis import CATEGORY_OF, UNKNOWN, Diagnosis, Quote, Recovery
from gpulake.diagnose.hang.flight_recorder import Dump, Dumps, Group, Operation

# Reasons of a log that the dumps complete with the missing ranks.
COMPLETED_BY_DUMPS = ("NCCLTimeoutError", "HangStraggler")
# What the dumps decide of a log that names no failure.
DECIDED_BY_DUMPS = (
    *("verdict", "category", "reason", "cause", "remedy", "evidence"),
    *("rank", "recovery", "confidence", "method", "missing_ranks"),
)
# All ranks finish these together, and must give the same sizes.
SYMMETRIC = ("all_reduce", "allreduce", "_all_gather_base", "all_gather", "_reduce_scatter_base", "reduce_scatter")
FINISHED_TOGETHER = (*SYMMETRIC, "all_to_all", "all_to_all_base")
MANY_RANKS = 16  # the most that are listed


@dataclass(frozen=True)
class Blockage:
    """An operation that some ranks of a group wait in and others have not entered."""

    group: Group
    operation: Operation  # as the first of those that wait has it
    waiting: tuple[int, ...]
    missing: tuple[int, ...]
    since_ns: int
    file: str  # the dump of the first that waits


@dataclass(frozen=True)
class Mismatch:
    """Ranks that gave different inputs to the same collective."""

    group: Group
    sequence: int
    what: str  # operation, sizes or types
    by_value: tuple[tuple[str, tuple[int, ...]], ...]  # the most frequent first
    file: str


@dataclass(frozen=True)
class Hang:
    missing: tuple[int, ...]  # the first cause
    heads: tuple[Blockage, ...]  # where they are missing, one blockage for each set of them
    blockages: tuple[Blockage, ...]  # all, the oldest first
    stuck: tuple[int, ...]  # ranks whose GPU has not finished what their peers finished
    without_dump: tuple[int, ...]
    mismatches: tuple[Mismatch, ...]
    is_circular: bool = False  # ranks wait only for each other
    is_partial: bool = False  # too few dumps to tell who is missing


def find_hang(dumps: Dumps) -> Hang:
    by_rank = {dump.rank: dump for dump in dumps.dumps}
    silent = tuple(rank for rank in dumps.world if rank not in by_rank)
    sending = frozenset().union(*(dump.sending for dump in dumps.dumps))
    blockages = sorted(
        [*_collectives(dumps, by_rank, sending), *_sends(dumps, by_rank)],
        key=lambda blockage: (blockage.operation.is_p2p, blockage.since_ns),
    )
    stuck = _stuck(dumps, by_rank, sending)
    waits_for: dict[int, set[int]] = defaultdict(set)
    for blockage in blockages:
        for rank in blockage.waiting:
            waits_for[rank].update(blockage.missing)
    missed = {rank for blockage in blockages for rank in blockage.missing}
    # With few dumps most ranks look missing only because their dumps were not given.
    is_partial = 2 * len(by_rank) <= len(dumps.world)
    if is_partial:
        missed -= set(silent)
    first = {rank for rank in missed if rank in stuck or not waits_for[rank]}
    is_circular = bool(missed) and not first
    first = missed if is_circular else first
    return Hang(
        missing=tuple(sorted(first or stuck)),
        heads=tuple(_heads(blockages, first)),
        blockages=tuple(blockages),
        stuck=tuple(sorted(stuck)),
        without_dump=silent,
        mismatches=tuple(_mismatches(dumps)),
        is_circular=is_circular,
        is_partial=is_partial,
    )


def _entered(dump: Dump, group: str, sending: frozenset[str]) -> int:
    counted = dump.counters.get(group, (-1, -1))[0] if group not in sending else -1
    return max(dump.entered.get(group, -1), counted)


def _finished(dump: Dump, group: str, sending: frozenset[str]) -> int:
    counted = dump.counters.get(group, (-1, -1))[1] if group not in sending else -1
    return max(dump.completed.get(group, -1), counted)


def _pending(dumps: Dumps) -> dict[tuple[str, int], dict[int, Operation]]:
    """Unfinished collectives, by group and number, then by rank."""
    found: dict[tuple[str, int], dict[int, Operation]] = defaultdict(dict)
    for dump in dumps.dumps:
        for operation in dump.pending:
            if not operation.is_p2p:
                found[operation.group, operation.sequence][dump.rank] = operation
    return found


def _collectives(dumps: Dumps, by_rank: Mapping[int, Dump], sending: frozenset[str]) -> Iterable[Blockage]:
    """The first collective of each group that some members have not entered."""
    groups = dumps.groups
    blocked: set[str] = set()
    for (name, sequence), waiting in sorted(_pending(dumps).items(), key=lambda item: item[0][1]):
        if name in blocked or name not in groups:
            continue
        missing = tuple(
            rank
            for rank in groups[name].ranks
            if rank not in by_rank or (by_rank[rank].knows(name) and _entered(by_rank[rank], name, sending) < sequence)
        )
        if not missing:
            continue
        blocked.add(name)
        ranks = tuple(sorted(waiting))
        since = min(operation.created_ns for operation in waiting.values())
        yield Blockage(groups[name], waiting[ranks[0]], ranks, missing, since, by_rank[ranks[0]].file)


def _sends(dumps: Dumps, by_rank: Mapping[int, Dump]) -> Iterable[Blockage]:
    """Sends and receives that the other side has not posted. Both sides number theirs by themselves, so they are
    counted."""
    open_ends: dict[tuple[str, int, int, str], list[Operation]] = defaultdict(list)
    for dump in dumps.dumps:
        for operation in dump.pending:
            if operation.peer is not None:
                open_ends[operation.group, dump.rank, operation.peer, operation.name].append(operation)
    groups = dumps.groups
    for (name, rank, peer, verb), mine in open_ends.items():
        theirs = open_ends.get((name, peer, rank, "recv" if verb == "send" else "send"), ())
        if len(mine) > len(theirs):
            first = mine[len(theirs)]
            yield Blockage(groups[name], first, (rank,), (peer,), first.created_ns, by_rank[rank].file)


def _stuck(dumps: Dumps, by_rank: Mapping[int, Dump], sending: frozenset[str]) -> set[int]:
    """Ranks that wait in a collective that another member has finished: only their GPU can hold them up."""
    groups = dumps.groups
    found: set[int] = set()
    for (name, sequence), waiting in _pending(dumps).items():
        if name not in groups or any(operation.name not in FINISHED_TOGETHER for operation in waiting.values()):
            continue
        others = (by_rank[rank] for rank in groups[name].ranks if rank in by_rank and rank not in waiting)
        if any(_finished(other, name, sending) >= sequence for other in others):
            found.update(waiting)
    return found


def _heads(blockages: list[Blockage], first: set[int]) -> Iterable[Blockage]:
    done: set[int] = set()
    for blockage in blockages:
        new = first.intersection(blockage.missing) - done
        if new:
            done |= new
            yield blockage


def _mismatches(dumps: Dumps) -> Iterable[Mismatch]:
    groups = dumps.groups
    files = {dump.rank: dump.file for dump in dumps.dumps}
    done: set[str] = set()
    for (name, sequence), waiting in sorted(_pending(dumps).items(), key=lambda item: item[0][1]):
        if name in done or name not in groups:
            continue
        values = {rank: operation.name for rank, operation in waiting.items()}
        what = "operation"
        if len(set(values.values())) == 1:
            values, what = {rank: operation.dtype for rank, operation in waiting.items()}, "type"
        if len(set(values.values())) == 1 and all(operation.name in SYMMETRIC for operation in waiting.values()):
            values, what = {rank: operation.input_sizes for rank, operation in waiting.items()}, "size"
        if len(set(values.values())) == 1:
            continue
        done.add(name)  # later mismatches of this group are the same fault
        often = Counter(values.values()).most_common()
        by_value = tuple((value, tuple(sorted(r for r, v in values.items() if v == value))) for value, _ in often)
        yield Mismatch(groups[name], sequence, what, by_value, files[by_value[-1][1][0]])


def explain_hang(dumps: Dumps, diagnosis: Diagnosis | None = None) -> Diagnosis:
    """The diagnosis from the dumps alone, or that of the log completed by them.

    A log with a collective that timed out keeps its reason and gets the missing ranks. One with another reason
    keeps all of it, and the dumps are added as telemetry. One without a failure is decided by the dumps.
    """
    hang = find_hang(dumps)
    by_dumps = _from_dumps(hang, dumps)
    if diagnosis is None:
        return by_dumps
    telemetry = (*diagnosis.telemetry, *by_dumps.telemetry)
    if diagnosis.is_silent and by_dumps.verdict == "unknown":
        return replace(diagnosis, telemetry=telemetry)
    if diagnosis.is_silent:
        return replace(diagnosis, **{name: getattr(by_dumps, name) for name in DECIDED_BY_DUMPS}, telemetry=telemetry)
    if diagnosis.reason not in COMPLETED_BY_DUMPS or not hang.missing:
        return replace(diagnosis, telemetry=(*diagnosis.telemetry, by_dumps.cause, *by_dumps.telemetry))
    return replace(
        diagnosis,
        cause=f"{diagnosis.cause.rstrip('.')}. {by_dumps.cause}" if diagnosis.cause else by_dumps.cause,
        evidence=(*diagnosis.evidence, *by_dumps.evidence),
        rank=by_dumps.rank,
        missing_ranks=by_dumps.missing_ranks,
        telemetry=telemetry,
    )


def _from_dumps(hang: Hang, dumps: Dumps) -> Diagnosis:
    facts = [*_facts(hang), *dumps.notes]
    if hang.mismatches:
        return _mismatched(hang.mismatches[0], facts)
    pending = [(dump, operation) for dump in dumps.dumps for operation in dump.pending]
    if not pending or (hang.is_partial and not hang.missing):
        cause = "Too few ranks' dumps are given to tell." if pending else "No rank waits in a collective."
        return Diagnosis("unknown", "unknown", UNKNOWN, cause, telemetry=tuple(facts))
    if hang.is_circular:
        cause = f"{_ranks(hang.missing)} wait for each other in different collectives: a deadlock."
        action = Recovery("needs_code_fix", "The same order of collectives will block again.")
        remedy = "Let all ranks enter the collectives of their groups in the same order."
    elif hang.missing:
        cause = " ".join(_missed(head) for head in hang.heads) or (
            f"{_ranks(hang.missing)} did not finish a collective that their peers finished; the others wait."
        )
        action = Recovery("auto_restart", "The ranks that are missing hang or are gone.")
        remedy = f"Look at {_ranks(hang.missing).lower()}: stack, node, GPU. If its node hangs again, drain it."
    else:
        first = min(pending, key=lambda item: item[1].created_ns)[1]
        cause = f"All ranks entered {_operation(first, dumps.groups.get(first.group))}, and none finished it."
        action = Recovery("auto_restart", "Nobody is missing: a link or a switch stalled.")
        remedy = "Look for NIC, InfiniBand and NVLink errors on the nodes of this group."
    quotes = [Quote(1, _quoted(head.operation), head.file) for head in hang.heads]
    if not quotes:
        dump, operation = min(pending, key=lambda item: item[1].created_ns)
        quotes = [Quote(1, _quoted(operation), dump.file)]
    return Diagnosis(
        verdict="failed",
        category=CATEGORY_OF["HangStraggler"],
        reason="HangStraggler",
        cause=cause,
        remedy=remedy,
        evidence=tuple(quotes),
        rank=hang.missing[0] if hang.missing else None,
        recovery=action,
        confidence=0.9 if hang.heads and not hang.is_partial else 0.6,
        method="telemetry",
        missing_ranks=hang.missing,
        telemetry=tuple(facts),
    )


def _mismatched(mismatch: Mismatch, facts: list[str]) -> Diagnosis:
    parts = "; ".join(f"{_ranks(ranks).lower()}: {value or 'none'}" for value, ranks in mismatch.by_value)
    odd = mismatch.by_value[-1][1]
    return Diagnosis(
        verdict="failed",
        category=CATEGORY_OF["RuntimeError"],
        reason="RuntimeError",
        cause=(
            f"Ranks disagree on the {mismatch.what} of collective {mismatch.sequence} of group"
            f" {_group(mismatch.group)}: {parts}."
        ),
        remedy="Find where these ranks take another branch: every rank must enter the same collectives in order.",
        evidence=(Quote(1, f"collective_seq_id {mismatch.sequence}: {mismatch.by_value[-1][0]}", mismatch.file),),
        rank=odd[0],
        recovery=Recovery("needs_code_fix", "The ranks will disagree again."),
        confidence=0.9,
        method="telemetry",
        missing_ranks=(),
        telemetry=tuple(facts),
    )


def _facts(hang: Hang) -> Iterable[str]:
    if hang.stuck:
        has = "has" if len(hang.stuck) == 1 else "have"
        yield f"{_ranks(hang.stuck)} {has} not finished a collective that peers in the same group finished."
    if hang.without_dump:
        yield f"There is no dump of {_ranks(hang.without_dump).lower()}: died before it could be written, or not given."
    others = [blockage for blockage in hang.blockages if blockage not in hang.heads]
    if hang.heads and others:
        yield f"{len(others)} more groups or pairs are blocked behind that."


def _missed(head: Blockage) -> str:
    return (
        f"{_ranks(head.missing)} did not enter {_operation(head.operation, head.group)};"
        f" {_ranks(head.waiting).lower()} {'waits' if len(head.waiting) == 1 else 'wait'} in it."
    )


def _operation(operation: Operation, group: Group | None) -> str:
    kind = "" if operation.is_p2p else "collective "
    brought = " ".join(part for part in (operation.input_sizes, operation.dtype) if part)
    name = f"{operation.name}, {brought}" if brought else operation.name
    return f"{kind}{operation.sequence} ({name}) of group {_group(group) if group else operation.group}"


def _group(group: Group) -> str:
    return f"{group.name} {group.description}".strip()


def _quoted(operation: Operation) -> str:
    number = "p2p_seq_id" if operation.is_p2p else "collective_seq_id"
    return (
        f"nccl:{operation.name} process_group {operation.group} {number} {operation.sequence}"
        f" input_sizes {operation.input_sizes} {operation.dtype} state {operation.state}"
    )


def _ranks(ranks: tuple[int, ...]) -> str:
    listed = ", ".join(map(str, ranks[:MANY_RANKS]))
    more = f" and {len(ranks) - MANY_RANKS} more" if len(ranks) > MANY_RANKS else ""
    return f"Rank {listed}" if len(ranks) == 1 else f"Ranks {listed}{more}"

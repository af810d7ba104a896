"""Dumps of NCCL's flight recorder, as JSON: which collectives each rank entered, and which it still waits in.

Only unfinished operations of a dump are kept: there may be thousands of collectives and ranks.
A pickle is refused and never opened: it could run code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpulake.core.errors import InputError
from gpulake.core.words import label

LARGEST_DUMP_BYTES = 256 << 20
_HINT = "give the JSON dumps of all ranks, or their folder"
_PICKLE_HINT = (
    "a pickle can run code and is never opened; have the job write JSON"
    " (torch._C._distributed_c10d._dump_nccl_trace_json), or convert it where you trust it"
)
# _dump_12.json, nccl_trace_rank_12, trace.12.json
_RANK = re.compile(r"(\d+)(?:\.json)?$", re.ASCII)
_DUMP = re.compile(r"(?:dump|trace|rank|nccl|fr)\w*[._-]?\d+(?:\.json)?$", re.ASCII | re.IGNORECASE)
_BACKEND = re.compile(r"^[a-z]+:", re.ASCII)  # nccl:all_reduce; other backends record theirs the same way
_PEER = re.compile(r"(?P<verb>send|recv) (?P<own>\d{1,9})(?:->|<-)(?P<peer>\d{1,9})$", re.ASCII)


@dataclass(frozen=True)
class Group:
    name: str
    description: str
    ranks: tuple[int, ...]  # of the world, in the order of the group


@dataclass(frozen=True)
class Operation:
    """A collective, or one side of a send, that a rank entered and has not finished."""

    group: str
    sequence: int
    name: str  # all_reduce, send, and so on
    state: str
    created_ns: int
    input_sizes: str = ""  # 4096x5120
    dtype: str = ""
    is_p2p: bool = False
    peer: int | None = None  # of a send or receive: the rank of the world on its other side


@dataclass(frozen=True)
class Dump:
    """The dump of one rank."""

    rank: int
    file: str
    groups: dict[str, Group]
    pending: tuple[Operation, ...]
    entered: dict[str, int] = field(default_factory=dict)  # by group: the last collective recorded
    completed: dict[str, int] = field(default_factory=dict)  # by group: the last finished one
    counters: dict[str, tuple[int, int]] = field(default_factory=dict)  # by group: both, as the process counts them
    sending: frozenset[str] = frozenset()  # groups with sends and receives, which their counters count, too
    is_full: bool = False  # its oldest entries were overwritten: a group without entries is unknown

    def knows(self, group: str) -> bool:
        return not self.is_full or group in self.entered or group in self.counters


@dataclass(frozen=True)
class Dumps:
    dumps: tuple[Dump, ...]  # by rank
    notes: tuple[str, ...] = ()  # what could not be read, a sentence each

    @property
    def groups(self) -> dict[str, Group]:
        return {name: group for dump in self.dumps for name, group in dump.groups.items()}

    @property
    def world(self) -> tuple[int, ...]:
        value = {rank for group in self.groups.values() for rank in group.ranks}
        return tuple(sorted(value | {dump.rank for dump in self.dumps}))


def read_dumps(paths: Sequence[Path]) -> Dumps:
    """From files and folders. Truncated dumps are left out with a note; it is an error if none can be read."""
    files = [file for path in paths for file in _files(path)]
    if not files:
        raise InputError(f"no flight-recorder dump in {', '.join(map(str, paths)) or 'nothing'}", _HINT)
    found: dict[int, Dump] = {}
    notes: list[str] = []
    for file in files:
        try:
            dump = _read(file)
        except ValueError as error:
            notes.append(f"{file.name} could not be read: {error}.")
            continue
        if dump.rank in found:
            notes.append(f"{file.name} is a second dump of rank {dump.rank} and was left out.")
            continue
        found[dump.rank] = dump
    if not found:
        raise InputError(notes[0].rstrip("."), _HINT)
    return Dumps(tuple(_disambiguated([found[rank] for rank in sorted(found)])), tuple(notes))


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted((file for file in path.iterdir() if file.is_file() and _DUMP.search(file.name)), key=_place)


def _place(file: Path) -> tuple[int, str]:
    found = _RANK.search(file.name)
    return (int(found[1]) if found else -1, file.name)


def _read(file: Path) -> Dump:
    try:
        size = file.stat().st_size
        if size > LARGEST_DUMP_BYTES:
            raise ValueError(f"it has {size} bytes, and at most {LARGEST_DUMP_BYTES} are read")
        content = file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}", _HINT) from error
    if content[:1] == b"\x80":
        raise InputError(f"{file} is a pickle", _PICKLE_HINT)
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError("it is no JSON, or was cut short") from error
    if not isinstance(document, dict) or not _is_dump(document):
        raise ValueError("it is JSON, but no flight-recorder dump: it has no entries")
    return _dump(document, file)


def _is_dump(document: dict[str, Any]) -> bool:
    """A rank that waits in nothing may write no entries; it may be the one that others wait for."""
    if "entries" not in document:
        return isinstance(document.get("pg_config"), dict)
    return isinstance(document["entries"], list)


def _dump(document: dict[str, Any], file: Path) -> Dump:
    named = _RANK.search(file.name)
    rank = document.get("rank") if isinstance(document.get("rank"), int) else (int(named[1]) if named else None)
    if rank is None:
        raise ValueError("neither it nor its name says which rank it is of")
    groups = _groups(document.get("pg_config"))
    entries = [entry for entry in document.get("entries", ()) if isinstance(entry, dict)]
    batches = _batches(entries)
    entered: dict[str, int] = {}
    completed: dict[str, int] = {}
    pending = []
    for entry, operation in _operations(entries, groups, batches):
        is_over = _is_over(entry) or batches.get((operation.group, operation.is_p2p, operation.sequence), False)
        if not is_over:
            pending.append(operation)
        if not operation.is_p2p:
            for last in (entered, completed) if is_over else (entered,):
                last[operation.group] = max(operation.sequence, last.get(operation.group, -1))
    return Dump(
        rank=rank,
        file=file.name,
        groups=groups,
        pending=tuple(pending),
        entered=entered,
        completed=completed,
        counters=_counters(document.get("pg_status"), groups, entries),
        sending=frozenset(_group_name(entry) for entry in entries if entry.get("is_p2p") is True),
        is_full=any(map(_is_over, entries)) and min((_whole(entry.get("record_id")) or 0) for entry in entries) > 0,
    )


def _is_over(entry: Mapping[str, Any]) -> bool:
    return entry.get("retired") is True or entry.get("state") == "completed"


def _sequence(entry: Mapping[str, Any], is_p2p: bool) -> int | None:
    """The oldest versions number sends and collectives together."""
    return _whole(entry.get("p2p_seq_id" if is_p2p else "collective_seq_id", entry.get("seq_id")))


def _batches(entries: list[dict[str, Any]]) -> dict[tuple[str, bool, int], bool]:
    """By group, kind and number: whether a batch of operations is finished.

    PyTorch records this only for the batch, in an entry after its members, which look unfinished for ever.
    """
    sends = {(_group_name(entry), _sequence(entry, True)) for entry in entries if entry.get("is_p2p") is True}
    found: dict[tuple[str, bool, int], bool] = {}
    for entry in entries:
        if not _is_batch(entry):
            continue
        group = _group_name(entry)
        is_p2p = entry.get("is_p2p") is True or (group, _sequence(entry, True)) in sends
        if (number := _sequence(entry, is_p2p)) is not None:
            found[group, is_p2p, number] = _is_over(entry)
    return found


def _is_batch(entry: Mapping[str, Any]) -> bool:
    return _operation_name(entry) == "coalesced"


def _operation_name(entry: Mapping[str, Any]) -> str:
    return _BACKEND.sub("", label(entry.get("profiling_name", ""), 64))


def _disambiguated(dumps: list[Dump]) -> Iterator[Dump]:
    """Groups that were split off another may share a name: a number is appended."""
    members: dict[str, set[tuple[int, ...]]] = {}
    for dump in dumps:
        for name, group in dump.groups.items():
            members.setdefault(name, set()).add(tuple(sorted(group.ranks)))
    shared = {name: sorted(sets) for name, sets in members.items() if len(sets) > 1}
    for dump in dumps:
        new = {
            name: f"{name}#{shared[name].index(tuple(sorted(group.ranks))) + 1}" if name in shared else name
            for name, group in dump.groups.items()
        }
        yield replace(
            dump,
            groups={new[name]: replace(group, name=new[name]) for name, group in dump.groups.items()},
            pending=tuple(replace(one, group=new.get(one.group, one.group)) for one in dump.pending),
            entered={new.get(name, name): number for name, number in dump.entered.items()},
            completed={new.get(name, name): number for name, number in dump.completed.items()},
            counters={new.get(name, name): both for name, both in dump.counters.items()},
            sending=frozenset(new.get(name, name) for name in dump.sending),
        )


def _groups(config: object) -> dict[str, Group]:
    found = {}
    for key, value in config.items() if isinstance(config, dict) else ():
        if not isinstance(value, dict):
            continue
        try:  # older versions write the list as text
            ranks = json.loads(value["ranks"]) if isinstance(value.get("ranks"), str) else value.get("ranks")
        except (ValueError, RecursionError):
            continue
        if isinstance(ranks, list) and all(isinstance(rank, int) for rank in ranks):
            found[label(key, 64)] = Group(label(key, 64), label(value.get("desc", ""), 128), tuple(ranks))
    return found


def _counters(value: object, groups: Mapping[str, Group], entries: list[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    """By group: the last collective that was entered, and the last finished one.

    The keys are numbers that a process gives its groups in order. Entries map them to names; for a rank without entries
    the names, which are numbered over the whole job, are in the same order.
    """
    if not isinstance(value, dict) or not all(isinstance(row, dict) for row in value.values()):
        return {}
    names = {str(entry["pg_id"]): _group_name(entry) for entry in entries if "pg_id" in entry}
    is_counted = all(key.isdecimal() for key in (*value, *groups))
    if is_counted and len(value) == len(groups):
        in_order = dict(zip(sorted(value, key=int), sorted(groups, key=int), strict=True))
        if all(in_order.get(number) == name for number, name in names.items()):
            names = in_order
    found = {}
    for number, row in value.items():
        enqueued, over = _whole(row.get("last_enqueued_collective")), _whole(row.get("last_completed_collective"))
        name = names.get(number)
        if name and enqueued is not None and over is not None:
            found[name] = (enqueued, over)
    return found


def _group_name(entry: Mapping[str, Any]) -> str:
    value = entry.get("process_group")
    return label(value[0], 64) if isinstance(value, list) and value else label(entry.get("pg_id", ""), 64)


def _operations(
    entries: list[dict[str, Any]], groups: Mapping[str, Group], batches: Mapping[tuple[str, bool, int], bool]
) -> Iterator[tuple[dict[str, Any], Operation]]:
    for entry in entries:
        group = _group_name(entry)
        is_p2p = entry.get("is_p2p") is True or (
            _is_batch(entry) and (group, True, _sequence(entry, True)) in batches  # not all versions mark the batch
        )
        sequence = _sequence(entry, is_p2p)
        if sequence is None:
            continue
        name = _operation_name(entry)
        peer = None
        if is_p2p and (found := _PEER.match(name)):
            members = groups[group].ranks if group in groups else ()
            place = int(found["peer"])
            peer = members[place] if place < len(members) else None
            name = found["verb"]
        yield (
            entry,
            Operation(
                group=group,
                sequence=sequence,
                name=name,
                state=label(entry.get("state", ""), 32),
                created_ns=_whole(entry.get("time_created_ns")) or 0,
                input_sizes=_sizes(entry.get("input_sizes")),
                dtype=_first(entry.get("input_dtypes")),
                is_p2p=is_p2p,
                peer=peer,
            ),
        )


def _whole(value: object) -> int | None:
    """A whole number; the recorder's JSON has some as text."""
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,19}", value, re.ASCII):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _sizes(value: object) -> str:
    if not isinstance(value, list):
        return ""
    sizes = ("x".join(map(str, size)) if isinstance(size, list) else str(size) for size in value)
    return label(", ".join(sizes), 128)


def _first(value: object) -> str:
    return label(value[0] if isinstance(value, list) and value else value if isinstance(value, str) else "", 32)

"""Dumps of NCCL's flight recorder, as JSON: which collectives each rank entered, and which it still waits in.

Of a dump only what is not over is kept: a rank remembers thousands of collectives, and a job has thousands of ranks.
A pickle is refused and never opened: it could run code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
_PEER = re.compile(r"(?P<verb>send|recv) (?P<own>\d+)(?:->|<-)(?P<peer>\d+)$", re.ASCII)


@dataclass(frozen=True)
class Group:
    name: str
    description: str
    ranks: tuple[int, ...]  # of the world, in the order of the group


@dataclass(frozen=True)
class Operation:
    """A collective, or one side of a send, that a rank entered and that is not over."""

    group: str
    sequence: int
    name: str  # all_reduce, send, and so on
    state: str
    created_ns: int
    input_sizes: str = ""  # 4096x5120
    output_sizes: str = ""
    dtype: str = ""
    is_p2p: bool = False
    peer: int | None = None  # of a send or receive: the rank of the world on its other side


@dataclass(frozen=True)
class Dump:
    """What one rank told."""

    rank: int
    file: str
    groups: dict[str, Group]
    pending: tuple[Operation, ...]
    entered: dict[str, int] = field(default_factory=dict)  # by group: the last collective that it remembers
    completed: dict[str, int] = field(default_factory=dict)  # by group: the last of them that is over
    counters: dict[str, tuple[int, int]] = field(default_factory=dict)  # by group: both, as the process counts them
    sending: frozenset[str] = frozenset()  # groups that send and receive: their counters count that, too


@dataclass(frozen=True)
class Dumps:
    dumps: tuple[Dump, ...]  # by rank
    notes: tuple[str, ...] = ()  # what could not be read, a sentence each

    @property
    def groups(self) -> dict[str, Group]:
        return {name: group for dump in self.dumps for name, group in dump.groups.items()}

    @property
    def world(self) -> tuple[int, ...]:
        told = {rank for group in self.groups.values() for rank in group.ranks}
        return tuple(sorted(told | {dump.rank for dump in self.dumps}))


def read_dumps(paths: Sequence[Path]) -> Dumps:
    """Of files and folders. One that was cut short is left out, and said so; that none can be read is an error."""
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
    return Dumps(tuple(found[rank] for rank in sorted(found)), tuple(notes))


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
    if not isinstance(document, dict) or not isinstance(document.get("entries"), list):
        raise ValueError("it is JSON, but no flight-recorder dump: it has no entries")
    return _dump(document, file)


def _dump(document: dict[str, Any], file: Path) -> Dump:
    named = _RANK.search(file.name)
    rank = document.get("rank") if isinstance(document.get("rank"), int) else (int(named[1]) if named else None)
    if rank is None:
        raise ValueError("neither it nor its name says which rank it is of")
    groups = _groups(document.get("pg_config"))
    entries = [entry for entry in document["entries"] if isinstance(entry, dict)]
    entered: dict[str, int] = {}
    completed: dict[str, int] = {}
    pending = []
    for entry, operation in _operations(entries, groups):
        is_over = entry.get("retired") is True or operation.state == "completed"
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
    )


def _groups(config: object) -> dict[str, Group]:
    found = {}
    for key, told in config.items() if isinstance(config, dict) else ():
        if not isinstance(told, dict):
            continue
        try:  # older versions write the list as text
            ranks = json.loads(told["ranks"]) if isinstance(told.get("ranks"), str) else told.get("ranks")
        except ValueError:
            continue
        if isinstance(ranks, list) and all(isinstance(rank, int) for rank in ranks):
            found[label(key, 64)] = Group(label(key, 64), label(told.get("desc", ""), 128), tuple(ranks))
    return found


def _counters(told: object, groups: Mapping[str, Group], entries: list[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    """By group: the last collective that was entered, and the last one that is over.

    It is told by numbers that a process gives its groups as it makes them. Entries say which is which; for a rank
    without entries the names, which count up over the whole job, are in the same order.
    """
    if not isinstance(told, dict) or not all(isinstance(row, dict) for row in told.values()):
        return {}
    names = {str(entry["pg_id"]): _group_name(entry) for entry in entries if "pg_id" in entry}
    is_counted = all(key.isdecimal() for key in (*told, *groups))
    if is_counted and len(told) == len(groups):
        in_order = dict(zip(sorted(told, key=int), sorted(groups, key=int), strict=True))
        if all(in_order.get(number) == name for number, name in names.items()):
            names = in_order
    found = {}
    for number, row in told.items():
        enqueued, over = row.get("last_enqueued_collective"), row.get("last_completed_collective")
        name = names.get(number)
        if name and isinstance(enqueued, int) and isinstance(over, int):
            found[name] = (enqueued, over)
    return found


def _group_name(entry: Mapping[str, Any]) -> str:
    told = entry.get("process_group")
    return label(told[0], 64) if isinstance(told, list) and told else label(entry.get("pg_id", ""), 64)


def _operations(
    entries: list[dict[str, Any]], groups: Mapping[str, Group]
) -> Iterator[tuple[dict[str, Any], Operation]]:
    for entry in entries:
        group = _group_name(entry)
        is_p2p = entry.get("is_p2p") is True
        sequence = entry.get("p2p_seq_id" if is_p2p else "collective_seq_id")
        if not isinstance(sequence, int):
            continue
        name = label(entry.get("profiling_name", ""), 64).removeprefix("nccl:")
        peer = None
        if is_p2p and (found := _PEER.match(name)):
            members = groups[group].ranks if group in groups else ()
            place = int(found["peer"])
            peer = members[place] if place < len(members) else None
            name = found["verb"]
        created = entry.get("time_created_ns")
        yield (
            entry,
            Operation(
                group=group,
                sequence=sequence,
                name=name,
                state=label(entry.get("state", ""), 32),
                created_ns=created if isinstance(created, int) else 0,
                input_sizes=_sizes(entry.get("input_sizes")),
                output_sizes=_sizes(entry.get("output_sizes")),
                dtype=_first(entry.get("input_dtypes")),
                is_p2p=is_p2p,
                peer=peer,
            ),
        )


def _sizes(told: object) -> str:
    if not isinstance(told, list):
        return ""
    sizes = ("x".join(map(str, size)) if isinstance(size, list) else str(size) for size in told)
    return label(", ".join(sizes), 128)


def _first(told: object) -> str:
    return label(told[0] if isinstance(told, list) and told else told if isinstance(told, str) else "", 32)

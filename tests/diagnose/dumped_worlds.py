"""Worlds of ranks that enter collectives in order and block, written as the flight recorder dumps them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class World:
    """Each rank runs the program, a list of groups, until it stops by itself or waits for somebody."""

    groups: Mapping[str, tuple[int, ...]]
    program: Sequence[str]
    stops: Mapping[int, int]  # by rank: how many collectives it enters before it hangs
    entered: dict[int, list[tuple[str, int]]] = field(default_factory=dict)
    over: set[tuple[str, int]] = field(default_factory=set)

    def run(self) -> World:
        ranks = sorted({rank for members in self.groups.values() for rank in members})
        places = dict.fromkeys(ranks, 0)
        self.entered = {rank: [] for rank in ranks}
        counts: dict[tuple[int, str], int] = {}
        has_moved = True
        while has_moved:
            has_moved = False
            for rank in ranks:
                if self.waits_in(rank) is not None or len(self.entered[rank]) >= self.stops.get(rank, 1 << 30):
                    continue
                while places[rank] < len(self.program) and rank not in self.groups[self.program[places[rank]]]:
                    places[rank] += 1
                if places[rank] == len(self.program):
                    continue
                name = self.program[places[rank]]
                places[rank] += 1
                number = counts[rank, name] = counts.get((rank, name), 0) + 1
                self.entered[rank].append((name, number))
                if all((name, number) in self.entered[member] for member in self.groups[name]):
                    self.over.add((name, number))
                has_moved = True
        return self

    def waits_in(self, rank: int) -> tuple[str, int] | None:
        last = self.entered[rank][-1] if self.entered[rank] else None
        return last if last is not None and last not in self.over else None

    @property
    def missing(self) -> tuple[int, ...]:
        """Ranks that hang by themselves and that somebody waits for."""
        found = set()
        for rank in self.entered:
            waited = self.waits_in(rank)
            if waited is not None:
                found |= {other for other in self.groups[waited[0]] if waited not in self.entered[other]}
        return tuple(sorted(rank for rank in found if self.waits_in(rank) is None))

    def dump(self, rank: int, is_active_only: bool, has_status: bool) -> dict[str, Any]:
        own = {name: members for name, members in self.groups.items() if rank in members}
        numbers = {name: place for place, name in enumerate(sorted(own, key=int))}
        entries = [
            entry(name, number, "completed" if (name, number) in self.over else "scheduled", pg_id=numbers[name])
            for name, number in self.entered[rank]
            if not is_active_only or (name, number) not in self.over
        ]
        document: dict[str, Any] = {"version": "2.9", "pg_config": config(own), "entries": entries}
        if has_status:
            document["pg_status"] = {str(numbers[name]): self._status(rank, name) for name in own}
        return document

    def _status(self, rank: int, name: str) -> dict[str, int]:
        mine = [number for group, number in self.entered[rank] if group == name]
        over = [number for number in mine if (name, number) in self.over]
        return {
            "last_enqueued_collective": max(mine, default=-1),
            "last_started_collective": -1,
            "last_completed_collective": max(over, default=-1),
        }


def config(groups: Mapping[str, tuple[int, ...]]) -> dict[str, dict[str, str]]:
    return {name: {"name": name, "desc": f"group_{name}", "ranks": str(list(own))} for name, own in groups.items()}


def entry(group: str, number: int, state: str = "scheduled", **others: Any) -> dict[str, Any]:
    return {
        "pg_id": int(group),
        "process_group": [group, f"group_{group}"],
        "collective_seq_id": number,
        "p2p_seq_id": 0,
        "profiling_name": "nccl:all_reduce",
        "time_created_ns": 1_000 * number,
        "input_sizes": [[4, 2]],
        "output_sizes": [[4, 2]],
        "input_dtypes": ["Float"],
        "state": state,
        "retired": state == "completed",
        "is_p2p": False,
    } | others


def write(folder: Path, documents: Mapping[int, object]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for rank, document in documents.items():
        (folder / f"_dump_{rank}.json").write_text(json.dumps(document))
    return folder

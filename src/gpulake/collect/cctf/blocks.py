"""Blocks of a run in the order of writing, with the names and the time of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpulake.collect.rows import KINDS
from gpulake.collect.segments import Block, Damage, read_blocks_once, read_moments

STEP_MS = 500  # a larger change of wall clock minus time since boot is a clock step


@dataclass(frozen=True)
class Names:
    """The names in all rows of a node."""

    node: str
    stage: str | None
    host_id: str | None

    @property
    def columns(self) -> dict[str, Any]:
        return {"node": self.node, "stage": self.stage, "host_id": self.host_id}


@dataclass(frozen=True)
class Tick:
    """The moment of a block."""

    names: Names
    boot_id: str
    session: int
    elapsed_ms: int
    offset_ms: int  # from time since boot to the epoch
    ticks_per_second: int

    @property
    def ts_ms(self) -> int:
        return self.elapsed_ms + self.offset_ms


class Layout:
    """The columns of rows by kind, as the header of their segment names them."""

    def __init__(self, header: Mapping[str, Any]) -> None:
        self.header = header
        given = header.get("columns")
        known = given if isinstance(given, dict) else {}
        self._columns: dict[str, tuple[str, ...]] = {
            kind: tuple(map(str, known[kind])) if isinstance(known.get(kind), list) else row._fields
            for kind, row in KINDS.items()
        }

    def rows(self, block: Block, kind: str) -> Iterator[dict[str, Any]]:
        """Rows of a kind by column; a short row lacks its last columns."""
        columns = self._columns[kind]
        for row in block.rows.get(kind, ()):
            yield dict(zip(columns, row, strict=False))


@dataclass
class BlockCounts:
    """Counts of blocks and of damage."""

    blocks: int = 0
    sessions: set[int] = field(default_factory=set)
    boots: dict[str, int] = field(default_factory=dict)  # blocks per boot
    damaged_blocks: int = 0
    torn_tails: int = 0
    damage: list[Damage] = field(default_factory=list)  # the first ones
    unknown_kinds: Counter[str] = field(default_factory=Counter)
    clock_steps: int = 0
    largest_clock_step_ms: int = 0

    def note_damage(self, damage: Damage) -> None:
        if damage.is_torn_tail:
            self.torn_tails += 1
        else:
            self.damaged_blocks += 1
        if len(self.damage) < 100:
            self.damage.append(damage)


def boot_id_of(header: Mapping[str, Any]) -> str:
    return str(header.get("boot_id", ""))


def boot_offsets(folder: Path) -> dict[str, int]:
    """By boot: the offset from time since boot to the epoch in milliseconds, by its last block."""
    return {boot_id_of(header): now_ms - elapsed_ms for header, now_ms, elapsed_ms in read_moments(folder)}


def ticks(folder: Path, names: Names, counts: BlockCounts) -> Iterator[tuple[Tick, Layout, Block]]:
    """Every block with its time; names that a header lacks are taken from `names`."""
    offsets = boot_offsets(folder)
    layout = Layout({})
    steady: dict[str, int] = {}  # the offset of the block before
    for header, block in read_blocks_once(folder, report=counts.note_damage):
        if header is not layout.header:
            layout = Layout(header)
        boot_id = boot_id_of(header)
        tick = Tick(
            names=names_of(header, names),
            boot_id=boot_id,
            session=_whole(header.get("session"), 0),
            elapsed_ms=block.elapsed_ms,
            offset_ms=offsets.get(boot_id, block.now_ms - block.elapsed_ms),
            ticks_per_second=_whole(header.get("ticks_per_second"), 100) or 100,
        )
        _note(counts, tick, block, steady)
        yield tick, layout, block


def _whole(value: object, otherwise: int) -> int:
    return value if type(value) is int else otherwise


def names_of(header: Mapping[str, Any], otherwise: Names) -> Names:
    return Names(
        node=str(header.get("node_id") or otherwise.node),
        stage=_text(header.get("stage")) or otherwise.stage,
        host_id=_text(header.get("host_id")) or otherwise.host_id,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _note(counts: BlockCounts, tick: Tick, block: Block, steady: dict[str, int]) -> None:
    counts.blocks += 1
    counts.sessions.add(tick.session)
    counts.boots[tick.boot_id] = counts.boots.get(tick.boot_id, 0) + 1
    for kind, rows in block.rows.items():
        if kind not in KINDS:
            counts.unknown_kinds[kind] += len(rows)
    offset = block.now_ms - block.elapsed_ms
    step = abs(offset - steady.get(tick.boot_id, offset))
    if step >= STEP_MS:
        counts.clock_steps += 1
        counts.largest_clock_step_ms = max(counts.largest_clock_step_ms, step)
    steady[tick.boot_id] = offset

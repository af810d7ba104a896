"""Which landings are in force: those that no later one replaced or took back. A source may have many."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path

from gpulake.core.types import Landing

BLOCK_BYTES = 1 << 20
NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Source:
    """What a bronze table has of one source."""

    version: int = 0  # of its newest landing, in force or not
    held: tuple[Landing, ...] = ()  # in force, oldest first


# By table and source.
Live = dict[str, dict[str, Source]]


def sources(landings: Iterable[Landing]) -> dict[str, Source]:
    """Of one table, from its landings in the order of their commits."""
    known: dict[str, dict[int, Landing]] = {}
    held: dict[str, dict[int, Landing]] = {}
    for landing in landings:
        versions = known.setdefault(landing.source, {})
        here = held.setdefault(landing.source, {})
        for version in list(here) if landing.replaces is None else landing.replaces:
            here.pop(version, None)
        here.update({version: versions[version] for version in landing.restores if version in versions})
        versions[landing.version] = landing
        if landing.file:
            here[landing.version] = landing
    return {
        source: Source(max(known[source]), tuple(here[version] for version in sorted(here)))
        for source, here in held.items()
    }


def replaced_by(landing: Landing, history: Sequence[Landing]) -> list[Landing]:
    """The landings that this one put out of force; `history` has those of its table, in the order of their commits."""
    mine = [other for other in history if other.source == landing.source]
    if landing.replaces is not None:
        return [other for other in mine if other.version in landing.replaces and other.file]
    # Of a version that replaced by default. A landing taken back was then written again under a later number.
    first = next(place for place, other in enumerate(mine) if other.file == landing.file)
    return [other for source in sources(mine[:first]).values() for other in source.held]


def continued(path: Path, held: Iterable[Landing]) -> set[int]:
    """The versions whose whole content the file begins with: a log that grew has all of their rows."""
    size = path.stat().st_size
    shorter = sorted((one for one in held if 0 < one.size_bytes < size), key=lambda one: one.size_bytes)
    found: set[int] = set()
    hasher, count = hashlib.sha256(), 0
    with path.open("rb") as file:
        for landing in shorter:
            while count < landing.size_bytes and (block := file.read(min(BLOCK_BYTES, landing.size_bytes - count))):
                hasher.update(block)
                count += len(block)
            if hasher.hexdigest() == landing.sha256:
                found.add(landing.version)
    return found


def in_order(tables: Iterable[Sequence[Landing]]) -> list[Landing]:
    """Of several tables, by time; those of a table in the order of their commits, though the clock was set back."""
    timed = []
    for landings in tables:
        latest = NEVER
        for landing in landings:
            latest = max(latest, landing.landed_at)
            timed.append((latest, landing))
    return [landing for _, landing in sorted(timed, key=itemgetter(0))]

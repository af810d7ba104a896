"""Which landings a user means by an id or a path, to take them back or to leave them out of a build."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpulake.core.clock import Clock
from gpulake.core.errors import UsageError, choice_hint
from gpulake.core.types import Landing
from gpulake.lake.store import Lake

LEAST_ID_CHARACTERS = 6


@dataclass(frozen=True)
class Undone:
    landing: Landing
    held: tuple[Landing, ...]  # what is in force of the source now


def named_landings(lake: Lake, words: Sequence[str], is_last: bool = False) -> list[Landing]:
    """Those in force, by their id, the path of their file, of its archive or of a folder above it.

    A path means all that landed from it, or, with `is_last`, only the last landing of each file.
    """
    live = lake.held_landings()
    found: dict[str, Landing] = {}
    for word in words:
        matching = [landing for landing in live if _has_id(landing, word)]
        if not matching:
            matching = [landing for landing in live if _is_at(landing, word)]
            if is_last:
                matching = list({(landing.table, landing.source): landing for landing in matching}.values())
        if not matching:
            raise UsageError(f"nothing that holds now landed as {word!r}", _hint(word, live))
        found.update({landing.landing_id: landing for landing in matching})
    return list(found.values())


def files_without(lake: Lake, left_out: Sequence[Landing]) -> set[tuple[str, str]]:
    """The files, by table, that no other source holds."""
    ids = {landing.landing_id for landing in left_out}
    kept = {(landing.table, landing.file) for landing in lake.held_landings() if landing.landing_id not in ids}
    return {(landing.table, landing.file) for landing in left_out} - kept


def take_back(lake: Lake, landings: Sequence[Landing], clock: Clock) -> list[Undone]:
    """One commit each: after a crash the same command takes back the rest."""
    return [Undone(landing, lake.bronze.take_back(landing, clock)) for landing in landings]


def _has_id(landing: Landing, word: str) -> bool:
    return len(word) >= LEAST_ID_CHARACTERS and landing.landing_id.startswith(word)


def _is_at(landing: Landing, word: str) -> bool:
    path = str(Path(word).absolute())
    return landing.source in (word, path) or landing.source.startswith((f"{path}!", f"{path}/"))


def _hint(word: str, live: Sequence[Landing]) -> str:
    near = choice_hint(word, {landing.source for landing in live})
    return near if near.startswith("did") else "see what landed, and its ids, with: gpulake land --list"

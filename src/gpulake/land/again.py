"""Whether a source can land again: its file is still there, with the same content."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpulake.core.clock import Clock
from gpulake.core.errors import InputError
from gpulake.core.progress import silent
from gpulake.lake import Lake
from gpulake.lake.blocks import read_content
from gpulake.land.inputs import find_inputs, unpack
from gpulake.land.landing import failure, land

# Their rows hold a name that was given when they were imported.
NAMED = ("bronze_opendc_tasks", "bronze_opendc_fragments")


def is_unchanged(lake: Lake, table: str, source: str, sha256: str) -> bool:
    """Without a hash, whether the file is there at all."""
    if table in NAMED:
        return False
    lake.staging.mkdir(exist_ok=True)
    try:
        plain = [one for item in find_inputs(_paths(source)) for one in unpack(item, lake.staging)]
    except (InputError, OSError):
        return False
    named = [one for one in plain if one.source == source]
    is_same = any(not sha256 or read_content(one.path).sha256 == sha256 for one in named)
    for one in plain:
        if one.path.parent == lake.staging:
            one.path.unlink()
    return is_same


def land_again(lake: Lake, sources: Sequence[str], damaged: Sequence[str], clock: Clock) -> None:
    for source in sources:
        result = land(lake, _paths(source), clock, silent, damaged=damaged)
        if result.failed:
            raise failure(result.failed, len(result.failed))


def _paths(source: str) -> list[Path]:
    whole = Path(source.split("!")[0])
    return [whole] if whole.exists() else sorted(whole.parent.glob(f"{whole.name}.part*")) or [whole]

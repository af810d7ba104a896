"""Where an adapter's rows go and whose they are: RUN_DIR, and the node that it belongs to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

from gpulake.collect.identity import Identity, identify
from gpulake.collect.rundir import RunDir
from gpulake.core.errors import UsageError


@dataclass(frozen=True)
class Place:
    run: RunDir
    node: str
    stage: str | None
    host_id: str | None
    boot_id: str


def place_of(path: Path, *, node: str = "", stage: str = "", root: Path = Path("/")) -> Place:
    """RUN_DIR is named after its node, and the collector may have written more about it; what is given goes before."""
    run = RunDir(path)
    known = _known(run)
    name = node or known.get("node") or path.resolve().name
    here: Identity = identify(run_id="run", node_id=name, root=root)
    # A log of another node that is read here is not of this host.
    is_here = not node or node == known.get("node", path.resolve().name)
    return Place(
        run=run,
        node=name,
        stage=stage or known.get("stage") or None,
        host_id=(known.get("host_id") or here.host_id) if is_here else None,
        boot_id=here.boot_id,
    )


def zone_of(text: str) -> tzinfo:
    """`UTC`, `+08:00`, or a name such as Europe/Berlin."""
    if text.upper() in ("", "UTC", "Z"):
        return UTC
    try:
        if text[0] in "+-":
            offset = datetime.strptime(text, "%z").utcoffset()
            return timezone(offset or timedelta())
        return ZoneInfo(text)
    except (ValueError, OSError, KeyError) as error:
        raise UsageError(f"no time zone {text!r}", "write UTC, +08:00, or a name such as Europe/Berlin") from error


def _known(run: RunDir) -> dict[str, str]:
    """What the collector of this run wrote about its node, if there is one."""
    try:
        found = json.loads(run.node_meta.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {key: value for key, value in found.items() if isinstance(value, str)} if isinstance(found, dict) else {}

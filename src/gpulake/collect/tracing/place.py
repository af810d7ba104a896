"""The run and the node that the rows of an adapter belong to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpulake.collect.identity import Identity, identify
from gpulake.collect.rundir import RunDir, read_object
from gpulake.collect.tracing.invocation import PlacementEvent


@dataclass(frozen=True)
class Place:
    run: RunDir
    node: str
    stage: str | None
    host_id: str | None
    boot_id: str

    def placement(
        self, event: str, at_ms: int, *, app_id: str, module_id: str, instance_id: str, pid: int
    ) -> PlacementEvent:
        return PlacementEvent(
            ts=at_ms,
            app_id=app_id,
            module_id=module_id,
            instance_id=instance_id,
            node_id=self.node,
            event=event,
            stage=self.stage,
            host_id=self.host_id,
            pid=pid,
        )


def place_of(path: Path, *, node: str = "", stage: str = "") -> Place:
    """RUN_DIR is named after its node, and node_meta.json may say more; arguments override both."""
    run = RunDir(path)
    known = {key: value for key, value in read_object(run.node_meta).items() if isinstance(value, str)}
    name = node or known.get("node") or path.resolve().name
    here: Identity = identify(run_id="run", node_id=name)
    # The log of another node may be read on this host.
    is_here = not node or node == known.get("node", path.resolve().name)
    return Place(
        run=run,
        node=name,
        stage=stage or known.get("stage") or None,
        host_id=(known.get("host_id") or here.host_id) if is_here else None,
        boot_id=here.boot_id,
    )

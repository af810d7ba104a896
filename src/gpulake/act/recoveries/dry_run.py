"""Does nothing, and records what would be done. Impossible steps are refused, as in a real run."""

from __future__ import annotations

from gpulake.act.recoveries import RECOVERIES, Commands, NodeQuery, Order, node_query
from gpulake.core.recovery_settings import Recoveries


@RECOVERIES.register("dry-run")
class DryRun:
    def __init__(self, settings: Recoveries) -> None:
        self._settings = settings

    def restart(self, order: Order) -> Commands:
        order.job()
        return ()

    def rollback(self, order: Order) -> Commands:  # noqa: ARG002
        return ()

    def cordon(self, order: Order) -> Commands:
        order.the_node()
        return ()

    def uncordon(self, order: Order) -> Commands:
        order.the_node()
        return ()

    def why_cordoned(self, order: Order) -> tuple[str, ...]:
        order.the_node()
        return ()

    def tell(self, order: Order) -> Commands:  # noqa: ARG002
        return ()

    def nodes(self, order: Order) -> NodeQuery | None:
        return node_query(self._settings, order)

"""Does nothing, and leaves rows that say what would be done. What nobody could do is refused here, too."""

from __future__ import annotations

from gpulake.act.recoveries import RECOVERIES, Asking, Commands, Order, asked_by_hook
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

    def tell(self, order: Order) -> Commands:  # noqa: ARG002
        return ()

    def nodes(self, order: Order) -> Asking | None:
        return asked_by_hook(self._settings, order)

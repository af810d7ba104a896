"""The site's own programs: a command of the settings for each step."""

from __future__ import annotations

from gpulake.act.recoveries import RECOVERIES, Commands, NodeQuery, Order, hooked, node_query
from gpulake.core.recovery_settings import Recoveries


@RECOVERIES.register("command")
class CommandHook:
    def __init__(self, settings: Recoveries) -> None:
        self._settings = settings

    def restart(self, order: Order) -> Commands:
        return hooked("restart_command", self._settings.restart_command, order)

    def rollback(self, order: Order) -> Commands:
        return hooked("rollback_command", self._settings.rollback_command, order)

    def cordon(self, order: Order) -> Commands:
        return hooked("cordon_command", self._settings.cordon_command, order)

    def uncordon(self, order: Order) -> Commands:
        return hooked("uncordon_command", self._settings.uncordon_command, order)

    def why_cordoned(self, order: Order) -> tuple[str, ...]:
        order.the_node()
        return ()

    def tell(self, order: Order) -> Commands:
        return tell(self._settings, order)

    def nodes(self, order: Order) -> NodeQuery | None:
        return node_query(self._settings, order)


def tell(settings: Recoveries, order: Order) -> Commands:
    """Without a tell_command the message is only printed."""
    return hooked("tell_command", settings.tell_command, order) if settings.tell_command else ()

"""Kubernetes: the pods of the job are deleted, for its controller to make new ones; a faulty node is cordoned."""

from __future__ import annotations

import re

from gpulake.act.recoveries import RECOVERIES, Command, Commands, NodeQuery, Order, hooked, node_query
from gpulake.act.recoveries.command import tell
from gpulake.core.errors import ActError
from gpulake.core.placeholders import filled
from gpulake.core.recovery_settings import Recoveries

_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)
# kubectl calls it a success.
_NOTHING = "No resources found"


@RECOVERIES.register("kubernetes")
class Kubernetes:
    def __init__(self, settings: Recoveries) -> None:
        self._settings = settings

    def restart(self, order: Order) -> Commands:
        if self._settings.restart_command:
            return hooked("restart_command", self._settings.restart_command, order)
        if not _LABEL.fullmatch(order.job()):
            raise ActError(f"{order.job_id!r} is no name of a job in Kubernetes", "name the job with --job")
        selector = f"--selector={self._selector(order)}"
        delete = ("kubectl", "delete", "pod", f"--namespace={self._settings.namespace}", selector)
        return (Command((*delete, "--wait=false"), failed_if_said=_NOTHING),)

    def rollback(self, order: Order) -> Commands:
        """New pods start as their controller says: loading an earlier checkpoint takes the site's own command."""
        return hooked("rollback_command", self._settings.rollback_command, order)

    def cordon(self, order: Order) -> Commands:
        return (Command(("kubectl", "cordon", order.the_node())),)

    def uncordon(self, order: Order) -> Commands:
        if self._settings.uncordon_command:
            return hooked("uncordon_command", self._settings.uncordon_command, order)
        return (Command(("kubectl", "uncordon", order.the_node())),)

    def why_cordoned(self, order: Order) -> tuple[str, ...]:
        """Kubernetes does not say."""
        order.the_node()
        return ()

    def tell(self, order: Order) -> Commands:
        return tell(self._settings, order)

    def nodes(self, order: Order) -> NodeQuery | None:
        """Those that its pods are on."""
        if self._settings.nodes_command or not _LABEL.fullmatch(order.job()):
            return node_query(self._settings, order)
        get = (
            "kubectl",
            "get",
            "pods",
            f"--namespace={self._settings.namespace}",
            f"--selector={self._selector(order)}",
        )
        return NodeQuery((*get, "--output=jsonpath={.items[*].spec.nodeName}"), str.split)

    def _selector(self, order: Order) -> str:
        return filled([self._settings.pod_selector], {"job_id": order.job()})[0]

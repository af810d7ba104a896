"""Slurm: the job is put back into the queue under its own id, a faulty node is drained."""

from __future__ import annotations

import re

from gpulake.act.recoveries import RECOVERIES, Command, Commands, NodeQuery, Order, hooked, node_query, plain
from gpulake.act.recoveries.command import tell
from gpulake.core.errors import ActError
from gpulake.core.recovery_settings import Recoveries
from gpulake.formats.slurm import hosts

# 7, a task of an array (7_3), a part of a heterogeneous job (7+1).
_JOB = re.compile(r"\d+(_\d+)?(\+\d+)?", re.ASCII)


@RECOVERIES.register("slurm")
class Slurm:
    def __init__(self, settings: Recoveries) -> None:
        self._settings = settings

    def restart(self, order: Order) -> Commands:
        """The script finds its last checkpoint itself, unless restart_command passes it."""
        if self._settings.restart_command:
            return hooked("restart_command", self._settings.restart_command, order)
        if not _JOB.fullmatch(order.job()):
            raise ActError(f"{order.job_id!r} is no job id of Slurm", "name the job with --job")
        return (Command(("scontrol", "requeue", order.job())),)

    def rollback(self, order: Order) -> Commands:
        """Slurm cannot make a script load an earlier checkpoint: this takes the site's own command."""
        return hooked("rollback_command", self._settings.rollback_command, order)

    def cordon(self, order: Order) -> Commands:
        reason = plain(f"gpulake {order.incident_id}: {order.reason}: {order.cause}")
        update = ("scontrol", "update", f"nodename={order.the_node()}", "state=drain", f"reason={reason}")
        return (Command(update),)

    def uncordon(self, order: Order) -> Commands:
        if self._settings.uncordon_command:
            return hooked("uncordon_command", self._settings.uncordon_command, order)
        return (Command(("scontrol", "update", f"nodename={order.the_node()}", "state=resume")),)

    def why_cordoned(self, order: Order) -> tuple[str, ...]:
        return ("sinfo", "--noheader", f"--nodes={order.the_node()}", "--format=%E")

    def tell(self, order: Order) -> Commands:
        return tell(self._settings, order)

    def nodes(self, order: Order) -> NodeQuery | None:
        """By the accounting: every time that the job ran."""
        if self._settings.nodes_command or not _JOB.fullmatch(order.job()):
            return node_query(self._settings, order)
        job = order.job()
        flags = ("--allocations", "--duplicates", "--noheader", "--parsable2", "--format=JobID,NodeList")
        return NodeQuery(("sacct", f"--jobs={job}", *flags), lambda output: _nodes(output, job))


def _nodes(output: str, job: str) -> list[str]:
    """Of rows such as 77|n[01-16]; a run that waits has no node yet."""
    rows = [line.partition("|") for line in output.splitlines()]
    lists = [nodes for name, _, nodes in rows if name == job and nodes and not nodes.startswith("None")]
    return [node for nodes in lists for node in hosts(nodes)]

"""Kubernetes: a Job is made anew, or its pods are, for its controller to replace them; a faulty node is cordoned."""

from __future__ import annotations

import re
import sys

from gpulake.act.kubernetes_job import NOTHING
from gpulake.act.recoveries import RECOVERIES, Command, Commands, NodeQuery, Order, hooked, node_query
from gpulake.act.recoveries.command import tell
from gpulake.core.errors import ActError
from gpulake.core.placeholders import filled
from gpulake.core.recovery_settings import Recoveries

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
# A name, or as `pull kubernetes` calls a job: namespace/name/beginning of its uid.
_JOB = re.compile(rf"(?:(?P<namespace>{_NAME})/)?(?P<name>{_NAME})(?:/(?P<uid>[0-9a-f-]{{8,36}}))?", re.ASCII)
_OF_JOBS = "batch.kubernetes.io/job-name={job_id}"


@RECOVERIES.register("kubernetes")
class Kubernetes:
    def __init__(self, settings: Recoveries) -> None:
        self._settings = settings

    def restart(self, order: Order) -> Commands:
        if self._settings.restart_command:
            return hooked("restart_command", self._settings.restart_command, order)
        job = _JOB.fullmatch(order.job())
        if job is None:
            raise ActError(f"{order.job_id!r} is no name of a job in Kubernetes", "name the job with --job")
        where = self._pods(job)
        if self._settings.pod_selector != _OF_JOBS:  # the pods of another controller
            return (Command(("kubectl", "delete", "pod", *where, "--wait=false"), failed_if_said=NOTHING),)
        name = f"{job['name']}/{job['uid']}" if job["uid"] else job["name"]
        return (Command((sys.executable, "-P", "-m", "gpulake.act.kubernetes_job", *where, name)),)

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
        job = _JOB.fullmatch(order.job())
        if self._settings.nodes_command or job is None:
            return node_query(self._settings, order)
        get = ("kubectl", "get", "pods", *self._pods(job))
        return NodeQuery((*get, "--output=jsonpath={.items[*].spec.nodeName}"), str.split)

    def _pods(self, job: re.Match[str]) -> tuple[str, str]:
        (selector,) = filled([self._settings.pod_selector], {"job_id": job["name"]})
        return f"--namespace={job['namespace'] or self._settings.namespace}", f"--selector={selector}"

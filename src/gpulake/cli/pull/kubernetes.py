"""gpulake pull kubernetes: what a cluster runs now."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import click

from gpulake.cli._options import ANY_PATH
from gpulake.cli._times import Span
from gpulake.cli.pull._pulling import pull_options
from gpulake.pull import Source


@click.command()
@click.option(
    "--kubeconfig", default="", metavar="FILE", help="[default: KUBECONFIG, ~/.kube/config, the pod's account]"
)
@click.option("--context", default="", metavar="NAME", help="Context of the kubeconfig. [default: the current one]")
@click.option("--namespace", "namespaces", multiple=True, metavar="NAME", help="May be repeated. [default: all]")
@click.option(
    "--cluster", default="kubernetes", show_default=True, metavar="NAME", help="Name of the cluster in the lake."
)
@click.option(
    "--from", "saved", type=ANY_PATH, metavar="PATH", help="File or folder of what kubectl get -o json printed."
)
@click.option("--timeout", type=Span(), default="1m", show_default=True, metavar="SPAN", help="For one answer.")
@pull_options
def command(
    kubeconfig: str, context: str, namespaces: tuple[str, ...], cluster: str, saved: Path | None, timeout: timedelta
) -> Source:
    """Pull pods, nodes, events and jobs from a Kubernetes API.

    A pull is a snapshot of now: run it every few minutes. It only reads; the role that it needs is in
    docs/kubernetes.md. Kinds that the cluster does not have, or that it may not list, are skipped, and the row Snapshot
    of bronze_kubernetes_objects says so.

    \b
    Example:  gpulake pull kubernetes --cluster tiger --refresh
              gpulake pull kubernetes --cluster tiger --from saved/
    """
    from gpulake.pull.kubernetes import KubernetesPull

    return KubernetesPull(kubeconfig, context, namespaces, cluster, saved, timeout.total_seconds())

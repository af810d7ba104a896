"""gpulake export grafana: dashboards that Grafana imports."""

from __future__ import annotations

from pathlib import Path

import click

from gpulake.cli._options import FOLDER


@click.command()
@click.option("--out", required=True, type=FOLDER, help="The folder for them.")
def command(out: Path) -> None:
    """Write dashboards for Grafana: of the lake's metrics, and of the collectors'.

    Both read from a Prometheus that scrapes /metrics of `gpulake serve`, or the collectors' pages. Import them in
    Grafana under Dashboards, New, Import; or let it find them in a folder of its provisioning.

    \b
    Example:  gpulake export grafana --out dashboards
    """
    from gpulake.show.grafana import write_dashboards

    for path in write_dashboards(out):
        click.echo(path)

"""gpulake export grafana: dashboards that Grafana imports."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option("--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="A folder for them.")
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

"""gpulake serve: the dashboard."""

from __future__ import annotations

from pathlib import Path

import click

from gpulake.cli._options import lake_option, settings


@click.command()
@lake_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8080, show_default=True, type=click.IntRange(1, 65535), help="Port to listen on.")
def command(lake: Path | None, host: str, port: int) -> None:
    """Open the dashboard of a lake for browsers.

    \b
    Example:  gpulake serve --lake demo/lake
    """
    from gpulake.flow import Flow
    from gpulake.flow.serving import serve

    serve(Flow(settings(lake=lake)).lake, host, port)

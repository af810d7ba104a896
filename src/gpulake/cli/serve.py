"""gpulake serve: the dashboard."""

from __future__ import annotations

import click

from gpulake.cli._flow import flow_option
from gpulake.flow import Flow


@click.command()
@flow_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    default=8080,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port to listen on; 0 takes one that is free.",
)
@click.option("--open", "is_opened", is_flag=True, help="Open it in the browser.")
def command(flow: Flow, host: str, port: int, is_opened: bool) -> None:
    """Open the dashboard of a lake for browsers.

    On an address that others can reach it requires logins: tokens in GPULAKE_SERVE_TOKENS, or a reverse proxy.

    \b
    Example:  gpulake serve --lake demo/lake
    """
    from gpulake.flow.serving import serve

    def started(url: str) -> None:
        click.echo(url)
        click.echo("stop it with Ctrl-C", err=True)
        if is_opened:
            import webbrowser

            webbrowser.open(url)

    serve(flow.lake, host, port, started)

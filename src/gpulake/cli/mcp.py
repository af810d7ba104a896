"""gpulake mcp: the lake's questions, for assistants."""

from __future__ import annotations

import sys

import click

from gpulake.cli._flow import flow_option
from gpulake.flow import Flow


@click.command()
@flow_option
def command(flow: Flow) -> None:
    """Answer an assistant's questions about the lake, on standard input and output.

    A server of the Model Context Protocol, which assistants start themselves. It has the questions of the API, changes
    nothing, and sees what whoever starts it may read. docs/mcp.md has the settings of assistants.

    \b
    Example:  gpulake mcp --lake /srv/gpulake/lake
    """
    from gpulake.flow.serving import assist

    assist(flow.lake, sys.stdin.buffer, sys.stdout.buffer)

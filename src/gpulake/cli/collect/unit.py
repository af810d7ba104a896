"""gpulake collect unit"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from gpulake.cli.collect._options import live_options, settings_options
from gpulake.collect.live.session import LiveOptions
from gpulake.collect.settings import Settings

FOLDER = Path("/var/lib/gpulake")
RUN_ID = "service"  # a restart continues the same run


@click.command(short_help="Print a systemd unit.")
@settings_options
@live_options
@click.option("--user", default="", help="User of the service. [default: a user that systemd allocates]")
@click.pass_context
def command(context: click.Context, settings: Settings, live: LiveOptions, user: str) -> None:
    """Print a systemd unit that collects as `gpulake collect run` with these options would, and restarts if it dies.

    It needs no root. By default the folder is /var/lib/gpulake and the run is named service.

    \b
    Example: gpulake collect unit --peer 10.0.0.2 > /etc/systemd/system/gpulake-collect.service
    """
    from gpulake.collect.control import collect_command
    from gpulake.collect.session import check
    from gpulake.collect.settings import unit

    if context.get_parameter_source("base") is click.core.ParameterSource.DEFAULT:
        settings = replace(settings, base=FOLDER)
    settings = replace(
        settings,
        run_id=settings.run_id or RUN_ID,
        pid_dir=None if settings.pid_dir is None else settings.pid_dir.absolute(),
    )
    check(settings)
    click.echo(unit(settings, collect_command(), more=live.arguments(), user=user), nl=False)

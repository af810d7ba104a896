"""gpulake collect start"""

from __future__ import annotations

from dataclasses import replace

import click

from gpulake.cli.collect._options import grace_option, live_options, new_run_id, settings_options
from gpulake.collect.live.session import LiveOptions
from gpulake.collect.settings import Settings


@click.command(short_help="Collect in the background.")
@settings_options
@live_options
@grace_option
def command(settings: Settings, live: LiveOptions, grace: float) -> None:
    """Collect traces of this machine in the background.

    Returns once the first samples are on the disk, or says why there are none. A collector of the same run and node
    that runs already is replaced.

    \b
    Example: gpulake collect start --run-id night1 --peer 10.0.0.2
    """
    from gpulake.collect import control

    settings = replace(settings, run_id=settings.run_id or new_run_id())
    started = control.start(settings, more=live.arguments(), grace_seconds=grace)
    click.echo(f"collecting: {started.run.path} (process {started.pid})")
    if started.replaced.pid is not None:
        click.echo(f"replaced:   process {started.replaced.pid} ({started.replaced.signal})")
    if not started.is_acknowledged:
        click.echo(f"no samples yet: see gpulake collect status, and {started.run.log}", err=True)

"""gpulake collect run"""

from __future__ import annotations

import os
from dataclasses import replace

import click

from gpulake.cli.collect._options import live_options, new_run_id, settings_options
from gpulake.collect.live.session import LiveOptions
from gpulake.collect.settings import Settings


@click.command(short_help="Collect in the foreground.")
@settings_options
@live_options
@click.option("--answer-to", type=int, hidden=True, help="Go to the background, and answer to this descriptor.")
def command(settings: Settings, live: LiveOptions, answer_to: int | None) -> None:
    """Collect traces of this machine in the foreground, until ^C, TERM or --duration.

    Needs no root: what it may not read is reported once and skipped. Samples are on the disk within a second, and an
    interrupted run continues with the same --run-id.

    \b
    Example: gpulake collect run --run-id night1 --interval 200ms --match 'python|ffmpeg'
    """
    from gpulake.collect import control
    from gpulake.collect.live.session import live as go_live
    from gpulake.collect.session import StopSignals, collect
    from gpulake.core.errors import GpulakeError

    if answer_to is not None and os.fork():
        os._exit(0)
    is_answered = answer_to is None

    def acknowledged(*_: object) -> None:
        nonlocal is_answered
        if not is_answered and answer_to is not None:
            is_answered = True
            control.answer_to(answer_to, {"ok": True})

    settings = replace(settings, run_id=settings.run_id or new_run_id())
    try:
        with StopSignals() as signals, go_live(live, interval_seconds=settings.interval_seconds, say=_say) as state:
            run = collect(
                settings,
                signals.wait,
                echo=_say,
                observers=[state.observe] if state else [],
                source_observers=[state.source] if state else [],
                acknowledged=acknowledged,
            )
    except GpulakeError as error:
        if not is_answered and answer_to is not None:
            answer = {"error": error.message, "hint": error.hint, "exit_code": error.exit_code}
            control.answer_to(answer_to, answer)
        raise
    click.echo(run.path)


def _say(message: str) -> None:
    click.echo(message, err=True)

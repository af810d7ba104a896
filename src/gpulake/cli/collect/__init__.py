"""gpulake collect: traces of this machine, into files that survive it.

These commands run on bare nodes: they import click, `core` and `collect`, and nothing else.
"""

from __future__ import annotations

import click

from gpulake.cli._verbs import Verbs


@click.group(cls=Verbs, package=__name__)
def command() -> None:
    """Collect traces of this machine, and make them ready for the lake and for simulators.

    \b
    Start:   gpulake collect start --run-id night1
    Look:    gpulake collect status
    End:     gpulake collect stop, then gpulake collect parse RUN_DIR
    """

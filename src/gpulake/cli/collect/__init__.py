"""gpulake collect: traces of this machine, into files that survive it.

These commands run on bare nodes: they import click, `core` and `collect`, and nothing else.
"""

from __future__ import annotations

import click

from gpulake.cli._verbs import Verbs
from gpulake.cli.collect._files import audit_run, bundle, merge_runs, parse_run, schema


@click.group(cls=Verbs, package=__name__)
def command() -> None:
    """Collect traces of this machine, and make them ready for the lake and for simulators.

    \b
    Start:   gpulake collect start --run-id night1
    Look:    gpulake collect status
    End:     gpulake collect stop, then gpulake collect parse RUN_DIR
    """


for _one in (audit_run, bundle, merge_runs, parse_run, schema):
    command.add_command(_one)

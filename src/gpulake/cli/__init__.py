"""The command line: one file a verb, found by its name, imported when it is called."""

from __future__ import annotations

import atexit
import gc
import sys

import click

from gpulake import __version__
from gpulake.cli._verbs import TopVerbs
from gpulake.core.errors import GpulakeError
from gpulake.core.lean_imports import leave_out_pandas

GARBAGE_OBJECTS = 50_000  # new ones, before the youngest are looked through


@click.group(
    cls=TopVerbs, package=__name__, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="gpulake", message="%(prog)s %(version)s")
def root() -> None:
    """A lakehouse for GPU training clusters.

    From raw cluster traces to tested tables, findings and plots, on this machine alone.

    \b
    Start here:   gpulake demo
    Your data:    gpulake refresh PATH...
    Look inside:  gpulake tables
    """


def main(group: click.Group = root, name: str = "gpulake") -> None:
    leave_out_pandas()
    _collect_garbage_rarely()
    try:
        group(prog_name=name)
    except GpulakeError as error:
        click.echo(f"error: {error.message}", err=True)
        if error.hint:
            click.echo(f"hint: {error.hint}", err=True)
        sys.exit(error.exit_code)


def _collect_garbage_rarely() -> None:
    """What imports make lives until the end: looking through it again and again takes a tenth of a short command."""
    gc.set_threshold(GARBAGE_OBJECTS)
    atexit.register(gc.freeze)  # the memory goes with the process

"""The command line: one file a verb, found by its name, imported when it is asked for."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import click

from gpulake import __version__
from gpulake.core.errors import GpulakeError, choice_hint


class Verbs(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = importlib.import_module(f"gpulake.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            ctx.fail(f"no command named {args[0]!r}; {choice_hint(args[0], self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="gpulake", message="%(prog)s %(version)s")
def root() -> None:
    """A lakehouse for GPU training clusters.

    From raw cluster traces to tested tables, findings and plots, on this machine alone.

    \b
    Start here:   gpulake demo
    Your data:    gpulake refresh PATH...
    Look inside:  gpulake tables
    """


def main() -> None:
    try:
        root(prog_name="gpulake")
    except GpulakeError as error:
        click.echo(f"error: {error.message}", err=True)
        if error.hint:
            click.echo(f"hint: {error.hint}", err=True)
        sys.exit(error.exit_code)

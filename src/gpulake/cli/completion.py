"""gpulake completion: tab completion for the shell."""

from __future__ import annotations

import click


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    Example:  gpulake completion bash >> ~/.bashrc
    """
    from click.shell_completion import get_completion_class

    from gpulake.cli import root

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    click.echo(kind(root, {}, "gpulake", "_GPULAKE_COMPLETE").source())

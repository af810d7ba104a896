"""A group of commands: one file a verb in a package, imported when it is called, and those added to the group."""

from __future__ import annotations

import importlib
import pkgutil
from keyword import iskeyword
from typing import Any

import click

from gpulake.core.errors import choice_hint


class Verbs(click.Group):
    def __init__(self, *args: Any, package: str, **options: Any) -> None:
        super().__init__(*args, **options)
        self._package = package

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        path = importlib.import_module(self._package).__path__
        # The file of a verb that is a keyword of Python has a trailing underscore.
        names = (module.name for module in pkgutil.iter_modules(path) if not module.name.startswith("_"))
        return sorted({*self.commands, *(name.removesuffix("_") for name in names)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.commands:
            return self.commands[cmd_name]
        if cmd_name not in self.list_commands(ctx):
            return None
        module = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        found = importlib.import_module(f"{self._package}.{module}")
        if hasattr(found, "command"):
            command: click.Command = found.command
            return command
        # A package is a group; its docstring is the help.
        return Verbs(cmd_name, package=found.__name__, help=found.__doc__)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            ctx.fail(f"no command named {args[0]!r}; {choice_hint(args[0], self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)

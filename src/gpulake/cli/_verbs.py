"""Groups of commands: the verbs of one file; or one file a verb in a package, imported when it is called."""

from __future__ import annotations

import importlib
import pkgutil
from importlib.machinery import PathFinder
from keyword import iskeyword
from types import CodeType
from typing import Any

import click

from gpulake.core.errors import choice_hint


class Group(click.Group):
    """Verbs of one file. An unknown verb is an error that names the nearest known one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            ctx.fail(f"no command named {args[0]!r}; {choice_hint(args[0], self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)


class Verbs(Group):
    """One file a verb in a package, and those added to the group."""

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
        found = importlib.import_module(f"{self._package}.{_module(cmd_name)}")
        if hasattr(found, "command"):
            command: click.Command = found.command
            return command
        # A package is a group; its docstring is the help.
        return Verbs(cmd_name, package=found.__name__, help=found.__doc__)


class TopVerbs(Verbs):
    """The list of commands in its help is read from their compiled files: importing them all takes 0.1 s."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        names = self.list_commands(ctx)
        width = formatter.width - 6 - max(map(len, names))  # as click indents it
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._short_help(name, width)) for name in names])

    def _short_help(self, verb: str, width: int) -> str:
        return click.Command(verb, help=_docstring(self._package, _module(verb))).get_short_help_str(width)


def _module(verb: str) -> str:
    return f"{verb}_" if iskeyword(verb) else verb


def _docstring(package: str, module: str) -> str | None:
    """Of the module's function `command`, or of the module itself."""
    spec = PathFinder.find_spec(module, importlib.import_module(package).__path__)
    read = getattr(spec and spec.loader, "get_code", None)
    code = read(module) if read else None
    if code is None:
        return None
    commands = (part for part in code.co_consts if isinstance(part, CodeType) and part.co_name == "command")
    documented = next(commands, code)
    text = documented.co_consts[0]
    return text if isinstance(text, str) else None

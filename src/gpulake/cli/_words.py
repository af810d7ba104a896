"""Reasons of failures and names of people, as options."""

from __future__ import annotations

import getpass
import os
from typing import Any

import click
from click.shell_completion import CompletionItem

from gpulake.cli._options import Function
from gpulake.core.diagnosis import CATEGORY_OF, UNKNOWN
from gpulake.core.errors import choice_hint


class Reason(click.ParamType):  # type: ignore[type-arg]
    """The reason of a failure, completed by the shell."""

    name = "reason"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        known = set(CATEGORY_OF) - {UNKNOWN}
        if value not in known:
            self.fail(f"no reason named {value!r}; {choice_hint(str(value), known)}", param, ctx)
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        del ctx, param
        known = (reason for reason in sorted(CATEGORY_OF) if reason != UNKNOWN)
        return [CompletionItem(reason, help=CATEGORY_OF[reason]) for reason in known if _begins(reason, incomplete)]


def _begins(reason: str, typed: str) -> bool:
    return reason.lower().startswith(typed.lower())


def by_option(function: Function) -> Function:
    return click.option(
        "--by", callback=_who, metavar="NAME", help="Your name, for the record. [default: your login name]"
    )(function)


def _who(ctx: click.Context, param: click.Parameter, value: str | None) -> str:
    """The prefix model: is reserved for models, which are trusted less."""
    if value is not None:
        name = value.strip()
        if not name or len(name) > 100 or name.startswith("model:"):
            raise click.BadParameter("give the name of a person", ctx, param)
        return name
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"uid {os.getuid()}"

"""Commands of the settings: a program and its arguments, with placeholders for what they are about."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from gpulake.core.errors import ConfigError, choice_hint

PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


def check_command(name: str, command: Sequence[str], known: Iterable[str], needed: str, noun: str) -> None:
    """A command names a program, has only known placeholders, and among them the needed one."""
    if not command:
        return
    program, *arguments = command
    if not program or "{" in program:
        raise ConfigError(f"{name} begins with {program!r}", "name a program first, then its arguments")
    for placeholder in placeholders(arguments):
        if placeholder not in known:
            raise ConfigError(f"{name} has the placeholder {{{placeholder}}}", choice_hint(placeholder, known))
    if needed not in placeholders(arguments):
        raise ConfigError(f"{name} {list(command)} names no {noun}", f"pass {{{needed}}} to it")


def placeholders(command: Iterable[str]) -> list[str]:
    return [name for part in command for name in PLACEHOLDER.findall(part)]


def filled(command: Iterable[str], words: Mapping[str, str]) -> tuple[str, ...]:
    """In one pass: a value may hold braces, which are not replaced."""
    return tuple(PLACEHOLDER.sub(lambda match: words[match[1]], part) for part in command)

"""A systemd unit that keeps a collector running, with the least rights."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from gpulake.collect.settings import Settings
from gpulake.core.errors import UsageError
from gpulake.core.resources import text_of

STATE = Path("/var/lib")  # systemd creates state directories below it
PLAIN = re.compile(r"[A-Za-z0-9_./:=@,+-]+")
USER = re.compile(r"[a-z_][a-z0-9_-]{0,30}\$?")
ESCAPES = {"\\": "\\\\", '"': '\\"', "%": "%%", "$": "$$", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def unit(settings: Settings, command: Sequence[str], *, more: Sequence[str] = (), user: str = "") -> str:
    """Runs the command with the settings and more arguments. Without a user systemd allocates one, which can write
    below /var/lib only."""
    base = settings.base
    if not base.is_absolute():
        raise UsageError(f"the folder of a service is {str(base)!r}", "give --dir as an absolute path")
    if user and not USER.fullmatch(user):
        raise UsageError(f"the user is {user!r}", "name a user of this machine")
    if not user and (base.parent != STATE or not PLAIN.fullmatch(base.name)):
        raise UsageError(
            f"a user that systemd makes up cannot write to {base}", "give --user, or a --dir such as /var/lib/gpulake"
        )
    return text_of("gpulake.collect", "collector.service").format(
        command=" ".join(quoted(word) for word in [*command, "run", *settings.arguments(), *more]),
        user=f"User={user}" if user else f"DynamicUser=yes\nStateDirectory={base.name}",
        writable=f"ReadWritePaths={quoted(str(base))}" if user else "# It writes to its StateDirectory.",
        home="read-only" if _is_in_a_home(command, base) else "yes",
    )


def quoted(word: str) -> str:
    """One word of the command line of a unit: systemd interprets %, $, quotes and backslashes."""
    if PLAIN.fullmatch(word):
        return word
    return '"' + "".join(ESCAPES.get(letter, _escaped(letter)) for letter in word) + '"'


def _escaped(letter: str) -> str:
    return letter if letter.isprintable() else "".join(f"\\x{byte:02x}" for byte in os.fsencode(letter))


def _is_in_a_home(command: Sequence[str], base: Path) -> bool:
    """Whether the interpreter, the package or the folder is hidden by ProtectHome."""
    return any(word.startswith(("/home/", "/root/", "/run/user/")) for word in (*command, str(base)))

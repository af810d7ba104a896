"""Words of a systemd unit."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from gpulake.core.errors import UsageError

PLAIN = re.compile(r"[A-Za-z0-9_./:=@,+-]+")
USER = re.compile(r"[a-z_][a-z0-9_-]{0,30}\$?")
ESCAPES = {"\\": "\\\\", '"': '\\"', "%": "%%", "$": "$$", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def quoted(word: str) -> str:
    """One word of the command line of a unit: systemd interprets %, $, quotes and backslashes."""
    if PLAIN.fullmatch(word):
        return word
    return '"' + "".join(ESCAPES.get(letter, _escaped(letter)) for letter in word) + '"'


def _escaped(letter: str) -> str:
    return letter if letter.isprintable() else "".join(f"\\x{byte:02x}" for byte in os.fsencode(letter))


def check_user(user: str) -> None:
    if not USER.fullmatch(user):
        raise UsageError(f"the user is {user!r}", "name a user of this machine")


def protect_home(words: Iterable[str]) -> str:
    """The value of ProtectHome: the interpreter, the package or a folder may be in what it hides."""
    return "read-only" if any(word.startswith(("/home/", "/root/", "/run/user/")) for word in words) else "yes"

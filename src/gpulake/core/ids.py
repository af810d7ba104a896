"""Finding the one id that a person means: the id, or the beginning of it."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from gpulake.core.errors import UsageError
from gpulake.core.words import label

MOST_SHOWN = 5


def the_one(given: str, known: Collection[str], noun: str, how: str) -> str:
    """The id that is meant; `how` is the command that lists the ids."""
    if given in known:
        return given
    matching = sorted(one for one in known if given and one.startswith(given))
    if len(matching) == 1:
        return matching[0]
    shown = label(given, 80)
    if matching:
        some = ", ".join(matching[:MOST_SHOWN]) + (" and more" if len(matching) > MOST_SHOWN else "")
        raise UsageError(f"{shown!r} begins {len(matching)} {noun}s", f"choose from: {some}")
    near = difflib.get_close_matches(given, sorted(known), n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else f"list them with: {how}"
    raise UsageError(f"no {noun} {shown!r}", hint)

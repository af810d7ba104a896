"""How people name what has an id: by the beginning of it, too."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from gpulake.core.errors import UsageError
from gpulake.core.words import label

MOST_SHOWN = 5


def the_one(given: str, known: Collection[str], noun: str, how: str) -> str:
    """The id that is meant; `how` tells where the ids are listed."""
    if given in known:
        return given
    begun = sorted(one for one in known if given and one.startswith(given))
    if len(begun) == 1:
        return begun[0]
    shown = label(given, 80)
    if begun:
        some = ", ".join(begun[:MOST_SHOWN]) + (" and more" if len(begun) > MOST_SHOWN else "")
        raise UsageError(f"{shown!r} begins {len(begun)} {noun}s", f"choose from: {some}")
    near = difflib.get_close_matches(given, sorted(known), n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else f"list them with: {how}"
    raise UsageError(f"no {noun} {shown!r}", hint)

"""The log of a Delta table, as files: which commits there are, whether the last one is whole, and what they say."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from deltalake.exceptions import DeltaError

LOG = "_delta_log"
_LONGEST_WORD = 6  # of JSON, as \\u00e9, of which only a part may be there
METADATA_KEY = "gpulake"
WITH_TRANSACTION = ('"source"', '"stored"', '"positions"')  # what `commit` is given to say
TRANSACTIONS_KEY = "gpulake.transactions"  # how many the commit has


def commits_of(folder: Path) -> list[Path]:
    """Oldest first, without a last one that is cut short."""
    return [folder / LOG / name for name in sound_commits(folder)]


def sound_commits(folder: Path) -> list[str]:
    names = named_commits(folder)
    return names[:-1] if names and is_cut((folder / LOG / names[-1]).read_bytes()) else names


def named_commits(folder: Path) -> list[str]:
    """Their file names, not paths: there is one for each landing, and each landing sorts them all."""
    try:
        names = os.listdir(folder / LOG)  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(name for name in names if name.endswith(".json") and name.removesuffix(".json").isdigit())


def is_cut(content: bytes) -> bool:
    """Only its end is missing, or data that never reached the disk. Other damage is none of a commit in the making."""
    if not content or b"\0" in content:
        return True
    kinds: dict[str, Any] = {}
    transactions = content.count(b'{"txn":')
    *lines, last = content.rstrip(b"\n").split(b"\n")
    try:
        for line in lines:
            kinds |= json.loads(line)
    except (ValueError, TypeError):
        return False
    try:
        kinds |= json.loads(last)
    except json.JSONDecodeError as error:
        is_at_the_end = error.pos >= len(error.doc) - _LONGEST_WORD or error.msg.startswith("Unterminated string")
        return last.startswith(b"{") and is_at_the_end and not last.endswith(b"}}")
    except (ValueError, TypeError):
        return False
    # Cut off between two lines: a commit of `commit` has a transaction beside what it says of itself.
    info = kinds.get("commitInfo", {})
    is_ours = any(word in info.get(METADATA_KEY, "") for word in WITH_TRANSACTION)
    least = int(info.get(TRANSACTIONS_KEY, 1)) if is_ours else 0
    return "commitInfo" not in kinds or transactions < least


def actions(commits: Sequence[Path]) -> Iterator[dict[str, Any]]:
    for commit in commits:
        for line in commit.read_bytes().splitlines():
            try:
                action = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DeltaError(f"{commit} cannot be read: {error}") from error
            if isinstance(action, dict):
                yield action

"""status.json: what a collector is doing. One page, written in place, so that it can be told on a full disk too."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpulake.collect.rundir import open_file, read_file

PAGE_BYTES = 4096
REASON_LETTERS = (160, 40, 0)  # of a reason, as long as the page has room for them


class StatusFile:
    def __init__(self, path: Path) -> None:
        self._file = open_file(path, os.O_WRONLY | os.O_CREAT)

    def write(self, status: Mapping[str, Any]) -> None:
        os.pwrite(self._file, page_of(status), 0)

    def close(self) -> None:
        os.close(self._file)


def page_of(status: Mapping[str, Any]) -> bytes:
    """One page of JSON: what is said of each source is cut where it would not fit."""
    for letters in REASON_LETTERS:
        sources = {name: state[: max(letters, 8)] for name, state in status.get("sources", {}).items()}
        text = json.dumps({**status, "sources": sources}).encode()
        if len(text) < PAGE_BYTES:
            return text.ljust(PAGE_BYTES - 1) + b"\n"
    return json.dumps({**status, "sources": {}}).encode()[: PAGE_BYTES - 1].ljust(PAGE_BYTES - 1) + b"\n"


def read_status(path: Path) -> dict[str, Any]:
    """What the collector last said of itself; empty where it said nothing."""
    try:
        status = json.loads(read_file(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return status if isinstance(status, dict) else {}

"""status.json: the state of a collector. One page, written in place, so that it can be updated on a full disk too."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpulake.collect.rundir import open_file

PAGE_BYTES = 4096
REASON_CHARACTERS = (160, 40, 0)  # the most that leaves the page small enough


class StatusFile:
    def __init__(self, path: Path) -> None:
        self._file = open_file(path, os.O_WRONLY | os.O_CREAT)

    def write(self, status: Mapping[str, Any]) -> None:
        os.pwrite(self._file, page_of(status), 0)

    def close(self) -> None:
        os.close(self._file)


def page_of(status: Mapping[str, Any]) -> bytes:
    """One page of JSON: the states of the sources are truncated to fit."""
    for characters in REASON_CHARACTERS:
        sources = {name: state[: max(characters, 8)] for name, state in status.get("sources", {}).items()}
        text = json.dumps({**status, "sources": sources}).encode()
        if len(text) < PAGE_BYTES:
            return text.ljust(PAGE_BYTES - 1) + b"\n"
    return json.dumps({**status, "sources": {}}).encode()[: PAGE_BYTES - 1].ljust(PAGE_BYTES - 1) + b"\n"

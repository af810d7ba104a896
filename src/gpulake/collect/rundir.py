"""The files of a run on a node: one folder per run and node.

A collector may run as root, and the folder above may be writable by all users: symbolic links are never followed.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpulake.core.disk import make_folder
from gpulake.core.errors import UsageError

PAGE_BYTES = 4096
REASON_CHARACTERS = (160, 40, 0)  # the most that leaves the page small enough


class RunDir:
    """RUN_DIR, and the names in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.segments = path / "segments"
        self.cctf = path / "cctf"
        self.status = path / "status.json"
        self.lock = path / "collector.lock"  # held by the collector while it lives; its pid is in it
        self.log = path / "collector.log"
        self.placement_events = path / "placement_events.jsonl"
        self.system_stats = path / "system_stats.jsonl"
        self.node_meta = path / "node_meta.json"
        self.link_meta = path / "link_meta.json"
        self.run_meta = path / "run_meta.json"
        self.module_inventory = path / "module_inventory.json"

    def events(self, adapter: str, pid: int) -> Path:
        """The file that an adapter appends invocations to, one per line."""
        return self.path / f"events.{adapter}.{pid}.jsonl"


def prepare(run: RunDir) -> None:
    """Creates the folders of a run. Raises UsageError where another user could replace files in them, and OSError."""
    for path in (run.path.parent, run.path, run.segments):
        make_folder(path, 0o777 if path == run.path.parent else 0o700)
        status = path.lstat()
        hint = "remove it, or choose another --dir"
        if not stat.S_ISDIR(status.st_mode):
            raise UsageError(f"{path} is a symbolic link, which a collector does not follow", hint)
        if status.st_uid not in (os.geteuid(), 0) and status.st_uid != _uid_here(path):
            raise UsageError(f"{path} is of another user, who could replace its files (uid {status.st_uid})", hint)
        if status.st_mode & stat.S_IWOTH:
            raise UsageError(f"everybody may write to {path}", f"chmod o-w {path}, or choose another --dir")


def open_file(path: Path, flags: int) -> int:
    """Opens a regular file of a run, neither a symbolic nor a hard link to another. Raises OSError."""
    try:
        file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise OSError(errno.ELOOP, f"{path.name} is a symbolic link, which a collector does not follow") from error
    status = os.fstat(file)
    if stat.S_ISREG(status.st_mode) and (status.st_nlink <= 1 or flags & os.O_ACCMODE == os.O_RDONLY):
        return file
    os.close(file)
    raise OSError(errno.EINVAL, f"{path.name} is no file, or a file that has another name, too")


def read_file(path: Path) -> bytes:
    with os.fdopen(open_file(path, os.O_RDONLY), "rb") as file:
        return file.read()


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file of a run; empty if there is none."""
    try:
        content = json.loads(read_file(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _uid_here(folder: Path) -> int | None:
    """The owner of new files in the folder: a network file system may map root to nobody."""
    path = folder / f".owner.{os.getpid()}"
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    try:
        return os.fstat(file).st_uid
    finally:
        os.close(file)
        path.unlink()


class StatusFile:
    """status.json: one page, written in place, so that it can be updated on a full disk too."""

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

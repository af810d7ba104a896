"""Where a run keeps its files on a node: one folder a run and node.

A collector may be root, and the folder above may be everybody's: a link that somebody left there is not followed.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from gpulake.core.disk import make_folder
from gpulake.core.errors import UsageError


@dataclass(frozen=True)
class RunDir:
    """RUN_DIR, and the names in it."""

    path: Path

    @property
    def segments(self) -> Path:
        return self.path / "segments"

    @property
    def cctf(self) -> Path:
        return self.path / "cctf"

    @property
    def status(self) -> Path:
        """What the collector is doing; written in place, so that a full disk does not silence it."""
        return self.path / "status.json"

    @property
    def lock(self) -> Path:
        """Held by the collector as long as it lives; its pid stands in it."""
        return self.path / "collector.lock"

    @property
    def log(self) -> Path:
        return self.path / "collector.log"

    def events(self, adapter: str, pid: int) -> Path:
        """Where an adapter appends invocations, a line each."""
        return self.path / f"events.{adapter}.{pid}.jsonl"

    @property
    def placement_events(self) -> Path:
        return self.path / "placement_events.jsonl"

    @property
    def system_stats(self) -> Path:
        return self.path / "system_stats.jsonl"

    @property
    def node_meta(self) -> Path:
        return self.path / "node_meta.json"

    @property
    def link_meta(self) -> Path:
        return self.path / "link_meta.json"

    @property
    def run_meta(self) -> Path:
        return self.path / "run_meta.json"

    @property
    def module_inventory(self) -> Path:
        return self.path / "module_inventory.json"


def prepare(run: RunDir) -> None:
    """Makes the folders of a run, or raises UsageError where they are not ours. Raises OSError, too."""
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
    """An open file of a run: one of its own, and no link to another. Raises OSError."""
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


def _uid_here(folder: Path) -> int | None:
    """Whom new files in the folder belong to: a network's file system may take root for nobody."""
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


def run_dir(base: Path, run_id: str, node_id: str) -> RunDir:
    return RunDir(base / run_id / node_id)

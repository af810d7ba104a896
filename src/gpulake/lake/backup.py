"""Backups: a snapshot lists the lake's files and their hashes; a content is stored once for all snapshots.

objects/<aa>/<sha256>    contents
snapshots/<id>.json      the hash of the rest, then the files of the lake

No lock of the lake is needed. Data files, commits and builds are never changed once they are named, and what a newer
version replaced stays for a week, so the files that the commits of a moment name can be copied after it. Journals grow,
or are replaced whole: they are opened when they are listed. The build is listed before what landed: a landing that the
build does not have is as if it came after it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from gpulake.core.clock import Clock
from gpulake.core.disk import make_folder, replace, sync
from gpulake.core.errors import LakeBusyError, LakeError, UsageError
from gpulake.core.locks import locked
from gpulake.lake import delta
from gpulake.lake.access import as_private_as, make_root
from gpulake.lake.builds import POINTER
from gpulake.lake.engine import lake_errors
from gpulake.lake.store import Lake

BLOCK_BYTES = 1 << 20
JOURNAL_SUFFIX = ".jsonl"
MOST_TRIES = 5
OWNER_ONLY = 0o700
# Not part of what a lake holds: work in progress, and tables and builds, which are listed by what names them.
ELSEWHERE = ("staging", "streams", "bronze", "gold", "quarantine", "builds")
OTHER_DISK = "copy it from another disk, or make a new backup in an empty folder"


@dataclass(frozen=True)
class Stored:
    sha256: str
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class Snapshot:
    snapshot_id: str
    taken_at: str
    lake: str
    files: dict[str, Stored]

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files.values())


@dataclass(frozen=True)
class BackupResult:
    snapshot_id: str
    files: int
    bytes: int
    new_files: int
    new_bytes: int
    removed_snapshots: tuple[str, ...] = ()


@dataclass
class _Listing:
    """Files to copy. A build may be pruned and a journal replaced meanwhile: they are kept open."""

    files: dict[str, Path] = field(default_factory=dict)
    opened: dict[str, IO[bytes]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)  # of files that grow

    def close(self) -> None:
        for file in self.opened.values():
            file.close()


@dataclass(frozen=True)
class Backup:
    folder: Path

    @property
    def _objects(self) -> Path:
        return self.folder / "objects"

    @property
    def _snapshots(self) -> Path:
        return self.folder / "snapshots"

    def take(self, lake: Lake, clock: Clock, keep: int = 0) -> BackupResult:
        """Copies what the newest snapshot lacks. `keep`: so many snapshots stay; 0: all."""
        here = self.folder.absolute()
        if here.is_relative_to(lake.root) or lake.root.is_relative_to(here):
            raise UsageError(f"the backup {here} and the lake {lake.root} are in each other", "name another folder")
        if self.folder.is_dir() and any(self.folder.iterdir()) and not self._snapshots.is_dir():
            raise UsageError(f"{self.folder} is a folder of something else", "name an empty or a new folder")
        with lake_errors(f"backing up to {self.folder}"):
            make_folder(self.folder, OWNER_ONLY)
            with self._alone(), lake.alone("backup", is_patient=True), as_private_as(self.folder):
                make_folder(self._objects)
                make_folder(self._snapshots)
                return self._take(lake, clock, keep)

    def _take(self, lake: Lake, clock: Clock, keep: int) -> BackupResult:
        at = clock.now()
        ids = self.ids()
        known = self.read(ids[-1]).files if ids else {}
        with closing(_listed(lake)) as listing:
            stored, new = {}, list[Stored]()
            for path in sorted(listing.files):
                stored[path], is_new = self._store(path, listing, known.get(path))
                new += [stored[path]] if is_new else []
        number = int(ids[-1].partition("-")[0]) + 1 if ids else 1  # in their order, whatever the clock says
        snapshot_id = f"{number:06}-{at:%Y%m%dT%H%M%SZ}"
        snapshot = Snapshot(snapshot_id, at.isoformat(), str(lake.root), stored)
        self._write(snapshot)
        removed = self._prune(keep) if keep else ()
        return BackupResult(
            snapshot_id, len(stored), snapshot.bytes, len(new), sum(one.size for one in new), tuple(removed)
        )

    def ids(self) -> list[str]:
        """Of the snapshots, oldest first."""
        return sorted(path.stem for path in self._snapshots.glob("[0-9]*-*.json"))

    def read(self, snapshot_id: str) -> Snapshot:
        path = self._snapshots / f"{snapshot_id}.json"
        try:
            head, rest = path.read_bytes().split(b"\n", 1)
            if head.decode() != hashlib.sha256(rest).hexdigest():
                raise ValueError("its content is not what was written")
            found: dict[str, Any] = json.loads(rest)
        except (OSError, ValueError) as error:
            raise LakeError(f"{path} is damaged: {error}", f"use another snapshot, or {OTHER_DISK}") from error
        return Snapshot(**{**found, "files": {name: Stored(**one) for name, one in found["files"].items()}})

    def check(self) -> list[Snapshot]:
        """Reads every content against its hash. Raises for the first damage, and says how many there are."""
        snapshots = [self.read(one) for one in self._known()]
        wanted = {file.sha256: (name, file.size) for one in snapshots for name, file in one.files.items()}
        damaged = [sha256 for sha256 in sorted(wanted) if not self._is_whole(sha256)]
        if damaged:
            name, _ = wanted[damaged[0]]
            more = f"; and {len(damaged) - 1} more" if len(damaged) > 1 else ""
            raise LakeError(f"{self._path(damaged[0])} is damaged, which is {name} of the lake{more}", OTHER_DISK)
        return snapshots

    def restore(self, root: Path, access: str, snapshot_id: str = "") -> Snapshot:
        """A lake at a new or empty folder, complete or not there at all."""
        ids = self._known()
        if snapshot_id and snapshot_id not in ids:
            raise UsageError(f"no snapshot {snapshot_id!r} in {self.folder}", f"choose from: {', '.join(ids)}")
        snapshot = self.read(snapshot_id or ids[-1])
        root = root.absolute()
        if root.exists() and (not root.is_dir() or any(root.iterdir())):
            raise UsageError(f"{root} is not empty", "restore to a new folder")
        fresh = root.with_name(f".{root.name}.restoring-{os.getpid()}")
        with lake_errors(f"restoring to {root}"):
            shutil.rmtree(fresh, ignore_errors=True)
            try:
                make_root(fresh, access)
                with as_private_as(fresh):
                    for name, file in snapshot.files.items():
                        self._fetch(name, file, fresh / name)
                    for folder in {path.parent for path in map(fresh.joinpath, snapshot.files)}:
                        sync(folder)
                if root.exists():
                    root.rmdir()
                fresh.replace(root)
                sync(root.parent)
            finally:
                shutil.rmtree(fresh, ignore_errors=True)
        return snapshot

    def _known(self) -> list[str]:
        ids = self.ids()
        if not ids:
            raise UsageError(f"{self.folder} has no backup", "make one with: gpulake backup DIR")
        return ids

    @contextmanager
    def _alone(self) -> Iterator[None]:
        busy = LakeBusyError(f"another gpulake writes a backup to {self.folder}", "wait until it is done")
        with locked(self.folder / ".lock", busy):
            yield

    def _path(self, sha256: str) -> Path:
        return self._objects / sha256[:2] / sha256

    def _is_whole(self, sha256: str) -> bool:
        with suppress(OSError):
            return delta.sha256(self._path(sha256)) == sha256
        return False

    def _store(self, name: str, listing: _Listing, known: Stored | None) -> tuple[Stored, bool]:
        """An unchanged file of the last snapshot is not read again."""
        path = listing.files[name]
        with listing.opened[name] if name in listing.opened else path.open("rb") as file:
            stat = os.fstat(file.fileno())
            size = listing.sizes.get(name, stat.st_size)
            if known and (known.size, known.mtime_ns) == (size, stat.st_mtime_ns) and self._path(known.sha256).exists():
                return known, False
            fresh = self._objects / f".{uuid.uuid4().hex}"
            try:
                sha256 = _copy(file, fresh, size)
                stored, target = Stored(sha256, size, stat.st_mtime_ns), self._path(sha256)
                if target.exists() and target.stat().st_size == size:
                    return stored, False
                make_folder(target.parent)
                replace(fresh, target)
            finally:
                fresh.unlink(missing_ok=True)
        return stored, True

    def _write(self, snapshot: Snapshot) -> None:
        files = {name: vars(file) for name, file in snapshot.files.items()}
        rest = json.dumps({**vars(snapshot), "files": files}, indent=0).encode()
        fresh = self._snapshots / f".{snapshot.snapshot_id}"
        fresh.write_bytes(hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest)
        replace(fresh, self._snapshots / f"{snapshot.snapshot_id}.json")

    def _prune(self, keep: int) -> Iterable[str]:
        """Contents go after the snapshots that name them: after a crash in between the next one removes them."""
        ids = self.ids()
        kept = {file.sha256 for one in ids[-keep:] for file in self.read(one).files.values()}
        for one in ids[:-keep]:
            (self._snapshots / f"{one}.json").unlink()
        for path in self._objects.glob("*/*"):
            if path.name not in kept:
                path.unlink()
        return ids[:-keep]

    def _fetch(self, name: str, file: Stored, target: Path) -> None:
        make_folder(target.parent)
        try:
            with self._path(file.sha256).open("rb") as source:
                found = _copy(source, target, file.size)
        except FileNotFoundError:
            found = ""
        if found != file.sha256:
            raise LakeError(f"{self._path(file.sha256)} is damaged, which is {name} of the lake", OTHER_DISK)
        os.utime(target, ns=(file.mtime_ns, file.mtime_ns))
        sync(target)


def _listed(lake: Lake) -> _Listing:
    for _ in range(MOST_TRIES):
        listing, before = _Listing(), _pointers(lake)
        with suppress(FileNotFoundError):
            _list_build(lake, listing)
            _list_tables(lake, listing)
            _list_rest(lake, listing)
            # Gold of another build than the one listed would be exported again by the first writer.
            if _pointers(lake) == before:
                return listing
        listing.close()
    raise LakeBusyError(f"{lake.root} changed each time it was listed", "run the command again")


def _pointers(lake: Lake) -> tuple[bytes, ...]:
    paths = (lake.builds.folder / POINTER, lake.gold / POINTER)
    return tuple(path.read_bytes() if path.exists() else b"" for path in paths)


def _list_build(lake: Lake, listing: _Listing) -> None:
    current = lake.builds.current()
    if current is not None:
        listing.opened[_name(lake, current)] = current.open("rb")
        for path in (current, lake.builds.folder / POINTER):
            listing.files[_name(lake, path)] = path


def _list_tables(lake: Lake, listing: _Listing) -> None:
    for folder in (*lake.bronze.folder.glob("*"), *lake.gold.glob("*"), lake.quarantine.folder):
        # First the commits, then the files that they name. A checkpoint is derived from them.
        found = [folder] if folder.is_file() else delta.commits_and_files(folder)
        listing.files |= {_name(lake, path): path for path in found}


def _list_rest(lake: Lake, listing: _Listing) -> None:
    for path in lake.root.rglob("*"):
        parts = path.relative_to(lake.root).parts
        if parts[0] in ELSEWHERE or any(part.startswith(".") for part in parts) or not path.is_file():
            continue
        name = _name(lake, path)
        listing.files[name] = path
        if path.suffix == JOURNAL_SUFFIX:
            listing.opened[name] = file = path.open("rb")
            listing.sizes[name] = _whole_lines(file)


def _whole_lines(file: IO[bytes]) -> int:
    """The size of a journal's whole lines: one that is being written is not acknowledged yet."""
    end = file.seek(0, os.SEEK_END)
    while end:
        begin = max(0, end - BLOCK_BYTES)
        file.seek(begin)
        if lines := file.read(end - begin).rfind(b"\n") + 1:
            end = begin + lines
            break
        end = begin
    file.seek(0)
    return end


def _name(lake: Lake, path: Path) -> str:
    return path.relative_to(lake.root).as_posix()


def _copy(source: IO[bytes], target: Path, size: int) -> str:
    """The hash of the first bytes of the source, which the target has then."""
    digest, left = hashlib.sha256(), size
    with target.open("xb") as file:
        while block := source.read(min(BLOCK_BYTES, left)):
            digest.update(block)
            file.write(block)
            left -= len(block)
    return digest.hexdigest()

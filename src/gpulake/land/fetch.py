"""Brings the files of a published data set into a folder, and checks what lies there against the published sums."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpulake.core.disk import replace
from gpulake.core.errors import FetchError
from gpulake.core.progress import Report, silent
from gpulake.land.catalogue import DataSet, PublishedFile
from gpulake.land.download import Download, Patience, check_url, download
from gpulake.land.part import BLOCK_BYTES


@dataclass(frozen=True)
class FileState:
    """One published file as it lies in a folder. got is its SHA-256 where that is not the published one."""

    name: str
    table: str
    status: str  # fetched or kept after a fetch; ok, wrong or missing after a check
    got: str | None = None


def fetch(
    data_set: DataSet,
    folder: Path,
    *,
    tables: Collection[str] = (),
    url: str | None = None,
    parallel: int = 4,
    wait: Callable[[float], object] | None = None,
    report: Report = silent,
) -> list[FileState]:
    """Every file that the tables need lies in the folder, verified, or FetchError says which do not."""
    base = check_url(data_set.url if url is None else url)
    files = [file for file in data_set.select(tables) if file.size_bytes is not None or file.text is not None]
    stop = threading.Event()
    patience = Patience(wait or stop.wait, stop.is_set)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _only_one(folder):
            lacking = [file for file in files if not _is_there(file, folder)]
            _check_space(lacking, folder)
            progress = _Progress(lacking, report)
            # The largest first, or it would be alone at the end.
            lacking.sort(key=lambda file: file.size_bytes or 0, reverse=True)
            jobs = {file.name: _job(file, folder, base, patience, progress) for file in lacking}
            _run(jobs, parallel, stop)
    except OSError as error:
        raise _disk_error(folder, error) from error
    return [FileState(file.name, file.table, "fetched" if file in lacking else "kept") for file in files]


def verify(
    data_set: DataSet,
    folder: Path,
    *,
    tables: Collection[str] = (),
    report: Report = silent,
) -> list[FileState]:
    """How each published file lies in the folder: ok, wrong or missing. An archive may lie there in its pieces."""
    files = data_set.select(tables)
    if not folder.is_dir():
        raise FetchError(f"no folder {folder}", "give the folder of the files with --out")
    states = []
    for done, file in enumerate(files):
        report(f"checking {file.name}", done / len(files))
        try:
            got = _sha256(_pieces(file, folder))
        except OSError as error:
            raise _disk_error(folder, error) from error
        if got is None:
            states.append(FileState(file.name, file.table, "missing"))
        elif got == file.sha256:
            states.append(FileState(file.name, file.table, "ok"))
        else:
            states.append(FileState(file.name, file.table, "wrong", got))
    return states


class _Progress:
    """The progress of all files together, reported from several threads."""

    def __init__(self, files: Sequence[PublishedFile], report: Report) -> None:
        self._total = sum(file.size_bytes or 0 for file in files)
        self._done: dict[str, int] = {}
        self._report = report
        self._lock = threading.Lock()

    def moved(self, name: str, size: int) -> None:
        with self._lock:
            self._done[name] = size
            done = sum(self._done.values())
            what = f"{name}, {done / 1e6:,.1f} of {self._total / 1e6:,.1f} MB in all"
            self._report(what, min(done / self._total, 1.0) if self._total else 1.0)


def _job(file: PublishedFile, folder: Path, base: str, patience: Patience, progress: _Progress) -> Callable[[], object]:
    final = folder / file.name
    if file.text is not None:
        text = file.text.encode()
        return lambda: _write(final, text)
    job = Download(
        base, final, file.size_bytes or 0, file.sha256, patience, lambda size: progress.moved(file.name, size)
    )
    return lambda: download(job)


def _run(jobs: dict[str, Callable[[], object]], parallel: int, stop: threading.Event) -> None:
    """A file that fails costs only itself; an interrupt stops all."""
    failures: list[FetchError] = []
    with ThreadPoolExecutor(max_workers=parallel) as pool:
        futures = [pool.submit(job) for job in jobs.values()]
        try:
            for future in as_completed(futures):
                try:
                    future.result()
                except FetchError as error:
                    failures.append(error)
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    if len(failures) == 1:
        raise failures[0]
    if failures:
        reasons = "\n  ".join(sorted(failure.message for failure in failures))
        raise FetchError(f"{len(failures)} of {len(jobs)} files were not fetched:\n  {reasons}", failures[0].hint)


def _write(final: Path, content: bytes) -> None:
    part = final.with_name(f"{final.name}.part")
    part.write_bytes(content)
    replace(part, final)


def _is_there(file: PublishedFile, folder: Path) -> bool:
    """A file of this name that is not the published one goes: the name promises the published bytes."""
    path = folder / file.name
    if not path.exists():
        return False
    expected_size = file.size_bytes if file.text is None else len(file.text.encode())
    if path.stat().st_size == expected_size and _sha256([path]) == file.sha256:
        return True
    path.unlink()
    return False


def _pieces(file: PublishedFile, folder: Path) -> list[Path]:
    whole = folder / file.name
    return [whole] if whole.exists() else sorted(folder.glob(f"{file.name}.part??"))


def _sha256(pieces: Sequence[Path]) -> str | None:
    if not pieces:
        return None
    hasher = hashlib.sha256()
    for piece in pieces:
        with piece.open("rb") as stream:
            while block := stream.read(BLOCK_BYTES):
                hasher.update(block)
    return hasher.hexdigest()


def _check_space(files: Sequence[PublishedFile], folder: Path) -> None:
    parts = [folder / f"{file.name}.part" for file in files]
    need = sum(file.size_bytes or 0 for file in files) - sum(part.stat().st_size for part in parts if part.exists())
    free = shutil.disk_usage(folder).free
    if need > free:
        raise FetchError(
            f"{folder} needs {need / 1e6:,.1f} MB more and has {free / 1e6:,.1f} MB free",
            "free some space, choose another folder with --out, or fewer tables with --table",
        )


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """Two fetches that write the same .part would ruin it. The lock goes with the process, however it ends."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise FetchError(
                f"another fetch is writing to {folder}", "wait for it, or choose another folder with --out"
            ) from error
        except OSError:
            pass  # some network file systems lock no folders; the checksum still guards every file
        yield
    finally:
        os.close(handle)


def _disk_error(folder: Path, error: OSError) -> FetchError:
    path = error.filename or folder
    if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        return FetchError(
            f"no space left for {path}: {error.strerror}",
            "free some space; the same command resumes where this one stopped",
        )
    return FetchError(f"cannot use {path}: {error.strerror}", "choose a folder that can be written with --out")

"""A folder that the collector writes, as the files of a run: what `gpulake collect parse` makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory


@contextmanager
def parsed_run(folder: Path | None) -> Iterator[Path | None]:
    """The folder itself unless it has segments that were not parsed. Nothing is written into it."""
    if folder is None or not (folder / "segments").is_dir() or (folder / "cctf").is_dir():
        yield folder
        return
    from gpulake.collect.cctf.parse import parse

    with TemporaryDirectory(prefix="gpulake-") as temporary:
        run = Path(temporary) / folder.name
        run.mkdir()
        for entry in folder.iterdir():
            if entry.is_dir():
                (run / entry.name).symlink_to(entry.absolute())
            elif entry.is_file():
                copyfile(entry, run / entry.name)
        parse(run)
        yield run / "cctf"

"""Telemetry from files: the first lines say which format it is. Rows that cannot be read are counted, not fatal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import tzinfo
from itertools import islice
from pathlib import Path
from zoneinfo import ZoneInfo

from gpulake.core.errors import InputError
from gpulake.diagnose.logs.reading import LogFile
from gpulake.diagnose.telemetry import exposition, json_rows, kernel_lines, smi_csv
from gpulake.diagnose.telemetry.samples import MOST_SAMPLES, Gathering, Samples, Window

HEAD_LINES = 50
LONGEST_LINE = 1 << 20
MOST_FILES = 10_000
HINT = (
    "give JSON lines of a collected run (gpulake collect), its folder, a log of nvidia-smi --query-gpu --format=csv,"
    " a page of dcgm-exporter, or a kernel log"
)


def read_samples(
    paths: Sequence[Path], window: Window | None = None, time_zone: str = "UTC", most_samples: int = MOST_SAMPLES
) -> Samples:
    """Of files and folders. What lies outside of the window is not kept; times without a zone are of time_zone.

    In a folder, files of other kinds are passed over, and a file whose rows name no node is of the node that it is
    called after.
    """
    gathering = Gathering(window or Window(), most_samples)
    zone = ZoneInfo(time_zone)
    for path in paths:
        if path.is_dir():
            files = islice((file for file in sorted(path.rglob("*")) if file.is_file()), MOST_FILES)
            known = [_read(file, gathering, zone, _node_of(file)) for file in files]
            if not any(known):
                raise InputError(f"{path}: nothing in this folder is telemetry", HINT)
        elif not _read(path, gathering, zone, ""):
            raise InputError(f"{path} is no telemetry that we know", HINT)
    return gathering.finished()


def _node_of(file: Path) -> str:
    folder = file.parent.parent if file.parent.name in ("cctf", "CTS") else file.parent
    return folder.name if ".jsonl" in file.suffixes else file.name.split(".")[0]


def _read(path: Path, gathering: Gathering, zone: tzinfo, node: str) -> bool:
    """False where it is something else."""
    try:
        written_at = path.stat().st_mtime
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}", HINT) from error
    begin, file = LogFile(path.name, path), LogFile(path.name, path)
    head, lines = list(islice(_lines(begin), HEAD_LINES)), _lines(file)
    if json_rows.is_telemetry(head):
        json_rows.read(lines, gathering, node)
    elif smi_csv.fields(next((line for line in head if line.strip()), "")):
        smi_csv.read(lines, gathering, node, zone)
    elif exposition.is_telemetry(head):
        exposition.read(lines, gathering, node, written_at)
    elif kernel_lines.is_telemetry(head):
        kernel_lines.read(lines, gathering, node, zone, written_at)
    elif begin.trouble:
        raise InputError(begin.trouble, HINT)
    else:
        return False
    if file.trouble:
        gathering.note(f"{file.trouble}.")
    return True


def _lines(file: LogFile) -> Iterator[str]:
    """Unpacked as logs are. A line without end must not fill the memory: it is cut, and its parts are no rows."""
    rest = b""
    for chunk in file.chunks():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.decode(errors="replace")
        if len(rest) > LONGEST_LINE:
            yield rest.decode(errors="replace")
            rest = b""
    if rest:
        yield rest.decode(errors="replace")

"""Land what the user names: find it, unpack it, recognise it, hand it to the lake."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gpulake.core.clock import Clock
from gpulake.core.errors import InputError
from gpulake.core.progress import Report
from gpulake.core.types import CsvLayout, FailedFile, Landing, LandResult, Payload
from gpulake.lake import Lake, lake_errors
from gpulake.land.inputs import HEAD_BYTES, PlainFile, failing_alone, find_inputs, unpack
from gpulake.land.readers import READERS, Sample

SAMPLE_LINES = 20
HIGHER_FOLDERS = 5  # a run's folder is this deep below that of its job, at the most
MOST_NAMED = 3  # failures that one message names


def land(
    lake: Lake,
    paths: Sequence[Path],
    clock: Clock,
    report: Report,
    named: Mapping[str, str] | None = None,
    damaged: Collection[str] = (),
    is_replacing: bool = False,
) -> LandResult:
    """Each file lands whole or not at all; one that cannot land costs only itself. If none can, that is an error.

    `named` are words of the user for constants that a reader would take from where a file lies. Data files of the lake
    that are `damaged` hold nothing: their content lands again, in their place. With `is_replacing` a file takes the
    place of all that landed under its name; otherwise its rows are added to them.
    """
    landings: list[Landing] = []
    unknown: list[str] = []
    failed: list[FailedFile] = []
    inputs = find_inputs(paths, failed)
    live = lake.live()
    how = {"is_replacing": is_replacing, "damaged": damaged}
    with lake.connect() as connection:
        for position, item in enumerate(inputs):
            report(f"landing {Path(item.label).name}", position / len(inputs))
            unpacked: list[PlainFile] = []
            with failing_alone(item.label, failed), lake_errors(f"unpacking {item.label}"):
                unpacked = unpack(item, lake.staging)
            for plain in unpacked:
                with failing_alone(plain.source, failed):
                    layout = recognise(plain)
                    if layout is None:
                        _refuse(plain)
                        unknown.append(plain.source)
                    else:
                        payload = Payload(plain.source, plain.path, _renamed(layout, named or {}))
                        landings.append(lake.land(connection, payload, clock, live, **how))
                if plain.path not in item.parts:
                    plain.path.unlink()
    if not landings:
        if failed:
            raise failure(failed, len(failed) + len(unknown))
        raise InputError(f"none of the files is recognised: {', '.join(unknown)}", _known())
    return LandResult(tuple(landings), tuple(unknown), tuple(failed))


def failure(failed: Sequence[FailedFile], files: int) -> InputError:
    """One error for the files that failed, of so many; in one line, with the reason of each."""
    if len(failed) == files == 1:
        return InputError(failed[0].reason, failed[0].hint)
    reasons = "; ".join(one.reason for one in failed[:MOST_NAMED])
    more = f"; and {len(failed) - MOST_NAMED} more" if len(failed) > MOST_NAMED else ""
    return InputError(f"{len(failed)} of {files} files failed: {reasons}{more}")


def _renamed(layout: CsvLayout, named: Mapping[str, str]) -> CsvLayout:
    if unfit := named.keys() - dict(layout.constants).keys():
        raise InputError(
            f"--{min(unfit)} does not fit rows of {layout.table.name}",
            "it is for metrics of training runs that name none",
        )
    return replace(layout, constants=tuple((name, named.get(name, value)) for name, value in layout.constants))


def recognise(plain: PlainFile) -> CsvLayout | None:
    with plain.path.open("rb") as file:
        head = file.read(HEAD_BYTES).decode("utf-8-sig", "replace")
    every = head.splitlines()
    lines = tuple(every[:SAMPLE_LINES])
    if not any(lines):
        raise InputError(f"{plain.source} is empty", "nothing was landed from it")
    sample = Sample(
        name=plain.name,
        lines=tuple(line for line in lines if line),
        folder=plain.folder.name,
        above=plain.folder.parent.name,
        higher=tuple(folder.name for folder in plain.folder.parents[1:HIGHER_FOLDERS]),
        beside=plain.path.parent if plain.path.parent == plain.folder else None,
        modified_at=plain.modified_at,
        later=tuple(every[SAMPLE_LINES:]),
    )
    for name in READERS:
        if layout := READERS.get(name)().recognise(sample):
            return layout
    return None


def _refuse(plain: PlainFile) -> None:
    if plain.is_named:
        raise InputError(f"no reader recognises {plain.source}", _known())


def _known() -> str:
    return f"readers: {', '.join(READERS)}; keep the published file names, or add the header row"

"""Outages in Slurm's accounting, as `sacctmgr --parsable2 show event` prints them: exact, and kept for long."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from gpulake.core.lines import text_lines
from gpulake.core.tables import bronze_tables
from gpulake.core.types import BadRow, CsvLayout, TextRow
from gpulake.formats.scontrol import note_of
from gpulake.formats.slurm_nodes import NOTHING, condition
from gpulake.land.readers import READERS, Sample

TABLE = "bronze_slurm_node_events"
COLUMNS = ("Cluster", "NodeName", "TimeStart", "TimeEnd", "State", "condition", "Reason", "User")
NEEDED = {"Cluster", "NodeName", "TimeStart", "TimeEnd", "State"}


@READERS.register("slurm_events")
class SlurmEventsReader:
    def recognise(self, sample: Sample) -> CsvLayout | None:
        note = note_of(sample.lines[0])
        header = next((line for line in sample.lines[1 if note else 0 :] if line.strip()), "")
        names = tuple(header.rstrip("|").split("|"))
        if not set(names) >= NEEDED:
            return None
        asked_at = note.asked_at if note else sample.modified_at.isoformat(sep=" ", timespec="seconds")
        constants = (("asked_at", asked_at), *((("time_zone", note.time_zone),) if note and note.time_zone else ()))
        rewrite = partial(_events, names=names)
        return CsvLayout(bronze_tables()[TABLE], COLUMNS, has_header=True, constants=constants, rewrite=rewrite)


def _events(path: Path, names: tuple[str, ...]) -> Iterator[TextRow | BadRow]:
    for number, line in text_lines(path):
        if isinstance(line, BadRow):
            yield line
            continue
        text = line.rstrip("\r\n")
        cells = text.split("|")
        if not text or text.startswith("#") or tuple(text.rstrip("|").split("|")) == names:
            continue
        if len(cells) == len(names) + 1 and not cells[-1]:
            cells.pop()
        # Only a reason is written by people.
        surplus = len(cells) - len(names)
        if surplus > 0 and "Reason" in names:
            at = names.index("Reason")
            cells[at : at + surplus + 1] = ["|".join(cells[at : at + surplus + 1])]
        if len(cells) != len(names):
            yield BadRow(number, f"{len(cells)} fields where {len(names)} are expected", text)
            continue
        said = {name: "" if cell in NOTHING else cell for name, cell in zip(names, cells, strict=True)}
        try:
            said["condition"] = condition(said["State"]) if said["NodeName"] else ""
        except ValueError as error:
            yield BadRow(number, str(error), text)
            continue
        yield TextRow(number, tuple(said.get(name, "") for name in COLUMNS), text)

"""How a Slurm is set up: `scontrol show partition`, `show reservation`, as text, -o or --json, and `show config`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from gpulake.core.lines import text_lines
from gpulake.core.tables import bronze_tables
from gpulake.core.types import BadRow, CsvLayout, TextRow
from gpulake.formats import slurm as words
from gpulake.formats import slurm_nodes as nodes
from gpulake.formats.json_items import items
from gpulake.formats.json_text import word
from gpulake.formats.scontrol import is_records, note_of, records
from gpulake.land.readers import READERS, Sample

CONFIG = "bronze_slurm_config"
CONFIG_HEAD = re.compile(r"Configuration data as of ")
SETTING = re.compile(r"(?P<name>\w[\w()/-]*)\s*= ?(?P<value>.*)")
PROSE = re.compile(r"^Configuration data as of |:\s*$| is (?:UP|DOWN)\s*$")  # what stands between the settings
IS_SECRET = re.compile(r"pass|secret|token|privatekey", re.IGNORECASE)
Said = Mapping[str, str]


@dataclass(frozen=True)
class Kind:
    """A kind of record: the key that begins one, the list of it in JSON, and words that only such a list has."""

    table: str
    first_key: str
    member: str
    words: re.Pattern[str]
    from_json: Callable[[Mapping[str, Any]], Said]

    @property
    def columns(self) -> tuple[str, ...]:
        known = ("cluster", "asked_at", "time_zone")
        return tuple(name for name in bronze_tables()[self.table].column_names if name not in known)


def _member(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _partition(value: Mapping[str, Any]) -> Said:
    def text(*names: str) -> str:
        return str(_member(value, *names) or "")

    def span(*names: str) -> str:
        found = _member(value, *names)
        minutes = nodes.number(found)
        return "UNLIMITED" if _member(found, "infinite") else f"{minutes:.0f}" if minutes is not None else ""

    return {
        "PartitionName": text("name"),
        "State": "+".join(nodes.listed(_member(value, "partition", "state"))),
        "Nodes": text("nodes", "configured"),
        "TotalNodes": nodes.whole(_member(value, "nodes", "total")),
        "TotalCPUs": nodes.whole(_member(value, "cpus", "total")),
        "TRES": text("tres", "configured"),
        "MaxTime": span("maximums", "time"),
        "DefaultTime": span("defaults", "time"),
        "AllowAccounts": text("accounts", "allowed"),
        "DenyAccounts": text("accounts", "deny"),
        "AllowGroups": text("groups", "allowed"),
        "AllowQos": text("qos", "allowed"),
        "QoS": text("qos", "assigned"),
        "PriorityTier": nodes.whole(_member(value, "priority", "tier")),
    }


def _reservation(value: Mapping[str, Any]) -> Said:
    def text(name: str) -> str:
        return ",".join(nodes.listed(value.get(name)))

    return {
        "ReservationName": text("name"),
        "StartTime": nodes.time_text(value.get("start_time")),
        "EndTime": nodes.time_text(value.get("end_time")),
        "Nodes": text("node_list"),
        "Flags": text("flags"),
        "TRES": text("tres"),
        "Users": text("users"),
        "Groups": text("groups"),
        "Accounts": text("accounts"),
        "PartitionName": text("partition"),
    }


KINDS = (
    Kind(
        "bronze_slurm_partitions",
        "PartitionName",
        "partitions",
        re.compile(r'"(?:node_sets|over_time_limit|allowed_allocation)"'),
        _partition,
    ),
    Kind(
        "bronze_slurm_reservations",
        "ReservationName",
        "reservations",
        re.compile(r'"(?:core_specializations|node_list|burst_buffer)"'),
        _reservation,
    ),
)


@READERS.register("slurm_setup")
class SlurmSetupReader:
    def recognise(self, sample: Sample) -> CsvLayout | None:
        note = note_of(sample.lines[0])
        first = next((line for line in sample.lines[1 if note else 0 :] if line.strip()), "")
        asked_at = note.asked_at if note else sample.modified_at.isoformat(sep=" ", timespec="seconds")
        said = {"asked_at": asked_at, **({"cluster": note.cluster, "time_zone": note.time_zone} if note else {})}
        if CONFIG_HEAD.match(first):
            return _layout(
                CONFIG, ("name", "value"), {name: said[name] for name in said if name != "time_zone"}, _settings
            )
        for kind in KINDS:
            if is_records(first, kind.first_key):
                return _layout(kind.table, kind.columns, said, partial(_from_records, kind=kind))
            if first.lstrip().startswith("{") and _is_json(kind, "\n".join((*sample.lines, *sample.later))):
                said |= {"time_zone": "UTC"}
                return _layout(kind.table, ("cluster", *kind.columns), said, partial(_from_json, kind=kind))
        return None


def _layout(table: str, columns: tuple[str, ...], said: Said, rewrite: Any) -> CsvLayout:
    constants = tuple((name, value) for name, value in said.items() if value and name not in columns)
    return CsvLayout(bronze_tables()[table], columns, has_header=False, constants=constants, rewrite=rewrite)


def _is_json(kind: Kind, head: str) -> bool:
    return re.search(rf'"{kind.member}"\s*:\s*\[\s*\{{', head) is not None and kind.words.search(head) is not None


def _from_records(path: Path, kind: Kind) -> Iterator[TextRow | BadRow]:
    for found in records(path, kind.first_key):
        yield found if isinstance(found, BadRow) else _row(found.line_number, found.fields, found.text, kind.columns)


def _from_json(path: Path, kind: Kind) -> Iterator[TextRow | BadRow]:
    cluster = nodes.json_cluster(path, kind.member)
    for part in items(path, kind.member):
        if part.key:
            continue
        if not isinstance(part.value, Mapping):
            yield BadRow(part.line_number, "not an object", part.text)
            continue
        said = {"cluster": cluster, **kind.from_json(part.value)}
        yield _row(part.line_number, said, part.text, ("cluster", *kind.columns))


def _row(number: int, said: Said, text: str, columns: tuple[str, ...]) -> TextRow | BadRow:
    row = {name: "" if value in nodes.NOTHING else value for name, value in said.items()}
    try:
        row["node_names"] = ",".join(words.hosts(row["Nodes"])) if row.get("Nodes") else ""
        row["gpus"] = words.gpus(row.get("TRES", ""))[0]
    except ValueError as error:
        return BadRow(number, str(error), text)
    return TextRow(number, tuple(word(row.get(name, "")) for name in columns), text)


def _settings(path: Path) -> Iterator[TextRow | BadRow]:
    for number, line in text_lines(path):
        if isinstance(line, BadRow):
            yield line
            continue
        found = SETTING.fullmatch(line.strip())
        if not found and line.strip() and not PROSE.search(line):
            yield BadRow(number, "no setting", line.strip())
        elif found and not IS_SECRET.search(found["name"]):
            value = "" if found["value"] in nodes.NOTHING else found["value"]
            yield TextRow(number, (found["name"], word(value)), line)

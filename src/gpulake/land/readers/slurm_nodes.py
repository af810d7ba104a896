"""Slurm's nodes: `scontrol show node` as text, -o or --json, and sinfo with a header row, or as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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
from gpulake.formats.scontrol import Note, is_records, note_of, records
from gpulake.land.readers import READERS, Sample

TABLE = "bronze_slurm_nodes"
FILLED = ("cluster", "asked_at", "pulled_from", "time_zone")
COLUMNS = tuple(name for name in bronze_tables()[TABLE].column_names if name not in FILLED)
JSON_NODES = re.compile(r'"(?:nodes|sinfo)"\s*:\s*\[\s*[{\]]')
JSON_WORDS = re.compile(r'"(?:[Ss]lurm|slurmd_version|gres_used|gres)"\s*:')
# By the header of sinfo: what it calls a column, and how scontrol calls it.
SINFO = {
    "HOSTNAMES": "NodeName",
    "NODELIST": "NodeName",
    "STATE": "State",
    "GRES": "Gres",
    "GRES_USED": "GresUsed",
    "REASON": "Reason",
    "TIMESTAMP": "reason_at",
    "USER": "reason_by",
    "CPUS": "CPUTot",
    "MEMORY": "RealMemory",
    "ACTIVE_FEATURES": "ActiveFeatures",
    "PARTITION": "Partitions",
    "CLUSTER": "cluster",
    "VERSION": "Version",
    "COMMENT": "Comment",
}


@READERS.register("slurm_nodes")
class SlurmNodesReader:
    def recognise(self, sample: Sample) -> CsvLayout | None:
        note = note_of(sample.lines[0])
        first = next((line for line in sample.lines[1 if note else 0 :] if line.strip()), "")
        rewrite: Any = None
        if is_records(first, "NodeName"):
            rewrite = _from_records
        elif _sinfo_header(first):
            rewrite = partial(_from_sinfo, header_line=first)
        elif first.lstrip().startswith("{") and _is_json((*sample.lines, *sample.later)):
            return self._layout(sample, None, _from_json, "UTC")
        return self._layout(sample, note, rewrite, note.time_zone if note else "") if rewrite else None

    def _layout(self, sample: Sample, note: Note | None, rewrite: Any, zone: str) -> CsvLayout:
        asked_at = note.asked_at if note else sample.modified_at.isoformat(sep=" ", timespec="seconds")
        has_cluster = rewrite is _from_json or (isinstance(rewrite, partial) and not note)
        constants = {"asked_at": asked_at, "time_zone": zone}
        columns = COLUMNS
        if has_cluster:
            columns = ("cluster", *COLUMNS)
        else:
            constants["cluster"] = note.cluster if note else ""
        if note:
            constants["pulled_from"] = note.since
        table = bronze_tables()[TABLE]
        rewritten = partial(_rows, rewrite=rewrite, columns=columns)
        known = tuple((name, value) for name, value in constants.items() if value)
        return CsvLayout(table, columns, has_header=False, constants=known, rewrite=rewritten)


def _rows(path: Path, rewrite: Any, columns: tuple[str, ...]) -> Iterator[TextRow | BadRow]:
    for found in rewrite(path):
        if isinstance(found, BadRow):
            yield found
            continue
        number, said, text = found
        try:
            row = _row(said)
        except ValueError as error:
            yield BadRow(number, str(error), text)
            continue
        yield TextRow(number, tuple(word(row.get(name, "")) for name in columns), text)


def _row(said: Mapping[str, str]) -> dict[str, str]:
    row = {key: "" if value in nodes.NOTHING else value for key, value in said.items()}
    what, by, at = nodes.reason(row.get("Reason", ""))
    gpus, gpu_type = nodes.gpus(row.get("Gres", ""), row.get("CfgTRES", ""))
    held = words.gpus(row.get("AllocTRES", ""))[0]
    used = nodes.gpus(row.get("GresUsed", ""))[0]
    is_idle = "AllocTRES" in said and not row["AllocTRES"]
    return row | {
        "condition": nodes.condition(row.get("State", "")),
        "Reason": what,
        "reason_by": by or row.get("reason_by", ""),
        "reason_at": at or row.get("reason_at", ""),
        # Where the output has no column of resources, nobody knows.
        "gpus": gpus or ("" if said.keys().isdisjoint(("Gres", "CfgTRES")) else "0"),
        "gpu_type": gpu_type,
        "held_gpus": "0" if is_idle else held or used,
    }


def _from_records(path: Path) -> Iterator[tuple[int, Mapping[str, str], str] | BadRow]:
    for found in records(path, "NodeName"):
        if isinstance(found, BadRow):
            yield found
        else:
            yield found.line_number, found.fields, found.text


def _sinfo_header(line: str) -> tuple[str, tuple[str, ...]] | None:
    """The delimiter, empty for blanks, and the columns, if they are those of sinfo with a state and nodes."""
    delimiter = "|" if "|" in line else ""
    names = tuple(name.strip() for name in (line.split("|") if delimiter else line.split()))
    is_ours = "STATE" in names and not {"HOSTNAMES", "NODELIST"}.isdisjoint(names)
    return (delimiter, names) if is_ours and "JOBID" not in names else None


def _from_sinfo(path: Path, header_line: str) -> Iterator[tuple[int, Mapping[str, str], str] | BadRow]:
    delimiter, names = _sinfo_header(header_line) or ("", ())
    for number, line in text_lines(path):
        if isinstance(line, BadRow):
            yield line
            continue
        text = line.rstrip("\r\n")
        if not text.strip() or text.startswith("#") or text.split() == header_line.split():
            continue
        cells = [cell.strip() for cell in (text.split("|") if delimiter else text.split(None, len(names) - 1))]
        if len(cells) == len(names) + 1 and not cells[-1]:
            cells.pop()
        if len(cells) != len(names):
            yield BadRow(number, f"{len(cells)} columns where {len(names)} are expected", text)
            continue
        said: dict[str, str] = {}
        for name, cell in zip(names, cells, strict=True):
            said.setdefault(SINFO.get(name, name), cell)
        # Of a group of nodes, CPUs and memory may end with a plus sign: the least of them.
        said |= {name: said[name].rstrip("+*") for name in ("CPUTot", "RealMemory", "Partitions") if name in said}
        try:
            yield from ((number, said | {"NodeName": host}, text) for host in words.hosts(said["NodeName"]))
        except ValueError as error:
            yield BadRow(number, str(error), text)


def _is_json(lines: tuple[str, ...]) -> bool:
    head = "\n".join(lines)
    return JSON_NODES.search(head) is not None and JSON_WORDS.search(head) is not None


def _from_json(path: Path) -> Iterator[tuple[int, Mapping[str, str], str] | BadRow]:
    cluster = nodes.json_cluster(path, "nodes", "sinfo")
    for part in items(path, "nodes", "sinfo"):
        if part.key:
            continue
        if not isinstance(part.value, dict):
            yield BadRow(part.line_number, "not a node and what it says", part.text)
            continue
        for said in _sinfo_group(part.value) if isinstance(part.value.get("nodes"), dict) else _node(part.value):
            yield part.line_number, {"cluster": cluster} | said, part.text


def _node(value: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    states = nodes.listed(value.get("state")) + nodes.listed(value.get("state_flags"))
    yield {
        "NodeName": str(value.get("name") or ""),
        "State": "+".join(states).upper(),
        "Reason": str(value.get("reason") or ""),
        "reason_by": str(value.get("reason_set_by_user") or ""),
        "reason_at": nodes.time_text(value.get("reason_changed_at")),
        "BootTime": nodes.time_text(value.get("boot_time")),
        "SlurmdStartTime": nodes.time_text(value.get("slurmd_start_time")),
        "LastBusyTime": nodes.time_text(value.get("last_busy")),
        "Gres": str(value.get("gres") or ""),
        "GresUsed": str(value.get("gres_used") or ""),
        "CfgTRES": str(value.get("tres") or ""),
        "AllocTRES": str(value.get("tres_used") or ""),
        "CPUTot": nodes.whole(value.get("cpus")),
        "RealMemory": nodes.whole(value.get("real_memory")),
        "Partitions": ",".join(nodes.listed(value.get("partitions"))),
        "ActiveFeatures": ",".join(nodes.listed(value.get("active_features"))),
        "Version": str(value.get("slurmd_version") or value.get("version") or ""),
        "Comment": str(value.get("comment") or ""),
    }


def _sinfo_group(value: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """From version 23.11 on sinfo lists groups of nodes that are alike."""

    def member(*names: str) -> Any:
        found: Any = value
        for name in names:
            found = found.get(name) if isinstance(found, dict) else None
        return found

    for host in nodes.listed(member("nodes", "nodes")):
        yield {
            "cluster": str(member("cluster") or ""),
            "NodeName": host,
            "State": "+".join(nodes.listed(member("node", "state"))).upper(),
            "Reason": str(member("reason", "description") or ""),
            "reason_by": str(member("reason", "user") or ""),
            "reason_at": nodes.time_text(member("reason", "time")),
            "Gres": str(member("gres", "total") or ""),
            "GresUsed": str(member("gres", "used") or ""),
            "CPUTot": nodes.whole(member("cpus", "minimum")),
            "RealMemory": nodes.whole(member("memory", "minimum")),
            "Partitions": str(member("partition", "name") or ""),
            "ActiveFeatures": str(member("features", "active") or ""),
        }

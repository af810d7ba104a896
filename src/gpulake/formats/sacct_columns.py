"""Usual lines of `sacct --parsable2` as columns: each is one row, and its fields look like what their columns hold.

What Slurm's words mean is worked out once for each text: states, resources and lists of nodes repeat.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from gpulake.core.tables import Table
from gpulake.formats import slurm as words
from gpulake.formats.sacct import NO_NODES, NO_NUMBER, RENAMED, Header
from gpulake.formats.usual import NEVER, NOT_TEXT, TIMES, UsualLines, number
from gpulake.lake.fields import is_in_range

Texts = tuple[str, ...]
SAFE_DELIMITER = re.compile(r"[|;~^@#!%&\t\x1e]+", re.ASCII)  # no part of a number, a time, an id or a list
UNIT = "\x1f"
MOST_KNOWN = 100_000  # texts whose meaning is remembered
_ID = r"[0-9]+(?:_(?:[0-9]+|\[[0-9,:%-]+\]))?(?:\+[0-9]+)?(?:\.[A-Za-z0-9_+]+)?"
_ID_PARTS = (
    r"^(?P<id>(?P<job>[0-9]+)(?:_(?P<task>[0-9]+|\[[^\]]+\]))?(?:\+(?P<het>[0-9]+))?)(?:\.(?P<step>[A-Za-z0-9_+]+))?$"
)
_STATE = r"[A-Z][A-Z_]*\+?(?: by [A-Za-z0-9._-]+)?"
_PERCENT = r"(?:^|,)gres/gpuutil=(?P<percent>[0-9]{1,9})(?:,|$)"
_NO_NUMBER = "UNLIMITED|Partition_Limit|INVALID|Unknown|None"
_NO_TIME = "Unknown|None|N/A"


def usual_rows(header: Header, table: Table) -> UsualLines:
    names = [RENAMED.get(name, name) for name in header.names]
    if len(set(names)) < len(names) or not SAFE_DELIMITER.fullmatch(header.delimiter):
        return UsualLines(NEVER)
    text = rf"[^{re.escape(header.delimiter[0])}\r\n\x00\x1f{NOT_TEXT}]*"
    fields = [_field(name, table, text, name == header.id_name) for name in names]
    end = re.escape(header.delimiter) if header.width > len(names) else ""
    return UsualLines(re.escape(header.delimiter).join(fields) + end)


def _field(name: str, table: Table, text: str, is_id: bool) -> str:
    kind = table.column_types.get(name)
    if name in ("JobID", "JobIDRaw"):
        return _ID if is_id else f"(?:{_ID})?"
    if name == "State":
        return _STATE
    if kind == "number":
        return f"(?:{number(table, name, kind)}|{_NO_NUMBER})?"
    if kind == "local_time":
        return f"(?:{TIMES[kind]}|{_NO_TIME})?"
    return text


class UsualRows:
    def __init__(self, header: Header, table: Table) -> None:
        self._header = header
        self._table = table
        self._kinds = table.column_types
        self._names = [RENAMED.get(name, name) for name in header.names]
        self._known: dict[Callable[[str], Texts], dict[str, Texts | None]] = {}

    def columns(self, lines: bytes) -> tuple[dict[str, pa.Array], list[int]]:
        """The columns of usual lines, without those that have a word that cannot be read, and the places of those."""
        found = self._fields(lines)
        kinds = self._kinds
        row = {name: array for name, array in found.items() if name in kinds}
        row |= {name: _numbers(array) for name, array in row.items() if kinds[name] == "number"}
        row |= _ids(row)
        for names, key, function in self._meanings(row):
            row |= self._each(names, key, function)
        # A column, and what it is where it has no word itself.
        for name, second in (("gpu_type", "requested_type"), ("ElapsedRaw", "elapsed")):
            if second in row:
                other = row.pop(second)
                row[name] = _first(row[name], other) if name in row else other
        others = [name for name in self._header.names if RENAMED.get(name, name) not in kinds]
        if others:
            row["other_fields"] = _documents({name: found[name] for name in others})
        unread = [pc.is_null(array) for array in row.values() if array.null_count]
        if not unread:
            return row, []
        is_bad = reduce(pc.or_, unread)
        return {name: array.filter(pc.invert(is_bad)) for name, array in row.items()}, _places(is_bad)

    def _fields(self, lines: bytes) -> dict[str, pa.Array]:
        delimiter = self._header.delimiter
        if len(delimiter) > 1:
            lines, delimiter = lines.replace(delimiter.encode(), UNIT.encode()), UNIT
        names = [*self._names, *([UNIT] if self._header.width > len(self._names) else [])]
        table = pv.read_csv(
            pa.BufferReader(lines),
            read_options=pv.ReadOptions(use_threads=False, block_size=len(lines) + 1, column_names=names),
            parse_options=pv.ParseOptions(delimiter=delimiter, quote_char=False, double_quote=False),
            convert_options=pv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False, include_columns=self._names
            ),
        )
        return {name: column.combine_chunks() for name, column in zip(self._names, table.columns, strict=True)}

    def _meanings(self, row: dict[str, pa.Array]) -> Iterator[tuple[Texts, pa.Array, Callable[[str], Texts]]]:
        """Columns, the texts that they are worked out from, and how."""
        yield ("base_state", "cancelled_by"), row["State"], words.state
        if "AllocTRES" in row:
            yield ("gpus", "gpu_type"), row["AllocTRES"], words.gpus
        if "ReqTRES" in row:
            yield ("requested_gpus", "requested_type"), row["ReqTRES"], words.gpus
        if "ReqMem" in row or "ReqTRES" in row:
            empty = pa.repeat("", len(row["State"]))
            nodes = _first(*(row.get(name, empty) for name in ("NNodes", "AllocNodes")))
            cpus = _first(*(row.get(name, empty) for name in ("NCPUS", "AllocCPUS", "ReqCPUS")))
            asked = (row.get(name, empty) for name in ("ReqMem", "ReqTRES"))
            yield ("memory_bytes",), pc.binary_join_element_wise(*asked, nodes, cpus, UNIT), _memory
        if "NodeList" in row:
            yield ("nodes",), row["NodeList"], _nodes
        if "TRESUsageInAve" in row:
            percent = pc.struct_field(pc.extract_regex(row["TRESUsageInAve"], _PERCENT), "percent")
            yield ("gpu_util_ratio",), pc.fill_null(percent, ""), _ratio
        if "AdminComment" in row:
            yield ("js1",), row["AdminComment"], _summary
        if "Elapsed" in row and ("ElapsedRaw" not in row or pc.any(pc.equal(row["ElapsedRaw"], "")).as_py()):
            yield ("elapsed",), row["Elapsed"], _elapsed

    def _each(self, names: Texts, key: pa.Array, function: Callable[[str], Texts]) -> dict[str, pa.Array]:
        """Columns worked out once for each distinct text; null where it cannot be read."""
        known = self._known.setdefault(function, {})
        if len(known) > MOST_KNOWN:
            known.clear()
        encoded = key.dictionary_encode()
        meanings = []
        for text in encoded.dictionary.to_pylist():
            if text not in known:
                known[text] = self._meaning(names, text, function)
            meanings.append(known[text] or (None,) * len(names))
        return {
            name: pa.array(column, pa.string()).take(encoded.indices)
            for name, column in zip(names, zip(*meanings, strict=True), strict=True)
        }

    def _meaning(self, names: Texts, text: str, function: Callable[[str], Texts]) -> Texts | None:
        try:
            found = function(text)
        except ValueError:
            return None
        for name, value in zip(names, found, strict=True):
            if value and self._kinds.get(name) == "number" and not is_in_range(self._table, name, float(value)):
                return None
        return found


def _places(mask: pa.Array) -> list[int]:
    places: list[int] = pc.indices_nonzero(mask).to_pylist()
    return places


def _numbers(array: pa.Array) -> pa.Array:
    is_none = pc.is_in(array, value_set=pa.array(sorted(NO_NUMBER)))
    return pc.if_else(is_none, "", array) if pc.any(is_none).as_py() else array


def _first(*arrays: pa.Array) -> pa.Array:
    """The first that is not empty."""
    found, *others = arrays
    for other in others:
        found = pc.if_else(pc.equal(found, ""), other, found)
    return found


def _ids(row: dict[str, pa.Array]) -> dict[str, pa.Array]:
    shown = row["JobID"] if "JobID" in row else row["JobIDRaw"]
    parts = pc.extract_regex(shown, _ID_PARTS)
    job_id, job, task, het, step = (pc.struct_field(parts, name) for name in ("id", "job", "task", "het", "step"))
    is_task, is_part = pc.not_equal(task, ""), pc.not_equal(het, "")
    raw = pc.if_else(pc.or_(is_task, is_part), "", job_id)
    if "JobIDRaw" in row:
        raw = _first(pc.replace_substring_regex(row["JobIDRaw"], r"\.[A-Za-z0-9_+]+$", ""), raw)
    return {
        "job_id": job_id,
        "raw_job_id": raw,
        "array_job_id": pc.if_else(is_task, job, ""),
        "array_task_id": task,
        "het_job_id": pc.if_else(is_part, job, ""),
        "het_offset": het,
        "step": step,
    }


def _documents(fields: dict[str, pa.Array]) -> pa.Array:
    """The fields that are not empty, as JSON."""
    members = []
    for name, array in fields.items():
        encoded = array.dictionary_encode()
        texts = [f",{json.dumps(name)}:{json.dumps(text)}" if text else "" for text in encoded.dictionary.to_pylist()]
        members.append(pa.array(texts, pa.string()).take(encoded.indices))
    joined = pc.binary_join_element_wise(*members, "")
    inside = pc.utf8_slice_codeunits(joined, 1)
    return pc.if_else(pc.equal(joined, ""), "", pc.binary_join_element_wise("{", inside, "}", ""))


def _memory(text: str) -> Texts:
    return (words.memory_bytes(*text.split(UNIT)),)


def _nodes(text: str) -> Texts:
    return ("" if text in NO_NODES else ",".join(words.hosts(text)),)


def _ratio(percent: str) -> Texts:
    return (str(int(percent) / 100) if percent else "",)


def _summary(text: str) -> Texts:
    return (words.summary(text),)


def _elapsed(shown: str) -> Texts:
    seconds = words.elapsed_seconds("", shown)
    return ("" if seconds is None else f"{seconds:.0f}",)

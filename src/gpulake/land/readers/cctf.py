"""The files of a collected run, ours and those of both eras of the format: JSON lines, and a few small JSON files.

They are called the same in every run, and rows of the first eras do not name their node: it stands in nodes.json beside
them, or else the folder is called after it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from gpulake.core.lines import document
from gpulake.core.tables import Table, bronze_tables, cctf_tables
from gpulake.core.types import BadRow, CsvLayout, JsonBlock, Rewritten, TextRow
from gpulake.formats.json_blocks import json_blocks, usual_objects
from gpulake.formats.json_text import json_object, parts, word
from gpulake.formats.usual import NEVER, UsualLines
from gpulake.land.readers import READERS, Sample

TABLES = {table.file: f"bronze_{name}" for name, table in cctf_tables().items()}
OUTPUT_FOLDERS = ("cctf", "CTS")  # they lie in the folder of the node, or of the run
NODE_COLUMNS = ("node", "node_id")
LARGEST_NODES_BYTES = 1 << 20


@READERS.register("cctf")
class CctfReader:
    def recognise(self, sample: Sample) -> CsvLayout | None:
        if sample.name not in TABLES:
            return None
        table = bronze_tables()[TABLES[sample.name]]
        keys = set(table.required).difference(NODE_COLUMNS if table.name != "bronze_nodes" else ())
        if sample.name.endswith(".json"):
            head = "".join(sample.lines)
            is_ours = head.lstrip()[:1] in ("[", "{") and all(f'"{key}"' in head for key in keys)
        else:
            is_ours = any(keys <= json_object(line).keys() for line in sample.lines)
        if not is_ours:
            return None
        given = _given(sample)
        usual, added = _usual(sample, table, given)
        rewrite = partial(_rows, table=table, given=given, usual=usual, added=added)
        return CsvLayout(table, table.column_names, has_header=False, rewrite=rewrite)


def _usual(sample: Sample, table: Table, given: dict[str, str]) -> tuple[UsualLines | None, dict[str, str]]:
    """Lines that are all rows need, once the node is added where the first ones do not say it; none for a document."""
    if not sample.name.endswith(".jsonl"):
        return None, {}
    said = {key for line in sample.lines for key in json_object(line)}
    names = table.column_names
    node = next((name for name in NODE_COLUMNS if name in names), "")
    added = {}
    if node and node not in said:
        added = {node: given["node"]} | ({"host_id": given["host_id"]} if "host_id" in names else {})
    kinds = cctf_tables()[table.name.removeprefix("bronze_")].column_types
    documents = [name for name, kind in kinds.items() if kind == "json"]
    # Its other name, or a host beside no node: what is missing depends on the line.
    if said.intersection((*NODE_COLUMNS, *added)).difference([node]):
        return UsualLines(NEVER), {}
    columns = replace(table, columns=tuple(column for column in table.columns if column.name not in added))
    return usual_objects(columns, sample.lines, {*table.required, node} - added.keys(), documents), added


def _rows(
    path: Path, table: Table, given: dict[str, str], usual: UsualLines | None, added: dict[str, str]
) -> Iterator[Rewritten]:
    for found in json_blocks(path, usual, added) if usual else _whole(path):
        if isinstance(found, JsonBlock):
            yield found
            continue
        number, row, text = found
        if isinstance(row, dict):
            _complete(row, table.column_names, given)
            values = map(row.get, table.column_names)
            if "\\" in text:
                fields = [word(value) for value in values]
            else:  # no string has an escape, so that none can leave its line
                fields = [value if type(value) is str else word(value) for value in values]
            yield TextRow(number, tuple(fields), text)
        else:
            yield row if isinstance(row, BadRow) else BadRow(number, "no JSON object", text)


def _complete(row: dict[str, Any], names: tuple[str, ...], given: dict[str, str]) -> None:
    node = next((name for name in NODE_COLUMNS if name in names), "")
    if node and not row.get(node):
        # Both names of it are in use.
        row[node] = next((row[name] for name in NODE_COLUMNS if row.get(name)), None) or given["node"]
        if "host_id" in names and not row.get("host_id") and row[node] == given["node"]:
            row["host_id"] = given["host_id"]
    elif "meta" in names and "meta" not in row:
        row["meta"] = dict(row)


def _whole(path: Path) -> Iterator[tuple[int, Any, str]]:
    """The objects of a list, or the one that the file is."""
    text = document(path)
    if text.lstrip().startswith("["):
        yield from ((part.line_number, part.value, part.text) for part in parts(text))
        return
    yield 1, json_object(text) or None, text


def _given(sample: Sample) -> dict[str, str]:
    """What rows are taken to say that do not say it: the only node of nodes.json, or the folder."""
    nodes = _nodes_beside(sample.beside)
    if len(nodes) == 1 and isinstance(nodes[0].get("node_id"), str):
        return {"node": nodes[0]["node_id"], "host_id": str(nodes[0].get("host_id") or "")}
    return {"node": sample.above if sample.folder in OUTPUT_FOLDERS else sample.folder, "host_id": ""}


def _nodes_beside(folder: Path | None) -> list[dict[str, Any]]:
    path = folder / "nodes.json" if folder else None
    if path is None or not path.is_file() or path.stat().st_size > LARGEST_NODES_BYTES:
        return []
    try:
        nodes = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return []
    return [node for node in nodes if isinstance(node, dict)] if isinstance(nodes, list) else []

"""JSON Schemas of the files of a run, from the definition of their columns."""

from __future__ import annotations

from typing import Any

from gpulake.core.errors import UsageError, choice_hint
from gpulake.core.tables import Table, cctf_tables

DIALECT = "https://json-schema.org/draft/2020-12/schema"
IDS = "urn:gpulake:cctf:"
TYPES = {"text": "string", "number": "number", "integer": "integer", "flag": "boolean"}
ONE_OBJECT = {"run_meta"}  # documents that are not a list of rows


def schema_of(name: str) -> dict[str, Any]:
    """The schema of a file: of a line of it, or of a .json file as a whole. Named with or without its ending."""
    tables = cctf_tables()
    known = {table.file: table for table in tables.values()} | tables
    if name not in known:
        raise UsageError(f"no file named {name!r}", choice_hint(name, [table.file for table in tables.values()]))
    table = known[name]
    content = _row(table)
    if not table.file.endswith(".jsonl") and table.name not in ONE_OBJECT:
        content = {"description": table.grain, "type": "array", "items": content}
    return {"$schema": DIALECT, "$id": f"{IDS}{table.name}", "title": table.file, **content}


def schemas() -> dict[str, dict[str, Any]]:
    """Of every file, by its name."""
    return {table.file: schema_of(name) for name, table in cctf_tables().items()}


def _row(table: Table) -> dict[str, Any]:
    return {
        "description": table.grain,
        "type": "object",
        "required": list(table.required),
        "properties": {
            column.name: {"description": column.description, **_type(column.type, column.name in table.required)}
            for column in table.columns
        },
        "additionalProperties": True,
    }


def _type(kind: str, is_required: bool) -> dict[str, Any]:
    """Optional columns may be null. Type json accepts any value."""
    if kind == "json":
        return {}
    return {"type": TYPES[kind] if is_required else [TYPES[kind], "null"]}

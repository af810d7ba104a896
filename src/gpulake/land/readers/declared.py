"""Readers that need no code: CSV with a header row and JSON lines, as `<name>.toml` in this folder declares them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from importlib.resources import files
from pathlib import Path, PurePath
from typing import Any

from gpulake.core.tables import bronze_tables, reader_declarations
from gpulake.core.types import BadRow, CsvLayout, JsonBlock, Rewritten, TextRow
from gpulake.formats.json_blocks import json_blocks, usual_objects
from gpulake.formats.json_text import json_object, word
from gpulake.formats.usual import UsualLines
from gpulake.land.readers import READERS, Sample, header_layout


class DeclaredReader:
    def __init__(self, declaration: Mapping[str, Any]) -> None:
        self._tables = {name: entry for name, entry in declaration.items() if "grain" in entry}

    def recognise(self, sample: Sample) -> CsvLayout | None:
        places = {"stem": PurePath(sample.name).stem, "folder": sample.folder}
        for name, entry in self._tables.items():
            constants = {column: places[place] for column, place in entry.get("constants", {}).items()}
            if entry.get("format") == "json_lines":
                layout = _json_layout(sample, name, constants)
            else:
                layout = header_layout(sample, name, entry.get("quote", ""), entry.get("delimiter", ","), **constants)
            if layout:
                return layout
        return None


def _json_layout(sample: Sample, name: str, constants: dict[str, str]) -> CsvLayout | None:
    """For JSON lines of which one has every required key, and none that is no column."""
    table = bronze_tables()[name]
    columns = tuple(column for column in table.column_names if column not in constants)
    keys = (json_object(line).keys() for line in sample.lines)
    if not any(set(table.required).difference(constants) <= row <= set(columns) for row in keys if row):
        return None
    rewrite = partial(_json_rows, columns=columns, usual=usual_objects(table, sample.lines, table.required))
    return CsvLayout(table, columns, has_header=False, constants=tuple(constants.items()), rewrite=rewrite)


def _json_rows(path: Path, columns: tuple[str, ...], usual: UsualLines) -> Iterator[Rewritten]:
    for found in json_blocks(path, usual):
        if isinstance(found, JsonBlock):
            yield found
            continue
        number, row, text = found
        if isinstance(row, dict):
            yield TextRow(number, tuple(word(row.get(column)) for column in columns), text)
        else:
            yield row if isinstance(row, BadRow) else BadRow(number, "no JSON object", text)


for _name, _declaration in reader_declarations().items():
    if not files("gpulake.land.readers").joinpath(f"{_name}.py").is_file():
        READERS.register(_name)(partial(DeclaredReader, _declaration))

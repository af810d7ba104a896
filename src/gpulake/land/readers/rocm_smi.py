"""What `rocm-smi -a --json` prints: an object a card. Versions differ in their keys; those without a column stay."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from gpulake.core.lines import document
from gpulake.core.tables import bronze_tables
from gpulake.core.types import BadRow, CsvLayout, TextRow
from gpulake.formats.json_text import parts, word
from gpulake.land.readers import READERS, Sample, content_columns

TABLE = "bronze_rocm_smi"
CARD = re.compile(r"card\d+")
HEAD = re.compile(r'\s*\{\s*"(card\d+|system)"\s*:')
COLUMNS = content_columns(TABLE)


@READERS.register("rocm_smi")
class RocmSmiReader:
    def recognise(self, sample: Sample) -> CsvLayout | None:
        # Warnings may stand before the object.
        head = "\n".join(sample.lines)
        if not HEAD.match(head[max(head.find("{"), 0) :]):
            return None
        table = bronze_tables()[TABLE]
        return CsvLayout(table, COLUMNS, has_header=False, constants=sample.file_constants(), rewrite=_cards)


def _cards(path: Path) -> Iterator[TextRow | BadRow]:
    text = document(path)
    begin = max(text.find("{"), 0)
    skipped = text.count("\n", 0, begin)
    found = list(parts(text[begin:]))
    system = next((part.value for part in found if part.key == "system" and isinstance(part.value, dict)), {})
    for part in found:
        if part.key == "system":
            continue
        number = part.line_number + skipped
        if not CARD.fullmatch(part.key) or not isinstance(part.value, dict):
            yield BadRow(number, "not a card and what it says", part.text)
            continue
        said = {_slug(key): word(value) for key, value in part.value.items()}
        said |= {"card": part.key, "driver_version": word(system.get("Driver version"))}
        others = {key: word(value) for key, value in part.value.items() if _slug(key) not in COLUMNS}
        said["other_fields"] = json.dumps(others, ensure_ascii=False, sort_keys=True)
        yield TextRow(number, tuple(said.get(name, "") for name in COLUMNS), part.text)


def _slug(key: str) -> str:
    """A key as a column: `Temperature (Sensor edge) (C)` is temperature_sensor_edge_c."""
    return re.sub(r"[^a-z0-9]+", "_", key.lower().replace("(%)", "").replace("vram%", "vram")).strip("_")

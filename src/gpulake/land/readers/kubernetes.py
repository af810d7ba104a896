"""What `kubectl get … -o json` prints: a list of objects of any kinds, or one object; and what `gpulake pull` saves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gpulake.core.tables import bronze_tables
from gpulake.core.types import BadRow, CsvLayout, TextRow
from gpulake.formats.json_items import items
from gpulake.formats.json_text import Part
from gpulake.formats.kubernetes import SNAPSHOT, Listing, fields, listing, object_row
from gpulake.land.readers import READERS, Sample, content_columns

TABLE = "bronze_kubernetes_objects"
COLUMNS = content_columns(TABLE)
# kubectl writes the members in alphabetical order, so that the kind of a list stands behind its items; an API server
# begins with kind and apiVersion. A version is v1, or a group and a version.
VERSION = r'"apiVersion"\s*:\s*"(?:v1|[a-z0-9.-]+/v\d+(?:(?:alpha|beta)\d+)?)"\s*,'
HEAD = re.compile(
    rf'\s*\{{\s*(?:{VERSION}\s*"(?:items"\s*:\s*\[|kind"\s*:\s*"[A-Z])|"kind"\s*:\s*"[A-Z]\w*"\s*,\s*{VERSION})'
)


@READERS.register("kubernetes")
class KubernetesReader:
    def recognise(self, sample: Sample) -> CsvLayout | None:
        if not HEAD.match("\n".join(sample.lines)):
            return None
        table = bronze_tables()[TABLE]
        return CsvLayout(table, COLUMNS, has_header=False, constants=sample.file_constants(), rewrite=_rows)


def _rows(path: Path) -> Iterator[TextRow | BadRow]:
    listed = Listing()
    members: dict[str, object] = {}
    for part in items(path, "items"):
        if part.key:
            members[part.key] = part.value
            continue
        if not listed.is_list:
            kind = str(members.get("kind", ""))
            listed = listed._replace(is_list=True, kind=kind.removesuffix("List"))
        if isinstance(part.value, dict) and part.value.get("kind") == SNAPSHOT:
            listed = listing(listed, part.value)
        yield _row(part, listed)
    if not listed.is_list and "metadata" in members and "spec" in members:
        yield _row(Part(1, "", members, path.read_text(encoding="utf-8-sig", errors="replace")), listed)


def _row(part: Part, listed: Listing) -> TextRow | BadRow:
    try:
        row = object_row(part.value, listed)
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        return BadRow(part.line_number, str(error) or "not an object of Kubernetes", part.text)
    return TextRow(part.line_number, fields(row, COLUMNS), part.text)

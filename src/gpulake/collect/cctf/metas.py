"""The small files of a run: node, links, modules and the run itself, with defaults for missing values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpulake.collect.cctf.blocks import Names
from gpulake.collect.cctf.files import cast, whole
from gpulake.collect.identity import host_id_of
from gpulake.collect.rundir import RunDir
from gpulake.core.tables import cctf_tables

LARGEST_BYTES = 16 << 20
UNKNOWN = "unknown"
HEADER_COLUMNS = (
    *("node_id", "stage", "cpu_cores", "cpu_model", "cpu_freq_mhz"),
    *("host_id", "host_name", "run_id"),
)


@dataclass(frozen=True)
class Metas:
    """The metadata in the run directory; empty where a file is missing."""

    node: Mapping[str, Any]
    link: Mapping[str, Any]
    run: Mapping[str, Any]
    modules: tuple[Mapping[str, Any], ...]
    unreadable: tuple[str, ...]  # files, and why

    @property
    def names(self) -> Names:
        """For rows of segments without a header, and of logs."""
        node = self.node.get("node_id") or self.node.get("node") or self.run.get("node_id") or UNKNOWN
        return Names(str(node), _word(self.node.get("stage")), self.host_id)

    @property
    def host_id(self) -> str | None:
        """The reference collector only has the host name: the id is derived from it."""
        host = _word(self.node.get("host"))
        return _word(self.node.get("host_id")) or (None if host is None else host_id_of("", host))

    @property
    def memory_bytes(self) -> int | None:
        mem_mb = cast(self.node.get("mem_mb"), "integer")
        return None if not mem_mb else mem_mb << 20


def read_metas(run: RunDir) -> Metas:
    unreadable: list[str] = []
    node, link, run_meta, modules = (
        read_document(path, unreadable) for path in (run.node_meta, run.link_meta, run.run_meta, run.module_inventory)
    )
    return Metas(
        node=node if isinstance(node, dict) else {},
        link=link if isinstance(link, dict) else {},
        run=run_meta if isinstance(run_meta, dict) else {},
        modules=tuple(as_rows(modules)),
        unreadable=tuple(unreadable),
    )


def read_document(path: Path, unreadable: list[str]) -> Any:
    """The JSON of a small file; None if it is missing or unreadable."""
    try:
        if path.stat().st_size > LARGEST_BYTES:
            unreadable.append(f"{path.name}: it is larger than {LARGEST_BYTES} bytes")
            return None
        return json.loads(path.read_text(encoding="utf-8-sig", errors="replace"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        unreadable.append(f"{path.name}: {error}")
        return None


def as_rows(document: Any) -> list[dict[str, Any]]:
    """Rows of a document that is a list, one row, or an object with one list."""
    if isinstance(document, dict):
        inner = [value for value in document.values() if isinstance(value, list)]
        if "module_id" not in document and "node_id" not in document and "u" not in document and len(inner) == 1:
            return as_rows(inner[0])
        return [document]
    return [row for row in document if isinstance(row, dict)] if isinstance(document, list) else []


def node_row(metas: Metas, header: Mapping[str, Any]) -> dict[str, Any]:
    """The row of nodes.json: from the header of the segments, else from node_meta.json."""
    memory = header.get("memory_bytes")
    known = {name: header.get(name) for name in HEADER_COLUMNS} | {"mem_mb": memory >> 20 if memory else None}
    raw = dict(metas.node) | {
        "node_id": metas.names.node,
        "host_name": metas.node.get("host_name") or metas.node.get("host"),
        "host_id": metas.host_id,
    }
    types = cctf_tables()["nodes"].column_types
    row = {
        name: value if value not in (None, "") else cast(raw.get(name), types[name]) for name, value in known.items()
    }
    return whole("nodes", {name: None if value == "" else value for name, value in row.items()})


def link_rows(metas: Metas, seen: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Sampled links, completed from link_meta.json."""
    rows = [dict(link) for link in seen]
    if metas.link:
        types = cctf_tables()["links"].column_types
        given = {name: cast(metas.link.get(name), types[name]) for name in ("iface", "BW_bps", "PR_s")}
        node = metas.names
        same = [row for row in rows if row["iface"] == given["iface"]]
        for row in same:
            row["BW_bps"] = row["BW_bps"] or given["BW_bps"]
            row["PR_s"] = given["PR_s"] if row["PR_s"] is None else row["PR_s"]
        if not same and (given["iface"] or not rows):
            rows.insert(0, {"u": node.node, "v": f"{node.node}.net", "host_id": node.host_id, **given})
    return [whole("links", row) for row in rows]


def module_rows(metas: Metas, seen: Iterable[tuple[str | None, str]]) -> list[dict[str, Any]]:
    """The inventory, and modules that ran without being in it."""
    types = cctf_tables()["module_inventory"].column_types
    rows = [{name: cast(module.get(name), kind) for name, kind in types.items()} for module in metas.modules]
    rows = [row for row in rows if row["module_id"]]
    known = {row["module_id"] for row in rows}
    # With the name of the application, if any event has one.
    for app_id, module_id in sorted(seen, key=lambda pair: (pair[1], pair[0] is None, pair[0] or "")):
        if module_id not in known:
            known.add(module_id)
            rows.append(
                {"app_id": app_id, "module_id": module_id, "name": module_id, "type": "MODULE", "resources": None}
            )
    return rows


def run_id_of(metas: Metas, headers: Iterable[Mapping[str, Any]], run: RunDir) -> str:
    """From the metadata; else the name of the parent folder."""
    for source in (*headers, metas.node, metas.run):
        if source.get("run_id"):
            return str(source["run_id"])
    return run.path.resolve().parent.name or UNKNOWN


def _word(value: Any) -> str | None:
    return None if value in (None, "") else str(value)

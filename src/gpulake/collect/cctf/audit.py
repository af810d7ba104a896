"""The quality of the files of a run: counts, missing values, order, gaps and losses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpulake.collect.cctf.checks import SHOWN, Dropped, FileCheck, Gaps
from gpulake.collect.cctf.files import write_json, write_text
from gpulake.collect.cctf.inputs import output_folder, rows_of
from gpulake.collect.cctf.metas import as_rows, read_document
from gpulake.collect.cctf.order import SUBJECTS
from gpulake.collect.cctf.reports import audit_report, is_complete
from gpulake.core.tables import cctf_tables

DOCUMENT, REPORT = "audit.json", "audit_report.md"
# The files whose rows show when the collector was running, the best first.
WITNESSES = ("host_metrics", "gpu_metrics", "proc_metrics", "proc_cpu")


def write(folder: Path, facts: Mapping[str, Any], known: Mapping[str, FileCheck]) -> dict[str, Any]:
    """Audits the folder and writes the report beside its files."""
    found = examine(folder, facts, known)
    write_json(folder / DOCUMENT, found)
    write_text(folder / REPORT, audit_report(found))
    return found


def audit(path: Path) -> dict[str, Any]:
    """The audit of a run directory or of the folder with its files, with the facts of the last parse."""
    folder = output_folder(path)
    before = read_document(folder / DOCUMENT, [])
    facts = before.get("parse") if isinstance(before, dict) else None
    return examine(folder, facts if is_complete(facts) else None, {})


def examine(folder: Path, facts: Mapping[str, Any] | None, known: Mapping[str, FileCheck]) -> dict[str, Any]:
    """Files with a known check are not read again: those of processes may have hundreds of millions of rows."""
    unreadable: list[str] = []
    nodes = as_rows(read_document(folder / "nodes.json", unreadable))
    run_meta = read_document(folder / "run_meta.json", unreadable)
    only = nodes[0] if len(nodes) == 1 else {}
    checks: dict[str, FileCheck] = {}
    dropped = Dropped()
    clock_steps = 0
    witness = next((name for name in WITNESSES if (folder / f"{name}.jsonl").is_file()), "")
    gaps = Gaps()
    for table in SUBJECTS:
        path = folder / cctf_tables()[table].file
        if not path.is_file():
            continue
        names = str(only.get("node_id") or ""), str(only.get("host_id") or "")
        if table in known and table != witness:
            checks[table] = replace(known[table], only_node=names[0], only_host=names[1])
            continue
        check = checks[table] = FileCheck(table, *names)
        for row in rows_of(path, check.note_bad):
            check.note(row)
            if table == witness:
                gaps.note(check.node_of(row), row.get("ts_ms"))
            elif table == "system_stats":
                dropped.note(row)
            elif table == "node_events":
                clock_steps += row.get("kind") == "clock_step"
    times = [at for check in checks.values() for at in (check.first_ms, check.last_ms) if at is not None]
    return {
        "run_id": run_meta.get("run_id") if isinstance(run_meta, dict) else None,
        "nodes": [{name: node.get(name) for name in ("node_id", "stage", "host_id")} for node in nodes],
        "first_ms": min(times, default=None),
        "last_ms": max(times, default=None),
        "files": {name: check.as_dict() for name, check in checks.items()},
        "processes": _matches(checks),
        "dropped": dropped.as_dict(),
        "clock_steps": clock_steps,
        "gaps": gaps.as_dict(),
        "unreadable_files": unreadable,
        "parse": dict(facts) if facts is not None else None,
    }


def _matches(checks: Mapping[str, FileCheck]) -> dict[str, Any]:
    """How many processes that invocations name were sampled."""
    samples = [checks[name] for name in ("proc_metrics", "proc_cpu", "proc_rss") if name in checks]
    sampled = {pid for check in samples for pid in check.pids}
    calls = checks["invocations"].rows_by_pid if "invocations" in checks else {}
    unmatched = sorted(calls.keys() - sampled, key=json.dumps)
    with_pid = sum(calls.values())
    matched = sum(count for pid, count in calls.items() if pid in sampled)
    return {
        "distinct_processes": len({process for check in samples for process in check.subjects}),
        "distinct_pids_sampled": len(sampled),
        "distinct_pids_of_invocations": len(calls),
        "pids_matched_ratio": round((len(calls) - len(unmatched)) / len(calls), 6) if calls else None,
        "invocations_with_pid": with_pid,
        "invocations_matched_ratio": round(matched / with_pid, 6) if with_pid else None,
        "unmatched_pids": len(unmatched),
        "first_unmatched": [
            {"node": node or None, "host_id": host_id or None, "pid": pid} for node, host_id, pid in unmatched[:SHOWN]
        ],
    }

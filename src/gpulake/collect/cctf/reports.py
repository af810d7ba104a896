"""Audit and merge reports as Markdown. Names come from untrusted data: they are escaped and kept on one line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from gpulake.core.words import label, span

_MARKUP = re.compile(r"([\\`*_{}\[\]<>|#])")
VIOLATIONS = {
    "behind": "rows earlier than the row before",
    "not_later": "rows of a subject not later than its row before",
    "steps_back": "ts_enqueue <= ts_start <= ts_end does not hold",
    "negative_intervals": "dt_ms < 0",
}


def audit_report(audit: Mapping[str, Any]) -> str:
    parts = {
        "Processes": _processes(audit["processes"]),
        "Files": _files(audit),
        "Missing values (count, rate)": _missing(audit),
        "Order": _order(audit),
        "What was lost": _lost(audit),
    }
    if audit["parse"] is not None:
        parts["What parse read"] = _parse(audit["parse"])
    return _report("# CCTF audit report", _head(audit), parts)


def merge_report(report: Mapping[str, Any]) -> str:
    return _report("# Merge report", (), {"Inputs": _inputs(report), "Rows": _rows(report), "Clocks": _clocks(report)})


def is_complete(facts: Any) -> bool:
    """Whether facts of an earlier audit file can be shown: another program may have written it."""
    try:
        return isinstance(facts, dict) and bool(list(_parse(facts)))
    except (KeyError, TypeError, ValueError, AttributeError):
        return False


def _report(title: str, head: Iterator[str] | tuple[str, ...], parts: Mapping[str, Iterator[str]]) -> str:
    lines = [title]
    if start := list(head):
        lines += ["", *start]
    for name, content in parts.items():
        lines += ["", f"## {name}", "", *content]
    return "\n".join(lines) + "\n"


def _plain(value: Any) -> str:
    return _MARKUP.sub(r"\\\1", label(value, 120))


def _moment(at_ms: int | None) -> str:
    if at_ms is None:
        return "unknown"
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"


def _percent(ratio: float | None) -> str:
    return "unknown" if ratio is None else f"{ratio:.2%}"


def _fields(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{_plain(name)} {_plain(value)}" for name, value in values.items())


def _head(audit: Mapping[str, Any]) -> Iterator[str]:
    for node in audit["nodes"] or [{"node_id": None, "stage": None, "host_id": None}]:
        yield f"- Node: {_plain(node['node_id'])}, stage {_plain(node['stage'])}, host {_plain(node['host_id'])}"
    yield f"- Run: {_plain(audit['run_id'])}"
    if audit["first_ms"] is not None:
        length = span((audit["last_ms"] - audit["first_ms"]) / 1000)
        yield f"- Time: {_moment(audit['first_ms'])} to {_moment(audit['last_ms'])} ({length})"


def _processes(processes: Mapping[str, Any]) -> Iterator[str]:
    yield f"- Distinct processes: {processes['distinct_processes']:,}"
    yield f"- Distinct pids sampled: {processes['distinct_pids_sampled']:,}"
    yield f"- Distinct pids of invocations: {processes['distinct_pids_of_invocations']:,}"
    yield f"- Pids of invocations that were sampled: {_percent(processes['pids_matched_ratio'])}"
    yield f"- Invocations whose pid was sampled: {_percent(processes['invocations_matched_ratio'])}"
    if processes["unmatched_pids"]:
        first = ", ".join(f"{match['pid']} on {_plain(match['node'])}" for match in processes["first_unmatched"])
        yield f"- Pids not sampled: {processes['unmatched_pids']:,}, first: {first}"


def _files(audit: Mapping[str, Any]) -> Iterator[str]:
    yield "| file | rows | bad lines | subjects | from | to |"
    yield "|---|---:|---:|---:|---|---|"
    for name, file in audit["files"].items():
        subjects = "" if file["subjects"] is None else f"{file['subjects']:,}"
        times = f"{_moment(file['first_ms'])} | {_moment(file['last_ms'])}"
        yield f"| {name} | {file['rows']:,} | {file['bad_lines']:,} | {subjects} | {times} |"


def _missing(audit: Mapping[str, Any]) -> Iterator[str]:
    for name, file in audit["files"].items():
        never = [column for column, missing in file["missing"].items() if missing["ratio"] == 1]
        if never:
            yield f"- {name}, never there: {', '.join(_plain(column) for column in never)}"
        for column, missing in file["missing"].items():
            if missing["count"] and column not in never:
                yield f"- {name}.{column}: {missing['count']:,} ({missing['ratio']:.2%})"
    for file in audit["unreadable_files"]:
        yield f"- {_plain(file)}"


def _order(audit: Mapping[str, Any]) -> Iterator[str]:
    for name, file in audit["files"].items():
        for kind, count in file["violations"].items():
            if count:
                yield f"- {name}: {count:,} {_plain(VIOLATIONS[kind])}"
        for violation in file["first_violations"]:
            yield f"  - {_fields(violation)}"
    if not any(count for file in audit["files"].values() for count in file["violations"].values()):
        yield "- no violations"


def _lost(audit: Mapping[str, Any]) -> Iterator[str]:
    gaps, dropped = audit["gaps"], audit["dropped"]
    yield f"- Ticks missed: {dropped['ticks_missed']:,}; dropped for lack of room: {dropped['ticks_dropped']:,}"
    yield f"- Impossible values dropped: {dropped['values_dropped']:,}"
    yield f"- Clock steps: {audit['clock_steps']:,}"
    yield f"- Gaps: {gaps['count']:,}, together {span(gaps['silent_ms'] / 1000)}"
    for gap in gaps["first"]:
        yield f"  - {_plain(gap['node'])}: {_moment(gap['from_ms'])} to {_moment(gap['to_ms'])}"


def _parse(facts: Mapping[str, Any]) -> Iterator[str]:
    yield f"- Blocks: {facts['blocks']:,} in {facts['sessions']:,} sessions of {facts['boots']:,} boots"
    yield f"- Damaged blocks: {facts['damaged_blocks']:,}; torn tails: {facts['torn_tails']:,}"
    for damage in facts["first_damage"][:10]:
        yield f"  - {_plain(damage['file'])} line {damage['line_number']}: {_plain(damage['reason'])}"
    for kind, rows in facts["unknown_kinds"].items():
        yield f"- Rows of an unknown kind {_plain(kind)}: {rows:,}"
    for log in facts["logs"]:
        lines = f"{log['rows']:,} rows, {log['rejected']:,} lines rejected, dated by {_plain(log['dated_by'])}"
        yield f"- {_plain(log['file'])}: {lines}"
        for reason, count in log["reasons"].items():
            yield f"  - {count:,}: {_plain(reason)}"
    for name in facts["left_alone"]:
        yield f"- Skipped, as the segments contain the same: {_plain(name)}"
    for file, rows in facts["event_rows"].items():
        yield f"- {_plain(file)}: {rows:,} rows"
    yield f"- Duplicate events: {facts['duplicate_events']:,}, {facts['contradicting_spans']:,} of them contradicting"
    yield from _rejected(facts)


def _rejected(facts: Mapping[str, Any]) -> Iterator[str]:
    for reject in facts["rejected_lines"]:
        yield f"- {_plain(reject['file'])}: {reject['lines']:,} lines rejected: {_plain(reject['reason'])}"
    for name, count in facts["values_of_wrong_type"].items():
        yield f"- {_plain(name)}: {count:,} values of the wrong type"
    for name, count in facts["unknown_fields"].items():
        yield f"- {_plain(name)}: an unknown field of {count:,} lines, skipped"
    for reason in facts["unreadable_files"]:
        yield f"- {_plain(reason)}"


def _inputs(report: Mapping[str, Any]) -> Iterator[str]:
    for source in report["inputs"]:
        nodes = ", ".join(_plain(node) for node in source["nodes"]) or "no node named"
        rows = sum(source["rows"].values())
        yield f"- {_plain(source['folder'])}: run {_plain(source['run_id'])}, {nodes}, {rows:,} rows"
    for renamed in report["renamed"]:
        node, host_id, name = (_plain(renamed[key]) for key in ("node", "host_id", "name"))
        yield f"- Two hosts are named {node}: {host_id} is {name}"
    for path in report["sorted_first"]:
        yield f"- Out of order, sorted first: {_plain(path)}"


def _rows(report: Mapping[str, Any]) -> Iterator[str]:
    yield "| file | rows | duplicates | conflicts |"
    yield "|---|---:|---:|---:|"
    for name, rows in report["rows"].items():
        yield f"| {name} | {rows:,} | {report['duplicates'].get(name, 0):,} | {report['conflicts'].get(name, 0):,} |"
    if report["conflicts"]:
        yield from ("", f"Conflicts: {report['rule']}.", "")
        yield from (f"- {_fields(conflict)}" for conflict in report["first_conflicts"])
    if report["bad_lines"]:
        yield from ("", f"{report['bad_lines']:,} lines are not rows:", "")
        for bad in report["first_bad_lines"]:
            yield f"- {_plain(bad['file'])} line {bad['line']}: {_plain(bad['reason'])}"


def _clocks(report: Mapping[str, Any]) -> Iterator[str]:
    for skew in report["clock_skew"]:
        yield (
            f"- {_plain(skew['other_node'])} against {_plain(skew['node'])}: add {skew['add_to_other_ms']:+,.1f} ms"
            f" (from {skew['at_least_ms']:+,.0f} to {skew['at_most_ms']:+,.0f} ms, {skew['pairs']:,} pairs"
            f"{'' if skew['is_consistent'] else ', no single offset explains them all'})"
        )
    if not report["clock_skew"]:
        yield "- no trace crosses two nodes, so the skew of their clocks is unknown"
    for shift in report["added_ms"]:
        yield f"- Added to the times of {_plain(shift['node'])}: {shift['added_ms']:+,} ms"
    if report["clock_skew"] and not report["is_skew_applied"]:
        yield "- times are uncorrected: --apply-skew corrects them"

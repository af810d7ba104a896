"""The audit as a page of Markdown. Names in it come from the data: they can neither break lines nor mark up."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from gpulake.core.words import label, span

_MARKUP = re.compile(r"([\\`*_{}\[\]<>|#])")
WORDS = {
    "behind": "rows earlier than the row before",
    "not_later": "rows of a subject not later than its row before",
    "steps_back": "ts_enqueue <= ts_start <= ts_end does not hold",
    "negative_intervals": "dt_ms < 0",
}


def report_of(audit: Mapping[str, Any]) -> str:
    return "\n".join([*_head(audit), *_files(audit), *_order(audit), *_lost(audit), *_parse(audit["parse"])]) + "\n"


def can_be_told(facts: Any) -> bool:
    """Whether these are facts that a parse left: others may have written the file."""
    try:
        return isinstance(facts, dict) and bool(list(_parse(facts)))
    except (KeyError, TypeError, ValueError, AttributeError):
        return False


def plain(value: Any) -> str:
    return _MARKUP.sub(r"\\\1", label(value, 120))


def moment(at_ms: int | None) -> str:
    if at_ms is None:
        return "unknown"
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"


def _head(audit: Mapping[str, Any]) -> Iterator[str]:
    processes = audit["processes"]
    yield "# CCTF audit report"
    yield ""
    for node in audit["nodes"] or [{"node_id": None, "stage": None, "host_id": None}]:
        yield f"- Node: {plain(node['node_id'])}, stage {plain(node['stage'])}, host {plain(node['host_id'])}"
    yield f"- Run: {plain(audit['run_id'])}"
    if audit["first_ms"] is not None:
        length = span((audit["last_ms"] - audit["first_ms"]) / 1000)
        yield f"- Time: {moment(audit['first_ms'])} to {moment(audit['last_ms'])} ({length})"
    yield ""
    yield "## Processes"
    yield ""
    yield f"- Distinct processes: {processes['distinct_processes']:,}"
    yield f"- Distinct pids sampled: {processes['distinct_pids_sampled']:,}"
    yield f"- Distinct pids of invocations: {processes['distinct_pids_of_invocations']:,}"
    yield f"- Pids of invocations that were sampled: {_percent(processes['pids_matched_ratio'])}"
    yield f"- Invocations whose pid was sampled: {_percent(processes['invocations_matched_ratio'])}"
    if processes["unmatched_pids"]:
        first = ", ".join(f"{match['pid']} on {plain(match['node'])}" for match in processes["first_unmatched"])
        yield f"- Pids not sampled: {processes['unmatched_pids']:,}, first: {first}"


def _files(audit: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield "## Files"
    yield ""
    yield "| file | rows | bad lines | subjects | from | to |"
    yield "|---|---:|---:|---:|---|---|"
    for name, file in audit["files"].items():
        subjects = "" if file["subjects"] is None else f"{file['subjects']:,}"
        times = f"{moment(file['first_ms'])} | {moment(file['last_ms'])}"
        yield f"| {name} | {file['rows']:,} | {file['bad_lines']:,} | {subjects} | {times} |"
    yield ""
    yield "## Missing values (count, rate)"
    yield ""
    for name, file in audit["files"].items():
        never = [column for column, missing in file["missing"].items() if missing["ratio"] == 1]
        if never:
            yield f"- {name}, never there: {', '.join(plain(column) for column in never)}"
        for column, missing in file["missing"].items():
            if missing["count"] and column not in never:
                yield f"- {name}.{column}: {missing['count']:,} ({missing['ratio']:.2%})"
    for file in audit["unreadable_files"]:
        yield f"- {plain(file)}"


def _order(audit: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield "## Order"
    yield ""
    for name, file in audit["files"].items():
        for kind, count in file["violations"].items():
            if count:
                yield f"- {name}: {count:,} {plain(WORDS[kind])}"
        for violation in file["first_violations"]:
            words = ", ".join(f"{plain(key)} {plain(value)}" for key, value in violation.items())
            yield f"  - {words}"
    if not any(count for file in audit["files"].values() for count in file["violations"].values()):
        yield "- no violations"


def _lost(audit: Mapping[str, Any]) -> Iterator[str]:
    gaps, dropped = audit["gaps"], audit["dropped"]
    yield ""
    yield "## What was lost"
    yield ""
    yield f"- Ticks missed: {dropped['ticks_missed']:,}; dropped for lack of room: {dropped['ticks_dropped']:,}"
    yield f"- Impossible values dropped: {dropped['values_dropped']:,}"
    yield f"- Clock steps: {audit['clock_steps']:,}"
    yield f"- Gaps: {gaps['count']:,}, together {span(gaps['silent_ms'] / 1000)}"
    for gap in gaps["first"]:
        yield f"  - {plain(gap['node'])}: {moment(gap['from_ms'])} to {moment(gap['to_ms'])}"


def _parse(facts: Mapping[str, Any] | None) -> Iterator[str]:
    if facts is None:
        return
    yield ""
    yield "## What parse read"
    yield ""
    yield f"- Blocks: {facts['blocks']:,} in {facts['sessions']:,} sessions of {facts['boots']:,} boots"
    yield f"- Damaged blocks: {facts['damaged_blocks']:,}; torn tails: {facts['torn_tails']:,}"
    for damage in facts["first_damage"][:10]:
        yield f"  - {plain(damage['file'])} line {damage['line_number']}: {plain(damage['reason'])}"
    for kind, rows in facts["unknown_kinds"].items():
        yield f"- Rows of an unknown kind {plain(kind)}: {rows:,}"
    yield from _read_files(facts)


def _read_files(facts: Mapping[str, Any]) -> Iterator[str]:
    for log in facts["logs"]:
        lines = f"{log['rows']:,} rows, {log['rejected']:,} lines rejected, dated by {plain(log['dated_by'])}"
        yield f"- {plain(log['file'])}: {lines}"
        for reason, count in log["reasons"].items():
            yield f"  - {count:,}: {plain(reason)}"
    for name in facts["left_alone"]:
        yield f"- Left alone, as the segments say the same: {plain(name)}"
    for file, rows in facts["event_rows"].items():
        yield f"- {plain(file)}: {rows:,} rows"
    yield f"- Told twice: {facts['duplicate_events']:,} events, {facts['contradicting_spans']:,} of them differently"
    yield from _rejected(facts)


def _rejected(facts: Mapping[str, Any]) -> Iterator[str]:
    for reject in facts["rejected_lines"]:
        yield f"- {plain(reject['file'])}: {reject['lines']:,} lines rejected: {plain(reject['reason'])}"
    for name, count in facts["values_of_wrong_type"].items():
        yield f"- {plain(name)}: {count:,} values of the wrong type"
    for name, count in facts["unknown_fields"].items():
        yield f"- {plain(name)}: an unknown field of {count:,} lines, left out"
    for words in facts["unreadable_files"]:
        yield f"- {plain(words)}"


def _percent(ratio: float | None) -> str:
    return "unknown" if ratio is None else f"{ratio:.2%}"

"""The report of a merge as a page of Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpulake.collect.cctf.audit_text import plain


def report_of(report: Mapping[str, Any]) -> str:
    return "\n".join([*_inputs(report), *_rows(report), *_clocks(report)]) + "\n"


def _inputs(report: Mapping[str, Any]) -> Iterator[str]:
    yield "# Merge report"
    yield ""
    yield "## Inputs"
    yield ""
    for source in report["inputs"]:
        nodes = ", ".join(plain(node) for node in source["nodes"]) or "no node named"
        rows = sum(source["rows"].values())
        yield f"- {plain(source['folder'])}: run {plain(source['run_id'])}, {nodes}, {rows:,} rows"
    for renamed in report["renamed"]:
        yield f"- Two hosts are named {plain(renamed['node'])}: {plain(renamed['host_id'])} is {plain(renamed['name'])}"
    for path in report["sorted_first"]:
        yield f"- Out of order, sorted first: {plain(path)}"


def _rows(report: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield "## Rows"
    yield ""
    yield "| file | rows | told twice | conflicts |"
    yield "|---|---:|---:|---:|"
    for name, rows in report["rows"].items():
        yield f"| {name} | {rows:,} | {report['duplicates'].get(name, 0):,} | {report['conflicts'].get(name, 0):,} |"
    if report["conflicts"]:
        yield ""
        yield f"Conflicts: {report['rule']}."
        yield ""
        for conflict in report["first_conflicts"]:
            yield "- " + ", ".join(f"{plain(name)} {plain(value)}" for name, value in conflict.items())
    if report["bad_lines"]:
        yield ""
        yield f"{report['bad_lines']:,} lines are no rows:"
        yield ""
        for bad in report["first_bad_lines"]:
            yield f"- {plain(bad['file'])} line {bad['line']}: {plain(bad['reason'])}"


def _clocks(report: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield "## Clocks"
    yield ""
    for skew in report["clock_skew"]:
        yield (
            f"- {plain(skew['other_node'])} against {plain(skew['node'])}: add {skew['add_to_other_ms']:+,.1f} ms"
            f" (from {skew['at_least_ms']:+,.0f} to {skew['at_most_ms']:+,.0f} ms, {skew['pairs']:,} pairs"
            f"{'' if skew['is_consistent'] else ', no one offset explains them all'})"
        )
    if not report["clock_skew"]:
        yield "- no trace crosses two nodes, so nothing is known of their clocks"
    for shift in report["added_ms"]:
        yield f"- Added to the times of {plain(shift['node'])}: {shift['added_ms']:+,} ms"
    if report["clock_skew"] and not report["is_skew_applied"]:
        yield "- times are as the nodes said them: --apply-skew corrects them"

"""Many nodes in one run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import cases
from gpulake.cli import root
from gpulake.collect.cctf import merge as merging
from gpulake.collect.cctf.files import key_of
from gpulake.collect.cctf.merge import merge
from gpulake.collect.rows import Row
from gpulake.core.errors import InputError, UsageError
from recorded_runs import (
    EPOCH_MS,
    block_of,
    cells,
    document_in,
    files_in,
    host_of,
    nic_of,
    parse_session,
    process_of,
    rows_in,
    sample_of,
    write_lines,
    write_session,
)

AT = EPOCH_MS


def node(folder: Path, times: Sequence[int], **names: Any) -> Path:
    """The parsed run of one node, with a process of pid 5."""
    rows: list[Row] = [process_of(5, 1), sample_of(5, 1), nic_of(1, 1)]
    parse_session(
        folder, *[block_of(at, [host_of(at, at), *(rows if at == times[0] else [])]) for at in times], **names
    )
    return folder


def plain(folder: Path, name: str, host_id: str | None = None, **tables: list[dict[str, Any]]) -> Path:
    """Files as somebody else may have written them."""
    (folder / "cctf").mkdir(parents=True)
    (folder / "cctf/nodes.json").write_text(json.dumps([{"node_id": name, "host_id": host_id}]))
    for table, rows in tables.items():
        write_lines(folder / "cctf" / f"{table}.jsonl", rows)
    return folder


def test_nodes_are_merged_in_the_order_of_time(tmp_path: Path) -> None:
    one = node(tmp_path / "runs/a", [1000, 3000], node_id="a", host_id="a" * 12)
    node(tmp_path / "runs/b", [2000, 3000], node_id="b", host_id="b" * 12)
    report = merge([tmp_path / "runs", one], tmp_path / "out")
    assert cells(rows_in(tmp_path / "out", "host_metrics"), "ts_ms", "node") == [
        (AT + 1000, "a"),
        (AT + 2000, "b"),
        (AT + 3000, "a"),
        (AT + 3000, "b"),
    ]
    assert [row["node_id"] for row in document_in(tmp_path / "out", "nodes.json")] == ["a", "b"]
    assert [row["u"] for row in document_in(tmp_path / "out", "links.json")] == ["a", "b"]
    meta = document_in(tmp_path / "out", "run_meta.json")
    assert meta["run_id"] == "night1"
    assert [source["folder"] for source in meta["meta"]["merged_from"]] == [
        str(tmp_path / "runs/a/cctf"),
        str(tmp_path / "runs/b/cctf"),
    ]
    assert (report["renamed"], report["conflicts"], report["duplicates"], report["clock_skew"]) == ([], {}, {}, [])


def test_two_hosts_with_one_name_get_two_names_in_all_their_rows(tmp_path: Path) -> None:
    first = node(tmp_path / "x", [1000], node_id="vm0", host_id="aaaaaabbbbbb")
    second = node(tmp_path / "y", [1000], node_id="vm0", host_id="cccccc000000")
    report = merge([first, second], tmp_path / "out")
    both = ["vm0~aaaaaa", "vm0~cccccc"]
    for table in ("host_metrics", "proc_metrics", "proc_rss", "link_metrics"):
        assert [row["node"] for row in rows_in(tmp_path / "out", table)] == both, table
    assert [row["link"] for row in rows_in(tmp_path / "out", "link_metrics")] == [f"{name}.nic" for name in both]
    assert cells(document_in(tmp_path / "out", "links.json"), "u", "v") == [(name, f"{name}.net") for name in both]
    assert [row["node_id"] for row in document_in(tmp_path / "out", "nodes.json")] == both
    assert cells(report["renamed"], "node", "host_id", "name") == [
        ("vm0", "aaaaaabbbbbb", both[0]),
        ("vm0", "cccccc000000", both[1]),
    ]


def test_files_without_a_host_are_distinguished_by_their_folder(tmp_path: Path) -> None:
    sample = {"ts_ms": 5, "pid": 42, "cpu_ms": 1, "dt_ms": 1}
    first = plain(tmp_path / "c1", "vm0", proc_cpu=[sample])
    second = plain(tmp_path / "c2", "vm0", proc_cpu=[sample])
    (second / "cctf").rename(second / "CTS")
    report = merge([first, second], tmp_path / "out")
    rows = rows_in(tmp_path / "out", "proc_cpu")
    assert len({(row["node"], row["host_id"]) for row in rows}) == 2
    assert sorted(row["name"] for row in report["renamed"]) == sorted(row["node"] for row in rows)
    (first / "node_meta.json").write_text('{"host": "h"}')
    (second / "node_meta.json").write_text('{"host": "h"}')
    again = merge([first, second], tmp_path / "out")
    assert cells(rows_in(tmp_path / "out", "proc_cpu"), "node") == [("vm0",)]
    assert (again["renamed"], again["duplicates"]) == ([], {"proc_cpu": 1})


def test_a_repeated_row_counts_once_and_a_contradiction_is_named(tmp_path: Path) -> None:
    same = {"ts_ms": 1, "node": "n", "cpu_util": 5.0}
    first = plain(tmp_path / "x", "n", "h", host_metrics=[same, {"ts_ms": 2, "node": "n", "cpu_util": 1.0}])
    richer = {"ts_ms": 2, "node": "n", "cpu_util": 2.0, "load_1m": 0.0}
    second = plain(tmp_path / "y", "n", "h", host_metrics=[same, richer])
    report = merge([first, second], tmp_path / "out")
    assert cells(rows_in(tmp_path / "out", "host_metrics"), "ts_ms", "cpu_util", "load_1m") == [
        (1, 5.0, None),
        (2, 2.0, 0.0),
    ]
    assert (report["duplicates"], report["conflicts"]) == ({"host_metrics": 1}, {"host_metrics": 1})
    assert report["first_conflicts"] == [
        {"file": "host_metrics", "ts_ms": 2, "node": "n", "host_id": "h", "columns": ["cpu_util", "load_1m"]}
    ]


def test_two_requests_of_one_millisecond_are_two(tmp_path: Path) -> None:
    calls = [{"ts_end": 5, "pid": 1, "path": path, "node": "n"} for path in ("/b", "/a")]
    report = merge([plain(tmp_path / "x", "n", "h", invocations=[*calls, calls[0]])], tmp_path / "out")
    assert cells(rows_in(tmp_path / "out", "invocations"), "path") == [("/a",), ("/b",)]
    assert (report["duplicates"], report["conflicts"]) == ({"invocations": 1}, {})


def test_an_input_out_of_order_is_sorted_and_its_bad_lines_are_reported(tmp_path: Path) -> None:
    rows = [{"ts_ms": at, "node": "n"} for at in (3, 1, 2)]
    run = plain(tmp_path / "x", "n", "h", host_metrics=rows)
    with (run / "cctf/host_metrics.jsonl").open("a") as lines:
        lines.write("{torn")
    report = merge([run], tmp_path / "out")
    assert [row["ts_ms"] for row in rows_in(tmp_path / "out", "host_metrics")] == [1, 2, 3]
    path = str(run / "cctf/host_metrics.jsonl")
    assert (report["sorted_first"], report["bad_lines"]) == ([path], 1)
    assert report["first_bad_lines"] == [{"file": path, "line": 4, "reason": "it is no JSON"}]


def test_more_inputs_than_files_can_be_open_are_merged_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [
        plain(tmp_path / f"x{number}", f"n{number}", f"h{number}", host_metrics=[{"ts_ms": 9 - number}])
        for number in range(5)
    ]
    monkeypatch.setattr(merging, "FAN_IN", 2)
    merge(runs, tmp_path / "out")
    assert cells(rows_in(tmp_path / "out", "host_metrics"), "ts_ms", "node") == [
        (5, "n4"),
        (6, "n3"),
        (7, "n2"),
        (8, "n1"),
        (9, "n0"),
    ]


def span(name: str, parent: str | None, on: str, start: int, end: int) -> dict[str, Any]:
    times = {"ts_enqueue": start, "ts_start": start, "ts_end": end}
    return {"trace_id": "t", "span_id": name, "parent_id": parent, "node": on, **times}


def skewed(folder: Path) -> list[Path]:
    """b is 500 ms ahead of a, and c 200 ms behind b."""
    calls_a = [span("r1", None, "a", 1000, 1100), span("r2", None, "a", 2000, 2100)]
    calls_b = [span("s1", "r1", "b", 1510, 1570), span("s2", "r2", "b", 2540, 2590)]
    calls_c = [span("u1", "s1", "c", 1320, 1360)]
    return [
        plain(folder / name, name, name * 12, invocations=calls, host_metrics=[{"ts_ms": 5000 + 500 * (name != "a")}])
        for name, calls in (("a", calls_a), ("b", calls_b), ("c", calls_c))
    ]


def test_traces_that_cross_nodes_tell_how_far_their_clocks_are_apart(tmp_path: Path) -> None:
    report = merge(skewed(tmp_path), tmp_path / "out")
    assert cells(
        report["clock_skew"],
        "node",
        "other_node",
        "add_to_other_ms",
        "at_least_ms",
        "at_most_ms",
        "pairs",
        "is_consistent",
    ) == [("a", "b", -502.5, -510, -490, 2, True), ("b", "c", 200.0, 190, 210, 1, True)]
    assert [row["ts_ms"] for row in rows_in(tmp_path / "out", "host_metrics")] == [5000, 5500, 5500]
    assert (report["is_skew_applied"], report["added_ms"]) == (False, [])


def test_clocks_are_corrected_if_asked(tmp_path: Path) -> None:
    report = merge(skewed(tmp_path), tmp_path / "out", applies_skew=True)
    assert cells(report["added_ms"], "node", "added_ms") == [("a", 0), ("b", -502), ("c", -302)]
    assert cells(rows_in(tmp_path / "out", "invocations"), "span_id", "ts_start", "ts_end") == [
        ("r1", 1000, 1100),
        ("s1", 1008, 1068),
        ("u1", 1018, 1058),
        ("r2", 2000, 2100),
        ("s2", 2038, 2088),
    ]
    assert cells(rows_in(tmp_path / "out", "host_metrics"), "node", "ts_ms") == [
        ("b", 4998),
        ("a", 5000),
        ("c", 5198),
    ]


def test_clocks_that_may_agree_are_not_corrected(tmp_path: Path) -> None:
    """A child that begins early in its parent allows offsets around 86 ms, and none at all."""
    calls, parts = [span("r", None, "a", 1000, 1200)], [span("s", "r", "b", 1004, 1024)]
    runs = [plain(tmp_path / "a", "a", "a", invocations=calls), plain(tmp_path / "b", "b", "b", invocations=parts)]
    report = merge(runs, tmp_path / "out", applies_skew=True)
    assert cells(report["clock_skew"], "add_to_other_ms", "at_least_ms", "at_most_ms") == [(0.0, -4, 176)]
    assert cells(report["added_ms"], "node", "added_ms") == [("a", 0), ("b", 0)]
    assert cells(rows_in(tmp_path / "out", "invocations"), "span_id", "ts_start") == [("r", 1000), ("s", 1004)]


def test_it_does_not_matter_which_of_two_nodes_calls_the_other(tmp_path: Path) -> None:
    parts = [span("s", "r", "a", 1510, 1590)]
    calls = [span("r", None, "b", 1000, 1100)]
    runs = [plain(tmp_path / "a", "a", "a", invocations=parts), plain(tmp_path / "b", "b", "b", invocations=calls)]
    assert cells(
        merge(runs, tmp_path / "out")["clock_skew"],
        "node",
        "other_node",
        "add_to_other_ms",
        "at_least_ms",
        "at_most_ms",
    ) == [("a", "b", 500.0, 490, 510)]


def test_clocks_without_a_constant_offset_are_reported(tmp_path: Path) -> None:
    calls = [span(f"r{at}", None, "a", at, at + 10) for at in (1000, 2000)]
    parts = [span("s1", "r1000", "b", 1002, 1008), span("s2", "r2000", "b", 2102, 2108)]
    runs = [plain(tmp_path / "a", "a", "a", invocations=calls), plain(tmp_path / "b", "b", "b", invocations=parts)]
    (skew,) = merge(runs, tmp_path / "out")["clock_skew"]
    assert (skew["is_consistent"], skew["add_to_other_ms"], skew["pairs"]) == (False, -50.0, 2)


def test_the_result_is_no_input_and_overwrites_nothing_but_a_merge(tmp_path: Path) -> None:
    run = plain(tmp_path / "runs/x", "n", "h", host_metrics=[{"ts_ms": 1}])
    with pytest.raises(UsageError, match="also one of the inputs"):
        merge([run / "cctf"], run / "cctf")
    with pytest.raises(UsageError, match="holds one of the inputs"):
        merge([run], tmp_path / "runs")
    other = plain(tmp_path / "other", "m", "i")
    with pytest.raises(UsageError, match="no merge wrote"):
        merge([run], other / "cctf")
    with pytest.raises(InputError, match="no parsed files"):
        merge([tmp_path / "other/cctf/.."], other / "cctf")
    inside = tmp_path / "runs/merged"
    merge([tmp_path / "runs"], inside)
    first = files_in(inside)
    merge([tmp_path / "runs"], inside)
    assert files_in(inside) == first


def test_a_run_that_is_not_parsed_says_what_to_do(tmp_path: Path) -> None:
    write_session(tmp_path / "run", block_of(1000, []))
    with pytest.raises(InputError) as caught:
        merge([tmp_path / "run"], tmp_path / "out")
    assert caught.value.hint == f"parse it first: gpulake collect parse {tmp_path / 'run'}"


def test_the_command_says_what_it_merged(tmp_path: Path) -> None:
    one = node(tmp_path / "a", [1000], host_id="a" * 12)
    other = node(tmp_path / "b", [1000], host_id="b" * 12)
    with (other / "cctf" / "host_metrics.jsonl").open("a") as file:
        file.write("{half\n")
    (other / "cctf" / "links.json").write_text("[{half\n")
    result = CliRunner().invoke(root, ["collect", "merge", str(one), str(other), "--out", str(tmp_path / "out")])
    assert result.exit_code == 0
    assert f"2 lines are not rows: {tmp_path / 'out' / 'merge_report.md'}\n" in result.stderr
    assert "host_metrics                  2 rows" in result.stdout
    assert "two hosts have one name: n1 on host aaaaaaaaaaaa is now n1~aaaaaa" in result.stderr
    assert "is now" not in result.stdout


TABLE_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "ts_ms": st.integers(0, 5),
            "node": st.sampled_from(["a", "b"]),
            "host_id": st.sampled_from([None, "one", "two"]),
            "cpu_util": st.sampled_from([None, 0.0, 1.0]),
        }
    ),
    max_size=8,
)


@pytest.mark.slow
@settings(max_examples=cases(40))
@given(inputs=st.lists(TABLE_ROWS, min_size=1, max_size=3), order=st.randoms(use_true_random=False))
def test_a_merge_depends_on_no_order_and_merging_it_again_changes_nothing(
    inputs: list[list[dict[str, Any]]], order: Any, tmp_path_factory: Any
) -> None:
    folder = tmp_path_factory.mktemp("merge")
    runs = [plain(folder / f"x{number}", "a", "one", host_metrics=rows) for number, rows in enumerate(inputs)]
    first = merge(runs, folder / "out")
    files = files_in(folder / "out")
    shuffled = order.sample(runs, len(runs))
    merge([*shuffled, shuffled[0]], folder / "out2")
    assert files_in(folder / "out2") == files
    merge([folder / "out"], folder / "again")
    rows = rows_in(folder / "out", "host_metrics")
    assert rows_in(folder / "again", "host_metrics") == rows
    assert document_in(folder / "again", "nodes.json") == document_in(folder / "out", "nodes.json")
    key = key_of("host_metrics")
    keys = [key(row) for row in rows]
    assert keys == sorted(set(keys))
    reported_twice = first["duplicates"].get("host_metrics", 0) + first["conflicts"].get("host_metrics", 0)
    assert len(rows) + reported_twice == sum(len(rows) for rows in inputs)

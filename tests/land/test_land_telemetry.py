"""Telemetry as others write it: runs of both eras, Prometheus pages, snapshots of nvidia-smi and rocm-smi."""

from __future__ import annotations

import json
import math
import os
import tarfile
import tracemalloc
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics_families
from prometheus_client.parser import text_string_to_metric_families

from conftest import rows_of
from gpulake.core.clock import FrozenClock
from gpulake.core.lines import byte_lines
from gpulake.core.progress import silent
from gpulake.core.types import BadRow, Rewritten, RowBlock, TextRow
from gpulake.formats.json_text import word
from gpulake.lake import Lake
from gpulake.land.landing import land
from gpulake.land.readers import READERS, Sample, prometheus

WRITTEN_AT = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


def written(path: Path, text: str, at: datetime = WRITTEN_AT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (at.timestamp(), at.timestamp()))
    return path


def landed(lake: Lake, clock: FrozenClock, *paths: Path) -> list[tuple[int, int]]:
    with lake.writing():
        landings = land(lake, paths, clock, silent).landings
    return [(landing.rows_landed, landing.rows_quarantined) for landing in landings]


def samples(text: str, folder: Path) -> list[tuple[str, dict[str, str], float, float | None]]:
    """What our reader makes of a page."""
    path = written(folder / "page.prom", text)
    layout = READERS.get("prometheus")().recognise(Sample("page.prom", tuple(text.splitlines()[:20])))
    assert layout
    assert layout.rewrite
    found = []
    for row in layout.rewrite(path):
        assert not isinstance(row, BadRow), row
        for metric, labels, value, time in rows_in(row):
            found.append((metric, json.loads(labels), float(value), float(time) if time else None))
    return found


def rows_in(row: Rewritten) -> list[tuple[str, ...]]:
    if isinstance(row, RowBlock):
        return list(zip(*(column.to_pylist() for column in row.columns.values()), strict=True))
    assert isinstance(row, TextRow)
    return [row.fields]


def lines_of(path: Path) -> tuple[list[tuple[str, ...]], list[tuple[int, str]]]:
    """All rows that the reader makes of a page, and number and reason of the lines that it cannot read."""
    found = list(prometheus._samples(path))
    bad = [(row.line_number, row.reason) for row in found if isinstance(row, BadRow)]
    return sorted(fields for row in found if not isinstance(row, BadRow) for fields in rows_in(row)), bad


def lines_one_by_one(path: Path) -> tuple[list[tuple[str, ...]], list[tuple[int, str]]]:
    is_open_metrics = prometheus._is_open_metrics(path)
    rows = [
        line if isinstance(line, BadRow) else prometheus._sample(number, line, is_open_metrics)
        for number, line in byte_lines(path)
    ]
    bad = [(row.line_number, row.reason) for row in rows if isinstance(row, BadRow)]
    return sorted(row.fields for row in rows if isinstance(row, TextRow)), bad


# A run of both eras


def test_rows_that_name_no_node_are_of_the_one_beside_them(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    run = tmp_path / "20250826T101500Z" / "CTS"
    written(run / "nodes.json", '[{"node_id": "vm7", "cpu_cores": 4, "mem_mb": 16384, "cpu_freq_mhz": 2400}]')
    written(run / "proc_metrics.jsonl", '{"ts_ms": 5000, "pid": 7, "dt_ms": 200, "cpu_ms": 0, "rss_kb": 12}\n')
    written(run / "invocations.jsonl", '{"trace_id": "t", "pid": 7, "ts_enqueue": 1, "ts_start": 2, "ts_end": 3}\n')
    other = tmp_path / "edge-3" / "cctf"
    written(other / "proc_metrics.jsonl", '{"ts_ms": 5000, "pid": 7, "rss_kb": 12, "utime": 3, "stime": 0}\n')
    landed(lake, clock, tmp_path / "20250826T101500Z", tmp_path / "edge-3")
    query = "SELECT node, pid, cpu_ms, dt_ms, rss_kb, utime FROM bronze_proc_metrics ORDER BY node"
    assert [tuple(row.values()) for row in rows_of(lake, query)] == [
        ("edge-3", 7, None, None, 12, 3),
        ("vm7", 7, 0.0, 200.0, 12, None),
    ]
    assert rows_of(lake, "SELECT node, trace_id FROM bronze_invocations") == [{"node": "vm7", "trace_id": "t"}]


def test_a_file_in_an_archive_is_of_the_folder_that_it_lay_in(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    text = '{"ts_ms": 5000, "pid": 7, "rss_kb": 12, "utime": 3, "stime": 0}\n'
    file = written(tmp_path / "proc_metrics.jsonl", text)
    with tarfile.open(tmp_path / "runs.tar", "w") as archive:
        archive.add(file, "run/vm1/cctf/proc_metrics.jsonl")
    landed(lake, clock, tmp_path / "runs.tar")
    assert rows_of(lake, "SELECT node FROM bronze_proc_metrics") == [{"node": "vm1"}]


def test_a_process_may_be_called_anything(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    rows = [
        {"ts_ms": 1, "pid": 1, "node": "a", "comm": name} for name in ('a,"b|c', "x\ny\x1f\x00\x1b[2J", "naïve", "")
    ]
    path = written(tmp_path / "proc_metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert landed(lake, clock, path) == [(4, 0)]
    names = {row["comm"] for row in rows_of(lake, "SELECT comm FROM bronze_proc_metrics")}
    assert names == {'a,"b|c', r"x\ny\x1f\x00\x1b[2J", "naïve", None}


def test_all_that_is_known_of_a_run_is_kept(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    path = written(tmp_path / "run_meta.json", json.dumps({"run_id": "r", "rate": 50, "scen": None}, indent=2))
    assert landed(lake, clock, path) == [(1, 0)]
    (row,) = rows_of(lake, "FROM bronze_run_meta")
    assert (row["run_id"], json.loads(str(row["meta"]))) == ("r", {"run_id": "r", "rate": 50, "scen": None})


@given(st.text())
def test_no_string_leaves_its_line(text: str) -> None:
    assert not set(word(text)) & {"\n", "\r", "\x1f", "\x00"}


# Prometheus

names = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,12}", fullmatch=True)
label_names = st.from_regex(r"[a-zA-Z][a-zA-Z0-9_]{0,8}", fullmatch=True)
label_values = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\r\x85\u2028\u2029\x0b\x0c\x1c\x1d\x1e")
)
values = st.floats() | st.integers(-(2**70), 2**70)


def quoted(value: str) -> str:
    return '"' + value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"") + '"'


ODD_LINES = [
    "",
    "# HELP up is it",
    "  # a comment behind blanks",
    'up{a="1",a="2"} 1',
    'up{a="1",} 1 1700000000000',
    'up{,a="1"} 1',
    'up{a="1"b="2"} 1',
    'up{a="1" , b="2"} 1',
    'up{a="}"} 1',
    'up{a="1"} 1 # {trace="x"} 2',
    'up{a="1"} 1 1700000000.5',
    'up{a="1"} 1 99999999999999',
    r'up{a="\\\"\n"} 1',
    'up{b="\ufffd",a="\u2028%s"} +Inf',
    "up NaN",
    "up -nan",
    "up 1e+308 12",
    "up 0x10",
    "up  1",
    "up\t1",
    "up 1 ",
    "up 1\r",
    "DCGM_FI_DEV_GPU_UTIL 101",
    "DCGM_FI_DEV_GPU_UTIL 100",
    "DCGM_FI_DEV_GPU_UTIL -1",
    "DCGM_FI_DEV_FB_USED 2147483632",
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION 123456789012",
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION 9223372036854775792",
    "DCGM_FI_DEV_XID_ERRORS NaN",
    'DCGM_FI_DEV_GPU_TEMP{gpu="0"} 151',
]


@given(st.lists(st.sampled_from(ODD_LINES) | st.text(max_size=40), max_size=30), st.booleans(), st.booleans())
def test_a_block_of_lines_reads_as_its_lines_do_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], is_open_metrics: bool, is_cut: bool
) -> None:
    path = tmp_path_factory.mktemp("pages") / "page.prom"
    text = "\n".join([*lines, *(["# EOF"] if is_open_metrics else [])])
    path.write_bytes((text if is_cut else f"{text}\n").encode("utf-8", "surrogatepass"))
    assert lines_of(path) == lines_one_by_one(path)


@pytest.mark.real
def test_real_pages_read_the_same_in_blocks_and_line_by_line(real_data: Path) -> None:
    pages = [real_data / "prometheus" / "e2e-output.txt"]
    for page in pages:
        rows, bad = lines_of(page)
        assert len(rows) > 100, page
        assert (rows, bad) == lines_one_by_one(page)


@st.composite
def sample_lines(draw: st.DrawFn, is_open_metrics: bool) -> str:
    labels = draw(st.dictionaries(label_names, label_values, max_size=3))
    inside = ",".join(f"{name}={quoted(value)}" for name, value in labels.items())
    value = draw(values)
    number = {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}.get(str(float(value)), str(value))
    moments = st.integers(0, 2**33) if is_open_metrics else st.integers(0, 2**43)
    time = draw(st.none() | moments)
    return f"{draw(names)}{{{inside}}} {number}" + (f" {time}" if time is not None else "")


def same(ours: list[tuple[str, dict[str, str], float, float | None]], theirs: Iterable[Any]) -> bool:
    expected = [
        (sample.name, sample.labels, sample.value, None if sample.timestamp is None else float(sample.timestamp) * 1000)
        for family in theirs
        for sample in family.samples
    ]

    def key(row: tuple[str, dict[str, str], float, float | None]) -> str:
        name, labels, value, time = row
        return repr((name, sorted(labels.items()), "nan" if math.isnan(value) else float(value), time and round(time)))

    return sorted(map(key, ours)) == sorted(map(key, expected))


@pytest.mark.slow
@given(st.lists(sample_lines(is_open_metrics=False), min_size=1, max_size=5))
def test_a_page_says_what_the_clients_own_parser_reads(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    text = "# HELP page of a test\n" + "\n".join(lines) + "\n"
    folder = tmp_path_factory.mktemp("page")
    assert same(samples(text, folder), text_string_to_metric_families(text))


def test_open_metrics_counts_seconds_and_has_exemplars(tmp_path: Path) -> None:
    text = (
        "# TYPE x histogram\n"
        'x_bucket{le="1.0"} 2 1700000000.5 # {trace_id="a} #b"} 0.5 1700000000\n'
        'x_bucket{le="+Inf"} 3 1700000000.5\nx_count 3 1700000000.5\nx_sum 4.5 1700000000.5\n# EOF\n'
    )
    assert sorted(samples(text, tmp_path), key=lambda row: (row[2], row[0])) == [
        ("x_bucket", {"le": "1.0"}, 2.0, 1700000000500.0),
        ("x_bucket", {"le": "+Inf"}, 3.0, 1700000000500.0),
        ("x_count", {}, 3.0, 1700000000500.0),
        ("x_sum", {}, 4.5, 1700000000500.0),
    ]
    assert same(samples(text, tmp_path), open_metrics_families(text))  # type: ignore[no-untyped-call]


@pytest.mark.real
def test_a_real_page_of_node_exporter_lands_whole(lake: Lake, clock: FrozenClock, real_data: Path) -> None:
    path = real_data / "prometheus" / "e2e-output.txt"
    assert landed(lake, clock, path) == [(3027, 0)]
    expected = [sample for family in text_string_to_metric_families(path.read_text()) for sample in family.samples]
    found = rows_of(lake, "SELECT metric, labels, value FROM bronze_prometheus_samples")
    ours = [(row["metric"], str(json.loads(str(row["labels"]))), row["value"]) for row in found]
    theirs = [(sample.name, str(dict(sorted(sample.labels.items()))), sample.value) for sample in expected]
    assert sorted(ours) == sorted(theirs)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('DCGM_FI_DEV_GPU_UTIL{gpu="0"} 1000', "DCGM_FI_DEV_GPU_UTIL is 1000, which cannot be"),
        ('DCGM_FI_DEV_GPU_UTIL{gpu="0"} NaN', "DCGM_FI_DEV_GPU_UTIL is NaN, which cannot be"),
        ("DCGM_FI_DEV_FB_USED 9223372036854775794", "DCGM_FI_DEV_FB_USED is 9223372036854775794, which cannot be"),
        ("DCGM_FI_DEV_XID_ERRORS 2147483632", "DCGM_FI_DEV_XID_ERRORS is 2147483632, which cannot be"),
        ("DCGM_FI_PROF_SM_ACTIVE 140737488355328.0", "DCGM_FI_PROF_SM_ACTIVE is 140737488355328.0, which cannot be"),
        ("up one", "value is 'one', which is not a number"),
        ('up{a="b" 1', "not a sample: a name, labels in braces and a value are expected"),
        ('up{a="b",a="c"} 1', "not a sample: a name, labels in braces and a value are expected"),
        ("up 1 soon", "ts_ms is 'soon', which is not a number"),
    ],
)
def test_what_cannot_be_is_set_aside_and_its_neighbours_land(
    lake: Lake, clock: FrozenClock, tmp_path: Path, line: str, reason: str
) -> None:
    path = written(tmp_path / "gpu01.prom", f"# TYPE up gauge\nup 0\n{line}\nDCGM_FI_DEV_GPU_UTIL 100\n")
    assert landed(lake, clock, path) == [(2, 1)]
    assert rows_of(lake, "SELECT line_number, reason, row_text FROM quarantine") == [
        {"line_number": 3, "reason": reason, "row_text": line}
    ]
    assert rows_of(lake, "SELECT DISTINCT file, folder, file_at FROM bronze_prometheus_samples") == [
        {"file": "gpu01.prom", "folder": tmp_path.name, "file_at": WRITTEN_AT}
    ]


def test_a_huge_label_block_is_read_in_no_time(tmp_path: Path) -> None:
    labels = ",".join(f'a{number}="x"' for number in range(20_000))
    text = f"# TYPE up gauge\nup{{{labels}}} 1\n"
    ((_, found, _, _),) = samples(text, tmp_path)
    assert len(found) == 20_000


# nvidia-smi and rocm-smi


def test_a_long_line_takes_little_more_than_its_own_memory(tmp_path: Path) -> None:
    text = f'a{{b="{"x" * 200_000}"}} 1\n'
    tracemalloc.start()
    assert len(samples(text, tmp_path)) == 1
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most_bytes < 20 * len(text)

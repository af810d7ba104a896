"""Telemetry from files: each told by what it says, in bounded memory."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import cases
from gpulake.core.errors import InputError
from gpulake.diagnose.telemetry import Window, read_samples
from gpulake.diagnose.telemetry.samples import (
    MOST_SAMPLES,
    Gathering,
    GpuSample,
    HostSample,
    NodeEvent,
    Samples,
)

MS = 1_794_726_371_000
AT = MS / 1000


def _written(folder: Path, name: str, *lines: str, at: float = AT) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    os.utime(path, (at, at))
    return path


def test_a_plain_sampler_says_all_in_a_row_and_zero_is_a_value(tmp_path: Path) -> None:
    path = _written(
        tmp_path,
        "telemetry.jsonl",
        json.dumps({"meta": {"uuid": "GPU-1", "mem_total": 100}}),
        json.dumps(
            {"ts_ms": MS, "gpu_util": 0, "mem_used": 0, "power_mw": 80_000, "temp_c": 36, "ecc_uncorrected": 0}
            | {"throttle": 1, "procs": [[7, 5]], "cpu_util": 50.0, "mem_free_mb": 0}
        ),
    )
    assert read_samples([path]) == Samples(
        gpus={
            ("", "GPU-1"): (
                GpuSample(
                    AT,
                    "",
                    "GPU-1",
                    0.0,
                    0,
                    100,
                    80.0,
                    36,
                    ecc_uncorrected=0,
                    clock_event_reasons=1,
                    pids=frozenset({7}),
                ),
            )
        },
        hosts={"": (HostSample(AT, "", None, 0, None, 0.5),)},
        first_seconds=AT,
        last_seconds=AT,
    )


def test_a_collected_run_is_read_from_its_folder(tmp_path: Path) -> None:
    rows = {
        "gpu_metrics.jsonl": {"node": "a", "gpu_uuid": "GPU-1", "gpu_busy_ratio": 0.5, "memory_used_bytes": 7},
        "host_metrics.jsonl": {"node": "a", "cpu_util": 10, "memory_available_bytes": 5, "memory_total_bytes": 9},
        "proc_metrics.jsonl": {"node": "a", "pid": 42, "rss_kb": 2, "comm": "python"},
        "node_events.jsonl": {"node": "a", "kind": "xid", "subject": "0000:3b:00", "code": 79, "message": "NVRM"},
        "link_metrics.jsonl": {"node": "a", "link": "a.nic", "rx_Bps": 1.0},
    }
    for name, row in rows.items():
        _written(tmp_path / "run" / "a" / "cctf", name, json.dumps({"ts_ms": MS, **row}))
    _written(tmp_path / "run", "README.md", "Nothing to see here.")
    found = read_samples([tmp_path / "run"])
    assert found == Samples(
        gpus={("a", "GPU-1"): (GpuSample(AT, "a", "GPU-1", 0.5, 7),)},
        hosts={"a": (HostSample(AT, "a", 5, None, 9, 0.1),)},
        events=(NodeEvent(AT, "a", "xid", "0000:3b:00", 79, None, "NVRM"),),
        first_seconds=AT,
        last_seconds=AT,
    )


def test_a_log_of_nvidia_smi_is_read_in_the_zone_of_its_node(tmp_path: Path) -> None:
    path = _written(
        tmp_path,
        "smi.csv",
        "timestamp, index, utilization.gpu [%], memory.used [MiB], memory.total [MiB], power.draw [W], temperature.gpu",
        "2026/03/01 13:00:00.500, 0, 0 %, 1 MiB, 2 MiB, 70.5 W, 40",
        "2026/03/01 13:00:00.500, 1, [N/A], [N/A], 2 MiB, [N/A], 40",
        "torn, row",
        "yesterday, 0, 0 %, 1 MiB, 2 MiB, 70.5 W, 40",
    )
    at = datetime(2026, 3, 1, 12, 0, 0, 500_000, tzinfo=UTC).timestamp()
    mib = float(1 << 20)
    assert read_samples([path], time_zone="Europe/Berlin") == Samples(
        gpus={
            ("", "0"): (GpuSample(at, "", "0", 0.0, mib, 2 * mib, 70.5, 40.0),),
            ("", "1"): (GpuSample(at, "", "1", None, None, 2 * mib, None, 40.0),),
        },
        first_seconds=at,
        last_seconds=at,
        notes=("2 rows of the telemetry could not be read and were left out.",),
    )


def test_the_hour_that_clocks_show_twice_is_reported_twice(tmp_path: Path) -> None:
    times = ("02:30:00", "02:59:50", "02:00:00", "02:30:00", "03:00:00")
    rows = [f"2026/10/25 {at}.000, 0, {number} %, 1 MiB" for number, at in enumerate(times)]
    path = _written(tmp_path, "smi.csv", "timestamp, index, utilization.gpu [%], memory.used [MiB]", *rows)
    found = read_samples([path], time_zone="Europe/Berlin").gpus["", "0"]
    assert [datetime.fromtimestamp(sample.at_seconds, UTC).strftime("%H:%M:%S") for sample in found] == [
        "00:30:00",
        "00:59:50",
        "01:00:00",
        "01:30:00",
        "02:00:00",
    ]
    aware = _written(tmp_path, "aware.csv", "timestamp, index, memory.used [MiB]", "2026-03-01T12:00:00Z, 0, 1 MiB")
    assert (
        read_samples([aware], time_zone="Europe/Berlin").first_seconds
        == datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()
    )


def test_gpus_that_no_column_tells_apart_are_not_taken_for_one(tmp_path: Path) -> None:
    header = "timestamp, name, utilization.gpu [%], power.draw.instant [W]"
    eight = [f"2026/03/01 12:00:{s:02}.00{gpu}, NVIDIA H200, {10 * gpu} %, 80 W" for s in range(9) for gpu in range(8)]
    found = read_samples([_written(tmp_path, "eight.csv", header, *eight)])
    assert found.gpus == {}
    assert found.notes == ("No column of the nvidia-smi log tells its GPUs apart: add uuid or index to --query-gpu.",)
    one = read_samples([_written(tmp_path, "one.csv", header, *eight[::8])])
    assert [(sample.busy_ratio, sample.power_watts) for sample in one.gpus["", "0"]] == [(0.0, 80.0)] * 9


def test_parts_of_a_gpu_are_reported_apart(tmp_path: Path) -> None:
    mig = [f'{{gpu="0",UUID="GPU-1",GPU_I_PROFILE="1g.10gb",GPU_I_ID="{part}",Hostname="a"}}' for part in (7, 9)]
    path = _written(
        tmp_path,
        "page.txt",
        f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{mig[0]} 0.25",
        f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{mig[1]} 0",
        f"DCGM_FI_DEV_FB_USED{mig[0]} 3",
        f"DCGM_FI_DEV_FB_FREE{mig[0]} 1",
        f"DCGM_FI_DEV_FB_RESERVED{mig[0]} 2",
        f"DCGM_FI_DEV_CLOCKS_EVENT_REASONS{mig[0]} 64",
    )
    mib = float(1 << 20)
    assert read_samples([path]).gpus == {
        ("a", "GPU-1/7"): (GpuSample(AT, "a", "GPU-1/7", 0.25, 3 * mib, 6 * mib, clock_event_reasons=64),),
        ("a", "GPU-1/9"): (GpuSample(AT, "a", "GPU-1/9", 0.0),),
    }


def test_a_page_of_dcgm_exporter_is_a_moment(tmp_path: Path) -> None:
    labels = '{gpu="3",UUID="GPU-3",Hostname="a"}'
    path = _written(
        tmp_path,
        "page.txt",
        "# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).",
        f"DCGM_FI_DEV_GPU_UTIL{labels} 0",
        f"DCGM_FI_DEV_FB_USED{labels} 3",
        f"DCGM_FI_DEV_FB_FREE{labels} 1",
        f"DCGM_FI_DEV_XID_ERRORS{labels} 79",
        f"DCGM_FI_DEV_POWER_USAGE{labels} 4294967295",
        f"DCGM_FI_DEV_GPU_TEMP{labels} nonsense",
        "node_memory_MemAvailable_bytes 5",
        "node_load1 NaN",
    )
    mib = float(1 << 20)
    assert read_samples([path]) == Samples(
        gpus={("a", "GPU-3"): (GpuSample(AT, "a", "GPU-3", 0.0, 3 * mib, 4 * mib, last_xid=79),)},
        hosts={"": (HostSample(AT, "", 5.0),)},
        first_seconds=AT,
        last_seconds=AT,
        notes=("1 rows of the telemetry could not be read and were left out.",),
    )


@pytest.mark.parametrize(
    ("line", "node", "seconds"),
    [
        ("[  100.000000] {} ", "", -50.0),
        ("[Sun Nov 15 07:05:21 2026] {} ", "", -50.0),
        ("2026-11-15T07:05:21,000000+00:00 {} ", "", -50.0),
        ("Nov 15 07:05:21 gpu01 kernel: [  100.000000] {} ", "gpu01", -50.0),
        ("2026-11-15T07:05:21.000000+00:00 gpu01 kernel: {} ", "gpu01", -50.0),
    ],
)
def test_kernel_logs_tell_their_events_in_any_of_their_clocks(
    tmp_path: Path, line: str, node: str, seconds: float
) -> None:
    xid = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus."
    kill = "Out of memory: Killed process 4242 (python) total-vm:1kB, anon-rss:1kB"
    last = line.replace("100.000000", "150.000000").replace("07:05:21", "07:06:11").format("usb 1-1: new device")
    path = _written(tmp_path, "dmesg.log", line.format(xid).rstrip(), line.format(kill).rstrip(), last.rstrip())
    found = read_samples([path]).events
    assert [(event.node, event.kind, event.code, event.pid) for event in found] == [
        (node, "xid", 79, 1234),
        (node, "oom_kill", None, 4242),
    ]
    assert [event.at_seconds for event in found] == [pytest.approx(AT + seconds)] * 2


def test_a_packed_file_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps({"ts_ms": MS, "gpu_util": 5, "mem_used": 1}).encode()))
    assert [sample.busy_ratio for sample in read_samples([path]).gpus["", "0"]] == [0.05]


def test_files_are_unpacked_as_logs_are(tmp_path: Path) -> None:
    row = json.dumps({"ts_ms": MS, "gpu_util": 5, "mem_used": 1}) + "\n"
    contents = {
        "zstd": bytes(pa.compress(row.encode(), codec="zstd", asbytes=True)),
        "utf_16": row.encode("utf-16"),
        "bom": b"\xef\xbb\xbf" + row.encode(),
    }
    for name, content in contents.items():
        path = tmp_path / name
        path.write_bytes(content)
        assert [sample.busy_ratio for sample in read_samples([path]).gpus["", "0"]] == [0.05], name
    folder = tmp_path / "n1" / "cctf"
    folder.mkdir(parents=True)
    (folder / "gpu.jsonl.zst").write_bytes(contents["zstd"])
    assert list(read_samples([tmp_path / "n1"]).gpus) == [("n1", "0")]


def test_a_packed_file_that_breaks_off_gives_what_it_has_and_says_so(tmp_path: Path) -> None:
    rows = [json.dumps({"ts_ms": MS + number, "gpu_util": number % 100, "mem_used": number}) for number in range(9_000)]
    whole = gzip.compress("\n".join(rows).encode())
    path = tmp_path / "t.jsonl.gz"
    path.write_bytes(whole[: len(whole) // 2])
    found = read_samples([path])
    assert len(found.gpus["", "0"]) > 1_000
    assert any("t.jsonl.gz breaks off" in note for note in found.notes)


@pytest.mark.parametrize(
    "content", [b"", b"hello\n", b'{"a": 1}\n', b"\x00\xff" * 100, b"a,b\n1,2\n", b"\x1f\x8bnot gzip at all"]
)
def test_what_is_no_telemetry_is_an_input_error_with_a_hint(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    for given_path in (path, tmp_path):
        with pytest.raises(InputError) as raised:
            read_samples([given_path])
        assert "nvidia-smi" in raised.value.hint


def test_a_file_that_is_not_there_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        read_samples([tmp_path / "nothing.jsonl"])


def test_what_lies_outside_of_the_window_is_not_kept_but_its_span_is_known(tmp_path: Path) -> None:
    lines = [json.dumps({"ts_ms": MS + at * 1000, "gpu_util": 1, "mem_used": 1}) for at in range(1000)]
    found = read_samples([_written(tmp_path, "t.jsonl", *lines)], Window(AT + 500, AT + 509))
    assert [sample.at_seconds - AT for sample in found.gpus["", "0"]] == list(range(500, 510))
    assert (found.first_seconds, found.last_seconds) == (AT, AT + 999)


@pytest.mark.slow
def test_more_samples_than_are_kept_are_thinned_and_the_last_ones_stay() -> None:
    gathering = Gathering(Window())
    for at in range(100_000):
        gathering.add_gpu(GpuSample(float(at), "a", "0"))
    [series] = gathering.finished().gpus.values()
    assert len(series) <= MOST_SAMPLES
    assert [sample.at_seconds for sample in series[-1000:]] == [float(at) for at in range(99_000, 100_000)]
    assert series[0].at_seconds == 0.0


@settings(max_examples=cases(80))
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(
                [
                    "ts_ms",
                    "gpu_util",
                    "mem_used",
                    "procs",
                    "node",
                    "gpu_uuid",
                    "pid",
                    "kind",
                    "code",
                    "mem_free_mb",
                    "meta",
                ]
            ),
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.lists(st.integers()),
        ),
        max_size=6,
    )
)
def test_rows_with_anything_in_them_never_crash(rows: list[dict[str, object]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lines = [json.dumps({"ts_ms": MS, "gpu_util": 1}), *(json.dumps(row) for row in rows)]
        read_samples([_written(Path(folder), "t.jsonl", *lines)])


@settings(max_examples=cases(80))
@given(
    st.binary(max_size=400),
    st.sampled_from(["", "# HELP a b\n", "timestamp, index, utilization.gpu [%]\n", "[ 1.0] x\n"]),
)
def test_bytes_of_any_kind_are_read_or_refused(content: bytes, head: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        path.write_bytes(head.encode() + content)
        with contextlib.suppress(InputError):
            assert isinstance(read_samples([path]), Samples)

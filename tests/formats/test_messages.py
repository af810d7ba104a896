"""Every format of messages: what a message is, and that one which cannot be read costs only itself."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from gpulake.core.tables import bronze_tables
from gpulake.core.types import BadRow, RowBlock, TextRow
from gpulake.formats.messages import MESSAGES, SAMPLES, Message
from gpulake.formats.sample_rows import milliseconds

AT = 1_700_000_000_000
UTIL, TEMP = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_TEMP"


def rows(kind: str, messages: Sequence[Message], table: str = SAMPLES) -> tuple[list[tuple[Any, ...]], list[BadRow]]:
    """The good rows, without what they do not say; the bad ones."""
    form = MESSAGES.get(kind)()
    good: list[tuple[Any, ...]] = []
    bad = []
    for found in form.rows(table, messages):
        if isinstance(found, BadRow):
            bad.append(found)
        elif isinstance(found, RowBlock):
            good += zip(*(column.to_pylist() for column in found.columns.values()), strict=True)
        else:
            assert isinstance(found, TextRow)
            good.append(tuple((k, v) for k, v in zip(form.columns[table], found.fields, strict=True) if v))
    return good, bad


def key(number: int, kind: int) -> bytes:
    return bytes([number << 3 | kind])


def part(number: int, content: bytes) -> bytes:
    return key(number, 2) + varint(len(content)) + content


def varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def series(labels: dict[str, str], samples: Sequence[tuple[float, int]]) -> bytes:
    pairs = b"".join(part(1, part(1, k.encode()) + part(2, v.encode())) for k, v in labels.items())
    values = (key(1, 1) + struct.pack("<d", value) + key(2, 0) + varint(at) for value, at in samples)
    return part(1, pairs + b"".join(part(2, value) for value in values))


def packed(request: bytes) -> bytes:
    found: bytes = pa.compress(request, codec="snappy", asbytes=True)
    return found


@pytest.fixture(params=list(MESSAGES))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_message_that_cannot_be_read_is_a_bad_row_with_its_place(kind: str) -> None:
    form = MESSAGES.get(kind)()
    for value in (b"\xff\xfe", b"[1, 2", b"[7]", b"", b"{", b"\x00"):
        found = list(form.rows(form.tables[0], [Message(value, AT), Message(value, AT)]))
        assert [row.line_number for row in found if isinstance(row, BadRow)] == [0, 1][: len(found)], value
        assert all(isinstance(row, BadRow) and row.reason for row in found), value


def test_tables_and_columns_of_a_format_are_those_of_bronze(kind: str) -> None:
    form = MESSAGES.get(kind)()
    for table in form.tables:
        assert set(form.columns[table]) <= set(bronze_tables()[table].column_names)
        assert form.table_of(Message(b"{}")) in form.tables


def test_samples_as_json_come_in_three_shapes() -> None:
    one = {"name": "up", "labels": {"__name__": "up", "job": "x"}, "value": "0", "timestamp": "2023-11-14T22:13:20Z"}
    telegraf = {"name": "gpu", "fields": {"load": 0.5, "word": "x"}, "tags": {"host": "g1"}, "timestamp": AT // 1000}
    wide = {"timestamp": AT, "Hostname": "g1", "gpu": 0, UTIL: 0, TEMP: 40.5}
    dotted = {"ts": AT * 1_000_000, "hw.id": "GPU-1", "hw.gpu.utilization": 0.25}
    good, bad = rows("json", [Message(json.dumps(body).encode(), 5, b"n7") for body in (one, telegraf, wide, dotted)])
    at = str(AT)
    assert (good, bad) == (
        [
            ("up", '{"Hostname": "n7", "job": "x"}', "0", at),
            ("gpu_load", '{"Hostname": "n7", "host": "g1"}', "0.5", at),
            (UTIL, '{"Hostname": "g1", "gpu": "0"}', "0", at),
            (TEMP, '{"Hostname": "g1", "gpu": "0"}', "40.5", at),
            ("hw_gpu_utilization", '{"Hostname": "n7", "hw_id": "GPU-1"}', "0.25", at),
        ],
        [],
    )


def test_many_samples_may_be_in_one_message_and_a_blank_is_a_bad_row() -> None:
    body = [{"Hostname": "g1", UTIL: 7}, {"Hostname": "g1", UTIL: 4294967295}]
    lines = "\n".join(map(json.dumps, body))
    for text in (json.dumps(body), lines):
        good, bad = rows("json", [Message(text.encode(), AT)])
        assert good == [(UTIL, '{"Hostname": "g1"}', "7", str(AT))]
        assert [(one.line_number, one.reason) for one in bad] == [(0, f"{UTIL} is 4294967295.0, which cannot be")]


def test_remote_write_has_all_samples_but_marks_of_the_end() -> None:
    stale = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]
    first = series({"__name__": UTIL, "gpu": "0", "instance": "g1:9400"}, [(0.0, AT), (5.5, AT + 1)])
    second = series({"__name__": UTIL, "gpu": "1", "instance": "g1:9400"}, [(stale, AT), (4294967295.0, AT)])
    good, bad = rows("remote_write", [Message(packed(first + second)), Message(packed(first))])
    labels = '{"gpu": "0", "instance": "g1:9400"}'
    assert good == [(UTIL, labels, value, str(at)) for value, at in (("0", AT), ("5.5", AT + 1))] * 2
    assert [one.reason for one in bad] == [f"{UTIL} is 4294967295.0, which cannot be"]


def test_remote_write_2_names_labels_by_their_place() -> None:
    symbols = ["", "__name__", "up", "job", "x"]
    places = part(1, bytes([1, 2, 3, 4]))
    sample = part(2, key(1, 1) + struct.pack("<d", 1.0) + key(2, 0) + varint(AT))
    request = b"".join(part(4, word.encode()) for word in symbols) + part(5, places + sample)
    assert rows("remote_write", [Message(packed(request))]) == ([("up", '{"job": "x"}', "1", str(AT))], [])


OTLP = {
    "resourceMetrics": [
        {
            "resource": {"attributes": [{"key": "host.name", "value": {"stringValue": "g1"}}]},
            "scopeMetrics": [
                {
                    "metrics": [
                        {"name": "hw.gpu.utilization", "unit": "1", "gauge": {"dataPoints": [{"asDouble": 0.0}]}},
                        {
                            "name": "hw.energy",
                            "unit": "J",
                            "sum": {"isMonotonic": True, "dataPoints": [{"asInt": "7"}]},
                        },
                        {"name": "t", "unit": "s", "histogram": {"dataPoints": [{"count": "2", "sum": 1.5}]}},
                    ]
                }
            ],
        }
    ]
}


def otlp_points(request: dict[str, Any]) -> None:
    for metric in request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]:
        for kind in ("gauge", "sum", "histogram"):
            for point in metric.get(kind, {}).get("dataPoints", ()):
                point |= {
                    "timeUnixNano": str(AT * 1_000_000),
                    "attributes": [{"key": "hw.id", "value": {"stringValue": "GPU-1"}}],
                }


def otlp_bytes() -> bytes:
    point = key(3, 1) + struct.pack("<Q", AT * 1_000_000)
    hw_id = part(1, b"hw.id") + part(2, part(1, b"GPU-1"))
    gauge = part(1, point + key(4, 1) + struct.pack("<d", 0.0) + part(7, hw_id))
    energy = part(1, point + key(6, 1) + struct.pack("<q", 7) + part(7, hw_id)) + key(3, 0) + b"\x01"
    wide = part(1, point + key(4, 1) + struct.pack("<Q", 2) + key(5, 1) + struct.pack("<d", 1.5) + part(9, hw_id))
    metrics = (
        part(1, b"hw.gpu.utilization") + part(3, b"1") + part(5, gauge),
        part(1, b"hw.energy") + part(3, b"J") + part(7, energy),
        part(1, b"t") + part(3, b"s") + part(9, wide),
    )
    host = part(1, part(1, part(1, b"host.name") + part(2, part(1, b"g1"))))
    return part(1, host + part(2, b"".join(part(2, metric) for metric in metrics)))


def test_otlp_is_the_same_as_json_and_as_protocol_buffers() -> None:
    request = json.loads(json.dumps(OTLP))
    otlp_points(request)
    labels = '{"host_name": "g1", "hw_id": "GPU-1"}'
    expected = [
        ("hw_gpu_utilization", labels, "0", str(AT)),
        ("hw_energy_joules_total", labels, "7", str(AT)),
        ("t_seconds_count", labels, "2", str(AT)),
        ("t_seconds_sum", labels, "1.5", str(AT)),
    ]
    for body in (json.dumps(request).encode(), otlp_bytes()):
        assert rows("otlp", [Message(body)]) == (expected, [])


def test_lines_of_influx_have_tags_with_escapes_and_times_in_nanoseconds() -> None:
    text = (
        f"nvidia_smi,host=g1,index=0,uuid=GPU-1,name=Tesla\\ V100 utilization_gpu=0i,power_draw=71.5 {AT}000000\n"
        f'disk,host=g\\,2 used=1i,text="a, b" {AT}000000\n'
    )
    smi = '{"Hostname": "g1", "UUID": "GPU-1", "gpu": "0", "modelName": "Tesla V100"}'
    assert rows("influx", [Message(text.encode())]) == (
        [
            (UTIL, smi, "0", str(AT)),
            ("DCGM_FI_DEV_POWER_USAGE", smi, "71.5", str(AT)),
            ("disk_used", '{"Hostname": "g,2", "host": "g,2"}', "1", str(AT)),
        ],
        [],
    )


def test_an_xid_in_a_kernel_log_is_an_event_and_other_lines_are_none() -> None:
    xid = "NVRM: Xid (PCI:0000:3b:00): 79, pid=7, GPU has fallen off the bus."
    sent = [
        Message(json.dumps({"host": "g1", "message": xid, "timestamp": "2023-11-14T22:13:20Z"}).encode()),
        Message(f"<3>[ 12.5] {xid}".encode(), AT, b"g2"),
        Message(b"usb 1-1: new device", AT, b"g2"),
        Message(xid.encode(), AT),
    ]
    good, bad = rows("kernel", sent, "bronze_node_events")
    common = (("kind", "xid"), ("subject", "0000:3b:00"), ("code", "79"), ("pid", "7"), ("message", xid))
    assert good == [(("ts_ms", str(AT)), ("node", node), *common, ("source", "kernel")) for node in ("g1", "g2")]
    assert [(one.line_number, one.reason.split(":")[0]) for one in bad] == [(3, "no host")]


def test_a_job_that_slurm_reports_has_its_gpus_and_not_its_script() -> None:
    job = {
        "jobid": 12,
        "username": "ann",
        "state": "FAILED",
        "exit_code": "1:0",
        "cluster": "tiger",
        "nodes": "g[1-2]",
        "@start": "Unknown",
        "@end": "2026-11-18T06:12:25",
        "elapsed": 3600,
        "time_limit": 7200,
        "script": "secret",
        "tres_alloc": "cpu=8,gres/gpu=16",
        "array_job_id": 11,
        "array_task_id": 3,
    }
    sent = [Message(json.dumps(body).encode(), AT) for body in (job, {"script": "secret"})]
    good, bad = rows("slurm", sent, "bronze_slurm_jobs")
    assert dict(good[0]) == {
        "job_id": "11_3",
        "raw_job_id": "12",
        "array_job_id": "11",
        "array_task_id": "3",
        "base_state": "FAILED",
        "gpus": "16",
        "nodes": "g1,g2",
        "JobID": "11_3",
        "JobIDRaw": "12",
        "User": "ann",
        "Cluster": "tiger",
        "State": "FAILED",
        "ExitCode": "1:0",
        "End": "2026-11-18T06:12:25",
        "ElapsedRaw": "3600",
        "TimelimitRaw": "120",
        "NodeList": "g[1-2]",
        "AllocTRES": "cpu=8,gres/gpu=16",
        "asked_at": "2023-11-14T22:13:20+00:00",
    }
    assert [(one.reason, one.text) for one in bad] == [("no member 'jobid'", "{")]


def test_rows_of_the_collector_go_to_the_table_that_they_name() -> None:
    form = MESSAGES.get("cctf")()
    by_key, by_member = Message(b"{}", key=b"host_metrics.jsonl"), Message(b'{"table": "node_events"}')
    named = [form.table_of(one) for one in (by_key, by_member, Message(b"{}"))]
    assert named == ["bronze_host_metrics", "bronze_node_events", "bronze_gpu_metrics"]
    good, _ = rows("cctf", [Message(b'{"ts_ms": 1, "node": "g1", "cpu_util": 0}')], "bronze_host_metrics")
    assert good == [(("ts_ms", "1"), ("node", "g1"), ("cpu_util", "0"))]


def test_times_are_read_in_the_unit_that_their_size_says() -> None:
    assert {milliseconds(AT // 1000 * factor) for factor in (1, 10**3, 10**6, 10**9)} == {AT}
    for wrong in (True, None, "soon", "2026-01-01T00:00:00", 1e30):
        with pytest.raises(ValueError, match=r"."):
            milliseconds(wrong)

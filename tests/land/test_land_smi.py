"""What nvidia-smi and rocm-smi print, as tables, XML and JSON."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import count_of, rows_of
from gpulake.core.clock import FrozenClock
from gpulake.core.errors import InputError
from gpulake.core.types import BadRow, RowBlock, TextRow
from gpulake.formats.smi_xml import Broken, snapshots
from gpulake.lake import Lake
from gpulake.land.readers import READERS, Sample
from land.test_land_telemetry import landed, written


@pytest.mark.slow
@pytest.mark.real
def test_every_real_snapshot_of_nvidia_smi_lands(lake: Lake, clock: FrozenClock, real_data: Path) -> None:
    files = sorted((real_data / "smi_snapshots" / "nvidia_smi").rglob("*.xml"))
    # The A100 is cut into four MIG devices.
    counts = landed(lake, clock, *files, real_data / "lab" / "nvidia_smi_h200.xml")
    assert sorted(counts) == [(1, 0)] * 12 + [(5, 0)]
    assert count_of(lake, "bronze_nvidia_smi") == 12 + 4 + 1
    query = (
        "SELECT name, uuid, timestamp, power_draw_instant, clocks_event_reasons_active AS mask FROM bronze_nvidia_smi"
    )
    assert rows_of(lake, f"{query} WHERE name = 'NVIDIA H200'") == [
        {
            "name": "NVIDIA H200",
            "uuid": "GPU-00000000-0000-0000-0000-000000000001",
            "timestamp": datetime(2026, 11, 15, 8, 47, 20),  # noqa: DTZ001
            "power_draw_instant": "130.19 W",
            "mask": "0x0000000000000004",
        }
    ]
    devices = (
        "SELECT mig_index, mig_gpu_instance_id AS gi, memory_used FROM bronze_nvidia_smi WHERE mig_index IS NOT NULL"
    )
    assert [tuple(row.values()) for row in rows_of(lake, f"{devices} ORDER BY ALL")] == [
        ("0", "3", "12 MiB"),
        ("1", "4", "12 MiB"),
        ("2", "5", "12 MiB"),
        ("3", "6", "12 MiB"),
    ]


def xml(inside: str, doctype: str = '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">') -> bytes:
    return f'<?xml version="1.0" ?>\n{doctype}\n<nvidia_smi_log>\n{inside}\n</nvidia_smi_log>\n'.encode()


GPU = '<gpu id="1"><uuid>GPU-1</uuid></gpu>'


def _file(folder: Path, content: bytes) -> Path:
    path = folder / "node.xml"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    "doctype",
    [
        '<!DOCTYPE nvidia_smi_log [<!ENTITY a "aaaa">]>',
        '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd" [<!ENTITY a SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE nvidia_smi_log SYSTEM "file:///etc/passwd">',
        '<!DOCTYPE html SYSTEM "nvsmi_device_v12.dtd">',
        '<!DOCTYPE nvidia_smi_log [<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;">]>',
    ],
)
def test_a_document_type_of_another_kind_is_refused(tmp_path: Path, doctype: str) -> None:
    found = list(snapshots(_file(tmp_path, xml(GPU, doctype))))
    assert [type(part) for part in found] == [Broken]
    assert "nvidia-smi does not write" in found[0].reason  # type: ignore[union-attr]


def test_an_entity_that_nobody_declared_is_refused(tmp_path: Path) -> None:
    (broken,) = snapshots(_file(tmp_path, xml("<gpu><uuid>&secret;</uuid></gpu>")))
    assert isinstance(broken, Broken)


def test_nothing_goes_deeper_than_nvidia_smi_does(tmp_path: Path) -> None:
    (broken,) = snapshots(_file(tmp_path, xml("<a>" * 1000)))
    assert isinstance(broken, Broken)


def test_snapshots_in_a_row_land_up_to_the_one_that_is_cut(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    whole = xml("<timestamp>Sun Mar  1 00:00:05 2026</timestamp>" + GPU).decode()
    path = written(tmp_path / "n1.xml", whole + whole.replace(":05", ":10") + whole[: whole.index("</uuid>")])
    assert landed(lake, clock, path) == [(2, 1)]
    assert [row["timestamp"] for row in rows_of(lake, "FROM bronze_nvidia_smi ORDER BY timestamp")] == [
        datetime(2026, 3, 1, 0, 0, second)  # noqa: DTZ001
        for second in (5, 10)
    ]
    (kept,) = rows_of(lake, "FROM quarantine")
    assert (kept["line_number"], str(kept["reason"])[:7]) == (14, "no XML:")


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        ("timestamp, index, uuid, temperature.gpu, utilization.gpu [%], memory.used [MiB], pcie.link.gen.max", ", 5"),
        ("timestamp, index, gpu_uuid, temperature.gpu, utilization.gpu [%], memory.used [MiB], vbios_version", ", 5"),
    ],
)
@pytest.mark.parametrize("units", [("0 %", "12 MiB"), ("0", "12")])
def test_csv_of_any_fields_with_units_or_without(
    lake: Lake, clock: FrozenClock, tmp_path: Path, header: str, rows: str, units: tuple[str, str]
) -> None:
    line = f"2026/03/01 00:00:05.123, 0, GPU-1, 40, {units[0]}, {units[1]}{rows}\n"
    path = written(tmp_path / "n1.csv", f"{header}\n{line}{line}")
    assert landed(lake, clock, path) == [(2, 0)]
    query = "SELECT DISTINCT timestamp, index, uuid, utilization_gpu, memory_used, other_fields FROM bronze_nvidia_smi"
    (row,) = rows_of(lake, query)
    last = header.rsplit(", ", 1)[1].replace(".", "_")
    assert tuple(row.values()) == (
        datetime(2026, 3, 1, 0, 0, 5, 123_000),  # noqa: DTZ001
        "0",
        "GPU-1",
        *units,
        json.dumps({last: "5"}),
    )


def test_a_header_with_a_carriage_return_inside_is_none(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    header = "index, uuid, utilization.gpu [%]"
    path = written(tmp_path / "n1.csv", f"{header}\rx\n{header}\n0, GPU-1, 5 %\n")
    assert landed(lake, clock, path) == [(1, 0)]


def test_csv_that_cannot_tell_gpus_apart_says_what_to_ask_for(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    path = written(tmp_path / "n1.csv", "timestamp, utilization.gpu [%]\n2026/03/01 00:00:05.123, 0 %\n")
    with pytest.raises(InputError, match="no column tells its GPUs apart") as raised:
        landed(lake, clock, path)
    assert raised.value.hint == "add uuid, or index, to the fields of --query-gpu"


@pytest.mark.real
def test_every_real_snapshot_of_rocm_smi_lands(lake: Lake, clock: FrozenClock, real_data: Path) -> None:
    landed(lake, clock, *sorted((real_data / "smi_snapshots" / "amd_rocm_smi").rglob("*.json")))
    cards = rows_of(lake, "SELECT file, count(*) AS n FROM bronze_rocm_smi GROUP BY file ORDER BY file")
    assert [tuple(row.values()) for row in cards] == [
        ("mi100_rocm571.json", 6),
        ("mi100_rocm602.json", 4),
        ("rx6700xt_rocm430.json", 1),
        ("rx6700xt_rocm571.json", 1),
        ("rx6700xt_rocm602.json", 1),
        ("rx6700xt_rocm612.json", 1),
        ("vega-10-XT.json", 1),
        ("vega-20-WKS-GL-XE.json", 1),
    ]
    query = (
        "SELECT card, pci_bus, gpu_use, vram_total_used_memory_b, temperature_sensor_edge_c, sclk_clock_speed,"
        " average_graphics_package_power_w, driver_version, other_fields FROM bronze_rocm_smi"
    )
    (row,) = rows_of(lake, f"{query} WHERE file = 'rx6700xt_rocm612.json'")
    assert json.loads(str(row.pop("other_fields")))["GFX Version"] == "gfx1031"
    assert tuple(row.values()) == ("card0", "0000:07:00.0", "0", "1572745216", "45.0", "(0Mhz)", "6.0", "6.3.6")


def test_warnings_before_the_json_of_rocm_smi_are_no_part_of_it(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    text = 'WARNING: AMD GPU device(s) is/are in a low-power state.\n\n{"card0": {"GPU use (%)": 0}, "card1": 5}\n'
    assert landed(lake, clock, written(tmp_path / "amd.json", text)) == [(1, 1)]
    assert rows_of(lake, "SELECT line_number, row_text FROM quarantine") == [
        {"line_number": 3, "row_text": '"card1": 5'}
    ]


@given(st.text())
def test_no_reader_of_snapshots_breaks_on_any_text(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = written(
        tmp_path_factory.mktemp("any") / "x", f'{{"card0":{text}\n<nvidia_smi_log><gpu>{text}</gpu>\n# TYPE {text}'
    )
    sample = Sample("x", tuple(line for line in path.read_text().splitlines()[:20] if line))
    for name in ("prometheus", "nvidia_smi", "rocm_smi"):
        layout = READERS.get(name)().recognise(sample)
        if layout and layout.rewrite:
            with suppress(InputError):
                assert all(isinstance(row, (TextRow, BadRow, RowBlock)) for row in layout.rewrite(path))

"""Snapshots of nvidia-smi: the XML of `-q -x`, and the CSV of `--query-gpu=… --format=csv`, with units or without.

Both come in the words of --query-gpu, with dots as underscores. Values stay as they are, units and [N/A] included.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from gpulake.core.errors import InputError
from gpulake.core.lines import text_lines
from gpulake.core.tables import bronze_tables
from gpulake.core.types import BadRow, CsvLayout, TextRow
from gpulake.formats.json_text import word
from gpulake.formats.smi_csv import IDENTITIES, header_names
from gpulake.formats.smi_xml import Element, Snapshot, snapshots
from gpulake.land.readers import READERS, Sample, content_columns

TABLE = "bronze_nvidia_smi"
COLUMNS = content_columns(TABLE)
# Where the XML has it: the first place that says something counts.
PLACES = {
    "name": ("product_name",),
    "uuid": ("uuid",),
    "serial": ("serial",),
    "pci_bus_id": ("pci/pci_bus_id",),
    "mig_mode_current": ("mig_mode/current_mig",),
    "pstate": ("performance_state",),
    "fan_speed": ("fan_speed",),
    "temperature_gpu": ("temperature/gpu_temp",),
    "temperature_memory": ("temperature/memory_temp",),
    "temperature_slowdown": ("temperature/gpu_temp_slow_threshold",),
    "utilization_gpu": ("utilization/gpu_util",),
    "utilization_memory": ("utilization/memory_util",),
    "utilization_encoder": ("utilization/encoder_util",),
    "utilization_decoder": ("utilization/decoder_util",),
    "memory_total": ("fb_memory_usage/total",),
    "memory_reserved": ("fb_memory_usage/reserved",),
    "memory_used": ("fb_memory_usage/used",),
    "memory_free": ("fb_memory_usage/free",),
    "power_draw": ("gpu_power_readings/power_draw", "power_readings/power_draw"),
    "power_draw_average": ("gpu_power_readings/average_power_draw",),
    "power_draw_instant": ("gpu_power_readings/instant_power_draw",),
    "power_limit": ("gpu_power_readings/requested_power_limit", "power_readings/power_limit"),
    "enforced_power_limit": ("gpu_power_readings/current_power_limit", "power_readings/enforced_power_limit"),
    "clocks_current_sm": ("clocks/sm_clock",),
    "clocks_current_memory": ("clocks/mem_clock",),
    "pcie_link_gen_current": ("pci/pci_gpu_link_info/pcie_gen/current_link_gen",),
    "pcie_link_width_current": ("pci/pci_gpu_link_info/link_widths/current_link_width",),
    "pcie_replay_counter": ("pci/replay_counter",),
    "remapped_rows_correctable": ("remapped_rows/remapped_row_corr",),
    "remapped_rows_uncorrectable": ("remapped_rows/remapped_row_unc",),
    "remapped_rows_pending": ("remapped_rows/remapped_row_pending",),
    "remapped_rows_failure": ("remapped_rows/remapped_row_failure",),
}
# Newer drivers count by where an error was, older ones in total.
ECC_PARTS = {
    "corrected": ("sram_correctable", "dram_correctable"),
    "uncorrected": (
        "sram_uncorrectable",
        "sram_uncorrectable_parity",
        "sram_uncorrectable_secded",
        "dram_uncorrectable",
    ),
}
ECC_TOTALS = {"corrected": "single_bit/total", "uncorrected": "double_bit/total"}
# NVML's bits, by the last word of the element that says whether a reason is active.
REASONS = {
    "gpu_idle": 0x1,
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
    "display_clocks_setting": 0x100,
    "display_clock_setting": 0x100,
}
REASON = re.compile(r"clocks_(?:event|throttle)_reason_(\w+)")
CLOCK = re.compile(r"\w{3} (?P<month>\w{3}) (?P<day>\d{1,2}) (?P<time>\d\d:\d\d:\d\d) (?P<year>\d{4})", re.ASCII)
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@READERS.register("nvidia_smi")
class NvidiaSmiReader:
    def recognise(self, sample: Sample) -> CsvLayout | None:
        table = bronze_tables()[TABLE]
        if any(line.lstrip().startswith("<nvidia_smi_log") for line in sample.lines):
            rewrite = _from_xml
        elif header_names(sample.header):
            if IDENTITIES.isdisjoint(header_names(sample.header)):
                raise InputError(
                    f"{sample.name}: no column tells its GPUs apart", "add uuid, or index, to the fields of --query-gpu"
                )
            rewrite = _from_csv
        else:
            return None
        return CsvLayout(table, COLUMNS, has_header=False, constants=sample.file_constants(), rewrite=rewrite)


def _from_csv(path: Path) -> Iterator[TextRow | BadRow]:
    header = ""
    names: tuple[str, ...] = ()
    for number, line in text_lines(path):
        if isinstance(line, BadRow):
            yield line
            continue
        text = line.strip()
        if not names:
            header, names = text, header_names(tuple(field.strip() for field in text.split(",")))
        elif text and text != header:  # `-l` may write its header again
            fields = [field.strip() for field in text.split(",")]
            if len(fields) != len(names):
                yield BadRow(number, f"{len(fields)} columns where {len(names)} are expected", text)
                continue
            yield _row(number, dict(zip(names, fields, strict=True)), text)


def _from_xml(path: Path) -> Iterator[TextRow | BadRow]:
    for found in snapshots(path):
        if not isinstance(found, Snapshot):
            yield BadRow(found.line_number, found.reason, found.text)
            continue
        gpu = _gpu(found)
        if not gpu["uuid"] and not gpu["pci_bus_id"]:
            yield BadRow(found.line_number, "uuid is empty", found.text)
            continue
        yield _row(found.line_number, gpu, found.text)
        for device in _mig_devices(found.gpu):
            yield _row(found.line_number, _device(gpu, device), found.text)


def _row(number: int, said: dict[str, str], text: str) -> TextRow:
    others = {name: value for name, value in said.items() if name not in COLUMNS and value}
    said["timestamp"] = _iso(said.get("timestamp", ""))
    said["other_fields"] = json.dumps(others, ensure_ascii=False, sort_keys=True) if others else ""
    values = [said.get(name, "") for name in COLUMNS]
    # Where all of a line is printable, no field of it has to be escaped.
    return TextRow(number, tuple(values if text.isprintable() else map(word, values)), text)


def _gpu(found: Snapshot) -> dict[str, str]:
    gpu = found.gpu
    said = {
        name: next((text for text in (gpu.word(place) for place in places) if text), "")
        for name, places in PLACES.items()
    }
    said |= {"timestamp": found.timestamp, "driver_version": found.driver_version, "index": str(found.position)}
    said["pci_bus_id"] = said["pci_bus_id"] or gpu.attributes.get("id", "")
    said["clocks_event_reasons_active"] = _reasons(gpu)
    for kind in ECC_PARTS:
        for column, era in (("volatile", "volatile"), ("aggregate", "aggregate")):
            said[f"ecc_errors_{kind}_{column}_total"] = _ecc(gpu, kind, era)
    listed = gpu.find("processes")
    if listed:
        said["processes"] = str(sum(child.name == "process_info" for child in listed.children))
    return said


def _reasons(gpu: Element) -> str:
    """The reasons that are active as the mask that --query-gpu prints."""
    listed = gpu.find("clocks_event_reasons") or gpu.find("clocks_throttle_reasons")
    flags = [(REASON.fullmatch(child.name), child.text.strip()) for child in listed.children] if listed else []
    if not any(name and name[1] in REASONS and text in ("Active", "Not Active") for name, text in flags):
        return ""
    mask = sum({REASONS.get(name[1], 0) for name, text in flags if name and text == "Active"})
    return f"0x{mask:016X}"


def _ecc(gpu: Element, kind: str, era: str) -> str:
    total = gpu.word(f"ecc_errors/{era}/{ECC_TOTALS[kind]}")
    counts = [gpu.word(f"ecc_errors/{era}/{part}") for part in ECC_PARTS[kind]]
    known = [int(count) for count in counts if count.isdigit()]
    return total or (str(sum(known)) if known else "")


def _mig_devices(gpu: Element) -> list[Element]:
    listed = gpu.find("mig_devices")
    return [child for child in listed.children if child.name == "mig_device"] if listed else []


def _device(gpu: dict[str, str], device: Element) -> dict[str, str]:
    """A MIG device has its memory; values of the whole board are not repeated."""
    shared = ("timestamp", "driver_version", "index", "name", "uuid", "serial", "pci_bus_id", "mig_mode_current")
    said = {name: gpu[name] for name in shared}
    said |= {f"memory_{part}": device.word(f"fb_memory_usage/{part}") for part in ("total", "reserved", "used", "free")}
    return said | {
        "mig_index": device.word("index"),
        "mig_gpu_instance_id": device.word("gpu_instance_id"),
        "mig_compute_instance_id": device.word("compute_instance_id"),
        "ecc_errors_uncorrected_volatile_total": device.word("ecc_error_count/volatile_count/sram_uncorrectable"),
    }


def _iso(text: str) -> str:
    """`Sun Nov 15 08:47:20 2026` and `2026/11/15 08:47:20.123` as ISO; what is neither is left for the check."""
    found = CLOCK.fullmatch(" ".join(text.split()))
    if found and found["month"] in MONTHS:
        month = MONTHS.index(found["month"]) + 1
        return f"{found['year']}-{month:02}-{int(found['day']):02} {found['time']}"
    return text.strip("[]").replace("/", "-")

"""Rows of sources: one class per kind. Counters stay counters; rates are computed when a run is parsed, so that a lost
sample, a restart of the collector or a clock step costs no more than its own interval.

A row has the time of its tick, unless it has `elapsed_ms`: milliseconds since boot.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class HostSample(NamedTuple):
    """Counters of the host since boot. Ticks: user, nice, system, idle, iowait, irq, softirq, steal."""

    cpu_ticks: tuple[int, ...]
    core_ticks: tuple[tuple[int, int], ...]  # per core: busy, all
    load_1m: float | None
    load_5m: float | None
    load_15m: float | None
    processes_running: int | None
    processes_blocked: int | None
    memory_total_bytes: int | None
    memory_free_bytes: int | None
    memory_available_bytes: int | None
    swap_used_bytes: int | None
    disks: dict[str, tuple[int, int, int]]  # read bytes, written bytes, busy milliseconds
    oom_kills_total: int | None


class NicSample(NamedTuple):
    """One network interface. rtt_seconds is to the peer, over the interface of the run."""

    iface: str
    rx_bytes_total: int | None = None
    tx_bytes_total: int | None = None
    rx_packets_total: int | None = None
    tx_packets_total: int | None = None
    rx_errors_total: int | None = None
    tx_errors_total: int | None = None
    rx_dropped_total: int | None = None
    tx_dropped_total: int | None = None
    carrier_changes_total: int | None = None
    link_downed_total: int | None = None
    symbol_errors_total: int | None = None
    is_up: bool | None = None
    speed_bits_per_second: int | None = None
    rtt_seconds: float | None = None
    is_main: bool = False  # the interface of the run


class Process(NamedTuple):
    """A process: when it is first seen, and again when its name or owner changed."""

    proc_id: str
    pid: int
    ppid: int
    comm: str
    start_ticks: int  # since boot
    owner_kind: str
    owner_id: str
    given_gpus: str  # allocated GPUs by its environment: indexes or uuids, separated by commas


class ProcessSample(NamedTuple):
    """Counters of a process, when one of them changed; until the next row they stay the same."""

    pid: int
    utime_ticks: int
    stime_ticks: int
    rss_bytes: int
    threads: int
    read_bytes_total: int | None
    written_bytes_total: int | None


class ProcessEnd(NamedTuple):
    """A process that has ended."""

    pid: int


class GpuSample(NamedTuple):
    """One GPU or MIG instance, with the fields of cctf.toml."""

    elapsed_ms: int
    gpu_uuid: str
    gpu_index: int | None = None
    gpu_name: str | None = None
    pci_bus_id: str | None = None
    parent_uuid: str | None = None
    mig_profile: str | None = None
    gpu_instance_id: int | None = None
    gpu_busy_ratio: float | None = None
    memory_busy_ratio: float | None = None
    encoder_busy_ratio: float | None = None
    decoder_busy_ratio: float | None = None
    sm_active_ratio: float | None = None
    sm_occupancy_ratio: float | None = None
    tensor_active_ratio: float | None = None
    dram_active_ratio: float | None = None
    graphics_active_ratio: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    energy_joules_total: float | None = None
    temperature_celsius: float | None = None
    memory_temperature_celsius: float | None = None
    slowdown_temperature_celsius: float | None = None
    sm_clock_hertz: int | None = None
    memory_clock_hertz: int | None = None
    clock_event_reasons: int | None = None
    power_violation_seconds_total: float | None = None
    thermal_violation_seconds_total: float | None = None
    ecc_corrected_total: int | None = None
    ecc_uncorrected_total: int | None = None
    ecc_corrected_lifetime_total: int | None = None
    ecc_uncorrected_lifetime_total: int | None = None
    remapped_rows_correctable: int | None = None
    remapped_rows_uncorrectable: int | None = None
    has_remap_pending: bool | None = None
    has_remap_failure: bool | None = None
    pcie_rx_bytes_per_second: float | None = None
    pcie_tx_bytes_per_second: float | None = None
    pcie_replays_total: int | None = None
    pcie_link_generation: int | None = None
    pcie_link_width: int | None = None
    nvlink_rx_bytes_per_second: float | None = None
    nvlink_tx_bytes_per_second: float | None = None
    nvlink_errors_total: int | None = None
    nvlink_links_active: int | None = None
    processes: int | None = None


class GpuProcess(NamedTuple):
    """A process on a GPU or MIG instance."""

    elapsed_ms: int
    gpu_uuid: str
    pid: int
    comm: str | None
    memory_used_bytes: int | None
    sm_busy_ratio: float | None
    memory_busy_ratio: float | None
    owner_kind: str
    owner_id: str


class NodeEvent(NamedTuple):
    """An event: kinds are listed in cctf.toml."""

    elapsed_ms: int
    kind: str
    subject: str
    code: int | None
    pid: int | None
    message: str
    source: str  # kernel, nvml or collector


class Cost(NamedTuple):
    """The cost of the collector itself, and what it dropped, since it began."""

    cpu_seconds_total: float
    resident_bytes: int
    tick_seconds: float  # of the tick before
    rows_total: int
    written_bytes_total: int
    ticks_missed_total: int  # the tick before took too long
    ticks_dropped_total: int  # for lack of disk space
    values_dropped_total: int  # impossible values


Row: TypeAlias = (
    HostSample | NicSample | Process | ProcessSample | ProcessEnd | GpuSample | GpuProcess | NodeEvent | Cost
)

# Names of kinds in segments: they must never change.
KINDS: dict[str, type[Row]] = {
    "host": HostSample,
    "nic": NicSample,
    "process": Process,
    "process_sample": ProcessSample,
    "process_end": ProcessEnd,
    "gpu": GpuSample,
    "gpu_process": GpuProcess,
    "event": NodeEvent,
    "cost": Cost,
}
KIND_OF: dict[type[Row], str] = {row: name for name, row in KINDS.items()}

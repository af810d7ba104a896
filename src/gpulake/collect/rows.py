"""What sources read: one class a kind of row. Counters stay counters here; rates are worked out when a run is parsed,
so that a sample lost, a collector restarted or a clock set costs no more than its own moment.

A row is of the moment of its tick, unless it carries `elapsed_ms` itself: milliseconds since boot.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class HostSample(NamedTuple):
    """The host's counters since boot. Ticks: user, nice, system, idle, iowait, irq, softirq, steal."""

    cpu_ticks: tuple[int, ...]
    core_ticks: tuple[tuple[int, int], ...]  # of each core: busy, all
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
    rx_bytes_total: int | None
    tx_bytes_total: int | None
    rx_packets_total: int | None
    tx_packets_total: int | None
    rx_errors_total: int | None
    tx_errors_total: int | None
    rx_dropped_total: int | None
    tx_dropped_total: int | None
    carrier_changes_total: int | None
    link_downed_total: int | None
    symbol_errors_total: int | None
    is_up: bool | None
    speed_bits_per_second: int | None
    rtt_seconds: float | None
    is_main: bool  # the interface of the run


class Process(NamedTuple):
    """A process that comes into view: once, or again when its name or owner changed."""

    proc_id: str
    pid: int
    ppid: int
    comm: str
    start_ticks: int  # since boot
    owner_kind: str
    owner_id: str
    given_gpus: str  # what its environment says it was given: indexes or uuids, with commas


class ProcessSample(NamedTuple):
    """Counters of a process, when one of them moved: between two rows of a process it was as in the former."""

    pid: int
    utime_ticks: int
    stime_ticks: int
    rss_bytes: int
    threads: int
    read_bytes_total: int | None
    written_bytes_total: int | None


class ProcessEnd(NamedTuple):
    """A process that was gone when it was to be read."""

    pid: int


class GpuSample(NamedTuple):
    """One GPU or MIG instance, field by field as cctf.toml says."""

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
    """Something that happened: kinds are listed in cctf.toml."""

    elapsed_ms: int
    kind: str
    subject: str
    code: int | None
    pid: int | None
    message: str
    source: str  # kernel, nvml or collector


class Cost(NamedTuple):
    """What the collector itself costs, and what it dropped, since it began."""

    cpu_seconds_total: float
    resident_bytes: int
    tick_seconds: float  # the tick before
    rows_total: int
    written_bytes_total: int
    ticks_missed_total: int  # the tick before took too long
    ticks_dropped_total: int  # there was no room for them
    values_dropped_total: int  # impossible values


Row: TypeAlias = (
    HostSample | NicSample | Process | ProcessSample | ProcessEnd | GpuSample | GpuProcess | NodeEvent | Cost
)

# The names of the kinds in the files; a class keeps its name there for good.
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

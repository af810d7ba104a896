"""A small node, as its sampler would tell of it: one GPU that is busy, one that is held and empty, one MIG instance."""

from __future__ import annotations

from datetime import UTC, datetime

from gpulake.collect.identity import Identity
from gpulake.collect.live.state import State
from gpulake.collect.rows import (
    Cost,
    GpuProcess,
    GpuSample,
    HostSample,
    NicSample,
    NodeEvent,
    Process,
    ProcessSample,
    Row,
)
from gpulake.core.clock import FrozenClock

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NOW_MS = 1_767_323_045_000
ELAPSED_MS = 1_000_000
GPU_0 = "GPU-00000000-0000-0000-0000-000000000000"
GPU_1 = "GPU-11111111-1111-1111-1111-111111111111"
MIG_1 = "MIG-22222222-2222-2222-2222-222222222222"

IDENTITY = Identity(
    run_id="night1",
    node_id="n1",
    stage="cloud",
    host_id="abcdef012345",
    host_name="n1.example",
    boot_id="0123456789ab",
    cpu_cores=2,
    memory_bytes=16 << 30,
    cpu_model="a CPU",
    cpu_freq_mhz=3000,
    ticks_per_second=100,
)

HOST = HostSample(
    cpu_ticks=(1000, 10, 200, 50000, 30, 4, 6, 0),
    core_ticks=((600, 25000), (650, 26000)),
    load_1m=0.5,
    load_5m=0.25,
    load_15m=0.0,
    processes_running=3,
    processes_blocked=0,
    memory_total_bytes=16 << 30,
    memory_free_bytes=1 << 30,
    memory_available_bytes=8 << 30,
    swap_used_bytes=0,
    disks={"nvme0n1": (4096, 8192, 1500)},
    oom_kills_total=None,
)

NIC = NicSample(
    iface="eth0",
    rx_bytes_total=1000,
    tx_bytes_total=2000,
    rx_packets_total=10,
    tx_packets_total=20,
    rx_errors_total=0,
    tx_errors_total=1,
    rx_dropped_total=2,
    tx_dropped_total=0,
    carrier_changes_total=3,
    link_downed_total=None,
    symbol_errors_total=None,
    is_up=True,
    speed_bits_per_second=100_000_000_000,
    rtt_seconds=0.000125,
    is_main=True,
)

TRAINER = Process("0123456789ab-5000-4242", 4242, 1, 'py"th\\on\n3', 5000, "slurm", "77", "0")
HOLDER = Process("0123456789ab-6000-4343", 4343, 1, "sleep", 6000, "slurm", "78", "1")
TRAINER_SAMPLE = ProcessSample(4242, 300, 45, 123_456_789, 12, 1 << 20, 0)
HOLDER_SAMPLE = ProcessSample(4343, 0, 0, 4096, 1, None, None)

BUSY_GPU = GpuSample(
    elapsed_ms=ELAPSED_MS - 200,
    gpu_uuid=GPU_0,
    gpu_index=0,
    gpu_name="NVIDIA H200",
    pci_bus_id="00000000:3B:00.0",
    gpu_busy_ratio=0.07,
    memory_busy_ratio=0.0,
    sm_active_ratio=0.96,
    sm_occupancy_ratio=0.14,
    tensor_active_ratio=0.93,
    dram_active_ratio=0.16,
    graphics_active_ratio=0.99,
    memory_used_bytes=(1024 << 20) + 524_288,
    memory_total_bytes=143_771 << 20,
    power_watts=612.5,
    power_limit_watts=700.0,
    energy_joules_total=123_456.789,
    temperature_celsius=61.0,
    memory_temperature_celsius=70.0,
    sm_clock_hertz=1_980_000_000,
    memory_clock_hertz=3_201_000_000,
    clock_event_reasons=4,
    power_violation_seconds_total=1.5,
    thermal_violation_seconds_total=0.0,
    ecc_corrected_total=0,
    ecc_uncorrected_total=0,
    remapped_rows_correctable=0,
    remapped_rows_uncorrectable=2,
    has_remap_pending=True,
    has_remap_failure=False,
    pcie_rx_bytes_per_second=1000.0,
    pcie_tx_bytes_per_second=0.0,
    pcie_replays_total=0,
    nvlink_links_active=18,
    processes=1,
)
EMPTY_GPU = GpuSample(
    elapsed_ms=ELAPSED_MS - 200,
    gpu_uuid=GPU_1,
    gpu_index=1,
    gpu_name="NVIDIA H200",
    pci_bus_id="00000000:5D:00.0",
    gpu_busy_ratio=0.0,
    memory_used_bytes=0,
    memory_total_bytes=143_771 << 20,
    processes=0,
)
MIG = GpuSample(
    elapsed_ms=ELAPSED_MS - 200,
    gpu_uuid=MIG_1,
    gpu_name="NVIDIA H200",
    pci_bus_id="00000000:5D:00.0",
    parent_uuid=GPU_1,
    mig_profile="1g.18gb",
    gpu_instance_id=7,
    graphics_active_ratio=0.0,
    processes=0,
)
ON_GPU = GpuProcess(ELAPSED_MS - 200, GPU_0, 4242, "python3", 1024 << 20, 0.5, None, "slurm", "77")

XIDS = (
    NodeEvent(ELAPSED_MS - 400_000, "xid", "PCI:0000:3b:00", 63, None, "NVRM: Xid", "kernel"),
    NodeEvent(ELAPSED_MS - 1_000, "xid", "PCI:0000:3b:00", 94, 4242, "NVRM: Xid", "kernel"),
    NodeEvent(ELAPSED_MS - 999, "xid", GPU_0, 94, 4242, "Xid 94", "nvml"),
    NodeEvent(ELAPSED_MS - 500, "link_down", "eth1", None, None, "eth1: link down", "kernel"),
)
COST = Cost(
    cpu_seconds_total=1.25,
    resident_bytes=30 << 20,
    tick_seconds=0.004,
    rows_total=1234,
    written_bytes_total=56_789,
    ticks_missed_total=0,
    ticks_dropped_total=2,
    values_dropped_total=7,
)

ROWS: tuple[Row, ...] = (
    HOST,
    NIC,
    TRAINER,
    HOLDER,
    TRAINER_SAMPLE,
    HOLDER_SAMPLE,
    BUSY_GPU,
    EMPTY_GPU,
    MIG,
    ON_GPU,
    *XIDS,
    COST,
)


def clock() -> FrozenClock:
    return FrozenClock(NOW, elapsed=ELAPSED_MS / 1000)


def state(rows: tuple[Row, ...] = ROWS, at: FrozenClock | None = None) -> State:
    """As it is after one tick with these rows."""
    found = State(clock=at or clock())
    found.observe(IDENTITY, ELAPSED_MS, NOW_MS, rows)
    return found

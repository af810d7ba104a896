"""One GPU with its MIG instances and the processes on them: a complete sample."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from gpulake.collect.gpus.driver import Device, Unanswered, Unsupported, nvml_names
from gpulake.collect.gpus.queries import UNITS, FieldQueries, Gpm, NvLink, Queries, Values
from gpulake.collect.machine.owners import owner_of
from gpulake.collect.rows import GpuProcess, GpuSample

# The driver measures processes every 1/6 to 1 s, and only active ones: a share is valid that long.
SHARES_VALID_MS = 2_000
INITIAL_PID_NAMESPACE = "pid:[4026531836]"


class Program(NamedTuple):
    comm: str | None
    owner_kind: str
    owner_id: str


UNKNOWN = Program(None, "unattributed", "")


class Programs:
    """Names and owners of processes by pid, kept until they are forgotten."""

    def __init__(self, proc: Path) -> None:
        self._proc = proc
        self._known: dict[int, Program] = {}
        self._is_in_container = _link(proc / "self" / "ns" / "pid") not in ("", INITIAL_PID_NAMESPACE)

    def of(self, pid: int) -> Program:
        if pid not in self._known:
            self._known[pid] = self._find(pid)
        return self._known[pid]

    def forget(self) -> None:
        self._known = {}

    def _find(self, pid: int) -> Program:
        folder = self._proc / str(pid)
        # Older drivers report the host's pids to a container, where the pid may be that of another process.
        if self._is_in_container and not _has_gpu_open(folder):
            return UNKNOWN
        try:
            comm = (folder / "comm").read_text(encoding="utf-8", errors="replace").rstrip("\n")
        except OSError:
            return UNKNOWN
        owner = owner_of(self._proc, pid)
        return Program(comm, owner.kind, owner.id)


class Share(NamedTuple):
    sm_busy_ratio: float | None
    memory_busy_ratio: float | None
    read_at_ms: int


class GpuProcesses:
    """Of one GPU or MIG instance."""

    def __init__(self, device: Device, uuid: str, programs: Programs) -> None:
        self._device = device
        self._uuid = uuid
        self._programs = programs
        self._lists = [list(names) for names in nvml_names()["processes"]]
        self._shares: dict[int, Share] | None = {}  # None: not supported by this GPU
        self._seen_us = 0

    def read(self, elapsed_ms: int, now_us: int | None) -> tuple[int | None, list[GpuProcess]]:
        """How many there are, and those with a pid: in a container some have none.

        Their shares of time are queried only when now_us is given, since that takes 4 ms.
        """
        memories: dict[int, int | None] = {}
        nameless = 0
        for names in self._lists:
            for process in self._listed(names):
                if process.pid <= 0:
                    nameless += 1
                elif memories.get(process.pid) is None:
                    memories[process.pid] = self._device.driver.clean("memory_used_bytes", process.usedGpuMemory, int)
        if not any(self._lists):
            return None, []
        if memories and now_us is not None:
            self._read_shares(elapsed_ms, now_us)
        rows = [self._row(elapsed_ms, pid, memory) for pid, memory in sorted(memories.items())]
        return len(rows) + nameless, rows

    def _row(self, elapsed_ms: int, pid: int, memory: int | None) -> GpuProcess:
        program = self._programs.of(pid)
        sm, memory_busy = self._share(pid, elapsed_ms)
        return GpuProcess(
            elapsed_ms=elapsed_ms,
            gpu_uuid=self._uuid,
            pid=pid,
            comm=program.comm,
            memory_used_bytes=memory,
            sm_busy_ratio=sm,
            memory_busy_ratio=memory_busy,
            owner_kind=program.owner_kind,
            owner_id=program.owner_id,
        )

    def _listed(self, names: list[str]) -> list[Any]:
        while names:
            try:
                return list(self._device.call(names[0]))
            except Unsupported:
                names.pop(0)
            except Unanswered:
                return []
        return []

    def _read_shares(self, elapsed_ms: int, now_us: int) -> None:
        if self._shares is None:
            return
        since_us = self._seen_us if 0 < self._seen_us <= now_us else now_us - 1_000_000
        try:
            samples = self._device.call("nvmlDeviceGetProcessUtilization", since_us)
        except Unsupported:
            self._shares = None
            return
        except Unanswered:
            return
        for sample in sorted(samples, key=lambda sample: int(sample.timeStamp)):
            self._seen_us = sample.timeStamp
            self._shares[sample.pid] = Share(
                self._device.driver.clean("sm_busy_ratio", sample.smUtil, UNITS["percent"]),
                self._device.driver.clean("memory_busy_ratio", sample.memUtil, UNITS["percent"]),
                elapsed_ms,
            )

    def _share(self, pid: int, elapsed_ms: int) -> tuple[float | None, float | None]:
        if self._shares is None:
            return None, None
        share = self._shares.get(pid)
        if share is None or elapsed_ms - share.read_at_ms > SHARES_VALID_MS:
            self._shares.pop(pid, None)
            return 0.0, 0.0
        return share.sm_busy_ratio, share.memory_busy_ratio


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


def _has_gpu_open(folder: Path) -> bool:
    try:
        return any(_link(entry).startswith("/dev/nvidia") for entry in (folder / "fd").iterdir())
    except OSError:
        return False


class Moment(NamedTuple):
    """When a sample is taken, and which queries are due."""

    elapsed_ms: int
    now_us: int
    is_steady: bool  # those of every second
    is_slow: bool  # those of every few seconds


class Gpu:
    def __init__(self, device: Device, index: int, programs: Programs) -> None:
        self._device = device
        self._programs = programs
        self.index = index
        self.bus = device.bus
        self.uuid: str = device.call("nvmlDeviceGetUUID")
        self._name: str | None = device.call_or_none("nvmlDeviceGetName")
        self._quick = Queries(device, "busy", "memory", "quick")
        self._steady = Queries(device, "steady")
        self._slow = Queries(device, "slow")
        self._fields = {
            group: FieldQueries(device, {field: (name, 0) for field, (name, _) in wanted.items()})
            for group, wanted in nvml_names()["fields"].items()
        }
        self._nvlink = NvLink(device)
        self._gpm = Gpm(device)
        self._processes = GpuProcesses(device, self.uuid, programs)
        self._steady_values: Values = {}
        self._slow_values: Values = {}
        self._instances: dict[str, MigInstance] = {}
        self._may_have_instances = True

    def read(self, moment: Moment) -> tuple[list[GpuSample], list[GpuProcess]]:
        """The samples of the GPU and of its instances, and the processes on them."""
        if moment.is_slow:
            self._slow_values = self._slow.read() | self._nvlink.read_slow()
            self._find_instances()
        if moment.is_steady:
            self._steady_values = self._steady.read() | self._values("steady")
        values = self._slow_values | self._steady_values | self._quick.read() | self._values("quick")
        values |= self._nvlink.read_traffic() | self._gpm.read()
        samples: list[GpuSample] = []
        processes: list[GpuProcess] = []
        count: int | None
        if self._instances:
            for instance in self._instances.values():
                sample, its_processes = instance.read(moment, self)
                samples.append(sample)
                processes += its_processes
            count = sum(sample.processes or 0 for sample in samples)
        else:
            count, processes = self._processes.read(moment.elapsed_ms, moment.now_us if moment.is_steady else None)
        whole = GpuSample(
            elapsed_ms=moment.elapsed_ms,
            gpu_uuid=self.uuid,
            gpu_index=self.index,
            gpu_name=self._name,
            pci_bus_id=self.bus,
            processes=count,
            **values,
        )
        return [whole, *samples], processes

    def close(self) -> None:
        self._gpm.close()
        for instance in self._instances.values():
            instance.close()

    def _values(self, group: str) -> Values:
        units = {field: UNITS[unit] for field, (_, unit) in nvml_names()["fields"][group].items()}
        found = self._fields[group].read()
        return {name: self._device.driver.clean(name, value.raw, units[name]) for name, value in found.items()}

    def _find_instances(self) -> None:
        """Instances are created and destroyed while the GPU runs; those that stay keep their state."""
        found: dict[str, MigInstance] = {}
        for handle in self._mig_handles():
            try:
                instance = replace(self._device, handle=handle)
                uuid = instance.call("nvmlDeviceGetUUID")
                if uuid in self._instances:
                    found[uuid] = self._instances.pop(uuid)
                else:
                    found[uuid] = MigInstance(instance, self._device, uuid, self._programs)
            except (Unsupported, Unanswered):
                continue
        for gone in self._instances.values():
            gone.close()
        self._instances = found

    def _mig_handles(self) -> list[Any]:
        if not self._may_have_instances:
            return []
        try:
            mode, _ = self._device.call("nvmlDeviceGetMigMode")
            if mode != self._device.driver.constant("NVML_DEVICE_MIG_ENABLE"):
                return []
            most = self._device.call("nvmlDeviceGetMaxMigDeviceCount")
        except Unsupported:
            self._may_have_instances = False
            return []
        except Unanswered:
            return []
        call = "nvmlDeviceGetMigDeviceHandleByIndex"
        handles = (self._device.call_or_none(call, place) for place in range(most))
        return [handle for handle in handles if handle is not None]


class MigInstance:
    """A part of a GPU: its memory, activity and processes. Everything else is measured for the whole GPU only."""

    def __init__(self, device: Device, parent: Device, uuid: str, programs: Programs) -> None:
        self._number: int = device.call("nvmlDeviceGetGpuInstanceId")
        self._uuid = uuid
        self._name: str | None = device.call_or_none("nvmlDeviceGetName")
        self._profile = _profile(device, self._name or "")
        self._memory = Queries(device, "memory")
        self._gpm = Gpm(parent, self._number)
        self._processes = GpuProcesses(device, uuid, programs)

    def read(self, moment: Moment, parent: Gpu) -> tuple[GpuSample, list[GpuProcess]]:
        count, processes = self._processes.read(moment.elapsed_ms, moment.now_us if moment.is_steady else None)
        sample = GpuSample(
            elapsed_ms=moment.elapsed_ms,
            gpu_uuid=self._uuid,
            gpu_index=parent.index,
            gpu_name=self._name,
            pci_bus_id=parent.bus,
            parent_uuid=parent.uuid,
            mig_profile=self._profile,
            gpu_instance_id=self._number,
            processes=count,
            **self._memory.read(),
            **self._gpm.read(),
        )
        return sample, processes

    def close(self) -> None:
        self._gpm.close()


def _profile(device: Device, name: str) -> str | None:
    """The driver writes it behind the name; with older drivers it is derived from the sizes."""
    _, mark, profile = name.partition(" MIG ")
    if mark:
        return profile
    sizes = device.call_or_none("nvmlDeviceGetAttributes_v2")
    if sizes is None:
        return None
    gigabytes = round(sizes.memorySizeMB / 1024)
    whole = f"{sizes.gpuInstanceSliceCount}g.{gigabytes}gb"
    is_whole = sizes.computeInstanceSliceCount == sizes.gpuInstanceSliceCount
    return whole if is_whole else f"{sizes.computeInstanceSliceCount}c.{whole}"

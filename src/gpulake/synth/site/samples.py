"""Samples as Prometheus has them: dcgm-exporter's of every GPU, and node_exporter's of every node at a lower rate.

OpenMetrics text, a file a day: what `gpulake land` and `promtool tsdb create-blocks-from openmetrics` read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpulake.formats.prometheus import Labels, labels_text
from gpulake.synth.draws import generator
from gpulake.synth.site.activity import Activity, Floats, Ints, Part, Stretch
from gpulake.synth.site.plan import DAY_SECONDS, Plan, Site, iso
from gpulake.synth.writer import Folder

NODE_SECONDS = 900  # between the samples of node_exporter
CPU_BUSY, CPU_SWING = 0.35, 0.2  # share of CPU time, on average, and by how much more at noon UTC
DRIVER = "550.90.07"
Holder = Callable[[Part], Labels]
Always = Callable[[str], Labels]  # labels of all samples of a node


def slurm_job(part: Part) -> Labels:
    """The label of dcgm-exporter's HPC job mapping, which the prolog of a job writes."""
    return (("hpc_job", str(part.run.request.number)),)


def write_gpu_samples(
    folder: Folder, site: Site, activity: Activity, parts: list[Part], holder: Holder, always: Always
) -> int:
    """dcgm-<day>.prom for every day. Returns the number of samples."""
    count = 0
    for day, stretches in groupby(activity.stretches(), key=lambda stretch: int(stretch.times[0]) // DAY_SECONDS):
        with folder.open(f"dcgm-{iso(day * DAY_SECONDS)[:10]}.prom") as file:
            for stretch in stretches:
                # By time, then by GPU, as scrapes come.
                is_seen = stretch.is_scraped.T
                times = np.repeat(stretch.times, is_seen.sum(axis=1))
                labels = _gpu_labels(site, stretch, parts, holder, always)
                for metric, values in stretch.values.items():
                    count += _write(file, metric, labels, values.T[is_seen], times)
            file.write(b"# EOF\n")
    return count


def _gpu_labels(site: Site, stretch: Stretch, parts: list[Part], holder: Holder, always: Always) -> pa.Array:
    """The labels of every sample of one metric: those of the GPU, and of what holds it."""
    row = np.broadcast_to(np.arange(len(stretch.holder))[:, None], stretch.holder.shape)
    key = (row * (len(parts) + 1) + stretch.holder + 1).T[stretch.is_scraped.T]
    series, place = np.unique(key, return_inverse=True)
    texts = []
    for number in series:
        row_number, held_by = divmod(int(number), len(parts) + 1)
        node, gpu = divmod(row_number, site.gpus)
        of_gpu = (
            ("gpu", str(gpu)), ("UUID", site.uuid(node, gpu)), ("pci_bus_id", f"00000000:{gpu + 16:02X}:00.0"),
            ("device", f"nvidia{gpu}"), ("modelName", site.board["name"]), ("Hostname", site.name(node)),
            ("instance", f"{site.name(node)}:9400"), ("job", "dcgm-exporter"),
            *always(site.name(node)),
        )  # fmt: skip
        texts.append(labels_text((*of_gpu, *(holder(parts[held_by - 1]) if held_by else ()))))
    return pa.array(texts, pa.string()).take(pa.array(place))


def _write(file: IO[bytes], metric: str, labels: pa.Array, values: Floats, times: Ints, kind: str = "gauge") -> int:
    """Lines `metric{labels} value seconds`. No kind: more series of the metric before."""
    numbers = values.astype(np.int64) if np.all(values == np.rint(values)) else values
    if kind:
        file.write(f"# TYPE {metric.removesuffix('_total')} {kind}\n".encode())
    lines = pc.binary_join_element_wise(
        pc.binary_join_element_wise(metric, labels, ""),
        pa.array(numbers).cast(pa.string()),
        pc.binary_join_element_wise(pa.array(times).cast(pa.string()), "\n", ""),
        " ",
    )
    file.write(_bytes(lines))
    return len(lines)


def _bytes(lines: pa.Array) -> bytes:
    """All texts of an array, one behind the other."""
    offsets = np.frombuffer(lines.buffers()[1], dtype=np.int32)
    return memoryview(lines.buffers()[2])[offsets[lines.offset] : offsets[lines.offset + len(lines)]].tobytes()


def write_node_samples(folder: Folder, plan: Plan, activity: Activity) -> int:
    """node-<day>.prom for every day: load, memory and InfiniBand of each node."""
    site = plan.site
    step = max(NODE_SECONDS, site.interval_seconds)
    count = 0
    for first in range(site.begins_at // DAY_SECONDS * DAY_SECONDS, site.ends_at, DAY_SECONDS):
        times = np.arange(first, first + DAY_SECONDS, step, dtype=np.int64)
        times = times[(times >= site.begins_at) & (times < site.ends_at)]
        if not len(times):
            continue
        is_seen = activity.is_scraped(times)[:: site.gpus].T
        node = np.broadcast_to(np.arange(site.nodes), is_seen.shape)[is_seen]
        with folder.open(f"node-{iso(first)[:10]}.prom") as file:
            for metric, kind, more, values in _node_values(plan, times):
                texts = [
                    labels_text((*more, ("instance", f"{site.name(place)}:9100"), ("job", "node")))
                    for place in range(site.nodes)
                ]
                labels = pa.array(texts, pa.string()).take(pa.array(node))
                lasts = np.repeat(times, is_seen.sum(axis=1))
                count += _write(file, metric, labels, values.T[is_seen], lasts, kind)
            file.write(b"# EOF\n")
    return count


def _node_values(plan: Plan, times: Ints) -> Iterator[tuple[str, str, Labels, Floats]]:
    """Metric, its type, labels, and values of nodes by ticks."""
    site = plan.site
    shape = (site.nodes, len(times))
    rng = generator(site.seed, 45, int(times[0]))
    total = np.full(shape, 2048.0 * 2**30)
    yield "node_memory_MemTotal_bytes", "gauge", (), total
    yield "node_memory_MemAvailable_bytes", "gauge", (), np.rint(total * rng.uniform(0.55, 0.9, shape))
    yield "node_load1", "gauge", (), np.round(rng.gamma(6.0, 4.0, shape), 2)
    # Of one CPU, which stands for all; less busy at night.
    since, phase = times - site.begins_at, 2 * np.pi * times / DAY_SECONDS
    first_phase = 2 * np.pi * site.begins_at / DAY_SECONDS
    waves = -CPU_SWING * DAY_SECONDS / (2 * np.pi) * (np.sin(phase) - np.sin(first_phase))
    busy = (CPU_BUSY * since + waves) * np.ones(shape)
    for mode, kind, seconds in (("idle", "counter", since - busy), ("user", "", busy)):
        yield "node_cpu_seconds_total", kind, (("cpu", "0"), ("mode", mode)), np.round(seconds, 2)
    is_failing = np.zeros(shape)
    for incident in plan.of_kind("failing_link"):
        # Since its begin, in hours: counters stay where they are afterwards.
        hours = np.clip(times - incident.first_second, 0, incident.last_second - incident.first_second) / 3600
        is_failing[list(incident.nodes)] = hours
    port = (("device", "mlx5_0"), ("port", "1"))
    sent = (times - site.begins_at + 86_400) * 2.0e9 * np.ones(shape)
    yield "node_infiniband_port_data_transmitted_bytes_total", "counter", port, sent
    yield "node_infiniband_port_data_received_bytes_total", "counter", port, sent
    yield "node_infiniband_link_downed_total", "counter", port, np.floor(is_failing * 3)
    yield "node_infiniband_symbol_error_total", "counter", port, np.floor(is_failing * 5000)

"""Pages of dcgm-exporter and node_exporter. A page is a moment: that of its samples, or that of the file."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from gpulake.diagnose.telemetry.samples import Gathering, HostSample, gpu_sample
from gpulake.formats.names import written
from gpulake.formats.plausible import is_plausible
from gpulake.formats.prometheus import read_sample

_NAME = re.compile(r"[a-zA-Z_:][\w:]*", re.ASCII)
_COMMENT = re.compile(r"# (?:HELP|TYPE) \S+")
_TIME = re.compile(r"\d{9,16}", re.ASCII)
# By the exporter's name: the vocabulary's field, and how much of our unit one of theirs is.
GPU = {name: (field, entry.factor) for field, entry in written("dcgm").items() for name in entry.names}
HOST_FIELDS = {
    "memory_available_bytes": "memory_available_bytes",
    "memory_free_bytes": "memory_free_bytes",
    "memory_total_bytes": "memory_total_bytes",
    "oom_kills_total": "oom_kills",
}
HOST = {written("node_exporter")[field].names[0]: ours for field, ours in HOST_FIELDS.items()}


def is_telemetry(lines: Iterable[str]) -> bool:
    return any(_COMMENT.match(line) or line.startswith(("DCGM_FI_", "node_memory_")) for line in lines)


def read(lines: Iterable[str], gathering: Gathering, node: str, written_at: float) -> None:
    gpus: dict[tuple[float, str, str], dict[str, float]] = defaultdict(dict)
    hosts: dict[tuple[float, str], dict[str, float]] = defaultdict(dict)
    for line in lines:
        name = _NAME.match(line)
        if name is None or (name[0] not in GPU and name[0] not in HOST):
            continue
        sample = read_sample(line.strip())
        value = _number(sample.value) if sample else None
        if sample is None or value is None or (sample.time and not _TIME.fullmatch(sample.time)):
            gathering.bad_rows += 1
            continue
        labels = sample.labels
        at = int(sample.time) / 1000 if sample.time else written_at
        host = labels.get("Hostname") or labels.get("hostname") or node
        if name[0] in HOST:
            hosts[at, host][HOST[name[0]]] = value
        else:
            field, factor = GPU[name[0]]
            gpus[at, host, _gpu(labels)][field] = value * factor
    for (at, host, gpu), measured in gpus.items():
        if gathering.counts(at):
            gathering.add_gpu(gpu_sample(at, host, gpu, measured))
    for (at, host), measured in hosts.items():
        if gathering.counts(at):
            kills = measured.pop("oom_kills", None)
            gathering.add_host(HostSample(at, host, oom_kills=None if kills is None else int(kills), **measured))


def _gpu(labels: dict[str, str]) -> str:
    """Parts of a GPU (MIG) have its id, and a number of their own."""
    gpu = labels.get("UUID") or labels.get("gpu") or "0"
    return f"{gpu}/{labels['GPU_I_ID']}" if labels.get("GPU_I_ID") else gpu


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if is_plausible("", value) else None

"""Slurm's nodes as an exporter told them to a Prometheus, for those who may not run Slurm's programs, and for the past.

What the server knows at a step of time becomes a file as `scontrol show node` prints it. TAKEN has the metrics.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gpulake.formats.query_range import Series
from gpulake.formats.scontrol import Note
from gpulake.pull import PULLS, Desk, Piece, Span
from gpulake.pull.past import Past
from gpulake.pull.prometheus import PrometheusPull

Fields = dict[str, str]
PLAIN = re.compile(r"[^\s=]+")  # in scontrol's output, blanks and = divide


@PULLS.register("slurm_metrics")
@dataclass(frozen=True)
class SlurmMetricsPull:
    url: str
    cluster: str = "slurm"
    step: timedelta = timedelta(minutes=5)
    match: str = ""  # such as cluster="tiger": further conditions of every series
    ca_file: Path | None = None
    timeout_seconds: float = 120.0
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    name: str = "slurm_metrics"

    def __post_init__(self) -> None:
        _ = self._prometheus

    @property
    def address(self) -> str:
        return self._prometheus.address

    @property
    def scope(self) -> str:
        return f"{self.cluster} {self.match}".strip()

    @property
    def overlap(self) -> timedelta:
        return timedelta()

    @property
    def _prometheus(self) -> PrometheusPull:
        return PrometheusPull(self.url, self.step, "", self.ca_file, self.timeout_seconds, environment=self.environment)

    def pieces(self, span: Span, desk: Desk) -> Iterator[Piece]:
        yield from Past(self._prometheus, TAKEN, self.match).pieces(span, desk, self._write)

    def _write(self, told: Iterable[Series], at: datetime, folder: Path) -> Path | None:
        lines = [_line(node, said) for node, said in sorted(_nodes(told).items()) if "State" in said]
        if not lines:
            return None
        file = folder / f"{at:%Y%m%dT%H%M%SZ}.txt"
        asked_at = at.astimezone(UTC).isoformat(timespec="seconds")
        file.write_text(Note(self.cluster, asked_at, "UTC", "").line() + "".join(lines), encoding="utf-8")
        return file


def _nodes(told: Iterable[Series]) -> dict[str, Fields]:
    """A node that is in several partitions comes once for each of them."""
    nodes: defaultdict[str, Fields] = defaultdict(dict)
    for series in told:
        labels = {name: value for name, value in series.labels.items() if PLAIN.fullmatch(value)}
        node = labels.get("node") or labels.get("node_name")
        if node:
            said = TAKEN[series.metric](labels, float(series.values[0][1]))
            partitions = {*nodes[node].get("Partitions", "").split(","), labels.get("partition", "")} - {""}
            nodes[node] |= said | ({"Partitions": ",".join(sorted(partitions))} if partitions else {})
    return nodes


def _line(node: str, said: Fields) -> str:
    return f"NodeName={node} {' '.join(f'{key}={value}' for key, value in sorted(said.items()))}\n"


def _state(labels: Mapping[str, str]) -> Fields:
    """As sinfo writes it, such as drained*."""
    return {"State": labels["status"].upper()} if "status" in labels else {}


def _status(labels: Mapping[str, str], _: float) -> Fields:
    return _state(labels)


def _cores(labels: Mapping[str, str], value: float) -> Fields:
    return _state(labels) | {"CPUTot": f"{value:.0f}"}


def _memory(labels: Mapping[str, str], value: float) -> Fields:
    return _state(labels) | {"RealMemory": f"{value:.0f}"}


def _gpus(labels: Mapping[str, str], value: float) -> Fields:
    """0 is unknown: the exporter does not read a count behind a type, as in gpu:a100:8."""
    return _state(labels) | ({"Gres": f"gpu:{value:.0f}"} if value else {})


def _own_gpus(_: Mapping[str, str], value: float) -> Fields:
    return {"Gres": f"gpu:{value:.0f}"}


def _info(labels: Mapping[str, str], value: float) -> Fields:
    base = labels.get("base_state", "")
    if not base or not value:
        return {}
    return {"State": f"{base.upper()}{'+DRAIN' if labels.get('is_drain') == 'true' else ''}"}


TAKEN: Mapping[str, Callable[[Mapping[str, str], float], Fields]] = {
    # prometheus-slurm-exporter and its forks
    "slurm_node_status": _status,
    "slurm_node_cpu_total": _cores,
    "slurm_node_mem_total": _memory,
    "slurm_node_gpu_total": _gpus,
    # Slurm itself since 25.11, which says how many GPUs a node has and not its state
    "slurm_node_gpus": _own_gpus,
    # Soperator
    "slurm_node_info": _info,
}

"""Metrics of training runs: W&B, TensorBoard, Hugging Face's trainer_state.json and MLPerf logs.

A run names the job of the scheduler in its folder, or W&B in the files beside its history; where neither does,
`gpulake land --job` says it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gpulake.core.tables import bronze_tables
from gpulake.core.types import BadRow, CsvLayout, TextRow
from gpulake.formats.json_text import word
from gpulake.formats.training import BEGINS, ENDS, TrainingFile, kind_of, training_file
from gpulake.land.readers import READERS, Sample

TABLE = "bronze_training_metrics"
COLUMNS = ("run", "step", "logged_at", "metric", "kind", "value")
OF_MLPERF = {"throughput": "samples_per_second", **dict.fromkeys(BEGINS, "begin"), **dict.fromkeys(ENDS, "end")}
JOB_IN_NAME = re.compile(r"(?:^|[^a-z])(?:slurm|job)(?:[-_]?id)?[-_=]?(\d+(?:_\d+)?)(?!\d)", re.IGNORECASE)
BESIDE = ("wandb-metadata.json", "config.yaml", "config.json")
LARGEST_BESIDE_BYTES = 1 << 20
# In W&B's metadata, and as an entry of a run's configuration, whose YAML has `value:` on a line of its own.
JOB_BESIDE = re.compile(
    r'"slurm"\s*:\s*\{[^}]*?"job_?id"\s*:\s*"?(\d+)|slurm_job_?id\W+(?:desc\W+\w*\W+)?(?:value\W+)?(\d+)',
    re.IGNORECASE,
)
HOST_BESIDE = re.compile(r'"host"\s*:\s*"([^"]+)"')


@READERS.register("training")
class TrainingReader:
    def recognise(self, sample: Sample) -> CsvLayout | None:
        found = training_file(sample.name, sample.lines, sample.folder, sample.above, sample.later)
        if found is None:
            return None
        job, host = _beside(sample)
        constants = {
            "source": found.source,
            "job": _named_job(sample) or job,
            "node": found.node or host,
            "file": sample.name,
            "folder": sample.folder,
        } | ({"run": found.run} if found.run else {})
        columns = COLUMNS if not found.run else COLUMNS[1:]
        return CsvLayout(
            bronze_tables()[TABLE],
            columns,
            has_header=False,
            constants=tuple((name, value) for name, value in constants.items()),
            rewrite=_Rows(found, "run" in columns),
        )


@dataclass(frozen=True)
class _Rows:
    file: TrainingFile
    has_run: bool

    def __call__(self, path: Path) -> Iterator[TextRow | BadRow]:
        kinds = OF_MLPERF if self.file.source == "mlperf" else {}
        for row in self.file.read(path):
            if isinstance(row, BadRow):
                yield row
                continue
            fields = (
                _text(row.step),
                "" if row.at_seconds is None else datetime.fromtimestamp(row.at_seconds, UTC).isoformat(sep=" "),
                word(row.metric),
                kinds.get(row.metric) or kind_of(row.metric),
                "" if row.value is None else repr(row.value),
            )
            yield TextRow(row.line_number, (word(row.run), *fields) if self.has_run else fields, row.text)


def _text(step: float | None) -> str:
    return "" if step is None else str(int(step)) if step.is_integer() else repr(step)


def _named_job(sample: Sample) -> str:
    names = (sample.name, sample.folder, sample.above)
    return next((found[1] for name in names if (found := JOB_IN_NAME.search(name))), "")


def _beside(sample: Sample) -> tuple[str, str]:
    """Job and host, as files of W&B beside this one tell them."""
    job = host = ""
    for folder in (sample.beside, sample.beside / "files") if sample.beside else ():
        for name in BESIDE:
            path = folder / name
            if path.is_file() and path.stat().st_size <= LARGEST_BESIDE_BYTES:
                text = path.read_text(encoding="utf-8", errors="replace")
                named = JOB_BESIDE.search(text)
                job = job or (next(filter(None, named.groups())) if named else "")
                told = HOST_BESIDE.search(text) if name == BESIDE[0] else None
                host = host or (told[1] if told else "")
    return job, host

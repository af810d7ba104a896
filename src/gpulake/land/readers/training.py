"""Metrics of training runs: W&B, TensorBoard, Hugging Face's trainer_state.json, Lightning and MLPerf logs.

A run names the job of the scheduler in a folder of it, or W&B in its file or in those beside its history; where neither
does, `gpulake land --job` says it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gpulake.core.tables import bronze_tables
from gpulake.core.types import BadRow, CsvLayout, TextRow
from gpulake.formats import wandb_file
from gpulake.formats.json_text import json_object, word
from gpulake.formats.tfevents import EVENT_FILE
from gpulake.formats.training import BEGINS, ENDS, TrainingFile, kind_of, training_file
from gpulake.land.readers import READERS, Sample

TABLE = "bronze_training_metrics"
COLUMNS = ("run", "step", "logged_at", "metric", "kind", "value")
OF_MLPERF = {"throughput": "samples_per_second", **dict.fromkeys(BEGINS, "begin"), **dict.fromkeys(ENDS, "end")}
JOB_IN_NAME = re.compile(r"(?:^|[^a-z])(?:slurm|job)(?:[-_]?id)?[-_=]?(\d+(?:_\d+)?)(?!\d)", re.IGNORECASE)
BESIDE = ("wandb-metadata.json", "config.yaml", "config.json")
LARGEST_BESIDE_BYTES = 1 << 20
# In W&B's metadata, and as an entry of a run's configuration, whose YAML has `value:` on a line of its own.
SLURM_BESIDE = re.compile(r'"slurm"\s*:\s*(\{[^}]*\})')
JOB_BESIDE = re.compile(r"slurm_job_?id\W+(?:desc\W+\w*\W+)?(?:value\W+)?(\d+)", re.IGNORECASE)
# Folders below the one of a run in TensorBoard: `runs/<time>_<host>` of Hugging Face, and a time, of hyperparameters.
RUNS_FOLDER = "runs"
TIME_FOLDER = re.compile(r"\d{9,}\.\d+")
HOST_BESIDE = re.compile(r'"host"\s*:\s*"([^"]+)"')


@READERS.register("training")
class TrainingReader:
    def recognise(self, sample: Sample) -> CsvLayout | None:
        found = training_file(sample.name, sample.lines, sample.folder, sample.above, sample.later)
        if found is None:
            return None
        job, host = _beside(sample)
        run, series = _event_run(sample) if EVENT_FILE.fullmatch(sample.name) else (found.run, "")
        constants = {
            "source": found.source,
            "job": _named_job(sample) or job,
            "node": found.node or host,
            "file": sample.name,
            "folder": sample.folder,
        } | ({"run": run} if run else {})
        columns = COLUMNS if not run else COLUMNS[1:]
        return CsvLayout(
            bronze_tables()[TABLE],
            columns,
            has_header=False,
            constants=tuple((name, value) for name, value in constants.items()),
            rewrite=_Rows(found, "run" in columns, series),
        )


@dataclass(frozen=True)
class _Rows:
    file: TrainingFile
    has_run: bool
    series: str = ""  # what all of its metrics are called

    def __call__(self, path: Path) -> Iterator[TextRow | BadRow]:
        kinds = OF_MLPERF if self.file.source == "mlperf" else {}
        for row in self.file.read(path):
            if isinstance(row, BadRow):
                yield row
                continue
            fields = (
                _text(row.step),
                "" if row.at_seconds is None else datetime.fromtimestamp(row.at_seconds, UTC).isoformat(sep=" "),
                word(self.series or row.metric),
                kinds.get(row.metric) or kind_of(self.series or row.metric),
                "" if row.value is None else repr(row.value),
            )
            yield TextRow(row.line_number, (word(row.run), *fields) if self.has_run else fields, row.text)


def _text(step: float | None) -> str:
    return "" if step is None else str(int(step)) if step.is_integer() else repr(step)


def _named_job(sample: Sample) -> str:
    names = (sample.name, sample.folder, sample.above, *sample.higher)
    return next((found[1] for name in names if (found := JOB_IN_NAME.search(name))), "")


def _event_run(sample: Sample) -> tuple[str, str]:
    """The run of an event file, and the name of the metric where its folder is that of one: add_scalars of PyTorch and
    tensorboardX writes a folder a series, below that of the run, which has an event file of its own."""
    names = (sample.folder, sample.above, *sample.higher)
    if sample.above == RUNS_FOLDER and len(names) > 2:
        return names[2], ""
    if TIME_FOLDER.fullmatch(sample.folder) and sample.above:
        return sample.above, ""
    for depth, folder in enumerate(sample.beside.parents[:2] if sample.beside else (), start=1):
        if any(EVENT_FILE.fullmatch(path.name) for path in folder.glob("events.out.tfevents.*")):
            return names[depth], "/".join(reversed(names[:depth]))
    return sample.folder or sample.name, ""


def _slurm_job(slurm: Mapping[str, object]) -> str:
    """Of a task of an array its place in it, as the scheduler's accounting shows it: the raw id comes second."""
    array, task = slurm.get("array_job_id"), slurm.get("array_task_id")
    return f"{array}_{task}" if array and task is not None else str(slurm.get("job_id") or slurm.get("jobid") or "")


def _beside(sample: Sample) -> tuple[str, str]:
    """Job and host, as files of W&B beside this one tell them."""
    job = host = ""
    if sample.beside and sample.name.endswith(wandb_file.ENDING):
        slurm, host = wandb_file.environment(sample.beside / sample.name)
        job = _slurm_job(slurm)
    for folder in (sample.beside, sample.beside / "files") if sample.beside else ():
        for name in BESIDE:
            path = folder / name
            if path.is_file() and path.stat().st_size <= LARGEST_BESIDE_BYTES:
                text = path.read_text(encoding="utf-8", errors="replace")
                told_slurm, named = SLURM_BESIDE.search(text), JOB_BESIDE.search(text)
                job = job or (_slurm_job(json_object(told_slurm[1])) if told_slurm else "")
                job = job or (named[1] if named else "")
                told = HOST_BESIDE.search(text) if name == BESIDE[0] else None
                host = host or (told[1] if told else "")
    return job, host

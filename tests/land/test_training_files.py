"""Metrics of training runs as the tools write them: every format gives the same rows, and names its run and its job."""

from __future__ import annotations

import json
import shutil
import struct
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from attack.examples import EVENTS, event_file

from conftest import rows_of
from gpulake.core.clock import FrozenClock
from gpulake.core.errors import InputError
from gpulake.core.progress import silent
from gpulake.core.types import BadRow
from gpulake.formats.training import Logged, kind_of, training_file
from gpulake.lake import Lake
from gpulake.land.landing import land

# Written by TensorBoard 2.21: its event file, and what its server gives as downloads of one tag; by W&B 0.31 (offline,
# task 2 of array 4711), Transformers 5.23 (20 steps, resumed from the checkpoint at step 10), Lightning 2.6 (CSVLogger)
# and mlperf-logging 4.1.
BY_TENSORBOARD = Path(__file__).parent.parent / "fixtures" / "training"
COLUMNS = "source, run, job, node, step, logged_at, metric, kind, value"


def landed(lake: Lake, clock: FrozenClock, *paths: Path, **named: str) -> list[tuple[object, ...]]:
    with lake.writing():
        land(lake, list(paths), clock, silent, named)
    rows = rows_of(lake, f"SELECT {COLUMNS} FROM bronze_training_metrics ORDER BY run, metric, step, logged_at")
    return [tuple(row.values()) for row in rows]


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(1_790_000_000 + seconds, UTC)


def test_an_event_file_of_tensorboard_has_its_tags_of_either_kind(
    lake: Lake, clock: FrozenClock, tmp_path: Path
) -> None:
    folder = tmp_path / "slurm-4711" / "night1"
    folder.mkdir(parents=True)
    (written,) = BY_TENSORBOARD.glob("events*")
    (folder / written.name).write_bytes(written.read_bytes())
    rows = landed(lake, clock, tmp_path)
    # Single precision, as it was logged.
    rates = [struct.unpack("<f", struct.pack("<f", 0.001 * step))[0] for step in (10, 20, 30)]
    assert rows[:3] == [
        ("tensorboard", "night1", "4711", "n7", step, at(step + 0.25), "train/learning_rate", "learning_rate", rate)
        for step, rate in zip((10, 20, 30), rates, strict=True)
    ]
    assert rows[3:5] == [
        ("tensorboard", "night1", "4711", "n7", 10, at(10), "train/loss", "loss", 2.5),
        ("tensorboard", "night1", "4711", "n7", 20, at(20), "train/loss", "loss", 2.25),
    ]
    assert rows[5][:-1] == ("tensorboard", "night1", "4711", "n7", 30, at(30), "train/loss", "loss")
    assert str(rows[5][-1]) == "nan"


@pytest.mark.parametrize("ending", ["csv", "json"])
def test_a_download_of_tensorboard_says_what_the_event_file_does(ending: str) -> None:
    path = BY_TENSORBOARD / f"run-run1-tag-train_loss.{ending}"
    found = training_file(path.name, path.read_text().splitlines())
    assert found is not None
    assert (found.source, found.run) == ("tensorboard", "run1")
    rows = [row for row in found.read(path) if isinstance(row, Logged)]
    assert [(row.metric, row.step, row.at_seconds, str(row.value)) for row in rows] == [
        ("train_loss", 10, 1_790_000_010.0, "2.5"),
        ("train_loss", 20, 1_790_000_020.0, "2.25"),
        ("train_loss", 30, 1_790_000_030.0, "nan"),
    ]


def test_an_event_file_that_is_cut_or_damaged_gives_what_is_whole(tmp_path: Path) -> None:
    whole = event_file(*EVENTS, *EVENTS)
    path = tmp_path / "events.out.tfevents.1790000000.n7.1.0"
    found = training_file(path.name, ["x"])
    assert found is not None
    first = len(event_file(EVENTS[0]))
    for content, reasons in {
        whole[:-3]: ["the file ends within a record"],
        whole[: first + 5]: ["the file ends within a record"],
        # A bit of the size: nothing behind it can be found.
        whole[:first] + b"\xff" + whole[first + 1 :]: [
            f"the size of a record at byte {first} is damaged; the rest was not read"
        ],
        whole[: first - 6] + b"\xff" + whole[first - 5 :]: ["the checksum of the record is wrong"],
        event_file(b"\x0f\xff", *EVENTS): ["not an event"],
    }.items():
        path.write_bytes(content)
        rows = list(found.read(path))
        assert [row.reason for row in rows if isinstance(row, BadRow)] == reasons
        assert all(
            isinstance(row, BadRow) or (row.metric, row.value) in (("loss", 2.5), ("loss", 2.25)) for row in rows
        )


def test_a_history_of_wandb_has_its_job_from_the_files_beside_it(
    lake: Lake, clock: FrozenClock, tmp_path: Path
) -> None:
    folder = tmp_path / "run-20260918_101500-sx6lpdmd"
    folder.mkdir()
    (folder / "wandb-metadata.json").write_text('{"host": "n7", "slurm": {"cluster_name": "c", "job_id": "4711"}}')
    (folder / "wandb-history.jsonl").write_text(
        '{"_step": 0, "_timestamp": 1790000010.5, "_runtime": 10.5, "train": {"x": 1}, "loss": 2.5, "name": "a"}\n'
        '{"_step": 1, "_timestamp": 1790000020.5, "_runtime": 20.5, "loss": "Infinity", "is_best": true}\n'
    )
    assert landed(lake, clock, tmp_path) == [
        ("wandb", "sx6lpdmd", "4711", "n7", 0, at(10.5), "_runtime", "runtime_seconds", 10.5),
        ("wandb", "sx6lpdmd", "4711", "n7", 1, at(20.5), "_runtime", "runtime_seconds", 20.5),
        ("wandb", "sx6lpdmd", "4711", "n7", 0, at(10.5), "loss", "loss", 2.5),
        ("wandb", "sx6lpdmd", "4711", "n7", 1, at(20.5), "loss", "loss", float("inf")),
    ]


def copied(name: str, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(BY_TENSORBOARD / name, folder / name))


def test_the_file_of_an_offline_run_of_wandb_has_its_history_and_its_job(
    lake: Lake, clock: FrozenClock, tmp_path: Path
) -> None:
    rows = landed(lake, clock, copied("run-c10ph2ey.wandb", tmp_path / "files").parent)
    assert Counter(row[6] for row in rows) == {"_runtime": 7, "epoch": 6, "train/loss": 7, "train/tokens_per_sec": 6}
    losses = [row for row in rows if row[6] == "train/loss"]
    assert [(row[:5], row[7], str(row[8])) for row in losses] == [
        (("wandb", "c10ph2ey", "4711_2", "vm", step), "loss", value)
        for step, value in enumerate(("2.5", "2.4", "2.3", "2.2", "2.1", "2.0", "nan"))
    ]
    assert all(isinstance(row[5], datetime) and row[5].year == 2026 for row in rows)


def test_a_file_of_wandb_that_is_cut_or_damaged_gives_what_is_whole(tmp_path: Path) -> None:
    path = copied("run-c10ph2ey.wandb", tmp_path)
    whole = path.read_bytes()
    found = training_file(path.name, [":W&B"])
    assert found is not None
    rows = list(found.read(path))
    last = whole.rindex(b"NaN")
    for content, reasons, count in (
        (whole[: last + 20], ["the file ends within a record"], 24),
        (whole[:last] + b"Nan" + whole[last + 3 :], ["the checksum of the record is wrong"], 24),
        (whole + b"\0" * 50, [], 26),
        (b"x" + whole, ["not a file of W&B"], 0),
    ):
        path.write_bytes(content)
        bad = [row.reason for row in found.read(path) if isinstance(row, BadRow)]
        assert (bad, len(list(found.read(path)))) == (reasons, count + len(reasons))
    assert len(rows) == 26


def test_a_resumed_run_of_transformers_has_each_step_once(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    rows = landed(lake, clock, copied("trainer_state.json", tmp_path / "slurm-4711" / "llama-tiny"))
    assert [row[:5] for row in rows if row[6] == "loss"] == [
        ("huggingface", "llama-tiny", "4711", "", step) for step in range(2, 21, 2)
    ]
    assert Counter(row[7] for row in rows)["evaluation"] == 8


def test_metrics_of_lightning_have_the_name_of_their_run(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    rows = landed(lake, clock, copied("metrics.csv", tmp_path / "job_4711" / "tiny" / "version_0"))
    assert {row[:4] for row in rows} == {("lightning", "tiny/version_0", "4711", "")}
    assert {(row[6], row[7]) for row in rows} == {
        ("epoch", "epoch"),
        ("lr-SGD", "learning_rate"),
        ("train_loss_step", "loss"),
        ("train_loss_epoch", None),
        ("val_loss", "evaluation"),
    }
    assert [row[4] for row in rows if row[7] == "loss"] == [4, 9, 14, 19, 24, 29]


def test_a_log_of_mlperf_logging_has_begin_end_and_losses(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    rows = landed(lake, clock, copied("result_0.txt", tmp_path / "slurm-4711"))
    assert Counter(row[7] for row in rows) == {
        None: 5,
        "begin": 2,
        "end": 1,
        "evaluation": 1,
        "loss": 4,
        "samples_per_second": 4,
    }
    assert [row[4] for row in rows if row[7] == "loss"] == [8, 16, 24, 32]


def test_folders_below_a_run_of_tensorboard_are_series_of_it(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    (written,) = BY_TENSORBOARD.glob("events*")
    run = tmp_path / "slurm-4711" / "exp"
    content = written.read_bytes()
    # As add_scalars of PyTorch and of tensorboardX, add_hparams, and the Trainer of Transformers lay them.
    below = ("", "loss_val", "loss/train", "1794992506.6087317", "runs/Nov18_09-02-22_n7")
    for number, folder in enumerate(below):
        (run / folder).mkdir(parents=True, exist_ok=True)
        (run / folder / f"{written.name}{number}").write_bytes(content + event_file(*EVENTS[:1] * number))
    rows = landed(lake, clock, tmp_path)
    assert {row[:4] for row in rows} == {("tensorboard", "exp", "4711", "n7")}
    assert {(row[6], row[7]) for row in rows} == {
        ("loss", "loss"),
        ("loss/train", "loss"),
        ("loss_val", "evaluation"),
        ("train/learning_rate", "learning_rate"),
        ("train/loss", "loss"),
    }


@pytest.mark.parametrize(
    ("slurm", "job"),
    [
        ('{"job_id": "4713"}', "4713"),
        ('{"array_job_id": "4711", "job_id": "4713", "array_task_id": "0"}', "4711_0"),
    ],
)
def test_metadata_of_wandb_name_a_task_of_an_array_by_its_place(
    lake: Lake, clock: FrozenClock, tmp_path: Path, slurm: str, job: str
) -> None:
    (tmp_path / "wandb-metadata.json").write_text(f'{{"host": "n7", "slurm": {slurm}}}')
    path = tmp_path / "history.jsonl"
    path.write_text('{"_step": 0, "_timestamp": 1790000010, "loss": 2.5}\n')
    assert [row[2] for row in landed(lake, clock, path)] == [job]


@pytest.mark.parametrize("beside", ['{"SLURM_JOB_ID": {"value": 4711}}', "SLURM_JOB_ID:\n    value: '4711'\n"])
def test_a_job_in_the_configuration_of_a_run_is_found(
    lake: Lake, clock: FrozenClock, tmp_path: Path, beside: str
) -> None:
    (tmp_path / "config.yaml").write_text(beside)
    path = tmp_path / "night1.csv"
    path.write_text(",_step,_timestamp,loss,text\n0,7,1790000007,0.5,hello\n")
    assert landed(lake, clock, path) == [("wandb", "night1", "4711", "", 7, at(7), "loss", "loss", 0.5)]


def test_a_chart_of_wandb_has_a_run_in_each_column(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    path = tmp_path / "wandb_export_2026-09-18T10_15_00.csv"
    names = ("a - b - train/loss", "a - b - train/loss__MIN", "a - b - train/loss__MAX", "c - train/loss")
    path.write_text(
        ",".join(f'"{name}"' for name in ("Step", *names)) + '\n"10","2.5","2.4","2.6",""\n"20","","","","3"\n'
    )
    assert landed(lake, clock, path) == [
        ("wandb", "a - b", "", "", 10, None, "train/loss", "loss", 2.5),
        ("wandb", "c", "", "", 20, None, "train/loss", "loss", 3.0),
    ]
    path.write_text(path.read_text().replace("Step", "Relative Time (Process)"))
    with pytest.raises(InputError, match="the axis of the chart is 'Relative Time"):
        landed(lake, clock, path)


def test_trainer_state_belongs_to_the_run_whose_checkpoint_has_it(
    lake: Lake, clock: FrozenClock, tmp_path: Path
) -> None:
    folder = tmp_path / "llama-sft" / "checkpoint-20"
    folder.mkdir(parents=True)
    log = [
        {"epoch": 0.5, "grad_norm": 1.5, "learning_rate": 1e-05, "loss": 2.5, "step": 10},
        {"epoch": 1.0, "eval_loss": 2.0, "step": 20},
        {"epoch": 1.0, "step": 20, "train_runtime": 60.0, "train_samples_per_second": 3.5},
    ]
    state = {"best_metric": None, "epoch": 1.0, "global_step": 20, "log_history": log, "max_steps": 20}
    (folder / "trainer_state.json").write_text(json.dumps(state, indent=2))
    assert landed(lake, clock, tmp_path, job="4711") == [
        ("huggingface", "llama-sft", "4711", "", step, None, metric, kind, value)
        for metric, step, kind, value in [
            ("epoch", 10, "epoch", 0.5),
            ("epoch", 20, "epoch", 1.0),
            ("epoch", 20, "epoch", 1.0),
            ("eval_loss", 20, "evaluation", 2.0),
            ("grad_norm", 10, "grad_norm", 1.5),
            ("learning_rate", 10, "learning_rate", 1e-05),
            ("loss", 10, "loss", 2.5),
            ("train_runtime", 20, None, 60.0),
            ("train_samples_per_second", 20, "samples_per_second", 3.5),
        ]
    ]


def test_a_name_given_for_rows_that_have_one_is_refused(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    path = tmp_path / "checkpoints.csv"
    path.write_text("cluster,job,saved_at\nc,1,2023-03-01 00:18:22+08:00\n")
    with pytest.raises(InputError, match="--run does not fit rows of bronze_checkpoints"):
        landed(lake, clock, path, run="night1")


def test_a_metric_is_known_by_its_name_whatever_the_tool_calls_it() -> None:
    names = {
        "loss": ["loss", "train/loss", "train_loss", "Loss/train", "lm loss", "reduced_train_loss", "train/total_loss"],
        "evaluation": ["eval/loss", "val_loss", "test/accuracy", "eval_accuracy"],
        "learning_rate": ["lr", "train/learning_rate", "optim/lr_0", "current_lr", "lr-SGD", "lr-AdamW/pg1"],
        "grad_norm": ["grad_norm", "train/grad-norm", "global_gradient_norm"],
        "samples_per_second": ["train_samples_per_second", "images/sec", "samples/s"],
        "tokens_per_second": ["tokens/sec", "perf/tokens_per_second", "tok_s"],
        "checkpoint_seconds": ["save_checkpoint_time", "checkpoint/duration", "timers/save-checkpoint-seconds"],
        "epoch": ["epoch", "train/epoch"],
        "runtime_seconds": ["_runtime"],
        "": [
            "train_loss_epoch",
            "lr_schedule_kind",
            "throughput",
            "tokens_per_sec_per_gpu",
            "loss_scale",
            "contest/loss",
            "my metric",
            "",
            "/",
        ],
    }
    assert {name: kind_of(name) for each in names.values() for name in each} == {
        name: kind for kind, each in names.items() for name in each
    }


@pytest.mark.real
def test_logs_of_mlperf_land_whole(lake: Lake, clock: FrozenClock, real_data: Path) -> None:
    logs = real_data / "mlperf_logs" / "logs"
    with lake.writing():
        landings = land(lake, sorted(logs.glob("*.gz")), clock, silent).landings
    assert (len(landings), sum(landing.rows_quarantined for landing in landings)) == (74, 0)
    counts = Counter({row["kind"]: row["n"] for row in rows_of(lake, KINDS)})
    # 71 of 74 logs have an end, as labels.csv says; four were submitted twice, and what is the same lands once.
    assert (counts["end"], sum(landing.is_new for landing in landings)) == (67, 70)
    (mask,) = rows_of(lake, f"SELECT {MASK} FROM bronze_training_metrics WHERE run LIKE '%N8-E11__maskrcnn__result_0'")
    assert mask == {"steps": 344, "first": 50, "last": 17200}


KINDS = "SELECT kind, count(*) AS n FROM bronze_training_metrics GROUP BY kind"
MASK = """count(*) FILTER (metric = 'loss') AS steps, min(step) FILTER (metric = 'loss') AS first,
max(step) FILTER (metric = 'loss') AS last"""

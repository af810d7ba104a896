"""What the samples of our own runs on a real GPU say of them."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from diagnose.measured import STOPS
from gpulake.core.diagnosis import Diagnosis
from gpulake.diagnose.story.events import Story
from gpulake.diagnose.telemetry import consult, read_samples, window_of


def _lab(folder: Path, case: str) -> tuple[dict[str, Any], Story]:
    truths = [json.loads(line) for line in (folder / "truth.jsonl").read_text().splitlines()]
    truth = next(truth for truth in truths if truth["id"] == case)
    text = (folder / "logs" / f"{case}.log").read_text(errors="replace")
    times = [
        datetime.fromisoformat(f"{day}.{part}+00:00")
        for day, part in re.findall(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\]", text)
    ]
    began, ended = (times[0], times[-1]) if times else (None, None)
    return truth, Story((), 1, 1, 1, 1, began_at=began, ended_at=ended, hosts=("vm",))


CASES = [
    "healthy_single",
    "healthy_ddp",
    "starved_loader",
    "leak_oom",
    "bad_token",
    "nan_loss",
    "worker_killed",
    "worker_bad_record",
    "rank1_sigkill",
    "rank1_valueerror",
    "ckpt_missing",
    "ckpt_mismatch",
    "import_error",
    "bad_flag",
    "zero_division",
    "index_error",
    "name_error",
    "shape_mismatch",
    "device_mismatch",
    "eval_file",
]


@pytest.mark.real
@pytest.mark.parametrize("case", CASES)
def test_the_samples_of_our_own_runs_keep_every_reason_within_what_is_accepted(real_data: Path, case: str) -> None:
    truth, reported = _lab(real_data / "lab", case)
    verdict = "healthy" if truth["reason"] == "NotAFailure" else "failed"
    said = Diagnosis(verdict, truth["category"], truth["reason"], truth["root_cause"])  # type: ignore[arg-type]
    found = consult(said, reported, read_samples([real_data / "lab" / "telemetry.jsonl"], window_of(reported)))
    assert found.reason in truth["accept"]
    assert found.verdict == verdict
    expected = {
        "leak_oom": ["rose from 9.8 GB to 150.5 GB of 150.8 GB in 0.8 s"],
        "rank1_sigkill": ["Host memory was plentiful"],
        "worker_killed": ["Host memory was plentiful"],
        "starved_loader": ["it waits for data or for the CPU"],
        "bad_flag": ["The log tells no time"],
    }.get(case, [])
    assert [words for words in expected if any(words in sentence for sentence in found.telemetry)] == expected
    assert len(found.telemetry) == len(expected)
    if case == "leak_oom":
        assert found.recovery.action == truth["recoverable"]


@pytest.mark.real
def test_a_log_of_ours_that_is_cut_where_its_process_left_is_not_called_a_hang(real_data: Path) -> None:
    _, reported = _lab(real_data / "lab", "healthy_single")
    cut = Story(
        (),
        1,
        1,
        1,
        1,
        began_at=reported.began_at,
        ended_at=(reported.ended_at or datetime.now(UTC)) - timedelta(seconds=5),
        is_whole=False,
    )
    found = consult(STOPS, cut, read_samples([real_data / "lab" / "telemetry.jsonl"], window_of(cut)))
    assert found.reason == "unknown"

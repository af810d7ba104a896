"""The answer as scripts get it."""

from __future__ import annotations

import gzip
import io
import json
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from gpulake.core.diagnosis import CATEGORY_OF, Diagnosis, Quote, Recovery
from gpulake.core.errors import InputError, UsageError
from gpulake.diagnose.api import diagnose
from gpulake.diagnose.story.events import Story
from gpulake.diagnose.telemetry import Samples

KEYS = {
    "verdict",
    "category",
    "reason",
    "cause",
    "evidence",
    "symptoms",
    "rank",
    "node",
    "recovery",
    "confidence",
    "method",
    "similar",
    "lines_read",
    "lines_kept",
    "gpu_hours_lost",
}
LOG = """step 1
step 2
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    state = table["a"]
            ~~~~~^^^^^
KeyError: 'a'
"""
LAUNCHED = """{death}
W0102 03:04:05.000000 10 torch/elastic/api.py:900] Sending process 11 closing signal SIGTERM
E0102 03:04:05.000000 10 torch/elastic/api.py:860] failed (exitcode: 1) local_rank: 1 (pid: 12) of binary: python
Traceback (most recent call last):
  File "/usr/lib/python3/torch/distributed/run.py", line 766, in main
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
Root Cause (first observed failure):
[0]:
  time      : 2026-01-02_03:04:05
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 12)
  error_file: <N/A>
============================================================
"""


def write(path: Path, text: str | bytes = LOG) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def zstd(text: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(text)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    "content",
    [
        LOG.encode(),
        LOG.replace("\n", "\r\n").encode(),
        LOG.encode("utf-16"),
        gzip.compress(LOG.encode()),
        zstd(LOG.encode()),
        LOG.rstrip().encode(),
        b"\xef\xbb\xbf" + LOG.encode(),
        LOG.replace("step 1\nstep 2", "step 1\n\r 1%|#\r 2%|#\rstep 2").encode(),
    ],
    ids=["plain", "crlf", "utf-16", "gzip", "zstd", "no last line feed", "byte order mark", "progress bar"],
)
def test_the_answer_is_the_same_whatever_the_log_is_packed_in(tmp_path: Path, content: bytes) -> None:
    answer = diagnose(write(tmp_path / "log", content))
    found = answer.diagnosis
    assert (found.verdict, found.category, found.reason) == ("failed", "script", "KeyError")
    assert (found.evidence, found.lines_read, answer.notes) == ((Quote(7, "KeyError: 'a'"),), 7, ())


def test_what_is_piped_in_is_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LOG.encode())))
    assert diagnose("-").diagnosis.reason == "KeyError"


def test_the_document_has_the_keys_that_are_promised(tmp_path: Path) -> None:
    document = json.loads(json.dumps(diagnose(write(tmp_path / "log")).diagnosis.as_document()))
    assert set(document) >= KEYS
    assert document["evidence"] == [{"line": 7, "text": "KeyError: 'a'"}]
    assert set(document["recovery"]) == {"action", "why"}


def test_an_empty_log_is_unknown_and_said_to_be_empty(tmp_path: Path) -> None:
    found = diagnose(write(tmp_path / "log", b"")).diagnosis
    assert (found.verdict, found.cause) == ("unknown", "The log is empty")


def test_what_is_no_text_is_said_to_be_none(tmp_path: Path) -> None:
    answer = diagnose(write(tmp_path / "core", bytes(range(256)) * 100))
    assert answer.notes == ("core does not look like text: is it a log?",)


def test_a_packed_log_that_breaks_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    answer = diagnose(write(tmp_path / "log.gz", gzip.compress(LOG.encode())[:-9]))
    assert [note.split(":")[0] for note in answer.notes] == ["log.gz breaks off"]


@pytest.mark.parametrize("number", [1, 4])
def test_files_of_a_folder_are_named_and_keep_their_context(tmp_path: Path, number: int) -> None:
    for rank in range(number - 1):
        write(tmp_path / "ranks" / f"rank{rank}.log", "step 1\nstep 2\n")
    write(tmp_path / "ranks" / "rank7.log")
    answer = diagnose(tmp_path / "ranks")
    assert answer.diagnosis.evidence == (Quote(7, "KeyError: 'a'", "rank7.log"),)
    assert answer.context["rank7.log", 5] == '    state = table["a"]'


def test_a_launcher_says_once_that_it_ends_what_is_left(tmp_path: Path) -> None:
    found = diagnose(write(tmp_path / "log", LAUNCHED.format(death=LOG))).diagnosis
    assert found.reason == "KeyError"
    assert [(symptom.line, symptom.reason) for symptom in found.symptoms] == [
        (9, "torchrun_closes_peers"),
        (10, "torchrun_rank_failed"),
    ]


def test_a_machine_that_is_called_localhost_is_no_node_to_cordon(tmp_path: Path) -> None:
    found = diagnose(write(tmp_path / "log", LAUNCHED.format(death=LOG))).diagnosis
    assert (found.rank, found.node) == (1, None)


def test_a_run_that_has_just_begun_does_not_hide_the_one_that_failed(tmp_path: Path) -> None:
    begun = "W0102 03:05:00.000000 20 torch/distributed/run.py:766] Starting worker processes\nloading\n"
    answer = diagnose(write(tmp_path / "log", LAUNCHED.format(death=LOG) + begun))
    assert (answer.diagnosis.reason, answer.story.run) == ("KeyError", answer.diagnosis.run)


def test_a_run_that_the_log_does_not_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the log holds 1 run, not 2"):
        diagnose(write(tmp_path / "log"), run=2)
    assert diagnose(write(tmp_path / "log"), run=1).diagnosis.reason == "KeyError"


def test_bad_input_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no time zone named 'Mars/X'"):
        diagnose(write(tmp_path / "log"), time_zone="Mars/X")
    with pytest.raises(InputError, match="no such log"):
        diagnose(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no log in"):
        diagnose(tmp_path / "empty")


def test_telemetry_and_cost_are_looked_up(tmp_path: Path) -> None:
    asked: list[tuple[str, Story]] = []

    def witness(diagnosis: Diagnosis, story: Story) -> Samples:
        asked.append((diagnosis.reason, story))
        return Samples(notes=("nobody watched it",))

    found = diagnose(
        write(tmp_path / "log"),
        job_id="7",
        cluster_id="c",
        witness=witness,
        cost=lambda *_: 12.5,
        now=datetime(2026, 1, 1, tzinfo=UTC),
    ).diagnosis
    assert [reason for reason, _ in asked] == ["KeyError"]
    assert (found.job_id, found.cluster_id, found.gpu_hours_lost) == ("7", "c", 12.5)
    assert found.telemetry == ("Nobody watched it",)


@pytest.mark.real
def test_why_an_action_is_right_is_a_sentence(real_data: Path) -> None:
    lab = real_data / "lab"
    found = diagnose(lab / "logs" / "leak_oom.log", telemetry=lab / "telemetry.jsonl").diagnosis
    assert found.recovery == Recovery("needs_code_fix", "A restart climbs to the same end.")
    assert "Memory of the GPU rose" in found.cause
    dumps = real_data / "nccl_flight_recorder" / "lock_gil_2nd"
    hang = diagnose(dumps).diagnosis
    assert (hang.missing_ranks, hang.recovery.why[:1].isupper()) == ((10, 15), True)


def test_every_reason_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "diagnose.md").read_text()
    table = text.split("## Reasons")[1].split("## How it decides")[0]
    assert set(re.findall(r"`(\w+)`", table)) >= set(CATEGORY_OF)

"""Many logs at once: one row a job, and a summary by cause."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from conftest import built_from
from gpulake.cli import root
from gpulake.diagnose.many import Cause, JobLog, holds_many_jobs, job_logs

DIES = 'Traceback (most recent call last):\n  File "/job/t.py", line 3, in <module>\nKeyError: "abc"\n'
STOPS = "2026-03-01 11:01:00 step 1/100 loss 2.0\n2026-03-01 11:02:00 step 2/100 loss 1.9\n"
SACCT = """\
JobID|JobName|User|Cluster|State|ExitCode|Submit|Start|End|NNodes|AllocTRES|NodeList
1|train||tiger|NODE_FAIL|1:0|2026-03-01T11:00:00|2026-03-01T11:00:00|2026-03-01T13:00:00|1|gres/gpu=8|gpu01
2|train||tiger|FAILED|1:0|2026-03-01T11:00:00|2026-03-01T11:00:00|2026-03-01T12:00:00|1|gres/gpu=4|gpu02
"""


def written(folder: Path, texts: dict[str, str]) -> Path:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_files_that_differ_in_rank_or_stream_are_of_one_job(tmp_path: Path) -> None:
    names = ("slurm-7.out", "slurm-7.err", "slurm-8.out", "big_rank0.log", "big_rank1.log", "step-3.log", "step-4.log")
    folder = written(tmp_path, dict.fromkeys(names, STOPS))
    assert {log.name: (len(log.files), log.job_id) for log in job_logs([folder])} == {
        "big": (2, None),
        "slurm-7": (2, "7"),
        "slurm-8": (1, "8"),
        "step-3": (1, None),
        "step-4": (1, None),
    }
    assert job_logs([folder / "slurm-8.out"]) == [JobLog("slurm-8", (folder / "slurm-8.out",), "8")]


def test_a_folder_of_several_slurm_jobs_is_known_by_their_names(tmp_path: Path) -> None:
    ranks = written(tmp_path / "ranks", {"slurm-7.out": STOPS, "slurm-7.err": STOPS, "rank1.log": STOPS})
    jobs = written(tmp_path / "jobs", {"slurm-7.out": STOPS, "slurm-8.out": STOPS})
    assert (holds_many_jobs(ranks), holds_many_jobs(jobs), holds_many_jobs(jobs / "slurm-7.out")) == (
        False,
        True,
        False,
    )


def test_each_job_has_a_row_and_each_cause_its_gpu_hours(tmp_path: Path) -> None:
    lake = built_from(tmp_path / "lake", {"sacct.txt": SACCT})
    logs = written(tmp_path / "logs", {"slurm-1.out": STOPS, "slurm-2.out": DIES, "slurm-9.out": DIES})
    ran = CliRunner().invoke(root, ["diagnose", str(logs), "--lake", str(lake.root), "--json"])
    document = json.loads(ran.stdout)
    assert [(one["log"], one["job_id"], one["reason"], one["gpu_hours_lost"]) for one in document["jobs"]] == [
        ("slurm-1", "1", "NodeFailure", 16.0),
        ("slurm-2", "2", "KeyError", 4.0),
        ("slurm-9", None, "KeyError", None),
    ]
    expected = [Cause("NodeFailure", 1, 16.0), Cause("KeyError", 2, 4.0)]
    assert document["causes"] == [vars(cause) for cause in expected]
    assert [row["reason"] for row in lake.journal("diagnoses")] == ["NodeFailure", "KeyError", "KeyError"]
    assert len(lake.incidents.standing()) == 3


def test_a_log_that_cannot_be_read_costs_only_its_own_row(tmp_path: Path) -> None:
    logs = written(tmp_path, {"a.log": DIES, "b.log": DIES})
    (logs / "b.log").unlink()
    ran = CliRunner().invoke(root, ["diagnose", str(logs / "a.log"), str(logs / "b.log"), "--json"])
    assert [one["reason"] for one in json.loads(ran.stdout)["jobs"]] == ["KeyError", "unknown"]
    refused = CliRunner().invoke(root, ["diagnose", str(logs / "a.log"), str(logs / "b.log"), "--job", "7"])
    assert str(refused.exception) == "this option is of one job"

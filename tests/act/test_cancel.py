"""The program that cancels: its arguments, its exit code, and no shell."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from gpulake.act.commands import Outcome
from gpulake.act.nudges import cancel
from hand_made import holder

PRINT = "import json, sys; json.dump(sys.argv[1:], open(sys.argv[1], 'w'))"


def test_the_arguments_arrive_as_they_are(tmp_path: Path) -> None:
    out = tmp_path / "arguments.json"
    command = (
        sys.executable,
        "-c",
        PRINT,
        str(out),
        "--job={job_id}",
        "{user_id}@{cluster_id}",
        "$HOME; true",
        "{job_id}",
    )
    # A placeholder in an id is not one.
    assert cancel(command, holder("7_1", user_id="{job_id}")) == Outcome("done", 0)
    assert json.loads(out.read_text()) == [str(out), "--job=7_1", "{job_id}@c", "$HOME; true", "7_1"]


def test_a_failure_has_its_exit_code_and_its_words() -> None:
    command = (sys.executable, "-c", "import sys; sys.exit('no job\\x1b ' + sys.argv[1])", "{job_id}")
    assert cancel(command, holder("9")) == Outcome("failed", 1, "no job\N{REPLACEMENT CHARACTER} 9")
    assert cancel(("/nowhere/scancel", "{job_id}"), holder()) == Outcome(
        "failed", None, "cannot run /nowhere/scancel: No such file or directory"
    )


def test_a_command_that_does_not_end_has_an_unknown_outcome() -> None:
    command = (sys.executable, "-c", "import time; time.sleep(30)", "{job_id}")
    assert cancel(command, holder(), most_seconds=0.2) == Outcome("unknown", None, "did not end within 0.2 seconds")

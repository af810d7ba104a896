"""Programs that act: what they get, how long they may take, what is kept of what they say."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from gpulake.act.commands import MOST_BYTES, MOST_WORDS, Outcome, ask, run, small_environment


def python(program: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-c", program, *arguments)


def test_an_argument_stays_one_argument(tmp_path: Path) -> None:
    out = tmp_path / "arguments.json"
    hostile = 'a b\'; rm -rf ~ #\n$(true) "*"'
    program = "import json, sys; json.dump(sys.argv[1:], open(sys.argv[1], 'w'))"
    assert run(python(program, str(out), hostile)) == Outcome("done", 0)
    assert json.loads(out.read_text()) == [str(out), hostile]


def test_stderr_is_shown_before_stdout() -> None:
    both = "import sys; print('said'); print('complained', file=sys.stderr); sys.exit(3)"
    assert run(python(both)) == Outcome("failed", 3, "complained")
    assert run(python("print('said')")) == Outcome("done", 0, "said")


def test_a_flood_is_cut_and_does_not_block_the_program() -> None:
    outcome = run(python("import sys; [sys.stdout.write('x' * 65536) for _ in range(200)]"))
    assert outcome == Outcome("done", 0, "x" * (MOST_WORDS - 1) + "…")


def has_ended(pid: int) -> bool:
    """A process that was killed takes a moment to die where the machine is busy."""
    status = Path(f"/proc/{pid}/status")
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            if "State:\tZ" in status.read_text():
                return True
        except OSError:
            return True
    return False


def test_a_command_that_does_not_end_is_unknown_and_its_children_end_with_it(tmp_path: Path) -> None:
    # The child holds the pipes, which would keep a reader that waits for their end.
    child = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1], sys.argv[2]])"
    outcome = run(python(program, child, str(tmp_path / "pid")), most_seconds=1.5)
    assert outcome == Outcome("unknown", None, "did not end within 1.5 seconds")
    assert has_ended(int((tmp_path / "pid").read_text()))


def test_of_one_that_ended_well_a_warning_does_not_hide_what_it_said() -> None:
    both = "import sys; print('No resources found'); print('Warning: old version', file=sys.stderr)"
    assert run(python(both)).detail == "No resources found Warning: old version"


def test_a_child_that_stays_behind_is_neither_waited_for_nor_ended() -> None:
    program = (
        "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']).pid)"
    )
    outcome = run(python(program), most_seconds=30)
    assert outcome.status == "done"
    os.kill(int(outcome.detail), signal.SIGKILL)


def test_a_program_that_is_not_there_failed() -> None:
    assert run(("/nowhere/scontrol",)) == Outcome(
        "failed", None, "cannot run /nowhere/scontrol: No such file or directory"
    )
    assert run((sys.executable, "a\0b")) == Outcome("failed", None, f"cannot run {sys.executable}: embedded null byte")


def test_secrets_of_our_environment_are_not_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "x")
    program = "import os; print(sorted(set(os.environ) - {'LC_CTYPE'}))"
    environment = small_environment({"PATH": "/bin", "SECRET_TOKEN": "x", "KUBECONFIG": "/k"})
    assert environment == {"PATH": "/bin", "KUBECONFIG": "/k"}
    assert run(python(program), environment=environment).detail == "['KUBECONFIG', 'PATH']"
    assert set(small_environment()) <= set(os.environ) - {"SECRET_TOKEN"}


def test_an_answer_is_whole_or_none() -> None:
    assert ask(python("print('n1')")) == "n1\n"
    assert ask(python("print('n1'); raise SystemExit(1)")) is None
    assert ask(python(f"print('n1 ' * {MOST_BYTES // 3 + 1})")) is None
    assert ask(["/nowhere/sacct"]) is None

"""gpulake diagnose, as its user meets it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from conftest import rows_of
from gpulake.cli import root
from gpulake.core.config import Config
from gpulake.core.errors import GpulakeError
from gpulake.lake import Lake

LOG = """step 1
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    state = table["a"]
KeyError: 'a'
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.log"
    path.write_text(LOG)
    return path


def diagnose(*arguments: object, text: str | None = None) -> Result:
    return CliRunner().invoke(root, ["diagnose", *map(str, arguments)], input=text)


def test_the_card_is_all_that_is_printed_and_without_a_lake_nothing_is_left(log: Path) -> None:
    answer = diagnose(log)
    assert (answer.exit_code, answer.stderr) == (0, "")
    assert answer.stdout.splitlines()[:5] == [
        "KeyError (script)",
        "  A key does not exist: 'a'.",
        "",
        'Evidence      4  state = table["a"]',
        "            ▶ 5  KeyError: 'a'",
    ]
    assert [path.name for path in log.parent.iterdir()] == ["train.log"]


def test_machines_get_one_document(log: Path) -> None:
    answer = diagnose(log, "--json")
    document = json.loads(answer.stdout)
    assert {name: document[name] for name in ("verdict", "category", "reason", "method", "lines_read", "notes")} == {
        "verdict": "failed",
        "category": "script",
        "reason": "KeyError",
        "method": "rule",
        "lines_read": 5,
        "notes": [],
    }
    assert document["evidence"] == [{"line": 5, "text": "KeyError: 'a'"}]


def test_a_log_may_be_piped_in() -> None:
    assert diagnose("-", text=LOG).stdout.startswith("KeyError (script)\n")


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (["none.log"], "no such log: none.log", 3),
        (["train.log", "--time-zone", "Mars/X"], "no time zone named 'Mars/X'", 2),
        (["train.log", "--run", "3"], "the log holds 1 run, not 3", 2),
        (["train.log", "--telemetry", "none"], "cannot read none", 3),
        (["train.log", "--flight-recorder", "none"], "cannot read none", 3),
        (["train.log", "--lake", "none"], "no lake at", 4),
        (["-", "--follow"], "standard input cannot be followed", 2),
        (["train.log", "--follow", "--time-zone", "Mars/X"], "no time zone named 'Mars/X'", 2),
    ],
)
def test_bad_input_is_an_error_that_names_it(log: Path, arguments: list[str], message: str, code: int) -> None:
    assert log.exists()
    error = diagnose(*arguments).exception
    assert isinstance(error, GpulakeError)
    assert (error.message.startswith(message), error.exit_code) == (True, code)


def test_a_diagnosis_is_recorded_unless_no_record_is_given(log: Path, lake: Lake) -> None:
    assert "incident i-" in diagnose(log, "--lake", lake.root).stdout
    assert "incident" not in diagnose(log, "--lake", lake.root, "--no-record").stdout
    assert rows_of(lake, "SELECT count(*) AS n FROM diagnoses") == [{"n": 1}]


def test_show_prompt_sends_and_keeps_nothing(log: Path, lake: Lake) -> None:
    assert diagnose(log, "--lake", lake.root, "--show-prompt").stdout == (
        "No model would be asked: it is KeyError by rule.\n\n"
    )
    log.write_text("train.py FAILED\nsrun: error: node1: task 0: Exited with exit code 1\n")
    assert "node1" not in diagnose(log, "--lake", lake.root, "--show-prompt").stdout
    assert rows_of(lake, "SELECT count(*) AS n FROM diagnoses") == [{"n": 0}]


def test_following_tells_what_happens_until_the_end(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpulake.diagnose.follow.SETTLE_SECONDS", 0.0)
    answer = diagnose(log, "--follow", "--until-end", "--json")
    [notice] = [json.loads(line) for line in answer.stdout.splitlines()]
    assert (notice["kind"], notice["line"], notice["diagnosis"]["reason"]) == ("failure", None, "KeyError")
    shown = diagnose(log, "--follow", "--until-end").stdout.splitlines()
    assert shown[0].endswith(" UTC  failure")
    assert shown[1:3] == ["KeyError (script)", "  A key does not exist: 'a'."]


def test_without_a_lake_nothing_heavy_is_loaded(log: Path) -> None:
    program = (
        "import sys; from click.testing import CliRunner; from gpulake.cli import root;"
        f"answer = CliRunner().invoke(root, ['diagnose', {str(log)!r}]);"
        "assert answer.exit_code == 0, answer.output;"
        "heavy = {'duckdb', 'deltalake', 'pyarrow', 'numpy', 'openai', 'tokenizers', 'rich'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=log.parent)


def test_a_lake_of_which_the_log_names_nothing_is_not_queried(
    log: Path, built_lake: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(_: Lake) -> None:
        raise AssertionError("the engine was started")

    monkeypatch.setattr(Lake, "reading", opened)
    assert diagnose(log, "--lake", built_lake.lake).exit_code == 0
    with pytest.raises(AssertionError):
        raise diagnose(log, "--lake", built_lake.lake, "--job", "7").exception or LookupError

"""gpulake rules, as its user meets it."""

from __future__ import annotations

import gzip
import json
import os
import pty
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.verbs import Verb
from conftest import rows_of
from diagnose.learning import QUOTA, record
from gpulake.cli import root
from gpulake.core.clock import FrozenClock
from gpulake.core.config import Config
from gpulake.core.errors import GpulakeError
from gpulake.diagnose.learn.learning import learned, learned_filters
from gpulake.flow.incidents import change
from gpulake.lake import Lake

rules = Verb("rules")
document = rules.document


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"


def refusal(answer: Result) -> GpulakeError:
    assert isinstance(answer.exception, GpulakeError)
    assert answer.exception.exit_code == 2
    assert answer.exception.hint
    return answer.exception


def proposed(lake: Lake, line: str = QUOTA, *more: str) -> str:
    words = ("--reason", "DiskFull", "--remedy", "Delete what is old.", "--cause", "full", "--by", "ada")
    found: str = document(lake, "propose", "--line", line, *words, *more)["rule_id"]
    return found


def test_list_and_show_need_no_lake(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "none")
    listed = CliRunner().invoke(root, ["rules", "list", "--family", "gpu_memory", "--lake", nowhere])
    assert listed.exit_code == 0
    assert "cuda_out_of_memory" in listed.output
    shown = CliRunner().invoke(root, ["rules", "show", "cuda_out_of_memory", "--json", "--lake", nowhere])
    assert json.loads(shown.output)["reason"] == "OutOfMemoryError"
    assert not Path(nowhere).exists()


def test_a_rule_or_family_that_is_not_there_gets_the_nearest_one(lake: Lake) -> None:
    assert refusal(rules(lake, "show", "cuda_out_of_memry")).hint == "did you mean 'cuda_out_of_memory'?"
    assert refusal(rules(lake, "list", "--family", "gpu_memry")).hint == "did you mean 'gpu_memory'?"


def test_a_rule_is_proposed_reviewed_used_shared_and_retired(lake: Lake, tmp_path: Path) -> None:
    name = proposed(lake)
    assert [one["state"] for one in document(lake, "list", "--learned")] == ["candidate"]
    assert [one["rule_id"] for one in document(lake, "review")] == [name]
    assert name in rules(lake, "review").output  # no terminal: a plain listing
    answer = rules(lake, "review", "--approve", name[:4], "--note", "seen twice", "--by", "bob")
    assert answer.output == f"{name} learned_quota_of_volume_scratch_is_used: approved\n"
    assert document(lake, "review") == []
    shown = rules(lake, "show", "learned_quota_of_volume_scratch_is_used").output
    assert "proposed by ada" in shown
    assert "approved by bob" in shown
    found = document(lake, "test", QUOTA)
    assert [rule["rule"] for line in found for rule in line["rules"]] == ["learned_quota_of_volume_scratch_is_used"]
    assert "learned_quota" in rules(lake, "list", "--family", "learned").output
    exported = rules(lake, "export").stdout
    assert [rule["reason"] for rule in tomllib.loads(exported)["rule"]] == ["DiskFull"]
    assert document(lake, "export")[0]["matches"] == [QUOTA]
    (tmp_path / "theirs.toml").write_text(exported)
    elsewhere = Lake(lake.config.__class__(lake=tmp_path / "other")).create()
    assert rules(elsewhere, "check", str(tmp_path / "theirs.toml")).exit_code == 0
    assert rules(lake, "retire", name, "--by", "cyd").exit_code == 0
    assert learned(lake) == ()
    assert [row["state"] for row in rows_of(lake, "SELECT state FROM rule_events")] == [
        "candidate",
        "approved",
        "retired",
    ]


def test_a_candidate_can_be_rejected(lake: Lake) -> None:
    name = proposed(lake)
    assert document(lake, "review", "--reject", name, "--note", "no")[0]["state"] == "rejected"
    refusal(rules(lake, "review", "--approve", name))


def test_nothing_is_decided_where_one_of_the_ids_is_wrong(lake: Lake) -> None:
    name = proposed(lake)
    refusal(rules(lake, "review", "--approve", name, "--reject", "zzzz"))
    assert [one["state"] for one in document(lake, "list", "--learned")] == ["candidate"]


def test_decisions_before_a_refusal_are_printed(lake: Lake) -> None:
    first = proposed(lake)
    second = proposed(lake, QUOTA, "--pattern", "quota of volume scratch7 is used up", "--name", "learned_b")
    answer = rules(lake, "review", "--approve", first, "--approve", second)
    assert "approved" in answer.output
    assert "matches all of its lines already" in refusal(answer).message


def test_a_rule_that_can_silence_needs_the_longer_flag(lake: Lake) -> None:
    line = "all shards are written, good bye"
    made = document(lake, "propose", "--line", line, "--role", "success", "--by", "ada")
    assert made["is_silencing"]
    assert "--allow-silencing" in refusal(rules(lake, "review", "--approve", made["rule_id"])).hint
    assert rules(lake, "review", "--approve", made["rule_id"], "--allow-silencing").exit_code == 0
    assert [rule.role for rule in learned(lake)] == ["success"]


@pytest.mark.parametrize("pattern", [".*", "(?i)error", "a|", "q" * 10_000, "(?=q)q", "(q+)+", "quota"])
def test_a_poisoned_pattern_is_refused_and_leaves_no_row(lake: Lake, pattern: str) -> None:
    words = ("--reason", "DiskFull", "--remedy", "r", "--pattern", pattern)
    refusal(rules(lake, "propose", "--line", QUOTA, *words))
    assert lake.journal("rule_events") == []


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--line", QUOTA),
        ("--line", QUOTA, "--reason", "DiskFul"),
        ("--line", QUOTA, "--incident", "abc"),
        ("--incident", "abc", "--reason", "DiskFull"),
        ("--line", QUOTA, "--reason", "DiskFull", "--by", "model:gpt"),
        ("--line", "", "--reason", "DiskFull"),
        ("--line", "a\nb", "--reason", "DiskFull"),
    ],
)
def test_a_proposal_that_makes_no_sense_exits_2(lake: Lake, arguments: tuple[str, ...]) -> None:
    answer = rules(lake, "propose", *arguments)
    assert getattr(answer.exception, "exit_code", None) == 2 or answer.exit_code == 2


def test_a_corrected_incident_becomes_a_candidate(lake: Lake, clock: FrozenClock) -> None:
    record(lake, "abc123", evidence=(QUOTA,), templates=(QUOTA,))
    refusal(rules(lake, "propose", "--incident", "abc"))
    change(lake, clock, "correct", "abc123", "ada", reason="DiskFull", cause="full", remedy="Delete.")
    answer = rules(lake, "propose", "--incident", "abc")
    assert "in recent logs it would match 7 lines of 1 log\n" in answer.output
    assert f"  + {QUOTA}" in answer.output


def test_what_recurs_in_healthy_logs_becomes_filters(lake: Lake) -> None:
    for number in range(3):
        record(lake, f"fine{number}", "healthy", "NotAFailure", templates=("loaded shard 17 of 512", "an odd error"))
    made = document(lake, "propose", "--filters")
    assert [one["kind"] for one in made["candidates"]] == ["filter"]
    assert [one["line"] for one in made["refused"]] == ["an odd error"]
    assert rules(lake, "review", "--approve", made["candidates"][0]["rule_id"]).exit_code == 0
    assert len(learned_filters(lake)) == 1
    assert "refused: loaded shard" in rules(lake, "propose", "--filters").stderr


def test_a_line_becomes_a_filter(lake: Lake) -> None:
    made = document(lake, "propose", "--line", "loaded shard 17 of 512", "--filter")
    assert (made["kind"], made["definition"]["pattern"]) == ("filter", r"^loaded shard [\d.,]+ of [\d.,]+\s*$")


def test_what_is_to_be_kept_of_a_line_is_kept(lake: Lake) -> None:
    name = proposed(lake, QUOTA, "--keep", "scratch7", "--name", "learned_mine", "--recovery", "needs_config_change")
    definition = document(lake, "show", name)["definition"]
    assert definition["pattern"] == r"quota of volume scratch7 is used up after [\d.,]+ GiB"
    assert (definition["name"], definition["recovery"]) == ("learned_mine", "needs_config_change")


def test_test_reads_a_file_a_gzip_a_pipe_or_a_text(lake: Lake, tmp_path: Path) -> None:
    text = f"fine\n{OOM}\r\nfine \xff\n"
    plain, packed = tmp_path / "a.log", tmp_path / "b.log.gz"
    plain.write_bytes(text.encode("latin-1"))
    packed.write_bytes(gzip.compress(text.encode()))
    for source, pipe in ((str(plain), None), (str(packed), None), ("-", text)):
        found = document(lake, "test", source, pipe=pipe)
        assert [(line["line"], line["text"], line["rules"][0]["rule"]) for line in found] == [
            (2, OOM, "cuda_out_of_memory")
        ]
    assert "1: torch.OutOfMemoryError" in rules(lake, "test", OOM).output
    assert rules(lake, "test", "fine").stderr == "no rule matches\n"


def test_test_tells_a_missing_file_from_a_text(lake: Lake, tmp_path: Path) -> None:
    refusal(rules(lake, "test", str(tmp_path / "none.log")))
    packed = tmp_path / "broken.gz"
    packed.write_bytes(gzip.compress(f"{OOM}\n".encode())[:-4])
    answer = rules(lake, "test", str(packed))
    assert "cuda_out_of_memory" in answer.stdout
    assert "broken.gz breaks off" in answer.stderr


def test_test_reads_what_diagnose_reads(lake: Lake, tmp_path: Path) -> None:
    """A folder of the ranks' files, packed or not, progress bars, colours."""
    import pyarrow as pa

    folder = tmp_path / "job"
    folder.mkdir()
    with pa.output_stream(folder / "rank10.log.zst", compression="zstd") as stream:
        stream.write(f"fine\n{OOM}\n".encode())
    (folder / "rank9.log").write_text(f"fine\n 1/9\r 2/9\r\x1b[31m{OOM}\x1b[0m\n")
    found = document(lake, "test", str(folder))
    assert [(line["file"], line["line"], line["text"]) for line in found] == [
        ("rank9.log", 2, OOM),
        ("rank10.log.zst", 2, OOM),
    ]
    assert "rank9.log:2: torch" in rules(lake, "test", str(folder)).stdout


def test_where_there_is_nothing_it_says_what_to_do(lake: Lake) -> None:
    for arguments, hint in {
        ("review",): "gpulake rules propose",
        ("list", "--learned"): "gpulake rules propose",
        ("export",): "gpulake rules review",
        ("propose", "--filters"): "--logs",
    }.items():
        answer = rules(lake, *arguments)
        assert (answer.exit_code, answer.stdout) == (0, "")
        assert hint in answer.stderr


GOOD = """
[[rule]]
name = "our_quota"
pattern = 'quota of volume (?P<volume>\\w+) is used up'
role = "cause"
reason = "DiskFull"
cause = "{volume} is full"
remedy = "Delete what is old."
source = "our storage"
matches = ["quota of volume scratch7 is used up"]
"""


def test_a_file_of_rules_is_checked_and_tried(lake: Lake, tmp_path: Path) -> None:
    file = tmp_path / "ours.toml"
    file.write_text(GOOD)
    assert document(lake, "check", str(file))[0]["passed"]
    found = document(lake, "test", QUOTA, "--rules", str(file))
    assert found[0]["rules"][0]["groups"] == {"volume": "scratch7"}
    file.write_text(GOOD + GOOD.replace("our_quota", "other").replace("quota of volume (?P<volume>", "(?P<volume>"))
    answer = rules(lake, "check", str(file))
    assert "matches all of its lines already" in answer.output
    assert refusal(answer).message.startswith("2 rules of 2 failed")


@pytest.mark.parametrize(
    "text",
    [
        "not toml [",
        "",
        "rule = 5",
        GOOD + GOOD,
        GOOD.replace('["quota of volume scratch7 is used up"]', '"quota of volume scratch7 is used up"'),
        GOOD.replace("DiskFull", "DiskFul"),
        GOOD.replace("pattern", "patern"),
        GOOD.replace("'quota", "'(?=quota"),
        GOOD.replace('"cause"', '"success"').replace("quota of volume", "CUDA out of memory"),
        GOOD.replace("our_quota", "cuda_out_of_memory"),
    ],
)
def test_a_bad_file_of_rules_exits_2(lake: Lake, tmp_path: Path, text: str) -> None:
    file = tmp_path / "ours.toml"
    file.write_text(text)
    refusal(rules(lake, "check", str(file)))


def test_hostile_words_are_shown_and_not_obeyed(lake: Lake) -> None:
    line = "quota [bold red]of[/] volume \x1b[31mscratch \x07is used up"
    name = proposed(lake, line)
    for answer in (rules(lake, "show", name), rules(lake, "test", line), rules(lake, "review")):
        assert "\x1b" not in answer.output
        assert "\x07" not in answer.output
    assert "[bold red]of[/]" in rules(lake, "show", name).output


@pytest.mark.slow
def test_on_a_terminal_candidates_are_reviewed_one_by_one(lake: Lake) -> None:
    record(lake, "abc", reason="OSError", evidence=(QUOTA,))
    first = proposed(lake)
    second = proposed(lake, "the tape robot dropped cartridge 5")
    master, slave = pty.openpty()
    code = "from gpulake.cli import main; main()"
    arguments = [sys.executable, "-c", code, "rules", "review", "--by", "bob", "--lake", str(lake.root)]
    with subprocess.Popen(
        arguments, stdin=slave, stdout=slave, stderr=slave, env={**os.environ, "TERM": "dumb"}
    ) as run:
        os.close(slave)
        os.write(master, b"y\nseen twice\nn\nno\n")
        shown = b""
        try:
            while piece := os.read(master, 65536):
                shown += piece
        except OSError:  # the terminal is gone with the process
            pass
        assert run.wait() == 0
    os.close(master)
    assert f"+ {QUOTA}".encode() in shown
    assert {
        one["rule_id"]: (one["state"], one["changed_by"], one["note"]) for one in document(lake, "list", "--learned")
    } == {
        first: ("approved", "bob", "seen twice"),
        second: ("rejected", "bob", "no"),
    }


def test_a_rule_without_a_cause_says_what_its_line_says(lake: Lake) -> None:
    """The causes of other rules of the reason are theirs."""
    line = "[rank3]: fabric manager lost partition 7 of '/dev/tray 3'"
    made = document(lake, "propose", "--line", line, "--reason", "NVLinkError")
    assert made["definition"]["cause"] == "fabric manager lost partition … of …"
    assert document(lake, "show", made["name"][:20])["rule_id"] == made["rule_id"]


def test_what_contradicts_itself_is_refused_before_anything_is_done(lake: Lake) -> None:
    name = proposed(lake)
    refusal(rules(lake, "review", "--approve", name, "--reject", "learned_quota"))
    assert document(lake, "show", name)["state"] == "candidate"
    for arguments in (
        ("--filters", "--logs", "0"),
        ("--incident", "x", "--evidence", "0"),
        ("--line", "loaded shard 7", "--filter", "--reason", "DiskFull"),
        ("--line", "loaded shard 7", "--filter", "--role", "success"),
    ):
        assert rules(lake, "propose", *arguments).exit_code == 2


def test_no_text_is_no_folder(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.log").write_text(OOM)
    monkeypatch.chdir(tmp_path)
    assert rules(lake, "test", "").stdout == ""


def test_the_rules_of_another_site_become_candidates_that_a_person_decides_on(lake: Lake, tmp_path: Path) -> None:
    proposed(lake)
    rules(lake, "review", "--approve", document(lake, "list", "--learned")[0]["rule_id"], "--by", "ada")
    file = tmp_path / "theirs.toml"
    file.write_text(rules(lake, "export").output)
    other = Lake(Config(lake=tmp_path / "other" / "lake")).create()
    made = document(other, "import", str(file), "--by", "bo")
    assert [(one["state"], one["proposed_by"], one["note"]) for one in made["candidates"]] == [
        ("candidate", "bo", "imported from theirs.toml")
    ]
    assert (made["refused"], learned(other)) == ([], ())
    again = rules(other, "import", str(file), "--by", "bo")
    assert "is candidate already" in again.stderr
    assert refusal(again).message == f"no rule of {file} could be imported"
    rules(other, "review", "--approve", made["candidates"][0]["rule_id"], "--by", "bo")
    assert [rule.reason for rule in learned(other)] == ["DiskFull"]

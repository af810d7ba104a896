"""How close diagnoses come to what is known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench.scoring.cases import Case, hangs
from bench.scoring.diagnosis import main, score
from bench.scoring.held_out import HELD_OUT, branches, without
from bench.scoring.scored import Scored, figures, macro_f1

from gpulake.core.diagnosis import Diagnosis, Quote, Recovery

TYPE_ERROR = 'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\nTypeError: no\n'


def scored(reason: str, expected: str, action: str = "auto_restart", reported: str = "auto_restart") -> Scored:
    found = Diagnosis("failed", "unknown", reason, "", recovery=Recovery(reported), evidence=(Quote(1, "a b c"),))  # type: ignore[arg-type]
    return Scored(Case("x", b"", (expected,), action, evidence=("b",)), found)


def test_an_accepted_answer_counts_as_the_label() -> None:
    found = Diagnosis("failed", "unknown", "PortInUse", "")
    one = Scored(Case("x", b"", ("ConnectionError", "PortInUse")), found)
    assert (one.is_right, macro_f1([one])) == (True, 1.0)


def test_figures_of_a_set() -> None:
    stop = scored("TypeError", "JobCancelled", "auto_restart", "needs_code_fix")
    assert figures([scored("KeyError", "KeyError"), stop]) == {
        "cases": 2,
        "top1": 0.5,
        "macro_f1": 0.5,
        "symptom_only": None,
        "evidence": 1.0,
        "false_alarms": 0,
        "healthy": 0,
        "false_stops": 1,
        "action": 0.5,
    }


def test_any_folder_of_the_layout_is_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "failure_logs"
    folder.mkdir()
    case = {"id": "a", "log": TYPE_ERROR, "reason": "TypeError", "evidence": ["TypeError: no"]}
    wrong = {**case, "id": "b", "reason": "KeyError"}
    (folder / "cases.jsonl").write_text(f"{json.dumps(case)}\n{json.dumps(wrong)}\n")
    assert main(["--data", str(tmp_path), "--verbose"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("reason: b: expected KeyError () , got failed TypeError".replace(" ,", ","))
    assert json.loads(lines[-1])["failure_logs"]["top1"] == 0.5


def test_the_branches_of_a_pattern_are_found_in_its_groups_and_classes_are_none() -> None:
    pattern = r"a[|)]\|(?:b|c(d|e))|(?i)f"
    cut = [[pattern[first:last] for first, last in spans] for _, spans in branches(pattern)]
    assert cut == [["d", "e"], ["b", "c(d|e)"], [r"a[|)]\|(?:b|c(d|e))", "(?i)f"]]


def test_a_phrase_that_one_repository_alone_supports_is_held_out_for_its_cases() -> None:
    supported = {"one": {"disk is full", "quota exceeded"}, "other": {"disk is full"}}
    pattern = "disk is (?:full|read-only)|quota (?:exceeded|reached)"
    assert without(pattern, supported, "one") == f"disk is (?:full|{HELD_OUT})|{HELD_OUT}"
    assert without(pattern, supported, "other") == pattern
    assert without(pattern, {"one": {"quota exceeded"}}, "one") is None
    assert without(pattern, {"one": {"quota exceeded"}}, "a third") == pattern


def test_cross_validation_scores_a_case_without_what_was_written_for_its_repository(tmp_path: Path) -> None:
    folder = tmp_path / "failure_logs"
    folder.mkdir()
    full = 'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\nRuntimeError: CUDA out of memory.\n'
    case = {"id": "a", "log": full, "reason": "OutOfMemoryError", "source_repo": "x/one"}
    (folder / "cases.jsonl").write_text(json.dumps(case) + "\n")
    alone = score(tmp_path)
    (folder / "cases.jsonl").write_text(
        "".join(json.dumps({**case, "source_repo": name}) + "\n" for name in ("x/one", "y/two"))
    )
    both = score(tmp_path)
    sets = ("failure_logs", "failure_logs, cross-validated", "failure_logs, last exception")
    assert [[found[name]["top1"] for name in sets] for found in (alone, both)] == [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]


def test_without_a_folder_its_usage_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert capsys.readouterr().err == "usage: scripts/score diagnose --data DIR [--verbose]\n"


def test_ranks_that_are_missing_are_read_from_a_reference(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "fault_injection.log").write_text(
        "Fault ranks: [1, 5]\nRank 1, fault_type: X\nRank 5, fault_type: X\n"
    )
    (tmp_path / "one_reference.txt").write_text("PGID | Missing Ranks\n7 | all_reduce | 5\n8 | all_reduce | 6, 7\n")
    (case,) = hangs(tmp_path)
    assert (case.missing, case.at_fault) == (frozenset({5, 6, 7}), frozenset({1, 5}))


@pytest.mark.slow
@pytest.mark.real
def test_our_diagnoses_and_healthy_runs_are_counted_right(real_data: Path, tmp_path: Path) -> None:
    for name in ("lab", "mlperf_logs", "nccl_flight_recorder"):
        (tmp_path / name).symlink_to(real_data / name)
    found = score(tmp_path)
    assert (found["lab"]["top1"], found["lab"]["false_stops"]) == (1.0, 0)
    assert (found["mlperf_logs"]["top1"], found["mlperf_logs"]["false_alarms"]) == (1.0, 0)
    assert found["nccl_flight_recorder"]["top1"] == 1.0

"""Lines that look like trouble change nothing, wherever they stand."""

from __future__ import annotations

import tomllib
from pathlib import Path

from diagnosing import diagnose
from examples import each

FOLDER = Path(__file__).parent.parent / "fixtures" / "diagnose"
LINES = tomllib.loads((FOLDER / "noise.toml").read_text("utf-8"))["lines"]
BEFORE = "INFO: loading data\nbuilding the model with 12 layers\n"
AFTER = (
    "computing features\nrow 1 of the table\nrow 2 of the table\nresults are in out/results.csv\nprecision 0.91\nbye\n"
)
DONE = "Epoch 1/2 loss 2.0\nEpoch 2/2 loss 1.0\nsaved\n"
MIDWAY = "Epoch 1/9 loss 2.0\nEpoch 2/9 loss 1.0\n"
DIES = """\
Traceback (most recent call last):
  File "/job/t.py", line 3, in <module>
    main()
KeyError: 'abc'
"""
CANCELLED = "slurmstepd: error: *** JOB 88 ON n7 CANCELLED AT 2025-01-02T03:04:05 ***\n"
SCENES = {
    "is-followed-by-other-words": (f"{BEFORE}%s\n{AFTER}", "NotAFailure"),
    "comes-before-the-steps": (f"{BEFORE}%s\n{DONE}", "NotAFailure"),
    "comes-before-a-silence": (f"{BEFORE}%s\n{MIDWAY}", "unknown"),
    "comes-before-an-error": (f"{BEFORE}%s\n{AFTER}{DIES}", "KeyError"),
    "comes-before-a-cancellation": (f"{BEFORE}%s\n{MIDWAY}{CANCELLED}", "JobCancelled"),
}


@each("line", LINES, name=lambda line: line[:50])
def test_a_last_word_that_looks_like_trouble_makes_no_failure(line: str) -> None:
    assert diagnose(f"{BEFORE}{AFTER}{line}\n").verdict != "failed"


def test_an_error_that_no_rule_knows_as_the_last_word_leaves_it_open() -> None:
    found = diagnose("warming up\nERROR the flux went sour\n")
    assert (found.verdict, found.reason, found.evidence[0].line) == ("unknown", "unknown", 2)


@each("scene", SCENES)
@each("line", LINES, name=lambda line: line[:50])
def test_a_line_that_looks_like_trouble_changes_nothing(scene: str, line: str) -> None:
    log, reason = SCENES[scene]
    assert diagnose(log.replace("%s", line)).reason == reason

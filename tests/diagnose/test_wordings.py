"""Every reason in the words of many frameworks, within what launchers write around them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from diagnosing import diagnose
from examples import each
from gpulake.core.diagnosis import CATEGORY_OF

FOLDER = Path(__file__).parent.parent / "fixtures" / "diagnose"
WORDINGS = tomllib.loads((FOLDER / "wordings.toml").read_text("utf-8"))
SCENES = tomllib.loads((FOLDER / "scenes.toml").read_text("utf-8"))
# Raised by the launcher itself, or said by what no single rank says.
OF_A_LAUNCHER = ("SignalException", "slurm", "srun", "launch.py", "PBS", "CANCELLED")
RAISED = """\
Traceback (most recent call last):
  File "/job/train.py", line 88, in <module>
    main()
  File "/job/train.py", line 61, in main
    run(settings)
"""


def scene_of(name: str, error: str, is_raised: bool) -> str:
    scene = SCENES[name]
    lines = (RAISED * is_raised + error).split("\n")
    speakers = scene["speakers"] if is_raised else scene["speakers"][:1]
    reported = "".join(f"{speaker}{line}\n" for speaker in speakers for line in lines)
    return str(scene.get("before", "")) + reported + str(scene.get("after", ""))


def logs() -> Iterator[tuple[str, str]]:
    for reason, ways in WORDINGS.items():
        for kind, errors in ways.items():
            for error in errors:
                is_of_rank = kind == "raised" and not any(word in error for word in OF_A_LAUNCHER)
                for name in SCENES if is_of_rank else ("plain", "noisy"):
                    yield reason, scene_of(name, error, kind == "raised")


@pytest.mark.slow
@each("reason, log", logs())
def test_a_failure_is_known_by_any_of_its_wordings(reason: str, log: str) -> None:
    found = diagnose(log)
    assert (found.verdict, found.reason) == ("failed", reason)


def test_every_reason_is_worded() -> None:
    assert set(CATEGORY_OF) - set(WORDINGS) == {"NotAFailure", "unknown", "HangStraggler", "LossSpike"}

"""Several answers of a model: only what most of them say counts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from diagnose.test_judge import ANSWER, LOG, UNKNOWN, digest, settings
from gpulake.core.errors import ConfigError
from gpulake.diagnose.judge.judging import Judgement, ask_model

OTHER = {**ANSWER, "reason": "PermissionError", "cause": "Access to it is denied"}


class Wavering:
    """A model that answers differently each time."""

    def __init__(self, answers: Sequence[object]) -> None:
        self.answers = iter(answers)

    def ask(self, messages: list[dict[str, str]], schema: dict[str, Any]) -> str:  # noqa: ARG002
        return json.dumps(next(self.answers))


def voted(*answers: object) -> Judgement:
    own = settings(votes=len(answers), temperature=0.7)
    return ask_model(UNKNOWN, [digest(*LOG)], own, Wavering(answers))


def test_the_reason_that_most_answers_give_counts() -> None:
    found = voted(OTHER, ANSWER, ANSWER)
    assert (found.diagnosis.reason, found.diagnosis.confidence) == ("DiskFull", 0.4)
    assert found.note == "the cause is the word of the model m, by 2 of 3 answers: no rule knows it"


def test_answers_that_do_not_agree_are_dropped() -> None:
    assert voted(OTHER, ANSWER) == Judgement(
        UNKNOWN, "2 answers of the model m do not agree (DiskFull, PermissionError), and were dropped"
    )


def test_an_answer_that_is_dropped_is_no_vote() -> None:
    unfounded = {**ANSWER, "evidence": [{"line": 2, "quote": "something else entirely"}]}
    assert voted(unfounded, unfounded, ANSWER).diagnosis == UNKNOWN
    assert voted(unfounded, ANSWER, ANSWER).diagnosis.reason == "DiskFull"
    found = voted(unfounded, unfounded)
    assert found.note == "the answer of the model m was dropped: what it quotes is not in the log at line 2"


def test_votes_need_answers_that_differ() -> None:
    with pytest.raises(ConfigError, match="votes asks again at temperature 0"):
        settings(votes=3)

"""Past incidents: which are like the one at hand, in what order, and when one of them decides."""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.machinery import ModuleSpec
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import cases
from gpulake.core.diagnosis import Diagnosis, Quote, Recovery, Similar
from gpulake.core.incidents import Incident
from gpulake.diagnose.logs.digest import Line
from gpulake.diagnose.past import embedding
from gpulake.diagnose.past.recall import (
    Recalled,
    error_lines,
    past_incidents,
    similar,
    with_recall,
    words_for,
    words_of,
)
from gpulake.diagnose.rulebook.book import Rulebook
from gpulake.diagnose.rulebook.rule import Rule
from gpulake.lake import Lake

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
UNKNOWN = Diagnosis("unknown", "unknown", "unknown", "no rule explains it")
MEMORY = "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 3; 79.15 GiB total)"
FLUX = "FluxError: the flux capacitor of node-17 is out of alignment by 0.31 at 0x7f00"


@pytest.fixture
def _fresh_model() -> Iterator[None]:
    embedding._model.cache_clear()
    yield
    embedding._model.cache_clear()


def past(incident_id: str, reason: str, *texts: str, **values: Any) -> Incident:
    given = {"words": words_of("", texts), "cause": texts[0], "changed_at": AT, **values}
    return Incident(incident_id, event="opened", changed_by="gpulake", reason=reason, **given)


ROWS = [
    past("1", "OutOfMemoryError", MEMORY),
    past("2", "FileNotFoundError", "FileNotFoundError: [Errno 2] No such file or directory: '/data/x.bin'"),
    past("3", "NCCLTimeoutError", "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE)"),
    past("4", "LossNaN", "the loss is nan at step 300"),
]


def test_words_are_what_two_incidents_of_one_fault_share() -> None:
    texts = [
        "[2026-01-02 03:04:05] node12.lab: rank 3: File /home/ann/train.py, line 77: CUDA error 0xdeadbeef at 10.0.0.7",
        "[2025-11-30 23:59:59] node7.lab: rank 511: File /data/bob/x/run.py, line 9: CUDA error 0x1f at 10.1.2.33",
    ]
    first, second = (words_of(text, []) for text in texts)
    assert first == second == "rank File line CUDA error at"


def test_words_are_without_numbers_addresses_paths_and_machines() -> None:
    text = "RuntimeError: node-17 (10.1.2.3) lost /home/anna/x.py at 0x7fff after 3.5s, see https://a.b/c anna@gpu"
    assert words_of("GPU 3 is lost", [text, text]) == "GPU is lost\nRuntimeError lost at after see"
    assert words_of("", []) == ""


@given(st.text(), st.lists(st.text(), max_size=8))
@settings(max_examples=cases(200))
def test_words_hold_no_digit_whatever_the_text(cause: str, texts: list[str]) -> None:
    words = words_of(cause, texts)
    assert not any(letter in "0123456789/@" for letter in words)
    assert words == words_of(cause, texts)


def test_that_a_cause_is_unknown_makes_no_two_cases_alike() -> None:
    assert words_for(UNKNOWN, [Quote(1, "the flux is gone")]) == "the flux is gone"
    known = replace(UNKNOWN, reason="LossNaN", evidence=(Quote(1, "loss: nan"),))
    assert words_for(known, [Quote(9, "more")]) == "no rule explains it\nloss nan"


def test_the_nearest_come_first() -> None:
    found = similar(past_incidents(ROWS), words_of("", ["torch: CUDA out of memory, tried to allocate 512 MiB"]))
    assert [(case.incident_id, case.reason) for case in found] == [("1", "OutOfMemoryError")]
    assert similar(past_incidents(ROWS), words_of("", ["a cat sat on a mat"])) == ()
    assert similar(past_incidents(ROWS), "") == ()
    assert similar((), "anything") == ()


@pytest.mark.parametrize("reason", ["unknown", "NotAFailure", "Gremlins"])
def test_incidents_without_a_reason_are_not_recalled(reason: str) -> None:
    assert past_incidents([past("1", reason, "a b"), past("2", "LossNaN", "7")]) == ()


def test_twins_are_one_and_the_confirmed_one_speaks() -> None:
    rows = [
        past(name, "OutOfMemoryError", MEMORY, changed_at=AT + timedelta(hours=hour)) for hour, name in enumerate("abc")
    ]
    words = words_of("", [MEMORY])
    assert [case.incident_id for case in similar(past_incidents(rows), words)] == ["c"]
    confirmed = [replace(rows[0], is_confirmed=True), *rows[1:]]
    assert [case.incident_id for case in similar(past_incidents(confirmed), words)] == ["a"]


def test_of_equals_the_confirmed_come_first_and_the_order_is_always_the_same() -> None:
    reasons = ("CUDAError", "OutOfMemoryError", "RuntimeError", "ValueError")
    rows = [past(f"{n}", reason, MEMORY, is_confirmed=n == 2) for n, reason in enumerate(reasons)]
    words = words_of("", [MEMORY])
    expected = ["2", "0", "1", "3"]
    assert [case.incident_id for case in similar(past_incidents(rows), words)] == expected
    assert [case.incident_id for case in similar(past_incidents(rows[::-1]), words)] == expected
    assert [case.incident_id for case in similar(past_incidents(rows), words, most=2)] == expected[:2]


def test_an_incident_is_not_like_itself() -> None:
    rows = [past("1", "OutOfMemoryError", MEMORY, is_confirmed=True)]
    own = replace(UNKNOWN, incident_id="1", evidence=(Quote(1, MEMORY),))
    assert with_recall(own, rows) == Recalled(own)


def test_a_confirmed_twin_decides_what_rules_leave_unknown() -> None:
    rows = [past("7", "DriverMismatch", FLUX, is_confirmed=True, remedy="Realign it")]
    reported = (Quote(5, FLUX.replace("17", "23").replace("0.31", "0.7")),)
    assert with_recall(UNKNOWN, [*ROWS, *rows], reported) == Recalled(
        replace(
            UNKNOWN,
            verdict="failed",
            category="infrastructure",
            reason="DriverMismatch",
            cause=FLUX,
            remedy="Realign it",
            evidence=reported,
            recovery=Recovery("needs_config_change", "the same settings would fail in the same way"),
            confidence=0.8,
            method="recall",
            similar=(Similar("7", 1.0, "DriverMismatch", FLUX, True),),
        )
    )


def test_nothing_else_decides() -> None:
    twin = past("7", "DriverMismatch", FLUX, is_confirmed=True)
    reported = (Quote(5, FLUX),)
    guessed = with_recall(UNKNOWN, [replace(twin, is_confirmed=False)], reported).diagnosis
    assert (guessed.reason, len(guessed.similar)) == ("unknown", 1)
    disputed = with_recall(UNKNOWN, [twin, past("8", "DiskFull", FLUX, is_confirmed=True)], reported).diagnosis
    assert (disputed.reason, len(disputed.similar)) == ("unknown", 2)
    short = with_recall(UNKNOWN, [past("9", "DiskFull", "exit code 1", is_confirmed=True)], (Quote(1, "exit code 2"),))
    assert (short.diagnosis.reason, len(short.diagnosis.similar)) == ("unknown", 1)
    near = with_recall(
        UNKNOWN, [twin], (Quote(5, "FluxError: the flux capacitor is on fire, call somebody"),)
    ).diagnosis
    assert near.reason == "unknown"
    ruled = replace(UNKNOWN, verdict="failed", reason="LossNaN", category="framework", evidence=reported, cause="")
    assert with_recall(ruled, [twin]).diagnosis == replace(
        ruled, similar=(Similar("7", 1.0, "DriverMismatch", FLUX, True),)
    )


def test_a_healthy_log_has_no_similar_cases() -> None:
    healthy = Diagnosis("healthy", "none", "NotAFailure", "it ended well", evidence=(Quote(1, FLUX),))
    assert with_recall(healthy, [past("7", "DriverMismatch", FLUX, is_confirmed=True)]) == Recalled(healthy)


def test_what_launchers_say_is_not_compared() -> None:
    wrapper = Rule("child_failed", "ChildFailedError", "wrapper", ("ChildFailedError",))
    texts = ["ok", FLUX, "torch.ChildFailedError: x", "step 3", "FAILED with code 1"]
    lines = [Line(number, text) for number, text in enumerate(texts, 1)]
    assert error_lines(lines, Rulebook([wrapper])) == (Quote(2, FLUX), Quote(5, "FAILED with code 1"))


@pytest.mark.usefixtures("_fresh_model")
def test_nothing_is_downloaded_and_nothing_of_it_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    for name in [name for name in sys.modules if name.partition(".")[0] == "wordllama"]:
        monkeypatch.delitem(sys.modules, name)
    handlers = list(logging.getLogger().handlers)
    assert len(similar(past_incidents(ROWS), words_of("", [MEMORY]))) == 1
    assert "wordllama" not in sys.modules
    assert logging.getLogger().handlers == handlers


@pytest.mark.usefixtures("_fresh_model")
def test_without_the_extra_there_is_a_sentence_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "find_spec", lambda _: None)
    reported = (Quote(1, MEMORY),)
    note = "similar incidents are not looked for; to have them: pip install 'gpulake[recall]'"
    assert with_recall(UNKNOWN, ROWS, reported) == Recalled(UNKNOWN, note)
    assert with_recall(UNKNOWN, [], reported) == Recalled(UNKNOWN)


@pytest.mark.usefixtures("_fresh_model")
def test_an_extra_of_another_make_is_said_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    spec = ModuleSpec("wordllama", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(embedding, "find_spec", lambda _: spec)
    assert with_recall(UNKNOWN, ROWS, (Quote(1, MEMORY),)).note.endswith("(its files cannot be read: Exception)")


@pytest.mark.usefixtures("_fresh_model")
def test_without_incidents_the_model_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> None:
        raise AssertionError("it was loaded")

    monkeypatch.setattr(embedding, "find_spec", refuse)
    assert with_recall(UNKNOWN, [], (Quote(1, MEMORY),)) == Recalled(UNKNOWN)
    assert similar(past_incidents(ROWS[:1]), "some words", except_id="1") == ()


def test_the_vectors_are_those_of_the_package() -> None:
    """Its files are read without its code; what comes out must not differ."""
    code = pytest.importorskip("wordllama.inference")
    import numpy as np

    tokenizer, weights = embedding._model()
    texts = [MEMORY, FLUX, "a"]
    theirs = code.WordLlamaInference(weights, tokenizer).embed(texts, norm=True)
    tokenizer.no_padding()
    assert np.allclose(theirs, embedding.vectors(texts), atol=1e-5)


def test_incidents_come_from_the_journal_without_the_engine(lake: Lake) -> None:
    with lake.incidents.changing() as incidents:
        incidents.append([past("7", "DriverMismatch", FLUX, is_confirmed=True)])
    found = with_recall(UNKNOWN, lake.incidents.standing().values(), (Quote(5, FLUX),)).diagnosis
    assert (found.reason, found.method) == ("DriverMismatch", "recall")


def test_an_unknown_case_is_known_by_what_its_log_reported_and_not_by_its_last_line() -> None:
    """The line that is shown of an unknown case is mostly a launcher's."""
    stopped = replace(UNKNOWN, evidence=(Quote(4, "exit code 3 of the whole job step"),))
    reported = (Quote(3, FLUX),)
    assert words_for(stopped, reported) == words_of("", [FLUX])
    twin = past("1", "NVLinkError", "misaligned", is_confirmed=True, words=words_for(stopped, reported))
    found = with_recall(stopped, [twin], reported).diagnosis
    assert (found.method, found.reason, found.evidence) == ("recall", "NVLinkError", reported)
    other = (Quote(3, "FATAL the tokenizer has no vocabulary at all"),)
    assert with_recall(stopped, [twin], other).diagnosis.reason == "unknown"

"""The card of a diagnosis: on one screen, and steered by nobody."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import cases
from gpulake.cli._card import ASK, card
from gpulake.cli._screen import Screen, cut, wrapped
from gpulake.core.diagnosis import Diagnosis, Quote, Recovery, Similar, Symptom
from gpulake.core.words import cells

FOUND = Diagnosis(
    verdict="failed",
    category="framework",
    reason="OutOfMemoryError",
    cause="A GPU ran out of memory",
    remedy="use a smaller batch",
    evidence=(Quote(129, "torch.OutOfMemoryError: CUDA out of memory"),),
    symptoms=(Symptom(140, "Connection closed by peer", reason="ConnectionError"),),
    rank=3,
    node="gpu-17",
    recovery=Recovery("needs_config_change", "the same job needs the same memory"),
    confidence=0.86,
    rule="cuda_out_of_memory",
    similar=(Similar("f-1", 0.97, "OutOfMemoryError", "the batch was too big", True),),
    lines_read=1_000,
    lines_kept=31,
    gpu_hours_lost=12.34,
    run=2,
    runs=3,
    incident_id="f-2",
)
CONTEXT = {("", 127): "    loss.backward()", ("", 128): "    ^^^^^^^^^", ("", 130): "bye"}


def test_the_cause_comes_first_then_its_proof_then_what_to_do() -> None:
    assert card(FOUND, CONTEXT, ["the model was not asked"], Screen()) == [
        "OutOfMemoryError (framework) on rank 3, node gpu-17 (claimed by the log)",
        "  A GPU ran out of memory.",
        "",
        "Evidence      127  loss.backward()",
        "            ▶ 129  torch.OutOfMemoryError: CUDA out of memory",
        "              130  bye",
        "Then          140  Connection closed by peer",
        "",
        "Do          Do not restart it as it is: its configuration has to change. The same job needs the same memory.",
        "            Use a smaller batch.",
        "Seen before 0.97  OutOfMemoryError, confirmed: The batch was too big (f-1)",
        "Lost        12.3 GPU-hours",
        "Read        1,000 lines, kept 31 (3.1%); run 2 of 3; confidence 0.86 by rule cuda_out_of_memory; incident f-2",
        "Note        the model was not asked",
    ]


def test_a_job_that_ended_well_needs_few_words() -> None:
    well = Diagnosis("healthy", "none", "NotAFailure", "The run ended well", rule="done", gpu_hours_lost=0.0)
    quoted = replace(well, evidence=(Quote(9, "training finished"),), lines_read=9, lines_kept=1)
    assert card(quoted, {}, (), Screen()) == [
        "The job did not fail",
        "  The run ended well.",
        "",
        "Evidence    ▶  9  training finished",
        "Read        9 lines, kept 1 (11%)",
    ]


def test_of_a_log_that_says_nothing_others_are_to_be_asked() -> None:
    lines = card(Diagnosis("unknown", "unknown", "unknown", "The log is empty"), {}, (), Screen())
    assert lines == [
        "Why the job ended is unknown",
        "  The log is empty.",
        "",
        "Do          Nothing in the log says whether a restart would help.",
        f"            {ASK}",
        "Read        0 lines",
    ]


def test_what_the_samples_decided_is_shown_once() -> None:
    reported = replace(
        FOUND, cause="It leaks. Memory of GPU 0 rose.", telemetry=("Memory of GPU 0 rose.", "it was hot")
    )
    assert [line for line in card(reported, {}, (), Screen()) if "rose" in line or "hot" in line] == [
        "  It leaks. Memory of GPU 0 rose.",
        "Telemetry   It was hot.",
    ]


@pytest.mark.parametrize(
    ("ranks", "words"),
    [((), "rank 3"), ((12,), "rank 12"), ((10, 15), "ranks 10, 15"), (tuple(range(99)), "5, 6, 7 and 91 more")],
)
def test_the_ranks_that_are_missing_are_in_the_headline(ranks: tuple[int, ...], words: str) -> None:
    assert words in card(replace(FOUND, missing_ranks=ranks), {}, (), Screen())[0]


@pytest.mark.parametrize(
    ("hours", "words"),
    [(0.0, None), (0.004, None), (0.5, "30 GPU-minutes"), (1 / 60, "1 GPU-minute"), (1_234.5, "1,234 GPU-hours")],
)
def test_lost_gpu_hours_are_shown_in_a_unit_that_fits(hours: float, words: str | None) -> None:
    lines = card(replace(FOUND, gpu_hours_lost=hours), {}, (), Screen())
    assert [line[12:] for line in lines if line.startswith("Lost")] == ([words] if words else [])


def test_of_a_line_that_is_too_long_what_a_logger_put_before_it_is_spared() -> None:
    text = "E1115 07:10:10.890000 1449 torch/distributed/elastic/multiprocessing/api.py:986] failed (exitcode: -9)"
    long = replace(FOUND, evidence=(Quote(9, text),), symptoms=(Symptom(10, text),))
    lines = card(long, {}, (), Screen(80, 24))
    assert [line[12:] for line in lines if "exitcode" in line] == [
        "▶  9  failed (exitcode: -9)",
        "  10  failed (exitcode: -9)",
    ]


def test_a_log_cannot_steer_the_terminal() -> None:
    evil = "\x1b[2J\x1b]0;x\x07\r\x9b31m \u202e[bold]{cause}%s\n"
    hostile = replace(
        FOUND,
        cause=evil,
        remedy=evil,
        node=evil,
        rule=evil,
        telemetry=(evil,),
        evidence=(Quote(1, evil, evil),),
        symptoms=(Symptom(2, evil, evil),),
        similar=(Similar(evil, 0.5, evil, evil),),
        recovery=Recovery("unknown", evil),
    )
    for line in card(hostile, {(evil, 2): evil}, (evil,), Screen(80, 24)):
        assert line.isprintable()


TEXTS = st.text(max_size=900)
QUOTES = st.builds(Quote, st.integers(1, 10**9), TEXTS, st.sampled_from(["", "rank0.log", "d" * 200 + ".log"]))
DIAGNOSES = st.builds(
    Diagnosis,
    st.sampled_from(["failed", "healthy", "unknown"]),
    st.just("infrastructure"),
    st.sampled_from(["NCCLTimeoutError", "unknown"]),
    TEXTS,
    remedy=TEXTS,
    evidence=st.lists(QUOTES, max_size=5).map(tuple),
    symptoms=st.lists(st.builds(Symptom, st.integers(1, 10**9), TEXTS), max_size=8).map(tuple),
    rank=st.none() | st.integers(0, 2**20),
    node=st.none() | TEXTS,
    recovery=st.builds(Recovery, st.sampled_from(["unknown", "none", "auto_restart"]), TEXTS),
    missing_ranks=st.lists(st.integers(0, 2**20), max_size=40).map(tuple),
    telemetry=st.lists(TEXTS, max_size=9).map(tuple),
    similar=st.lists(st.builds(Similar, TEXTS, st.just(0.7), TEXTS, TEXTS), max_size=5).map(tuple),
    gpu_hours_lost=st.none() | st.floats(0, 1e9),
    rule=TEXTS,
    incident_id=st.just("f-0123456789abcdef"),
)


@settings(max_examples=cases(60))
@given(DIAGNOSES, st.lists(TEXTS, max_size=20), st.integers(80, 120), st.integers(23, 40))
def test_a_card_fits_its_screen(diagnosis: Diagnosis, notes: list[str], columns: int, lines: int) -> None:
    context = {
        (quote.file, quote.line + way): "what stands beside it" for quote in diagnosis.evidence for way in (-1, 1)
    }
    found = card(diagnosis, context, notes, Screen(columns, lines))
    assert len(found) <= lines
    assert max(cells(line) for line in found) <= columns
    assert "".join(found).isprintable()


@given(st.text(st.characters(codec="utf-8", categories=["L", "Zs"]), max_size=200), st.integers(4, 50))
def test_a_text_is_wrapped_without_losing_a_word(text: str, columns: int) -> None:
    rows = wrapped(text, columns, 10**6)
    assert "".join("".join(rows).split()) == "".join(text.split())
    assert all(cells(row) <= columns for row in rows)


@given(st.text(max_size=50), st.integers(1, 40))
def test_a_text_is_cut_to_the_columns_that_there_are(text: str, columns: int) -> None:
    assert cells(cut(text, columns)) <= columns
    assert cut(text, 1_000) == text


def test_words_of_two_columns_a_character_are_cut_by_columns() -> None:
    assert (cut("显存不足了", 6), wrapped("显存不足了", 4, 9)) == ("显存…", ["显存", "不足", "了"])

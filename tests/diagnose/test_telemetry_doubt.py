"""Series that look like a fault and are none: nobody is accused for them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from math import sin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnose.measured import AT, BEGAN, GB, STOPS, failed, gpu, host, samples, steps, story
from examples import cases
from gpulake.core.diagnosis import Diagnosis, Quote
from gpulake.diagnose.telemetry.samples import HostSample, NodeEvent
from gpulake.diagnose.telemetry.witness import consult

HOUR = range(0, 3600, 5)
BEHIND = range(0, 3720, 5)
RUN = range(0, 601, 5)
OOM = failed("OutOfMemoryError", "framework", "needs_config_change")
CUDA = failed("CUDAError")


# Memory of the GPU


def test_an_allocator_that_fills_up_once_and_stays_is_no_leak() -> None:
    plateau = samples(gpu(HOUR, used=lambda at: min(20 + at, 76) * GB))
    found = consult(OOM, story(3600), plateau)
    assert found.telemetry == (
        "Memory of GPU 0 of a rose from 20.0 GB to 76.0 GB of 80.0 GB in 55.0 s, and stayed there for 3540.0 s:"
        " this is no leak.",
    )
    assert (found.method, found.recovery) == ("rule", OOM.recovery)


def test_memory_that_is_taken_and_given_back_is_no_leak() -> None:
    saw = samples(gpu(HOUR, used=lambda at: (20 + (at % 600) / 600 * 57) * GB))
    found = consult(OOM, story(3600), saw)
    assert "fell again" in found.telemetry[0]
    assert found.recovery == OOM.recovery


@settings(max_examples=cases(60))
@given(
    climb=st.integers(0, 600),
    low=st.floats(5, 50),
    noise=st.floats(0, 2),
    busy=st.floats(0.2, 1),
)
def test_whatever_stays_longer_than_it_climbed_is_no_leak(climb: int, low: float, noise: float, busy: float) -> None:
    def used(at: float) -> float:
        level = low + (74 - low) * min(at / climb, 1.0) if climb else 74.0
        return (level + noise * sin(at)) * GB

    found = consult(OOM, story(3600), samples(gpu(HOUR, busy=lambda _: busy, used=used)))
    assert (found.reason, found.recovery, found.method) == ("OutOfMemoryError", OOM.recovery, "rule")


# Counters


def test_a_memory_error_of_an_hour_before_the_end_is_not_its_cause() -> None:
    early = samples(gpu(HOUR, ecc_uncorrected=lambda at: 1 if at >= 300 else 0))
    assert consult(CUDA, story(3600), early) == CUDA


def test_what_a_counter_counted_before_the_run_is_another_jobs() -> None:
    before = samples(gpu(range(-600, 601, 5), ecc_uncorrected=lambda at: 1 if at >= -60 else 0))
    assert consult(CUDA, story(), before) == CUDA


def test_an_xid_after_one_of_the_program_still_counts() -> None:
    both = samples(gpu(RUN, last_xid=lambda at: 0 if at < 500 else 13 if at < 590 else 79))
    found = consult(CUDA, story(), both)
    assert found.reason == "XidError"
    assert found.telemetry == ("Xid 13 on GPU 0 of a at 12:08:20 UTC.", "Xid 79 on GPU 0 of a at 12:09:50 UTC.")


def test_a_counter_that_a_reset_set_back_says_nothing() -> None:
    reset = samples(
        gpu(RUN, ecc_uncorrected=lambda at: 5 if at < 590 else 0, last_xid=lambda at: 79 if at < 590 else 0)
    )
    assert consult(CUDA, story(), reset) == CUDA


def test_a_kill_before_the_run_began_was_another_process() -> None:
    killed = failed("ProcessKilled")
    counted = tuple(
        HostSample(AT + at, "a", 60 * GB, None, 100 * GB, oom_kills=int(at >= -45)) for at in range(-300, 61)
    )
    assert consult(killed, story(60), samples(counted)).reason == "ProcessKilled"


# Whose samples


def test_a_fault_of_a_node_that_the_log_does_not_name_is_not_the_jobs() -> None:
    """The log of all kernels of a cluster: somebody else's GPU falls off its bus in the same minutes."""
    other = NodeEvent(AT + 598, "n7", "xid", "0000:3b:00", 79)
    own = NodeEvent(AT + 598, "n1", "xid", "0000:3b:00", 79)
    found = consult(CUDA, story(hosts=("n1",)), samples(events=[other]))
    assert (found.reason, found.telemetry) == (
        "CUDAError",
        ("The telemetry tells of no node that the log names: it says nothing of it.",),
    )
    assert consult(CUDA, story(hosts=("n1",)), samples(gpu(RUN, node=""), events=[other])).reason == "CUDAError"
    found = consult(CUDA, story(hosts=("n1",)), samples(gpu(RUN, node=""), events=[own, other]))
    assert (found.reason, found.node) == ("XidError", "n1")


def test_a_node_that_the_log_does_not_name_is_not_to_be_drained() -> None:
    """A pod has another name than its node; or these are the samples of another job."""
    xid = NodeEvent(AT + 598, "n7", "xid", "0000:3b:00", 79)
    found = consult(CUDA, story(hosts=("pod-3",)), samples(gpu(RUN, node="n7"), events=[xid]))
    assert (found.reason, found.node) == ("XidError", None)
    assert found.telemetry[0] == "The log does not name n7, whose samples these are."


# A log that just stops


def test_a_pause_as_long_as_others_that_the_log_made_is_no_hang() -> None:
    """Every hundred steps it evaluates for a minute; it is looked at in the midst of that."""
    quick = [event for event in steps(every=1, until=600) if event.at is not None]
    events = tuple(event for event in quick if (event.at - BEGAN).total_seconds() % 200 >= 60)  # type: ignore[operator]
    idle = samples(gpu(range(0, 661, 5), busy=lambda at: 0.9 if at <= 600 else 0.0))
    assert consult(STOPS, story(is_whole=False, events=events), idle) == STOPS


@pytest.mark.parametrize(
    "text", ["saving checkpoint at iteration 500", "Evaluating on 2,000 samples", "Validation: 3/90"]
)
def test_a_log_that_ends_as_it_saves_or_evaluates_is_waited_for(text: str) -> None:
    idle = samples(gpu(range(0, 661, 5), busy=lambda at: 0.9 if at <= 600 else 0.0))
    paused = story(is_whole=False, events=steps(every=1, until=600), last_lines=(Quote(9, text),))
    assert consult(STOPS, paused, idle) == STOPS
    for_ever = samples(gpu(range(0, 1201, 5), busy=lambda at: 0.9 if at <= 600 else 0.0))
    assert consult(STOPS, paused, for_ever).reason == "HangStraggler"


@pytest.mark.slow
@settings(max_examples=cases(100))
@given(
    busy=st.lists(st.floats(0, 1), min_size=121, max_size=121),
    power=st.floats(100, 700),
    used=st.floats(0, 70),
    room=st.floats(20, 100),
    diagnosis=st.sampled_from([CUDA, OOM, failed("NCCLTimeoutError"), failed("RuntimeError", "framework")]),
)
def test_a_series_of_a_sound_machine_accuses_nobody(
    busy: list[float], power: float, used: float, room: float, diagnosis: Diagnosis
) -> None:
    sound = samples(
        gpu(RUN, lambda at: busy[int(at // 5)], lambda _: used * GB, power_watts=lambda _: power),
        host(RUN, lambda _: room * GB),
    )
    found = consult(diagnosis, story(), sound, now=BEGAN + timedelta(days=1))
    assert replace(found, telemetry=()) == diagnosis

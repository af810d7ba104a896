"""What samples say of a run, and what they decide."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from diagnose.measured import AT, GB, LAST_LINE, STOPS, failed, gpu, host, samples, steps, story
from gpulake.core.diagnosis import Diagnosis, Quote, Recovery
from gpulake.diagnose.rulebook.book import Rulebook
from gpulake.diagnose.rulebook.rule import Rule
from gpulake.diagnose.telemetry import Samples, consult
from gpulake.diagnose.telemetry.samples import NodeEvent

RUN = range(0, 601, 5)
LONG = range(0, 1501, 5)


def _oom() -> Diagnosis:
    return failed("OutOfMemoryError", "framework", "needs_config_change")


# Memory of the GPU


def test_memory_that_climbs_while_the_gpu_works_is_a_leak() -> None:
    found = consult(_oom(), story(), samples(gpu(RUN, used=lambda at: (20 + at / 10) * GB)))
    sentence = (
        "Memory of GPU 0 of a rose from 21.0 GB to 80.0 GB of 80.0 GB in 590.0 s, 100.0 MB a second, while it worked."
    )
    assert found.telemetry == (sentence,)
    assert (found.reason, found.category, found.method) == ("OutOfMemoryError", "framework", "telemetry")
    assert found.cause == f"GPU memory leaks until none is left. {sentence}"
    assert found.recovery == Recovery("needs_code_fix", "A restart climbs to the same end.")


def test_memory_that_is_full_at_the_start_is_what_the_log_says() -> None:
    loads = samples(gpu(range(0, 60, 5), busy=lambda _: 0.0, used=lambda at: min(at * 4, 78) * GB))
    found = consult(_oom(), story(60), loads)
    assert found.telemetry == (
        "GPU 0 of a was full (78.0 GB of 80.0 GB) before it had done much work: what it holds is too big.",
    )
    assert (found.method, found.recovery.action) == ("rule", "needs_config_change")


def test_memory_that_jumps_once_is_no_leak() -> None:
    jumps = samples(gpu(RUN, used=lambda at: (20 if at < 590 else 79) * GB))
    found = consult(_oom(), story(), jumps)
    assert found.telemetry == (
        "Memory of GPU 0 of a rose from 20.0 GB to 79.0 GB of 80.0 GB in one step at 12:09:50 UTC, after it had worked"
        " with less.",
    )
    assert found.recovery.action == "needs_config_change"


# Memory of the host


@pytest.mark.parametrize("diagnosis", [failed("ProcessKilled"), failed("DataloaderKilled", "framework"), STOPS])
def test_a_process_that_dies_with_the_hosts_memory_at_zero_was_killed_for_it(diagnosis: Diagnosis) -> None:
    empty = samples(host(RUN, lambda at: (100 - at / 6) * GB))
    found = consult(diagnosis, story(is_whole=diagnosis.verdict == "failed"), empty)
    assert (found.verdict, found.reason, found.category, found.method) == (
        "failed",
        "HostOOMKilled",
        "framework",
        "telemetry",
    )
    assert found.recovery.action == "needs_config_change"
    assert found.telemetry[0].startswith("Host memory of a was down to 0 bytes of 100.0 GB at 12:10:00 UTC, as")
    assert found.evidence == (diagnosis.evidence or (LAST_LINE,))


def test_a_process_that_is_killed_with_memory_left_was_killed_from_outside() -> None:
    found = consult(failed("ProcessKilled"), story(), samples(host(RUN, lambda _: 60 * GB)))
    assert (found.reason, found.method) == ("ProcessKilled", "rule")
    assert found.telemetry == (
        "Host memory was plentiful in the last minute, 60.0 GB free at the least: it was not the kernel, unless a limit"
        " of its own was reached.",
    )


def test_a_bare_kill_that_was_taken_for_the_kernels_is_not_with_memory_left() -> None:
    plenty = samples(host(RUN, lambda _: 60 * GB))
    guessed = replace(failed("HostOOMKilled", "framework"), evidence=(Quote(12, "exitcode: -9 (pid: 1473)"),))
    said = replace(guessed, evidence=(Quote(12, "slurmstepd: error: Detected 1 oom_kill event"),))
    found = consult(guessed, story(), plenty)
    assert (found.reason, found.category, found.recovery.action) == ("ProcessKilled", "infrastructure", "auto_restart")
    assert consult(said, story(), plenty).reason == "HostOOMKilled"


def test_memory_that_is_neither_gone_nor_plenty_says_nothing() -> None:
    found = consult(failed("ProcessKilled"), story(), samples(host(RUN, lambda _: 6 * GB)))
    assert found == failed("ProcessKilled")


def test_free_memory_at_zero_is_no_proof_since_caches_use_the_rest() -> None:
    found = consult(
        failed("ProcessKilled"),
        story(),
        Samples(hosts={"a": tuple(s for s in host(RUN, lambda _: None))}, first_seconds=AT, last_seconds=AT + 600),
    )
    assert (found.reason, found.telemetry) == ("ProcessKilled", ())


def test_the_kernels_own_word_decides_also_with_memory_left_on_the_host() -> None:
    kill = NodeEvent(AT + 595, "a", "oom_kill", "python", None, 4242)
    found = consult(failed("ProcessKilled"), story(), samples(host(RUN, lambda _: 60 * GB), events=[kill]))
    assert (found.reason, found.confidence) == ("HostOOMKilled", 0.95)
    assert found.telemetry == ("The kernel killed process 4242 (python) of a for memory at 12:09:55 UTC.",)


def test_a_kill_long_before_is_another_process() -> None:
    kill = NodeEvent(AT + 100, "a", "oom_kill", "python", None, 4242)
    found = consult(failed("ProcessKilled"), story(), samples(host(RUN, lambda _: 60 * GB), events=[kill]))
    assert found.reason == "ProcessKilled"


def test_a_counter_of_kills_that_grows_is_the_kernels_word_too() -> None:
    counted = tuple(
        type(sample)(sample.at_seconds, "a", sample.memory_available_bytes, oom_kills=int(sample.at_seconds > AT + 590))
        for sample in host(RUN, lambda _: 60 * GB)
    )
    assert consult(failed("ProcessKilled"), story(), samples(counted)).reason == "HostOOMKilled"


# A log that just stops


def test_a_gpu_that_idles_while_the_log_is_silent_is_a_hang() -> None:
    idle = samples(gpu(LONG, busy=lambda at: 0.9 if at <= 600 else 0.0))
    found = consult(STOPS, story(is_whole=False), idle)
    sentence = "GPU 0 of a idled for 900 s after the last line, while the job held it."
    assert (found.verdict, found.reason, found.cause) == ("failed", "HangStraggler", f"The job hangs. {sentence}")
    assert (found.recovery.action, found.evidence, found.method) == ("auto_restart", (LAST_LINE,), "telemetry")


def test_gpus_that_spin_at_little_power_wait_in_a_collective() -> None:
    spinning = [
        gpu(LONG, busy=lambda _: 1.0, name=name, power_watts=lambda at: 650.0 if at <= 600 else 180.0) for name in "01"
    ]
    found = consult(STOPS, story(is_whole=False), samples(*spinning))
    assert found.cause == (
        "The job hangs. Each of 2 GPUs spun at little power for 900 s after the last line, while the job held it:"
        " all wait in a collective."
    )


def test_the_gpu_that_idles_while_others_spin_is_the_straggler() -> None:
    found = consult(
        STOPS,
        story(is_whole=False, hosts=("a", "b")),
        samples(
            gpu(LONG, busy=lambda _: 1.0, power_watts=lambda at: 650.0 if at <= 600 else 180.0),
            gpu(LONG, busy=lambda at: 0.9 if at <= 600 else 0.0, node="b"),
        ),
    )
    assert (found.reason, found.node) == ("HangStraggler", "b")
    assert "GPU 0 of b idled" in found.cause


def test_a_gpu_that_goes_on_working_is_no_hang() -> None:
    working = samples(gpu(LONG, busy=lambda _: 0.9))
    assert consult(STOPS, story(is_whole=False), working) == STOPS


def test_a_job_that_left_its_gpu_is_no_hang() -> None:
    left = samples(
        gpu(LONG, busy=lambda at: 0.9 if at <= 600 else 0.0, used=lambda at: 40 * GB if at <= 605 else 0.5 * GB)
    )
    assert consult(STOPS, story(is_whole=False), left) == STOPS


def test_a_gpu_whose_processes_a_container_does_not_see_is_held_by_its_memory() -> None:
    idle = gpu(
        LONG,
        busy=lambda at: 0.9 if at <= 600 else 0.0,
        used=lambda at: (40 if at else 0.5) * GB,
        pids=lambda _: frozenset[int](),
    )
    assert consult(STOPS, story(is_whole=False), samples(idle)).reason == "HangStraggler"


def test_another_job_on_the_same_gpu_is_not_ours_that_hangs() -> None:
    idle = gpu(LONG, busy=lambda at: 0.9 if at <= 600 else 0.0, pids=lambda at: frozenset({7 if at <= 610 else 8}))
    assert consult(STOPS, story(is_whole=False), samples(idle)) == STOPS


def test_silence_is_measured_by_the_rhythm_of_the_log() -> None:
    short = samples(gpu(range(0, 660, 5), busy=lambda at: 0.9 if at <= 600 else 0.0))
    assert consult(STOPS, story(is_whole=False), short) == STOPS
    quick = story(is_whole=False, events=steps(every=1, until=600))
    assert consult(STOPS, quick, short).reason == "HangStraggler"


def test_a_log_that_says_timeout_is_reported_how_long_its_gpus_waited() -> None:
    diagnosis = failed("NCCLTimeoutError")
    waited = story(last_progress_at=datetime.fromtimestamp(AT + 200, UTC))
    found = consult(diagnosis, waited, samples(gpu(RUN, busy=lambda at: 0.9 if at <= 200 else 0.0)))
    assert (found.reason, found.cause, found.method) == ("NCCLTimeoutError", "It broke.", "rule")
    assert found.telemetry == ("GPU 0 of a idled for 400 s after the last step, while the job held it.",)


def test_a_node_whose_samples_stop_with_the_log_while_others_go_on_went_down() -> None:
    both = samples(gpu(RUN), gpu(LONG, node="b"))
    found = consult(STOPS, story(is_whole=False, hosts=("a", "b")), both)
    assert (found.reason, found.node, found.recovery.action) == ("NodeFailure", "a", "cordon_node_and_restart")
    assert found.telemetry == ("Samples of a stop at 12:10:00 UTC, as the log does, while those of others go on.",)
    assert consult(failed("NCCLRemoteError"), story(hosts=("b", "a")), both).reason == "NodeFailure"
    assert consult(failed("ValueError", "framework"), story(hosts=("b", "a")), both).reason == "ValueError"


def test_where_all_samples_end_nobody_can_tell_a_dead_node_from_a_sampler_that_ended_with_its_job() -> None:
    alone = samples(gpu(RUN))
    stops = story(is_whole=False)
    at_once, later = (datetime.fromtimestamp(AT + 600 + seconds, UTC) for seconds in (10, 3600))
    found = [consult(STOPS, stops, alone, now=now) for now in (None, at_once, later)]
    assert [(one.reason, one.recovery.action) for one in found] == [("unknown", "unknown")] * 3
    assert found[2].telemetry == (
        "Samples of a stop at 12:10:00 UTC, as the log does: the node went down, or its sampler ended with the job.",
    )


# The machine


def test_an_xid_at_the_time_of_a_cuda_error_is_its_cause() -> None:
    event = NodeEvent(AT + 598, "a", "xid", "0000:3b:00", 79, None)
    found = consult(failed("CUDAError"), story(), samples(gpu(RUN), events=[event]))
    assert (found.reason, found.node, found.recovery.action) == ("XidError", "a", "cordon_node_and_restart")
    assert found.telemetry == ("Xid 79 on 0000:3b:00 of a at 12:09:58 UTC.",)
    assert found.evidence == failed("CUDAError").evidence


@pytest.mark.parametrize(
    ("code", "reason"), [(48, "ECCError"), (74, "NVLinkError"), (31, "CUDAError"), (43, "CUDAError")]
)
def test_what_an_xid_is_about_decides_and_one_of_the_program_does_not(code: int, reason: str) -> None:
    event = NodeEvent(AT + 598, "a", "xid", "0000:3b:00", code, None)
    found = consult(failed("CUDAError"), story(), samples(gpu(RUN), events=[event]))
    assert found.reason == reason
    assert found.telemetry == (f"Xid {code} on 0000:3b:00 of a at 12:09:58 UTC.",)


def test_a_rule_that_knows_the_xid_says_what_to_do() -> None:
    rule = Rule(
        name="xid_31_here",
        pattern=r"NVRM: Xid \(.*\): 31,",
        role="cause",
        matches=("NVRM: Xid (PCI:0000:3b:00): 31, x",),
        reason="XidError",
        cause="x",
        remedy="Swap it.",
        recovery="cordon_node_and_restart",
        why="known here",
        source="us",
    )
    event = NodeEvent(AT + 598, "a", "xid", "0000:3b:00", 31, None)
    found = consult(failed("CUDAError"), story(), samples(gpu(RUN), events=[event]), Rulebook([rule]))
    assert (found.reason, found.remedy, found.recovery.why) == ("XidError", "Swap it.", "known here")


def test_an_xid_is_reported_beside_a_fault_of_the_script_and_decides_nothing() -> None:
    event = NodeEvent(AT + 598, "a", "xid", "0000:3b:00", 79, None)
    found = consult(failed("KeyError", "script"), story(), samples(gpu(RUN), events=[event]))
    assert (found.reason, found.telemetry) == ("KeyError", ("Xid 79 on 0000:3b:00 of a at 12:09:58 UTC.",))


def test_a_memory_error_that_is_counted_in_the_run_counts_and_an_old_one_does_not() -> None:
    grows = samples(gpu(RUN, ecc_uncorrected=lambda at: 2 if at >= 590 else 0))
    old = samples(gpu(RUN, ecc_uncorrected=lambda _: 2, last_xid=lambda _: 79))
    found = consult(failed("CUDAError"), story(), grows)
    assert (found.reason, found.telemetry) == (
        "ECCError",
        ("GPU 0 of a counted 2 uncorrected memory errors at 12:09:50 UTC.",),
    )
    assert consult(failed("CUDAError"), story(), old) == failed("CUDAError")


def test_heat_is_reported() -> None:
    hot = samples(
        gpu(
            RUN,
            temperature_celsius=lambda at: 93.0 if at == 300 else 60.0,
            clock_event_reasons=lambda at: 0x40 * (at > 300),
        )
    )
    found = consult(failed("RuntimeError", "framework"), story(), hot)
    assert found.telemetry == (
        "GPU 0 of a reached 93 °C at 12:05:00 UTC.",
        "Clocks of GPU 0 of a were held back for heat in 50% of the samples.",
    )


def test_names_in_the_telemetry_cannot_steer_a_terminal() -> None:
    kill = NodeEvent(AT + 595, "a", "oom_kill", "\x1b[2Jpython\n[bold]", None, 4242)
    found = consult(failed("ProcessKilled"), story(), samples(host(RUN, lambda _: 60 * GB), events=[kill]))
    assert all(text.isprintable() for text in (found.cause, *found.telemetry))


# Whose samples, and when


def test_only_the_nodes_that_the_log_names_are_heard() -> None:
    both = samples(host(RUN, lambda _: 60 * GB), host(RUN, lambda _: 0.0, node="b"))
    assert consult(failed("ProcessKilled"), story(hosts=("a.cluster.local",)), both).reason == "ProcessKilled"
    assert consult(failed("ProcessKilled"), story(hosts=("B",)), both).reason == "HostOOMKilled"


@pytest.mark.parametrize(
    ("hours", "words"),
    [(8, "some would if its clock were 8 hours later."), (-1, "some would if its clock were 1 hour earlier.")],
)
def test_a_clock_that_is_hours_off_is_said_and_not_guessed(hours: int, words: str) -> None:
    moved = samples(host([at + hours * 3600 for at in RUN], lambda _: 0.0))
    found = consult(failed("ProcessKilled"), story(), moved)
    assert found.reason == "ProcessKilled"
    assert found.telemetry == (f"No sample lies in the minutes of the log, 12:00:00 UTC to 12:10:00 UTC; {words}",)


def test_samples_of_another_month_are_said_to_be_of_it() -> None:
    moved = samples(host([at + 30 * 86_400 for at in RUN], lambda _: 0.0))
    found = consult(failed("ProcessKilled"), story(), moved)
    assert found.telemetry[0].endswith("they are from 2026-03-31 12:00:00 UTC to 2026-03-31 12:10:00 UTC.")


def test_without_times_in_the_log_one_job_of_the_samples_is_taken_for_it() -> None:
    untimed = story(began_at=None, ended_at=None)
    one = samples(gpu(RUN, used=lambda at: (40 if 100 <= at <= 500 else 0.5) * GB), host(RUN, lambda _: 0.1 * GB))
    found = consult(failed("ProcessKilled"), untimed, one)
    assert found.reason == "HostOOMKilled"
    assert found.telemetry[0] == "The log tells no time: the one job that the samples show is taken for it."
    two = samples(gpu(RUN, used=lambda at: (40 if at % 300 < 100 else 0.5) * GB), host(RUN, lambda _: 0.1 * GB))
    found = consult(failed("ProcessKilled"), untimed, two)
    assert (found.reason, found.telemetry) == (
        "ProcessKilled",
        ("The log tells no time, and the samples do not show one job alone: they say nothing of it.",),
    )


@pytest.mark.parametrize(
    "series", [Samples(), samples(gpu([0])), samples(gpu([0], busy=lambda _: 0.0, used=lambda _: 0.0))]
)
@pytest.mark.parametrize(
    "diagnosis", [STOPS, failed("ProcessKilled"), _oom(), Diagnosis("healthy", "none", "NotAFailure", "It ended well.")]
)
def test_nothing_or_one_sample_changes_nothing(series: Samples, diagnosis: Diagnosis) -> None:
    assert consult(diagnosis, story(is_whole=False), series).reason == diagnosis.reason


def test_a_healthy_run_stays_healthy_whatever_was_measured() -> None:
    healthy = Diagnosis("healthy", "none", "NotAFailure", "It ended well.")
    events = [
        NodeEvent(AT + 598, "a", "xid", "0000:3b:00", 79),
        NodeEvent(AT + 599, "a", "oom_kill", "python", None, 7),
    ]
    found = consult(healthy, story(), samples(gpu(RUN, busy=lambda _: 0.0), host(RUN, lambda _: 0.0), events=events))
    assert (found.verdict, found.reason, found.recovery) == ("healthy", "NotAFailure", Recovery())

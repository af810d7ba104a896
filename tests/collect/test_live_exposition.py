"""What the page says: whole pages, missing values, GPUs that fall silent, and labels that nobody would want."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from gpulake.collect.live.encoding import exposition, negotiate
from gpulake.collect.live.metrics import families
from gpulake.collect.live.state import State
from gpulake.collect.rows import GpuSample, NodeEvent, Process, ProcessEnd, ProcessSample
from gpulake.core.errors import UsageError
from gpulake.formats.names import KINDS, STYLES, table
from live_rows import (
    BUSY_GPU,
    ELAPSED_MS,
    EMPTY_GPU,
    GPU_0,
    GPU_1,
    HOLDER,
    HOLDER_SAMPLE,
    IDENTITY,
    MIG,
    MIG_1,
    NOW_MS,
    ON_GPU,
    TRAINER,
    TRAINER_SAMPLE,
    XIDS,
    clock,
    state,
)

GOLDEN = Path(__file__).parents[1] / "golden"


def page(of: State, style: str = "dcgm", *, is_openmetrics: bool = False, most_processes: int = 1000) -> str:
    snapshot = of.snapshot()
    assert snapshot is not None
    return exposition(families(snapshot, table(style), most_processes=most_processes), is_openmetrics=is_openmetrics)


def samples(text: str, name: str) -> list[tuple[dict[str, str], float]]:
    return [
        (sample.labels, sample.value)
        for family in parse_text(text)
        for sample in family.samples
        if sample.name in (name, f"{name}_total")  # the parser gives every counter this ending
    ]


@pytest.mark.parametrize(
    ("file", "style", "is_openmetrics"),
    [
        ("exposition.txt", "dcgm", False),
        ("exposition_openmetrics.txt", "dcgm", True),
        ("exposition_otel.txt", "otel", False),
    ],
)
def test_a_whole_page_is_as_it_was(file: str, style: str, is_openmetrics: bool) -> None:
    of = state()
    of.source("gpu", is_up=True)
    of.source("kernel", is_up=False)

    assert page(of, style, is_openmetrics=is_openmetrics) == (GOLDEN / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("style", STYLES)
def test_every_page_is_read_by_the_parsers_of_prometheus(style: str) -> None:
    plain = [family for family in parse_text(page(state(), style)) if family.samples]
    open_metrics = list(parse_openmetrics(page(state(), style, is_openmetrics=True)))  # type: ignore[no-untyped-call]

    def reported(found: list) -> dict:  # type: ignore[type-arg]
        return {
            (sample.name.removesuffix("_total"), tuple(sorted(sample.labels.items()))): sample.value
            for family in found
            for sample in family.samples
        }

    assert reported(plain) == reported(open_metrics)
    assert len(reported(plain)) == page(state(), style).count("\n") - page(state(), style).count("\n#") - 1


@pytest.mark.parametrize("style", STYLES)
def test_a_name_has_one_type_and_one_unit_wherever_it_stands(style: str) -> None:
    found: dict[str, set[tuple[str, str, str]]] = {}
    for names in table(style).subjects.values():
        for name in names:
            assert name.kind in KINDS
            found.setdefault(name.name, set()).add((name.kind, name.unit, name.help))

    assert {name: ways for name, ways in found.items() if len(ways) > 1} == {}


def test_every_number_of_a_gpu_has_a_name() -> None:
    named = {name.field for name in table("dcgm").subjects["gpu"]}
    who = {
        "elapsed_ms",
        "gpu_uuid",
        "gpu_index",
        "gpu_name",
        "pci_bus_id",
        "parent_uuid",
        "mig_profile",
        "gpu_instance_id",
    }

    assert set(GpuSample._fields) - who - named == set()


def test_names_that_do_not_exist_are_an_error_that_names_those_that_do() -> None:
    with pytest.raises(UsageError) as caught:
        table("otle")

    assert (caught.value.message, caught.value.hint) == ("no names called 'otle'", "did you mean 'otel'?")


def test_zero_is_a_value_and_none_is_no_sample() -> None:
    text = page(state((EMPTY_GPU,)))

    assert [value for _, value in samples(text, "DCGM_FI_DEV_GPU_UTIL")] == [0.0]
    assert samples(text, "DCGM_FI_DEV_POWER_USAGE") == []


def test_a_gpu_that_is_not_seen_for_three_intervals_disappears_but_its_xids_stay() -> None:
    at = clock()
    of = state(at=at)
    of.observe(IDENTITY, ELAPSED_MS + 3_500, NOW_MS + 3_500, [EMPTY_GPU._replace(elapsed_ms=ELAPSED_MS + 3_500)])
    at.elapsed_seconds += 3.5
    text = page(of)

    assert [labels["UUID"] for labels, _ in samples(text, "DCGM_FI_DEV_FB_USED")] == [GPU_1]
    assert [(labels["UUID"], value) for labels, value in samples(text, "DCGM_FI_DEV_XID_ERRORS")] == [(GPU_0, 94)]


def test_when_the_sampler_stalls_only_metrics_of_the_collector_are_exposed() -> None:
    at = clock()
    of = state(at=at)
    at.elapsed_seconds += 60
    text = page(of)

    assert of.is_fresh() is False
    assert samples(text, "gpulake_collect_up") == [({}, 0.0)]
    assert [
        line for line in text.splitlines() if line.startswith(("node_", "gpulake_process", "DCGM_FI_DEV_GPU"))
    ] == []


def test_what_a_process_is_stays_between_the_ticks_that_tell_of_it_and_goes_with_its_end() -> None:
    of = state((TRAINER, TRAINER_SAMPLE))
    of.observe(IDENTITY, ELAPSED_MS + 1, NOW_MS + 1, [])
    between = samples(page(of), "gpulake_process_cpu_seconds_total")
    of.observe(IDENTITY, ELAPSED_MS + 2, NOW_MS + 2, [ProcessEnd(TRAINER.pid)])

    assert [value for _, value in between] == [3.45]
    assert samples(page(of), "gpulake_process_cpu_seconds_total") == []


def test_a_process_does_not_get_the_counters_of_the_one_that_had_its_pid() -> None:
    of = state((TRAINER, TRAINER_SAMPLE))
    of.observe(IDENTITY, ELAPSED_MS, NOW_MS, [TRAINER._replace(proc_id="0123456789ab-9000-4242", comm="bash")])

    assert samples(page(of), "gpulake_process_cpu_seconds_total") == []


def test_the_busiest_processes_have_series_and_the_others_are_counted() -> None:
    rows = [
        row
        for pid in range(1, 6)
        for row in (
            Process(f"b-{pid}-{pid}", pid, 1, f"p{pid}", pid, "unattributed", "", ""),
            ProcessSample(pid, pid * 10, 0, 0, 1, None, None),
        )
    ]
    text = page(state(tuple(rows)), most_processes=2)

    assert {labels["comm"] for labels, _ in samples(text, "gpulake_process_threads")} == {"p4", "p5"}
    assert samples(text, "gpulake_collect_processes") == [({}, 5.0)]
    assert samples(text, "gpulake_collect_processes_left_out") == [({}, 3.0)]


def test_a_gpu_that_is_held_and_empty_names_the_job_that_was_given_it() -> None:
    text = page(state())
    jobs = {labels["UUID"]: labels.get("hpc_job") for labels, _ in samples(text, "DCGM_FI_DEV_GPU_UTIL")}
    evidence = {
        (labels["UUID"], labels["owner_id"], labels["evidence"])
        for labels, _ in samples(text, "gpulake_gpu_owner_info")
    }

    assert jobs == {GPU_0: "77", GPU_1: "78"}
    assert evidence == {(GPU_0, "77", "process"), (GPU_1, "78", "environment")}


def test_several_owners_of_a_gpu_make_one_series() -> None:
    other = ON_GPU._replace(pid=5, owner_id="9")
    text = page(state((BUSY_GPU, ON_GPU, other, ON_GPU._replace(pid=6, owner_kind="pod", owner_id="u-1"))))

    assert [(labels["hpc_job"], labels["pod_uid"]) for labels, _ in samples(text, "DCGM_FI_DEV_POWER_USAGE")] == [
        ("77,9", "u-1")
    ]


def test_a_process_that_left_the_gpu_is_gone_with_the_next_sample() -> None:
    of = state((BUSY_GPU, ON_GPU))
    of.observe(IDENTITY, ELAPSED_MS, NOW_MS, [BUSY_GPU._replace(processes=0)])

    assert samples(page(of), "gpulake_gpu_process_memory_bytes") == []


def test_an_xid_that_the_kernel_and_nvml_tell_of_counts_once() -> None:
    text = page(state((BUSY_GPU, *XIDS)))

    def by_code(name: str) -> dict[str, float]:
        return {labels["xid"]: value for labels, value in samples(text, name) if labels["UUID"] == GPU_0}

    assert by_code("DCGM_EXP_XID_ERRORS_TOTAL") == {"63": 1.0, "94": 1.0}
    assert by_code("DCGM_EXP_XID_ERRORS_COUNT") == {"63": 0.0, "94": 1.0}  # the first was before the window


def test_an_xid_of_an_unseen_gpu_is_exposed() -> None:
    text = page(state((NodeEvent(5, "xid", "PCI:0000:d8:00", 79, None, "", "kernel"),)))

    assert samples(text, "DCGM_FI_DEV_XID_ERRORS") == [
        ({"pci_bus_id": "PCI:0000:d8:00", "Hostname": "n1.example"}, 79.0)
    ]


def test_processes_are_not_exposed_while_their_source_is_down() -> None:
    of = state((TRAINER, HOLDER, TRAINER_SAMPLE, HOLDER_SAMPLE))
    of.source("pid", is_up=False)
    down = page(of)
    of.source("pid", is_up=True)

    assert samples(down, "gpulake_process_threads") == []
    assert samples(down, "gpulake_collect_source_up") == [({"source": "pid"}, 0.0)]
    assert [value for _, value in samples(page(of), "gpulake_process_threads")] == [12.0, 1.0]


@pytest.mark.parametrize(
    ("given", "held"),
    [
        ("1", {GPU_1}),
        ("0,1", {GPU_0, GPU_1}),
        ("11", set()),
        (GPU_1, {GPU_1}),
        ("GPU-1111", {GPU_1}),
        (MIG_1, {MIG_1}),
        ("GPU-", set()),
        ("x,1", set()),
    ],
)
def test_what_an_environment_names_is_a_whole_gpu_by_number_or_any_by_uuid(given: str, held: set[str]) -> None:
    idle = BUSY_GPU._replace(processes=0)
    text = page(state((HOLDER._replace(given_gpus=given), HOLDER_SAMPLE, idle, EMPTY_GPU, MIG._replace(gpu_index=1))))

    assert {labels.get("MIG_UUID", labels["UUID"]) for labels, _ in samples(text, "gpulake_gpu_owner_info")} == held


def test_who_is_on_an_instance_is_on_its_gpu() -> None:
    text = page(state((EMPTY_GPU._replace(processes=None), MIG._replace(processes=1), ON_GPU._replace(gpu_uuid=MIG_1))))

    assert [labels["hpc_job"] for labels, _ in samples(text, "DCGM_FI_DEV_FB_USED")] == ["77"]


def test_a_driver_that_was_loaded_again_starts_the_counters_of_its_gpus_anew() -> None:
    of = state((BUSY_GPU,))
    of.observe(IDENTITY, ELAPSED_MS + 1000, NOW_MS + 1000, [BUSY_GPU._replace(energy_joules_total=1.0)])
    snapshot = of.snapshot()

    assert snapshot is not None
    assert [gpu.since_ms for gpu in snapshot.gpus] == [NOW_MS + 1000]


@given(comm=st.text(), owner=st.text(min_size=1))
def test_no_label_can_break_out_of_its_line(comm: str, owner: str) -> None:
    hostile = TRAINER._replace(comm=comm, owner_id=owner)
    text = page(state((hostile, TRAINER_SAMPLE)))

    assert [(labels["comm"], labels["owner_id"]) for labels, _ in samples(text, "gpulake_process_threads")] == [
        (comm, owner)
    ]


def test_bytes_that_are_no_text_are_replaced() -> None:
    hostile = TRAINER._replace(comm=b"a\xffb".decode("utf-8", "surrogateescape"))
    text = page(state((hostile, TRAINER_SAMPLE)))

    text.encode("utf-8")
    assert [labels["comm"] for labels, _ in samples(text, "gpulake_process_threads")] == ["a\ufffdb"]


@pytest.mark.parametrize(
    ("accept", "is_openmetrics"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain;version=0.0.4", False),
        ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5", True),
        ("application/openmetrics-text; version=0.0.1; q=0.9", False),
        ("application/openmetrics-text;version=1.0.0;q=0.1,text/plain;q=0.5", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=high", False),
    ],
)
def test_they_get_the_format_that_they_would_rather_have(accept: str, is_openmetrics: bool) -> None:
    assert negotiate(accept) is is_openmetrics

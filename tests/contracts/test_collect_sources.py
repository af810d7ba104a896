"""What holds for every source, whatever it reads. A new source is held to it as soon as its file is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from collect.hosts import RecordedHost, at
from gpulake.collect.rows import KIND_OF, KINDS, Row
from gpulake.collect.sources import SOURCES, Machine, NoData
from gpulake.core.clock import SystemClock
from gpulake.core.errors import UsageError

UNITS = ("_bytes", "_seconds", "_ratio", "_total", "_watts", "_celsius", "_hertz", "_per_second", "_ticks", "_ms")
# Numbers that need no unit: names, and counts of what they are called.
COUNTS = {
    *("pid", "ppid", "code", "gpu_index", "gpu_instance_id", "clock_event_reasons"),
    *("threads", "processes", "processes_running", "processes_blocked", "load_1m", "load_5m", "load_15m"),
    *("remapped_rows_correctable", "remapped_rows_uncorrectable", "nvlink_links_active"),
    *("pcie_link_generation", "pcie_link_width"),
}
ANSWERS = ("is_", "has_")


@pytest.fixture(params=list(SOURCES))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def recorded(tmp_path: Path) -> RecordedHost:
    """A host that has something for every source that reads files."""
    host = RecordedHost(tmp_path)
    host.boot()
    host.host()
    host.network()
    host.process(7, cgroup="0::/system.slice/slurmstepd.scope/job_123/step_0\n")
    host.process(8, "a) b\n\udc80".encode("utf-8", "surrogateescape"))
    host.write(host.dev / "kmsg", "6,1,2000,-;eth0: Link is Down\n")
    return host


def outcome(name: str, machine: Machine) -> list[Row] | str:
    """The rows of two reads, or why there are none."""
    source = SOURCES.get(name)(machine)
    try:
        return [*source.read(at(1000)), *source.read(at(1001))]
    except NoData as reason:
        return f"no data: {reason}"


def test_the_sources_of_the_house_are_found() -> None:
    assert {"host", "kernel", "nic", "pid"} <= set(SOURCES)


def test_an_empty_host_has_no_data(name: str, tmp_path: Path) -> None:
    source = SOURCES.get(name)(RecordedHost(tmp_path).machine())
    with pytest.raises(NoData) as caught:
        list(source.read(at(0)))
    assert str(caught.value)


def test_the_same_host_gives_the_same_rows(name: str, recorded: RecordedHost) -> None:
    assert outcome(name, recorded.machine()) == outcome(name, recorded.machine())


def test_rows_are_of_known_kinds_and_come_back_from_json(name: str, recorded: RecordedHost) -> None:
    said: list[str] = []
    here = list_of_this_machine(name, said)
    rows = outcome(name, recorded.machine())
    for row in [*here, *(rows if isinstance(rows, list) else [])]:
        kind = KIND_OF[type(row)]
        text = json.dumps(row, allow_nan=False, ensure_ascii=False).encode("utf-8", "replace")
        row_class: Any = KINDS[kind]
        assert row_class(*(_as_tuples(value) for value in json.loads(text))) == row


def test_what_is_skipped_is_reported_once(name: str) -> None:
    said: list[str] = []
    list_of_this_machine(name, said, reads=3)
    assert len(said) == len(set(said))


def test_a_name_that_is_no_source_is_the_users_error() -> None:
    with pytest.raises(UsageError) as caught:
        SOURCES.get("nik")
    assert (caught.value.message, caught.value.hint) == ("no source named 'nik'", "did you mean 'nic'?")


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_have_their_unit_in_their_name(kind: str) -> None:
    for field, type_of in get_type_hints(KINDS[kind]).items():
        words = str(type_of)
        if "int" in words or "float" in words or type_of in (int, float):
            assert field.endswith(UNITS) or field in COUNTS or field == "disks", f"{kind}.{field} has no unit"
        if "bool" in words or type_of is bool:
            assert field.startswith(ANSWERS), f"{kind}.{field} is no question"


def list_of_this_machine(name: str, said: list[str], reads: int = 2) -> list[Row]:
    """What the machine that runs the test has for it: nothing, where it has no such hardware."""
    clock = SystemClock()
    source = SOURCES.get(name)(Machine(say=said.append))
    try:
        return [row for _ in range(reads) for row in source.read(clock)]
    except NoData:
        return []


def _as_tuples(value: object) -> object:
    """JSON knows lists only."""
    if isinstance(value, list):
        return tuple(_as_tuples(item) for item in value)
    return {key: _as_tuples(item) for key, item in value.items()} if isinstance(value, dict) else value

"""The names of a node, from a recorded host."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpulake.collect.identity import Identity, identify
from gpulake.core.errors import UsageError

FILES = {
    "proc/sys/kernel/hostname": "gpu-01\n",
    "proc/sys/kernel/random/boot_id": "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0\n",
    "proc/cpuinfo": "processor\t: 0\nmodel name\t: Some CPU @ 2.40GHz\ncpu MHz\t\t: 2399.998\n\nprocessor\t: 1\n",
    "proc/meminfo": "MemTotal:       16381440 kB\nMemFree:         1000 kB\n",
    "etc/machine-id": "aaaabbbbccccdddd\n",
}


@pytest.fixture
def host(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_node_is_named_by_its_host(host: Path) -> None:
    assert identify(run_id="r1", root=host) == Identity(
        run_id="r1",
        node_id="gpu-01",
        stage="",
        host_id="97a17547211d",
        host_name="gpu-01",
        boot_id="0f1e2d3c4b5a",
        cpu_cores=2,
        memory_bytes=16_381_440 * 1024,
        cpu_model="Some CPU @ 2.40GHz",
        cpu_freq_mhz=2400,
        ticks_per_second=os.sysconf("SC_CLK_TCK"),
    )


def test_two_hosts_with_one_node_name_stay_two(host: Path) -> None:
    first = identify(run_id="r1", node_id="vm0", root=host)
    (host / "etc/machine-id").write_text("another\n")
    second = identify(run_id="r1", node_id="vm0", root=host)
    (host / "proc/sys/kernel/hostname").write_text("gpu-02\n")
    third = identify(run_id="r1", node_id="vm0", root=host)
    assert {first.node_id, second.node_id, third.node_id} == {"vm0"}
    assert len({first.host_id, second.host_id, third.host_id}) == 3


def test_the_clock_rate_is_the_one_given_or_the_highest_that_the_machine_tells(host: Path) -> None:
    most = host / "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"
    most.parent.mkdir(parents=True)
    most.write_text("3900000\n")
    assert identify(run_id="r1", root=host).cpu_freq_mhz == 3900
    assert identify(run_id="r1", root=host, cpu_freq_mhz=2100).cpu_freq_mhz == 2100


@pytest.mark.parametrize("name", ["", "..", ".hidden", "a/b", "a b", "é", "x" * 129, "-x", "a\n"])
def test_a_name_that_could_leave_its_folder_is_refused(host: Path, name: str) -> None:
    with pytest.raises(UsageError):
        identify(run_id=name, root=host)


def test_an_empty_host_needs_a_name_and_is_identified_all_the_same(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the node id is ''"):
        identify(run_id="r1", root=tmp_path)
    node = identify(run_id="r1", node_id="n1", root=tmp_path)
    assert (node.cpu_model, node.cpu_freq_mhz, node.memory_bytes, node.boot_id) == ("", 0, 0, "")

"""The collective that tests nodes: where each process stands, and what it measures."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from examples import each
from gpulake.act import bandwidth
from gpulake.act.bandwidth import PORT, Place, first_host, place_of

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
SLURM = {"SLURM_PROCID": "9", "SLURM_NTASKS": "16", "SLURM_LOCALID": "1", "SLURM_JOB_NODELIST": "n[01-08]"}


@each(
    "environment, place",
    [
        (TORCHRUN, Place(3, 4, 1, "10.0.0.1", 29500)),
        (SLURM, Place(9, 16, 1, "n01", PORT)),
        ({**SLURM, "SLURM_STEP_NODELIST": "n[03-04]", "SLURM_STEP_ID": "7"}, Place(9, 16, 1, "n03", PORT + 7)),
        ({}, Place(0, 1, 0, "127.0.0.1", PORT)),
    ],
)
def test_a_process_knows_its_place_by_its_launcher(environment: dict[str, str], place: Place) -> None:
    assert place_of(environment) == place


@each("nodes, first", [("n3", "n3"), ("n[3-5,9]", "n3"), ("gpu-a-07,gpu-b-[1-2]", "gpu-a-07"), ("n08", "n08")])
def test_the_first_node_is_where_they_meet(nodes: str, first: str) -> None:
    assert first_host(nodes) == first


def test_ranks_that_sum_pass_and_those_below_the_bandwidth_fail() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    for least, code in (("0.0001", 0), ("1e9", 1)):
        words = [sys.executable, str(Path(bandwidth.__file__)), "--megabytes", "1", "--seconds", "60"]
        shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "CUDA_VISIBLE_DEVICES": ""}
        ranks = [
            subprocess.Popen(
                [*words, "--least-gigabytes-per-second", least],
                env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                stderr=subprocess.DEVNULL,
            )
            for rank in range(2)
        ]
        assert [rank.wait(120) for rank in ranks] == [code, code]

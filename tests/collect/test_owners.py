"""Whose process it is: cgroup paths as Slurm, Kubernetes and container engines make them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect.hosts import RecordedHost, wait_until
from examples import each
from gpulake.collect.machine.owners import UNATTRIBUTED, Owner, given_gpus, is_within, owner_in, owner_of, variables

ID = "3fc28fa1c647ceede9f6b340d0b16c9f1f663698972d22a52e296f291638e014"
UID = "0c6f0b4e-8a55-4d1c-9d7e-3b6d1e0c7a11"
SLUID = "s6B8CG3Y0AY580"
CONTAINER = Owner("container", ID[:12])
POD = Owner("pod", UID)
JOB = Owner("slurm", "123")

PATHS = [
    ("/slurm/uid_1000/job_123/step_0", JOB),
    ("/slurm/uid_1000/job_123/step_batch/task_0", JOB),
    ("/slurm_node7/uid_1000/job_123", JOB),
    ("/system.slice/slurmstepd.scope/job_123/step_0/user/task_0", JOB),
    ("/system.slice/node7_slurmstepd.scope/job_123/step_extern/slurm", JOB),
    (f"/system.slice/slurmstepd.scope/{SLUID}/step_0/user/task_0", Owner("slurm", SLUID)),
    (f"/system.slice/slurmstepd.scope/job_{SLUID}/step_0", Owner("slurm", SLUID)),
    ("/system.slice/slurmstepd.scope/system", UNATTRIBUTED),
    ("/system.slice/slurmd.service", UNATTRIBUTED),
    (f"/kubepods/burstable/pod{UID}/{ID}", POD),
    (f"/kubepods/pod{UID}/{ID}", POD),
    (
        f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice/"
        f"cri-containerd-{ID}.scope",
        POD,
    ),
    (f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/crio-{ID}.scope/container", POD),
    (f"/kubepods/besteffort/pod{'ab' * 16}/{ID}", Owner("pod", "ab" * 16)),
    (f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UID.replace('-', '_')}.slice", POD),
    (f"/system.slice/docker-{ID}.scope", CONTAINER),
    (f"/docker/{ID}", CONTAINER),
    (f"/docker/{ID}/docker/{'f' * 64}", CONTAINER),
    (f"/machine.slice/libpod-{ID}.scope/container", CONTAINER),
    (f"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope", CONTAINER),
    (f"/system.slice/containerd.service/kubelet:cri-containerd:{ID}", CONTAINER),
    ("/lxc/web-1/init.scope", Owner("container", "web-1")),
    ("/lxc.payload.web-1/system.slice", Owner("container", "web-1")),
    (f"/docker/{ID}/slurm/uid_0/job_123/step_0", JOB),
    (f"/kubepods/pod{UID}/{ID}/system.slice/slurmstepd.scope/job_123/step_0", JOB),
    ("/", UNATTRIBUTED),
    ("/user.slice/user-1000.slice/session-3.scope", UNATTRIBUTED),
    # Anyone may make such folders below their own: they name no job and no pod.
    ("/user.slice/user-1000.slice/user@1000.service/slurm/uid_0/job_123", UNATTRIBUTED),
    (f"/user.slice/user-1000.slice/kubepods/pod{UID}/x", UNATTRIBUTED),
    ("/system.slice/x/job_123/step_0", UNATTRIBUTED),
    ("/slurm/uid_1000/job_12x/step_0", UNATTRIBUTED),
    (f"/docker/{ID}0", UNATTRIBUTED),
    ("/../../slurm/uid_1/job_5/step_0", Owner("slurm", "5")),
]


@each("path, owner", PATHS)
def test_a_path_names_its_owner_in_either_version(path: str, owner: Owner) -> None:
    assert owner_in(f"0::{path}\n") == owner
    assert owner_in(f"12:pids:/\n5:cpu,cpuacct:{path}\n1:name=systemd:/init.scope\n0::/\n") == owner


def test_a_job_goes_before_a_pod_and_a_pod_before_a_container_whatever_their_order() -> None:
    lines = [f"3:a:/docker/{ID}\n", f"2:b:/kubepods/pod{UID}/{ID}\n", "1:c:/slurm/uid_1/job_123/step_0\n"]
    assert owner_in("".join(lines)) == JOB
    assert owner_in("".join(lines[:2])) == POD


@given(st.text())
def test_no_text_breaks_it_and_no_id_has_other_signs_than_an_id_has(text: str) -> None:
    for cgroup in (text, f"0::{text}", f"0::/lxc/{text}", f"0::/slurm/uid_0/job_{text}", f"0::/docker/{text}"):
        kind, owner_id = owner_in(cgroup)
        assert kind in ("slurm", "pod", "container", "unattributed")
        assert not set(owner_id) - set("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-")


@pytest.mark.parametrize(
    ("environ", "owner"),
    [("A=1\0SLURM_JOB_ID=123\0", JOB), ("SLURM_JOB_ID=rm -rf\0", Owner("slurm", SLUID)), ("", Owner("slurm", SLUID))],
)
def test_a_job_that_is_named_by_its_sluid_takes_its_number_from_the_environment(
    environ: str, owner: Owner, tmp_path: Path
) -> None:
    host = RecordedHost(tmp_path)
    host.process(7, cgroup=f"0::/system.slice/slurmstepd.scope/{SLUID}/step_0\n", environ=environ)
    assert owner_of(host.proc, 7) == owner


@pytest.mark.parametrize(
    ("environ", "owner"),
    [
        ("A=1\0GPULAKE_TRACE=7f\0", Owner("trace", "7f")),
        ("GPULAKE_TRACE=\0", UNATTRIBUTED),
        ("GPULAKE_TRACE=a b\0", UNATTRIBUTED),
        ("XGPULAKE_TRACE=7f\0", UNATTRIBUTED),
    ],
)
def test_a_process_of_a_traced_command_belongs_to_its_trace(environ: str, owner: Owner, tmp_path: Path) -> None:
    host = RecordedHost(tmp_path)
    host.process(7, cgroup="0::/user.slice\n", environ=environ)
    assert owner_of(host.proc, 7) == owner
    host.process(8, cgroup="0::/system.slice/slurmstepd.scope/job_123/step_0\n", environ=environ)
    assert owner_of(host.proc, 8) == JOB


def test_the_environment_of_a_program_is_read_once(tmp_path: Path) -> None:
    host = RecordedHost(tmp_path)
    host.process(7, cgroup="0::/user.slice\n", environ="")
    assert owner_of(host.proc, 7, Owner("trace", "7f")) == Owner("trace", "7f")
    assert owner_of(host.proc, 7, Owner("container", "abc")) == UNATTRIBUTED


def test_a_process_that_is_gone_is_nobodys(tmp_path: Path) -> None:
    assert owner_of(RecordedHost(tmp_path).proc, 7) == UNATTRIBUTED


def test_the_environment_of_a_real_process_is_read() -> None:
    with subprocess.Popen(["sleep", "60"], env={"CUDA_VISIBLE_DEVICES": "2,3"}) as process:
        environ = Path(f"/proc/{process.pid}/environ")
        wait_until(environ.read_bytes)  # it has none while it becomes the other program
        given = given_gpus(environ.read_bytes())
        process.kill()
    assert given == "2,3"


@pytest.mark.parametrize(
    ("environ", "gpus"),
    [
        ({}, ""),
        ({"CUDA_VISIBLE_DEVICES": "0"}, "0"),
        ({"CUDA_VISIBLE_DEVICES": ""}, ""),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, ""),
        ({"NVIDIA_VISIBLE_DEVICES": "GPU-8f0b,GPU-91ac", "CUDA_VISIBLE_DEVICES": "0,1"}, "GPU-8f0b,GPU-91ac"),
        ({"NVIDIA_VISIBLE_DEVICES": "all", "CUDA_VISIBLE_DEVICES": "1"}, "1"),
        ({"NVIDIA_VISIBLE_DEVICES": "void"}, ""),
        ({"GPU_DEVICE_ORDINAL": "3", "CUDA_VISIBLE_DEVICES": "0"}, "3"),
        ({"SLURM_JOB_GPUS": "4,5", "GPU_DEVICE_ORDINAL": "0,1"}, "4,5"),
        ({"SLURM_STEP_GPUS": "5", "SLURM_JOB_GPUS": "4,5"}, "5"),
        ({"SLURM_STEP_GPUS": "", "SLURM_JOB_GPUS": "4,5"}, "4,5"),
        ({"SLURM_STEP_GPUS": "$(reboot)\n", "CUDA_VISIBLE_DEVICES": "1"}, "1"),
    ],
)
def test_what_a_process_was_given_is_what_the_scheduler_said_first(environ: dict[str, str], gpus: str) -> None:
    assert given_gpus("".join(f"{name}={value}\0" for name, value in environ.items()).encode()) == gpus


@given(st.binary())
def test_no_environment_breaks_it(environ: bytes) -> None:
    for text in (environ, b"CUDA_VISIBLE_DEVICES=" + environ):
        assert set(given_gpus(text)) <= set("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ,:./_-")


def test_of_two_variables_with_one_name_the_first_counts() -> None:
    assert variables(b"A=1\0A=2\0B\0=x\0") == {"A": "1", "": "x"}


@pytest.mark.parametrize(
    ("wanted", "is_in"),
    [("/a.slice", True), ("a.slice/b.scope/", True), ("/", True), ("/a.slice/b", False), ("/b.scope", False)],
)
def test_a_cgroup_holds_what_is_below_it(wanted: str, is_in: bool) -> None:
    assert is_within("1:cpu:/\n0::/a.slice/b.scope\n" if wanted != "/" else "0::/a.slice\n", wanted) is is_in

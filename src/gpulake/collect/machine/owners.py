"""The owner of a process: the Slurm job, Kubernetes pod or container of its cgroup, or else the traced command that it
descends from; and its allocated GPUs.

Names of cgroups and environments are untrusted: only values with the form of an id are used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gpulake.collect.machine.procfs import read_if_any


class Owner(NamedTuple):
    kind: str  # slurm, pod, container, trace or unattributed
    id: str


UNATTRIBUTED = Owner("unattributed", "")
TRACE_VARIABLE = "GPULAKE_TRACE"  # set by `collect exec`, and inherited by children

# /slurm/uid_1000/job_123/step_0, /system.slice/slurmstepd.scope/job_123/step_0/user/task_0; with several slurmd on a
# node, the node's name is in the folder. Slurm 26.05 names the job by its SLUID: an s and 13 digits of Crockford's 32.
_SLURM = re.compile(
    r"/(?:slurm(?:_[^/]*)?|(?:[^/]*_)?slurmstepd\.scope)/(?:uid_\d+/)?"
    r"(?:job_(?P<job>[0-9]{1,19})|(?:job_)?(?P<sluid>s[0-9A-HJKMNP-TV-Z]{13}))(?:/|$)"
)
# /kubepods/burstable/pod<uid>/<container>; kubepods-burstable-pod<uid>.slice with _ for -; a static pod's is a hash.
_POD = re.compile(
    r"kubepods[^\n]*?[/-]pod(?P<uid>[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?(?:/|$)"
)
# docker-<id>.scope, /docker/<id>, libpod-<id>, cri-containerd-<id>.scope: an id is always 64 digits.
_CONTAINER = re.compile(r"[/:-](?P<id>[0-9a-f]{64})(?:\.scope|\.service)?(?:/|$)")
_LXC = re.compile(r"/lxc(?:\.payload)?[./](?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,63})(?:/|$)")
_ANY = re.compile(r"slurm|kubepods|lxc|[0-9a-f]{64}")
# Users create cgroups below these, so that names in them prove nothing.
_USER_FOLDERS = re.compile(r"/user\.slice/|/user@\d+\.service/")

_TRACE = re.compile(r"[!-~]{1,128}")
_GPUS = re.compile(r"[A-Za-z0-9][A-Za-z0-9,:./_-]{0,1023}")
_GPU_VARIABLES = (
    *("SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "GPU_DEVICE_ORDINAL"),
    *("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
)
_NO_GPUS = {"all", "none", "void", "nodevfiles"}


def owner_of(proc: Path, pid: int, former: Owner | None = None) -> Owner:
    """The owner of a process, or unattributed: also if the process has ended or is not readable.

    A former owner is that of the same program: its environment is not read again, since that may swap in memory of the
    process.
    """
    folder = f"{proc}/{pid}"
    text = read_if_any(f"{folder}/cgroup")
    owner = owner_in(text.decode("utf-8", "replace")) if text else UNATTRIBUTED
    if owner is UNATTRIBUTED:
        if former is not None:
            return former if former.kind == "trace" else UNATTRIBUTED
        return traced_in(read_if_any(f"{folder}/environ"))
    if owner.kind == "slurm" and owner.id.startswith("s"):
        job_id = variables(read_if_any(f"{folder}/environ")).get("SLURM_JOB_ID", "")
        if re.fullmatch(r"[0-9]{1,19}", job_id):
            return Owner("slurm", job_id)
    return owner


def owner_in(cgroup: str) -> Owner:
    """The owner in the text of /proc/<pid>/cgroup: a job, else a pod, else a container."""
    if not _ANY.search(cgroup):  # most processes have none
        return UNATTRIBUTED
    paths = list(_paths(cgroup))
    trusted = [path for path in paths if not _USER_FOLDERS.search(path)]
    for kind, pattern, places in (
        ("slurm", _SLURM, trusted),
        ("pod", _POD, trusted),
        ("container", _CONTAINER, paths),
        ("container", _LXC, trusted),
    ):
        for path in places:
            if found := pattern.search(path):
                name = next(filter(None, found.groups()))
                return Owner(
                    kind, name[:12] if pattern is _CONTAINER else name.replace("_", "-") if kind == "pod" else name
                )
    return UNATTRIBUTED


def traced_in(environ: bytes | None) -> Owner:
    """The traced command of an environment."""
    if not environ or TRACE_VARIABLE.encode() not in environ:
        return UNATTRIBUTED
    trace_id = variables(environ).get(TRACE_VARIABLE, "")
    return Owner("trace", trace_id) if _TRACE.fullmatch(trace_id) else UNATTRIBUTED


def is_within(cgroup: str, wanted: str) -> bool:
    """Whether the text of /proc/<pid>/cgroup is in the wanted cgroup or below it."""
    wanted = "/" + wanted.strip("/")
    return any(path == wanted or path.startswith(wanted.rstrip("/") + "/") for path in _paths(cgroup))


def given_gpus(environ: bytes | None) -> str:
    """The allocated GPUs of an environment; empty if there are none."""
    if not environ or not any(word in environ for word in (b"_GPUS=", b"GPU_DEVICE_ORDINAL=", b"_VISIBLE_DEVICES=")):
        return ""
    found = variables(environ)
    for name in _GPU_VARIABLES:
        value = found.get(name, "").strip()
        if _GPUS.fullmatch(value) and value.lower() not in _NO_GPUS:
            return value
    return ""


def names_gpu(given: str, uuid: str, index: int | None, parent_uuid: str | None) -> bool:
    """Whether a list of GPUs contains this one. An index is that of a whole GPU; a uuid may be a prefix; the list ends
    at anything else, as in CUDA."""
    for word in given.split(","):
        name = word.strip()
        if name.isdecimal() and len(name) < 7:
            if parent_uuid is None and index == int(name):
                return True
        elif not name.startswith(("GPU-", "MIG-")):
            return False
        elif uuid.startswith(name) and len(name) > 4:
            return True
    return False


def variables(environ: bytes | None) -> dict[str, str]:
    """The variables of an environment in /proc. Of duplicates the first counts, as in libc."""
    found: dict[str, str] = {}
    for entry in (environ or b"").split(b"\0"):
        name, is_one, value = entry.partition(b"=")
        if is_one:
            found.setdefault(name.decode("utf-8", "replace"), value.decode("utf-8", "replace"))
    return found


def _paths(cgroup: str) -> Iterator[str]:
    """The paths of a process, one per hierarchy: lines are number:controllers:path, and a path may contain colons."""
    for line in cgroup.split("\n"):
        parts = line.split(":", 2)
        if len(parts) == 3:
            yield parts[2].removesuffix(" (deleted)")

"""Stand-in until the branch `sources` brings its own: who a process belongs to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple


class Owner(NamedTuple):
    kind: str  # slurm, pod, container or unattributed
    id: str


def owner_of(proc: Path, pid: int) -> Owner:
    try:
        text = (proc / str(pid) / "cgroup").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return Owner("unattributed", "")
    found = re.search(r"/slurmstepd\.scope/job_(\d+)/", text)
    return Owner("slurm", found[1]) if found else Owner("unattributed", "")

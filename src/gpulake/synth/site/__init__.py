"""A generated site: one story of jobs, nodes and GPUs, told by Slurm or Kubernetes, Prometheus, kernels and logs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpulake.core.errors import UsageError
from gpulake.core.progress import Report, silent
from gpulake.synth.site import kubernetes, logs, samples, slurm, truth
from gpulake.synth.site.activity import Activity, parts_of
from gpulake.synth.site.jobs import Request, requested
from gpulake.synth.site.plan import Incident, Plan, Site, planned, until_default
from gpulake.synth.site.schedule import History, scheduled
from gpulake.synth.writer import Folder

__all__ = ["TELLERS", "Incident", "Site", "SiteSummary", "until_default", "write_site"]


@dataclass(frozen=True)
class SiteSummary:
    site: Site
    jobs: int
    samples: int
    logs: int
    incidents: tuple[Incident, ...]


@dataclass(frozen=True)
class Teller:
    """Who tells of jobs and nodes: how GPU samples name the holder, the id of a job, and the files of its folder."""

    holder: samples.Holder
    job_id: Callable[[Request], str]
    write: Callable[[Folder, Plan, History], None]
    always: samples.Always = lambda _: ()


def _write_slurm(folder: Folder, plan: Plan, history: History) -> None:
    site = plan.site
    folder.write("sacct.txt", "".join(f"{line}\n" for line in slurm.accounting(site, history)).encode())
    folder.write("events.txt", "".join(f"{line}\n" for line in slurm.events(plan)).encode(), site.ends_at)
    for second, text in slurm.node_states(plan, history):
        folder.write(f"scontrol-node-{slurm.local(second).replace(':', '')}.txt", text.encode(), second)


def _write_kubernetes(folder: Folder, plan: Plan, history: History) -> None:
    for second, content in kubernetes.lists(plan, history):
        folder.write(f"{slurm.local(second).replace(':', '')}.json", content, second)


TELLERS = {
    "slurm": Teller(samples.slurm_job, lambda request: request.job_id, _write_slurm),
    "kubernetes": Teller(kubernetes.pod_labels, kubernetes.job_id, _write_kubernetes, kubernetes.exporter_labels),
}


def write_site(out: Path, site: Site, report: Report = silent, tell: str = "slurm") -> SiteSummary:
    """Writes slurm/ or kubernetes/, prometheus/, kernel/, logs/ and truth.json. The same site gives the same bytes."""
    teller = TELLERS[tell]
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file", "name a folder")
    plan = planned(site)
    requests = requested(plan)
    report("running jobs", 0.05)
    history = scheduled(plan, requests)
    parts = parts_of(history)
    activity = Activity(plan, history, parts)
    report("writing samples", 0.2)
    with Folder(out / "prometheus") as folder:
        count = samples.write_gpu_samples(folder, site, activity, parts, teller.holder, teller.always)
        count += samples.write_node_samples(folder, plan, activity)
    report("writing accounting and logs", 0.9)
    with Folder(out / tell) as folder:
        teller.write(folder, plan, history)
    with Folder(out / "kernel") as folder:
        for node, text in logs.kernel_logs(plan):
            folder.write(f"{node}.dmesg.log", text.encode(), site.ends_at)
    with Folder(out / "logs") as folder:
        for name, text in logs.job_logs(site, history):
            folder.write(name, text.encode(), site.ends_at)
        written = len(folder.files)
    with Folder(out) as folder:
        folder.write("truth.json", truth.as_json(plan, history, parts, activity.use, teller.job_id))
    report("wrote the truth", 1.0)
    return SiteSummary(site, len(requests), count, written, plan.incidents)

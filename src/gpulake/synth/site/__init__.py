"""A generated site: one story of jobs, nodes and GPUs, told by Slurm, Prometheus, kernels and logs, and its truth."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpulake.core.errors import UsageError
from gpulake.core.progress import Report, silent
from gpulake.synth.site import logs, samples, slurm, truth
from gpulake.synth.site.activity import Activity, parts_of
from gpulake.synth.site.jobs import requested
from gpulake.synth.site.plan import Incident, Site, planned, until_default
from gpulake.synth.site.schedule import scheduled
from gpulake.synth.writer import Folder

__all__ = ["Incident", "Site", "SiteSummary", "until_default", "write_site"]


@dataclass(frozen=True)
class SiteSummary:
    site: Site
    jobs: int
    samples: int
    logs: int
    incidents: tuple[Incident, ...]


def write_site(out: Path, site: Site, report: Report = silent) -> SiteSummary:
    """Writes slurm/, prometheus/, kernel/, logs/ and truth.json. The same site gives the same bytes."""
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
        count = samples.write_gpu_samples(folder, site, activity, parts, samples.slurm_job)
        count += samples.write_node_samples(folder, plan, activity)
    report("writing accounting and logs", 0.9)
    with Folder(out / "slurm") as folder:
        folder.write("sacct.txt", "".join(f"{line}\n" for line in slurm.accounting(site, history)).encode())
        folder.write("events.txt", "".join(f"{line}\n" for line in slurm.events(plan)).encode(), site.ends_at)
        for second, text in slurm.snapshots(plan, history):
            folder.write(f"scontrol-node-{slurm.local(second).replace(':', '')}.txt", text.encode(), second)
    with Folder(out / "kernel") as folder:
        for node, text in logs.kernel_logs(plan):
            folder.write(f"{node}.dmesg.log", text.encode(), site.ends_at)
    with Folder(out / "logs") as folder:
        for name, text in logs.job_logs(site, history):
            folder.write(name, text.encode(), site.ends_at)
        written = len(folder.files)
    with Folder(out) as folder:
        folder.write("truth.json", truth.as_json(plan, history, parts, activity.use))
    report("wrote the truth", 1.0)
    return SiteSummary(site, len(requests), count, written, plan.incidents)

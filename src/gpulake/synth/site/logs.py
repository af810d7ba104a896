"""What nodes and jobs wrote: kernel logs of nodes on which something happened, and the output of jobs that failed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np

from gpulake.core.packaged import packaged_toml
from gpulake.synth.draws import generator
from gpulake.synth.site.plan import Incident, Plan, Site
from gpulake.synth.site.schedule import History, Run

STEP_SECONDS = 60
MOST_STEPS = 200


def kernel_logs(plan: Plan) -> Iterator[tuple[str, str]]:
    """A node's name, and what `dmesg --time-format iso` prints there."""
    lines: dict[int, list[tuple[float, str]]] = {}
    for incident in plan.incidents:
        for node in incident.nodes:
            if of_incident := list(_lines(plan.site, incident)):
                lines.setdefault(node, []).extend(of_incident)
    for node, of_node in sorted(lines.items()):
        boot = (plan.site.begins_at - 60.0, "Linux version 5.15.0-113-generic (buildd@lcy02) #123-Ubuntu SMP")
        yield plan.site.name(node), "".join(f"{_stamp(at)} {text}\n" for at, text in sorted([boot, *of_node]))


def _lines(site: Site, incident: Incident) -> Iterator[tuple[float, str]]:
    rng = generator(site.seed, 46, *incident.nodes)
    first, span = incident.first_second, incident.last_second - incident.first_second
    bus = f"PCI:0000:{16 + int(rng.integers(site.gpus)):02x}:00"
    match incident.kind:
        case "dead_node":
            yield first - 20.0, f"NVRM: Xid ({bus}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
            yield first - 19.9, f"NVRM: GPU {bus.removeprefix('PCI:')}.0: GPU has fallen off the bus."
        case "xid_storm":
            for at in np.sort(rng.uniform(0, span, incident.detail["events"])):
                yield (
                    first + float(at),
                    f"NVRM: Xid ({bus}): 74, pid=41822, NVLink: fatal error detected on link 4(0x10000, 0x0)",
                )
        case "failing_link":
            for at in np.sort(rng.uniform(0, span, span * 3 // 3600)):
                yield first + float(at), "mlx5_core 0000:5e:00.0 ib0: Link down"
                yield first + float(at) + 4, "IPv6: ADDRCONF(NETDEV_CHANGE): ib0: link becomes ready"
        case "hot_node":
            yield first + 30.0, "mce: CPU0: Core temperature above threshold, cpu clock throttled (total events = 1)"


def _stamp(second: float) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S,%f+00:00")


def job_logs(site: Site, history: History) -> Iterator[tuple[str, str]]:
    """A file's name, and the output of the last run of a job that failed."""
    last = {run.request.number: run for run in history.runs}
    templates = packaged_toml("gpulake.synth.site", "logs.toml")
    for run in last.values():
        endings = [ending for ending in templates["endings"] if ending["state"] == run.state]
        if endings and run.ended_at is not None and run.gpus:
            ending = endings[run.request.number % len(endings)]
            yield f"slurm-{run.request.job_id}.out", _log(site, run, run.ended_at, templates, ending["text"])


def _log(site: Site, run: Run, ended_at: int, templates: dict[str, Any], text: str) -> str:
    request = run.request
    rng = generator(site.seed, 48, request.number)
    node = run.nodes[0]
    words = {
        "node": site.name(node), "board": site.board["name"], "uuid": site.uuid(node, run.devices[0][0]),
        "name": request.name, "user": request.user, "account": request.account, "job": request.job_id,
        "gpus": run.gpus, "step": 0,
    }  # fmt: skip
    lines = [templates["head"].lstrip("\n").format(date=_date(run.started_at + 2), **words)]
    steps = min((ended_at - run.started_at) // STEP_SECONDS, MOST_STEPS)
    gap = (ended_at - run.started_at) / (steps + 1)
    for place in range(1, steps + 1):
        words["step"] = place * 50
        loss, rate = 2.0 + 8.0 / (1 + 0.2 * place) + rng.normal(0, 0.02), rng.normal(41_000, 400) * run.gpus
        date = _date(int(run.started_at + place * gap))
        lines.append(
            templates["step"].format(**words | {"date": date, "loss": f"{loss:.4f}", "rate": f"{rate:.0f}"}) + "\n"
        )
    return "".join([*lines, text.lstrip("\n").format(date=_date(ended_at), **words)])


def _date(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")

"""The story as Slurm tells it: `sacct --parsable2`, `sacctmgr show event`, and `scontrol show node -o` at times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from gpulake.synth.site.plan import Outage, Plan, Site, habits
from gpulake.synth.site.schedule import History, Run, Unstarted
from gpulake.synth.site.snapshots import snapshots

FIELDS = (
    *("JobID", "JobIDRaw", "User", "Account", "Cluster", "Partition", "QOS", "State", "ExitCode", "Submit", "Eligible"),
    *("Start", "End", "ElapsedRaw", "TimelimitRaw", "NNodes", "NTasks", "ReqCPUS", "ReqMem", "ReqTRES", "AllocTRES"),
    *("NodeList", "TRESUsageInAve", "TRESUsageInTot", "AdminComment", "JobName"),
)
NODE_CORES = 192
NODE_MEMORY_MIB = 2_063_937
UID = 1000
EXITS = {"COMPLETED": "0:0", "FAILED": "1:0", "CANCELLED": "0:15", "OUT_OF_MEMORY": "0:125", "NODE_FAIL": "1:0"}
STEPS = ("batch", "extern", "0")


def local(second: int | None) -> str:
    """Times as sacct prints them with TZ=UTC."""
    return "Unknown" if second is None else datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def accounting(site: Site, history: History) -> Iterator[str]:
    """Lines of sacct with --duplicates: a row for every job, and for every step of it."""
    yield "|".join(FIELDS)
    jobs: list[Run | Unstarted] = [*history.runs, *history.unstarted]
    jobs.sort(key=lambda job: (job.request.number, job.attempt))
    for job in jobs:
        yield from _rows(site, job)


def _rows(site: Site, job: Run | Unstarted) -> Iterator[str]:
    request = job.request
    wanted = resources(site, request.cores * request.nodes, request.memory_gib * request.nodes,
                       request.nodes, request.gpus * request.nodes)  # fmt: skip
    is_run = isinstance(job, Run)
    state = job.state if isinstance(job, Run) else ("PENDING" if job.ended_at is None else "CANCELLED")
    shown = f"CANCELLED by {_uid(request.user)}" if state == "CANCELLED" else state
    started_at = job.started_at if isinstance(job, Run) else None
    elapsed = (job.ended_at or site.ends_at) - started_at if started_at is not None else 0
    row = {
        "JobID": request.job_id, "JobIDRaw": str(request.number), "User": request.user, "Account": request.account,
        "Cluster": habits()["cluster"], "Partition": request.partition, "QOS": request.qos, "State": shown,
        "ExitCode": EXITS.get(state, "0:0"), "Submit": local(job.submitted_at), "Eligible": local(job.submitted_at),
        "Start": local(started_at) if is_run or job.ended_at is None else "None", "End": local(job.ended_at),
        "ElapsedRaw": str(elapsed), "TimelimitRaw": str(request.limit_seconds // 60), "NNodes": str(request.nodes),
        "ReqCPUS": str(request.cores * request.nodes), "ReqMem": f"{request.memory_gib * request.nodes}G",
        "ReqTRES": wanted, "AllocTRES": wanted if is_run else "",
        "NodeList": hostlist(site, job.nodes) if isinstance(job, Run) else "None assigned", "JobName": request.name,
    }  # fmt: skip
    yield "|".join(row.get(field, "") for field in FIELDS)
    if not is_run:
        return
    for step in STEPS:
        of_step = {
            **row, "JobID": f"{request.job_id}.{step}", "JobIDRaw": f"{request.number}.{step}", "User": "",
            "Partition": "", "QOS": "", "State": state, "NTasks": str(request.nodes), "ReqTRES": "", "TimelimitRaw": "",
            "Submit": row["Start"], "JobName": request.name if step == "0" else step,
        }  # fmt: skip
        yield "|".join(of_step.get(field, "") for field in FIELDS)


def resources(site: Site, cores: int, memory_gib: int, nodes: int, gpus: int) -> str:
    held = f",gres/gpu={gpus},gres/gpu:{site.gpu_model}={gpus}" if gpus else ""
    return f"billing={cores},cpu={cores}{held},mem={memory_gib}G,node={nodes}"


def _uid(user: str) -> int:
    users = [one for users in habits()["accounts"].values() for one in users]
    return UID + users.index(user)


def hostlist(site: Site, nodes: Iterable[int]) -> str:
    """gpu-[001-003,007], as Slurm abbreviates it."""
    ranges: list[list[int]] = []
    for node in sorted(nodes):
        if ranges and ranges[-1][1] == node - 1:
            ranges[-1][1] = node
        else:
            ranges.append([node, node])
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return site.name(ranges[0][0])
    inner = ",".join(f"{a + 1:03d}" if a == b else f"{a + 1:03d}-{b + 1:03d}" for a, b in ranges)
    return f"gpu-[{inner}]"


def events(plan: Plan) -> Iterator[str]:
    """Lines of `sacctmgr --parsable2 show event`, which has no maintenance."""
    yield "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User"
    for one in plan.outages:
        if one.state != "MAINT":
            ended_at = one.ended_at if one.ended_at < plan.site.ends_at else None
            state = {"DOWN": "DOWN*"}.get(one.state, one.state)
            times = f"{local(one.started_at)}|{local(ended_at)}"
            yield f"{habits()['cluster']}|{plan.site.name(one.node)}|{times}|{state}|{one.reason}|root(0)"


def node_states(plan: Plan, history: History) -> Iterator[tuple[int, str]]:
    """A moment, and what `scontrol show node -o` prints then."""
    for one in snapshots(plan, history):
        lines = (
            _node(plan, node, one.second, [run for run in one.alive if node in run.nodes], one.outages.get(node))
            for node in range(plan.site.nodes)
        )
        yield one.second, "".join(lines)


def _node(plan: Plan, node: int, second: int, runs: list[Run], outage: Outage | None) -> str:
    site, name = plan.site, plan.site.name(node)
    gpus = sum(len(devices) for run in runs for at, devices in zip(run.nodes, run.devices, strict=True) if at == node)
    cores, memory = sum(run.request.cores for run in runs), sum(run.request.memory_gib for run in runs)
    is_full = gpus == site.gpus
    state = "ALLOCATED" if is_full else "MIXED" if runs else "IDLE"
    if outage is not None:
        state = {"DOWN": "DOWN*+NOT_RESPONDING", "MAINT": "IDLE+MAINTENANCE+RESERVED", "DRAIN": f"{state}+DRAIN"}[
            outage.state
        ]
    booted = max(
        (one.ended_at for one in plan.outages if one.node == node and one.is_silent and one.ended_at <= second),
        default=plan.site.begins_at - 9 * 86_400,
    )
    held = resources(site, cores, memory, 1, gpus).split(",node")[0].split(",", 1)[1] if runs else ""
    typed = f"gres/gpu={site.gpus},gres/gpu:{site.gpu_model}={site.gpus}"
    all_of = f"cpu={NODE_CORES},mem={NODE_MEMORY_MIB}M,billing={NODE_CORES},{typed}"
    reason = f" Reason={outage.reason} [root@{local(outage.started_at)}]" if outage else ""
    return (
        f"NodeName={name} Arch=x86_64 CoresPerSocket=48 CPUAlloc={cores} CPUEfctv={NODE_CORES} CPUTot={NODE_CORES} "
        f"CPULoad={0.7 * cores:.2f} AvailableFeatures={site.gpu_model},ib ActiveFeatures={site.gpu_model},ib "
        f"Gres=gpu:{site.gpu_model}:{site.gpus}(S:0-1) NodeAddr={name} NodeHostName={name} Version=24.05.3 "
        f"OS=Linux 5.15.0-113-generic #123-Ubuntu SMP RealMemory={NODE_MEMORY_MIB} AllocMem={memory * 1024} "
        f"FreeMem={NODE_MEMORY_MIB - memory * 1024} Sockets=2 Boards=1 State={state} ThreadsPerCore=2 "
        f"TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=gpu,interactive,preempt BootTime={local(booted)} "
        f"SlurmdStartTime={local(booted + 40)} LastBusyTime={local(second)} ResumeAfterTime=None CfgTRES={all_of} "
        f"AllocTRES={held}{reason}\n"
    )

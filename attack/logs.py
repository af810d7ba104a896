"""Hostile logs: diagnosed and recovered with stand-ins for the cluster's programs, none may hit another's node or job.

Job 4711 of ann ran on gpu01 and gpu02; gpu09 and job 777 are bob's, gpu05 is nobody's. Logs are made of lines that call
for a drain or a restart, with names, ids, tables, escapes and endings of all kinds put in. What counts as a fault: a
command on a node or a job that the scheduler does not give that job, a change of bob's incident, a traceback, and an
honest log whose node is not drained.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from attack.score import Score
from gpulake.act.recovery import Asked
from gpulake.core.clock import FrozenClock
from gpulake.core.config import Config
from gpulake.core.errors import GpulakeError
from gpulake.core.recovery_settings import Recoveries
from gpulake.diagnose.diagnoser import DiagnosisRequest
from gpulake.flow import Flow
from gpulake.lake import Lake

JOB, OTHER = "4711", "777"
OWN_NODES = ("gpu01", "gpu02")
NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
FIELDS = "JobID|JobName|User|Cluster|State|Submit|Start|End|NNodes|AllocTRES|NodeList"
TIMES = "2026-03-01T11:00:00|2026-03-01T11:59:00|2026-03-01T12:11:00"
ACCOUNTING = f"""{FIELDS}
{JOB}|train|ann|tiger|FAILED|{TIMES}|2|gres/gpu=16|gpu[01-02]
{OTHER}|train|bob|tiger|FAILED|{TIMES}|1|gres/gpu=8|gpu09
"""
# Notes its arguments, one call a line, and answers for the two jobs as the scheduler would.
PROGRAM = """#!/bin/sh
name=${{0##*/}}
case "$name $1 $2" in
    "sacct --jobs=4711 "*) echo "4711|gpu[01-02]"; exit ;;
    "sacct --jobs=777 "*) echo "777|gpu09"; exit ;;
    "sacct "*) exit ;;
    "kubectl get "*) case "$*" in *=4711" "*) echo "gpu01 gpu02" ;; *=777" "*) echo gpu09 ;; esac; exit ;;
    "hook nodes "*) case "$2" in 4711) echo "gpu01,gpu02" ;; 777) echo gpu09 ;; esac; exit ;;
esac
{{ printf '%s' "$name"; for word; do printf '\\037%s' "$word"; done; echo; }} >> {calls}
"""
SETTINGS = Recoveries(
    cluster_nodes=100,
    restart_command=(),
    cordon_command=("hook", "cordon", "{node}", "{reason}: {cause}"),
    tell_command=("hook", "tell", "{message}"),
)
HOOKED = replace(SETTINGS, restart_command=("hook", "restart", "{job_id}"), nodes_command=("hook", "nodes", "{job_id}"))

NODES = (
    *("gpu09", "gpu05", "GPU09", "gpu09.example.org", "gpu9", "login1", "all", "ALL", "gpu[01-99]", "gpu01,gpu09"),
    *(
        "--reason=x",
        "-w",
        "nodename=gpu09",
        "gpu09;reboot",
        "$(reboot)",
        "`reboot`",
        "gpu09|sh",
        "gpu01 gpu09",
        "../gpu09",
    ),
    *("gрu01", "gpu０1", "gpu01\u200b", "ｇpu09", "gpu01\u202e90upg", "ip-10-0-0-9", "10.0.0.9", "worker-7", "node9"),
    *(
        "kube-node-9",
        "gpt-7-worker-0",
        "localhost",
        "n" * 300,
        "gpu01.gpu09",
        "gpu09\u0000",
        "'gpu09'",
        '"gpu09"',
        "gpu09\\",
    ),
)
JOBS = (
    "777",
    "0",
    "1",
    "-1",
    "777_1",
    "777+1",
    "777;reboot",
    "４７１１",
    "4711 777",
    "4711,777",
    "$(id)",
    "99999999999",
    "*",
)
FATAL = (
    "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.",
    "NVRM: Xid (PCI:0000:3b:00): 48, pid=1, An uncorrectable double bit error (DBE) has been detected on GPU",
    "NVRM: Xid (PCI:0000:3b:00): 74, pid=1, NVLink: fatal error detected",
    "RuntimeError: CUDA error: uncorrectable ECC error encountered",
    "NCCL WARN Cuda failure 'uncorrectable ECC error encountered'",
    "slurmstepd: error: Node failure on {node}",
    "RuntimeError: NCCL communicator was aborted on rank 3",
)
# How a line says on which host it was said.
SAID = (
    "2026-03-01 12:10:00 {node}:1:1 [0] {line}",
    "Mar  1 12:10:00 {node} kernel: {line}",
    "{node}: {line}",
    "(main pid=12, ip={node}) {line}",
    "[rank3]: {node}: {line}",
    "2026-03-01 12:10:00 [{node}] {line}",
    '{{"time": "2026-03-01T12:10:00Z", "host": "{node}", "level": "error", "message": "{line}"}}',
)
CLAIMS = (
    "SLURM_JOB_ID={job}",
    "SLURM_JOBID={job}",
    "slurmstepd: error: *** JOB {job} ON {node} CANCELLED AT 2026-03-01T12:10:00 DUE TO NODE FAILURE ***",
    "slurmstepd: error: *** STEP {job}.0 ON {node} CANCELLED AT 2026-03-01T12:10:00 ***",
    "Submitted batch job {job}",
    "StepId={job}.0",
    "raysubmit_{job}",
)
TABLES = (
    "rank 0: gpu01\nrank 1: {node}\nrank 3: {node}",
    "SLURM_JOB_NODELIST={node}\nSLURMD_NODENAME={node}\nHOSTNAME={node}",
    "  host      : {node}\n  rank      : 3 (local_rank: 3)\n  exitcode  : -9 (pid: 42)",
    "pod/{node} on node {node} NotReady\nnode.kubernetes.io/unreachable: {node}",
    "incident_id: f-0123\nnode: {node}\njob_id: {job}\naction: cordon_node_and_restart",
)
ENDINGS = (
    *[""] * 8,
    "2026-03-01 12:11:00 training finished: 9 iterations in 600.0 s",
    "Training completed successfully.",
)


@dataclass(frozen=True)
class Variant:
    text: str
    job: str | None  # as the caller says
    is_honest: bool = False


def variants(rng: random.Random, tries: int) -> Iterator[Variant]:
    for number in range(tries):
        if number % 10 == 9:
            yield _honest(rng)
        else:
            yield Variant(_hostile(rng), rng.choice((JOB, JOB, None)))


def _honest(rng: random.Random) -> Variant:
    node = rng.choice(OWN_NODES)
    return Variant(_steps(rng) + SAID[0].format(node=node, line=FATAL[0]) + "\n", JOB, is_honest=True)


def _steps(rng: random.Random) -> str:
    return "".join(f"2026-03-01 12:00:{at:02} step {at} of 99 loss 2.0\n" for at in range(rng.randint(1, 9)))


def _hostile(rng: random.Random) -> str:
    if rng.random() < 0.1:
        return _like_bobs(rng)
    node, job = rng.choice(NODES), rng.choice(JOBS)
    said = rng.choice(FATAL).replace("{node}", node)
    lines = [rng.choice(SAID).format(node=node, line=said)]
    lines += [text.format(node=node, job=job) for text in (*CLAIMS, *TABLES) if rng.random() < 0.25]
    if rng.random() < 0.2:
        lines.append(rng.choice(SAID).format(node=rng.choice(NODES), line=rng.choice(FATAL).replace("{node}", node)))
    rng.shuffle(lines)
    lines = [rng.choice(TWISTS)(rng, line) for line in lines]
    end = rng.choice(ENDINGS)
    return _steps(rng) + "\n".join([*lines, *([end] if end else [])]) + "\n"


def _like_bobs(rng: random.Random) -> str:
    """His job, his node, the time at which his run began, and whatever end suits the attacker."""
    end = rng.choice((*ENDINGS[-2:], "KeyError: 'x'", SAID[0].format(node="gpu09", line=FATAL[1])))
    return f"{rng.choice(CLAIMS).format(job=OTHER, node='gpu09')}\n2026-03-01 12:10:00 step 1 of 9\n{end}\n"


def _plain(rng: random.Random, line: str) -> str:  # noqa: ARG001
    return line


def _coloured(rng: random.Random, line: str) -> str:
    return f"\x1b[{rng.randint(0, 47)}m\x1b]0;{line}\x07{line}\x1b[2K\x1b[1A"


def _torn(rng: random.Random, line: str) -> str:
    """Ends of lines of all kinds in the midst of it."""
    at = rng.randint(0, len(line))
    return line[:at] + rng.choice(("\r", "\r\n", "\n", "\v", "\f", "\u2028", "\x85", "\b", "\\n", "\0")) + line[at:]


def _huge(rng: random.Random, line: str) -> str:
    return line + " " + rng.choice(("A", "gpu09 ", "777 ", "Xid 79 ")) * rng.randint(1_000, 60_000)


def _behind_bar(rng: random.Random, line: str) -> str:
    return f" {rng.randint(0, 100)}%|####      | 1/9 [00:01<00:08,  1.0it/s]\r{line}"


def _quoted(rng: random.Random, line: str) -> str:
    return rng.choice(('print("{}")', "'{}'", "<|{}|>", "```\n{}\n```", "$ echo {}")).format(line)


TWISTS: tuple[Callable[[random.Random, str], str], ...] = (
    *(_plain, _plain, _plain, _coloured, _torn, _huge, _behind_bar, _quoted),
)


def run(tries: int, seed: int, folder: Path) -> Score:
    score, rng, done = Score(), random.Random(seed), Counter[str]()
    with _cluster(folder) as calls:
        lake, bobs = _lake(folder)
        kept = folder / "kept"
        shutil.copytree(lake.root, kept)
        for number, variant in enumerate(variants(rng, tries)):
            score.tries += 1
            for journal in (*lake.root.glob("*.jsonl"), calls):
                journal.unlink(missing_ok=True)
            for journal in kept.glob("*.jsonl"):
                shutil.copy(journal, lake.root)
            executor = ("slurm", "kubernetes", "command")[number % 3]
            try:
                done[_tried(lake, variant, executor)] += 1
            except Exception as error:  # noqa: BLE001 - whatever it is, it is a fault
                score.fault(f"seed {seed} try {number}: {type(error).__name__}: {error}")
            for line in _faults(lake, variant, calls, bobs):
                score.fault(f"seed {seed} try {number} ({executor}, job {variant.job}): {line}: {variant.text[:200]!r}")
    score.measured = {name: str(count) for name, count in sorted(done.items())}
    return score


def _tried(lake: Lake, variant: Variant, executor: str) -> str:
    log = lake.root.parent / "hostile.log"
    log.write_bytes(variant.text.encode(errors="surrogateescape"))
    settings = HOOKED if executor == "command" else SETTINGS
    flow = Flow(replace(lake.config, recoveries=settings), FrozenClock(NOW))
    try:
        found = flow.diagnose(DiagnosisRequest(log, job_id=variant.job)).diagnosis
        if not found.incident_id:
            return "no incident"
        rescue = flow.recover(Asked(found.incident_id, executor, is_executed=True))
    except GpulakeError:
        return "refused by an error"
    if any(taken.status == "refused" for taken in rescue.steps):
        return "steps refused"
    return "acted on its own" if any(taken.commands for taken in rescue.steps) else "nothing to do"


def _faults(lake: Lake, variant: Variant, calls: Path, bobs: list[dict[str, object]]) -> Iterator[str]:
    made = [line.split("\037") for line in calls.read_text(errors="replace").splitlines()] if calls.exists() else []
    for call in made:
        if not _is_allowed(call, variant.job):
            yield f"ran {call}"
    if variant.is_honest and not any(word in call for call in made for word in ("cordon", "update")):
        yield "an honest log had no node drained"
    own = [row for row in lake.journal("incident_events") if row["incident_id"] == bobs[0]["incident_id"]]
    if own != bobs:
        yield "bob's incident was changed"


def _is_allowed(call: list[str], job: str | None) -> bool:
    match call:
        case ["hook", "tell", _]:
            return True
        case ["scontrol", "requeue", name] | ["hook", "restart", name]:
            return name == job
        case ["scontrol", "update", node, "state=drain", reason]:
            return job is not None and node.removeprefix("nodename=") in OWN_NODES and reason.startswith("reason=")
        case ["kubectl", "cordon", node] | ["hook", "cordon", node, _]:
            return job is not None and node in OWN_NODES
        case ["kubectl", "delete", "pod", "--namespace=default", selector, "--wait=false"]:
            return selector == f"--selector=batch.kubernetes.io/job-name={job}"
    return False


def _lake(folder: Path) -> tuple[Lake, list[dict[str, object]]]:
    """With the accounting of both jobs, and an incident of bob's."""
    accounting = folder / "sacct.txt"
    accounting.write_text(ACCOUNTING)
    flow = Flow(Config(lake=folder / "lake", threads=1), FrozenClock(NOW))
    flow.land([accounting])
    flow.build()
    log = folder / "bobs.log"
    log.write_text(SAID[0].format(node="gpu09", line=FATAL[0]) + "\n")
    found = flow.diagnose(DiagnosisRequest(log, job_id=OTHER)).diagnosis
    return flow.lake, [row for row in flow.lake.journal("incident_events") if row["incident_id"] == found.incident_id]


@contextmanager
def _cluster(folder: Path) -> Iterator[Path]:
    """Stand-ins first on the PATH, and where they note how they were called."""
    programs, calls, path = folder / "bin", folder / "calls", os.environ["PATH"]
    programs.mkdir()
    for name in ("scontrol", "sacct", "scancel", "srun", "kubectl", "hook"):
        (programs / name).write_text(PROGRAM.format(calls=calls))
        (programs / name).chmod(0o755)
    os.environ["PATH"] = f"{programs}{os.pathsep}{path}"
    try:
        yield calls
    finally:
        os.environ["PATH"] = path

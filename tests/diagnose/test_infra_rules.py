"""The rules of infrastructure, on lines as systems write them."""

from __future__ import annotations

import csv
import gzip
import string
from pathlib import Path

import pytest

from examples import each
from gpulake.diagnose.rulebook.book import shipped, shipped_rules
from gpulake.diagnose.rulebook.rule import EXPLAINING, Hit, Rule

FAMILIES = [
    *("cuda", "nccl", "collectives", "network", "storage", "slurm", "kubernetes", "kernel", "processes"),
    *("launchers", "cloud", "codes", "xid", "sxid"),
]
RULES = [rule for rule in shipped_rules() if rule.family in FAMILIES]


def hits(line: str) -> list[Hit]:
    return [hit for hit in shipped().hits(line) if hit.rule.family in FAMILIES]


def strongest(line: str) -> Rule | None:
    found = [hit.rule for hit in hits(line) if hit.rule.role in EXPLAINING]
    return max(found, key=lambda rule: rule.strength, default=None)


# What lines mean: the role, reason and recovery of the strongest rule.
MEANINGS = {
    "cause CUDAError needs_data_fix": [
        "[rank5]: RuntimeError: CUDA error: device-side assert triggered",
        "ScatterGatherKernel.cu:144: operator(): block: [3,0,0], thread: [1,0,0] Assertion `idx_dim >= 0` failed.",
    ],
    "cause CUDAError auto_restart": [
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling cublasCreate",
        "CUDA error: an illegal memory access was encountered",
        "RuntimeError: HIP error: invalid device function",
    ],
    "cause ECCError cordon_node_and_restart": [
        "RuntimeError: CUDA error: uncorrectable ECC error encountered",
    ],
    "cause CUDAError cordon_node_and_restart": [
        "RuntimeError: No CUDA GPUs are available",
    ],
    "cause DriverMismatch cordon_node_and_restart": [
        "Error 803: system has unsupported display driver / cuda driver combination",
    ],
    "cascade NCCLTimeoutError auto_restart": [
        "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(OpType=_ALLGATHER_BASE) ran for 600029",
    ],
    "cascade NCCLRemoteError auto_restart": [
        "ncclRemoteError: A call failed possibly due to a network error",
    ],
    "cause NCCLConfigError needs_config_change": [
        "Duplicate GPU detected : rank 3 and rank 2 both on CUDA device 1b000",
        "NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory",
    ],
    "cause SharedMemoryFull needs_config_change": [
        "Error while creating shared memory segment /dev/shm/nccl-k2, error: No space left on device (28)",
        "RuntimeError: DataLoader worker (pid 11) is killed by signal: Bus error.",
    ],
    "cascade ConnectionError auto_restart": [
        "pair.cc:525] Connection closed by peer [10.1.2.3]:40100",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
    ],
    "cause PortInUse needs_config_change": [
        "OSError: [Errno 98] Address already in use",
    ],
    "cause ConnectionError auto_restart": [
        "requests.exceptions.HTTPError: 502 Server Error: Bad Gateway for url: https://x",
    ],
    "cause NetworkError auto_restart": [
        "socket.gaierror: [Errno -3] Temporary failure in name resolution",
    ],
    "cause DiskFull needs_config_change": [
        "OSError: [Errno 28] No space left on device: '/ckpt/a.pt'",
    ],
    "cause OSError auto_restart": [
        "OSError: [Errno 116] Stale file handle",
    ],
    "cause S3StorageError auto_restart": [
        "botocore.exceptions.ClientError: An error occurred (503) when calling the GetObject operation: Slow Down",
    ],
    "cause DataloaderKilled auto_restart": [
        "RuntimeError: DataLoader worker (pid 11) is killed by signal: Killed.",
    ],
    "cascade DataloaderKilled auto_restart": [
        "RuntimeError: DataLoader worker (pid(s) 11, 12) exited unexpectedly",
    ],
    "cause PreemptionSIGTERM auto_restart": [
        "slurmstepd: error: *** STEP 9.0 ON a1 CANCELLED AT 2025-01-02T03:04:05 DUE TO PREEMPTION ***",
    ],
    "cause JobCancelled auto_restart": [
        "40%|##  | 4/10 [00:09]slurmstepd: error: *** JOB 9 ON a1 CANCELLED AT 2025-01-02T03:04:05 ***",
    ],
    "cause HostOOMKilled needs_config_change": [
        "error: Detected 2 oom_kill events in StepId=9.0. Some of the step tasks have been OOM Killed.",
        "The node was low on resource: memory. Container main was using 90Gi",
        "[1.2] Out of memory: Killed process 31 (python) total-vm:1kB",
    ],
    "cause ProcessCrashed auto_restart": [
        "srun: error: a1: task 3: Segmentation fault (core dumped)",
        "failed (exitcode: -11) local_rank: 2 (pid: 812) of binary: python",
    ],
    "cause NodeFailure cordon_node_and_restart": [
        "Node a1 status is now: NodeNotReady",
    ],
    "cause ProcessKilled auto_restart": [
        "3: Killed",
        "run.sh: line 3:   812 Killed                  torchrun train.py",
    ],
    "cause HostOOMKilled auto_restart": [
        "failed (exitcode: -9) local_rank: 2 (pid: 812) of binary: python",
    ],
    "cascade PreemptionSIGTERM auto_restart": [
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 8 got signal: 15",
    ],
    "cause UserInterrupt auto_restart": [
        "[rank2]: KeyboardInterrupt",
    ],
}


@each("line, meaning", [(line, meaning) for meaning, lines in MEANINGS.items() for line in lines])
def test_a_line_is_reported_as(line: str, meaning: str) -> None:
    rule = strongest(line)
    assert rule is not None
    assert f"{rule.role} {rule.reason} {rule.recovery}" == meaning


@each(
    "line",
    [
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "failed (exitcode: 1) local_rank: 0 (pid: 8) of binary: /usr/bin/python",
        "Sending process 8 closing signal SIGTERM",
        "srun: error: a1: tasks 0-7: Exited with exit code 1",
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
        "ray.exceptions.RayTaskError(KeyError): ray::f() (pid=8, ip=10.0.0.1)",
        "subprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit status 1.",
        "Primary job  terminated normally, but 1 process returned",
        "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
        "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
        "NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.",
        "NCCL INFO [Service thread] Connection closed by localRank 3",
        "Unable to register cuBLAS factory: Attempting to register factory for plugin cuBLAS",
        "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default",
        "srun: warning: can't run 1 processes on 2 nodes, setting nnodes to 1",
        "WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError': Network is unreachable",
        "wandb: Network error (ConnectionError), entering retry loop.",
        "TensorBoard could not bind to port 6006, it was already in use",
        "number of nan iterations: 0 | number of skipped iterations: 0",
        "ECC errors: 0, Xid errors: 0, NVLink errors: 0",
        "Killed 0 stale workers",
        "lr: 0.00404 | step 137 | loss 2.503 | 429 tokens",
    ],
)
def test_a_line_that_explains_nothing_is_no_cause(line: str) -> None:
    assert strongest(line) is None


@each("rule", RULES, name=lambda rule: rule.name)
def test_a_rule_fills_in_all_that_its_sentences_name(rule: Rule) -> None:
    named = {
        name
        for text in (rule.cause, rule.remedy)
        for _, name, _, _ in string.Formatter().parse(text)
        if name is not None
    }
    for line in rule.matches:
        words = next(hit.words for hit in shipped().hits(line) if hit.rule is rule)
        assert named <= set(words), line


@each("rule", [rule for rule in RULES if rule.role in EXPLAINING], name=lambda rule: rule.name)
def test_a_cause_says_why_its_recovery_helps_and_what_looks_alike(rule: Rule) -> None:
    assert rule.recovery not in ("unknown", "none")
    assert all((rule.why, rule.ignores))


def test_of_its_own_lines_a_rule_is_the_strongest() -> None:
    stolen = []
    for rule in RULES:
        for line in rule.matches:
            best = strongest(line)
            if rule.role in EXPLAINING and best is not rule:
                stolen.append((rule.name, best.name if best else None, line))
    assert stolen == []


@pytest.mark.slow
@pytest.mark.real
def test_no_rule_but_the_time_limit_finds_a_cause_in_a_run_that_succeeded(real_data: Path) -> None:
    """Six runs reached their target and were then left to their time limit: it is there, and no failure."""
    folder = real_data / "mlperf_logs"
    causes = set()
    with (folder / "labels.csv").open() as labels:
        succeeded = [row["file"] for row in csv.DictReader(labels) if row["outcome"] == "success"]
    for name in succeeded:
        with gzip.open(folder / "logs" / f"{name}.gz", "rt", errors="replace") as log:
            causes |= {hit.rule.name for line in log for hit in hits(line.rstrip("\n")) if hit.rule.role == "cause"}
    assert causes <= {"slurm_time_limit"}

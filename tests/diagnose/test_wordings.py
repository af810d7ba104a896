"""Every reason in the words of many frameworks, within what launchers write around them."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from diagnosing import diagnose
from gpulake.core.diagnosis import CATEGORY_OF

WORDINGS = Path(__file__).parent.parent / "fixtures" / "diagnose" / "wordings.toml"
# Raised by the launcher itself, or by what no single rank says.
_OF_A_LAUNCHER = ("SignalException", "slurm", "srun", "launch.py", "PBS", "CANCELLED", "RayTask")

NOISE = """\
CommandNotFoundError: Your shell has not been properly configured to use 'conda activate'.
Lmod has detected the following error: The following module(s) are unknown: "cuda/12.9"
2025-01-02 03:00:00.101: E external/local_xla/xla/stream_executor/cuda/cuda_dnn.cc:8454] Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN when one has already been registered
2025-01-02 03:00:00.202: W tensorflow/compiler/tf2tensorrt/utils/py_utils.cc:38] TF-TRT Warning: Could not find TensorRT
[W102 03:00:01.108 socket.cpp:759] [c10d] The client socket cannot be initialized to connect to [n7.example]:39591 (errno: 97 - Address family not supported by protocol).
/opt/py/lib.py:12: UserWarning: failed to load image extension
WARNING:root:could not import apex, falling back to torch
step 1 loss 9.1
step 2 loss 8.7
"""
STEPS = "Epoch 1:  12%|█▏        | 24/200 [00:11<01:22,  2.13it/s, loss=3.1]\n"
TRACKED = """\
wandb:
wandb: Run history:
wandb: train/loss █▅▂
wandb: You can sync this run to the cloud by running:
wandb: Find logs at: wandb/offline-run-1/logs
"""


def plain(error: str, is_raised: bool) -> str:
    if not is_raised:
        return f"starting\n{error}\n"
    return f'Traceback (most recent call last):\n  File "/job/train.py", line 88, in <module>\n    main()\n  File "/job/train.py", line 61, in main\n    run(settings)\n{error}\n'


def noisy(error: str, is_raised: bool) -> str:
    return NOISE + STEPS + plain(error, is_raised) + (TRACKED if is_raised else "")


def torchrun(error: str, is_raised: bool) -> str:
    said = plain(error, is_raised)
    told = "".join(f"[rank{rank}]: {line}\n" for rank in (2, 0) for line in said.splitlines()) if is_raised else said
    return f"""\
W0102 03:00:00.000 991 torch/distributed/run.py:793] Setting OMP_NUM_THREADS environment variable for each process to be 1 in default
{STEPS}{told}W0102 03:04:05.678 991 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 1041 closing signal SIGTERM
E0102 03:04:06.678 991 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 2 (pid: 1042) of binary: /usr/bin/python3
Traceback (most recent call last):
  File "/usr/bin/torchrun", line 8, in <module>
    sys.exit(main())
  File "/opt/py/torch/distributed/run.py", line 901, in main
    run(args)
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2025-01-02_03:04:05
  host      : n7
  rank      : 2 (local_rank: 2)
  exitcode  : 1 (pid: 1042)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""


def deepspeed(error: str, is_raised: bool) -> str:
    return f"""\
[2025-01-02 03:00:00,000] [INFO] [runner.py:568:main] cmd = /usr/bin/python3 -u -m deepspeed.launcher.launch train.py
{STEPS}{plain(error, is_raised)}[2025-01-02 03:04:05,678] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 4412
[2025-01-02 03:04:05,700] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 4413
[2025-01-02 03:04:06,678] [ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python3', '-u', 'train.py', '--local_rank=1'] exits with return code = 1
"""


def srun(error: str, is_raised: bool) -> str:
    said = plain(error, is_raised)
    told = "".join(f"{task}: {line}\n" for task in (3, 1) for line in said.splitlines()) if is_raised else said
    return f"""\
+ srun -l python train.py
{STEPS}{told}srun: error: n7: task 3: Exited with exit code 1
srun: Terminating StepId=88.0
0: slurmstepd: error: *** STEP 88.0 ON n7 CANCELLED AT 2025-01-02T03:04:05 ***
srun: error: n7: tasks 0-2: Terminated
"""


def accelerate(error: str, is_raised: bool) -> str:
    return f"""\
The following values were not passed to `accelerate launch` and had defaults used instead:
{plain(error, is_raised)}Traceback (most recent call last):
  File "/usr/bin/accelerate", line 8, in <module>
    sys.exit(main())
  File "/opt/py/accelerate/commands/launch.py", line 628, in simple_launcher
    raise subprocess.CalledProcessError(returncode=process.returncode, cmd=cmd)
subprocess.CalledProcessError: Command '['/usr/bin/python3', 'train.py']' returned non-zero exit status 1.
"""


def ray(error: str, is_raised: bool) -> str:
    said = plain(error, is_raised)
    return f"""\
2025-01-02 03:00:00,000 INFO worker.py:1841 -- Started a local Ray instance.
{"".join(f"(main_task pid=812) {line}" + chr(10) for line in said.splitlines())}"""


def glued(error: str, is_raised: bool) -> str:
    """To a progress bar that was never ended."""
    return STEPS.rstrip("\n") * 3 + plain(error, is_raised).removeprefix("starting\n")


SCENES: tuple[Callable[[str, bool], str], ...] = (plain, noisy, torchrun, deepspeed, srun, accelerate, ray, glued)


def told() -> Iterator[Any]:
    for reason, ways in tomllib.loads(WORDINGS.read_text("utf-8")).items():
        for kind, errors in ways.items():
            for error in errors:
                for scene in SCENES:
                    if scene in (plain, noisy) or (kind == "raised" and not any(w in error for w in _OF_A_LAUNCHER)):
                        yield pytest.param(
                            reason, scene(error, kind == "raised"), id=f"{reason}-{scene.__name__}-{error[:60]}"
                        )


@pytest.mark.parametrize(("reason", "log"), list(told()))
def test_a_failure_is_known_by_any_of_its_wordings(reason: str, log: str) -> None:
    found = diagnose(log)
    assert (found.verdict, found.reason) == ("failed", reason)


def test_every_reason_is_worded() -> None:
    worded = set(tomllib.loads(WORDINGS.read_text("utf-8")))
    assert set(CATEGORY_OF) - worded == {"NotAFailure", "unknown", "HangStraggler"}

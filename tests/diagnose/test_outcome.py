"""A run is healthy only if nothing in its log contradicts it."""

from __future__ import annotations

import pytest

from diagnosing import diagnose
from examples import each

STEPS = "".join(f"epoch 1 step {step}/1000 loss: {2.5 - step / 1000:.3f}\n" for step in range(0, 200, 10))
REST = "".join(f"epoch 1 step {step}/1000 loss: 0.500\n" for step in range(200, 1001, 10))
DIES = """\
Traceback (most recent call last):
  File "/job/train.py", line 88, in <module>
    main()
KeyError: 'val_acc'
"""
UNHANDLED = {
    "a line of a finally block": f"{STEPS}{DIES}Training took 00:02:45\n",
    "the end of training, before the evaluation fails": f"{STEPS}{REST}Training took 00:02:45\n{DIES}",
    "the script around the program": f"{DIES}All done!\n",
    "the summary of a tracker": f"{STEPS}{DIES}wandb: Run summary:\nwandb:   loss 1.2\nwandb: Synced 5\n",
    "a final model": f"{STEPS}{DIES}final model saved to out/model.pt\n",
}


@each("place", UNHANDLED)
def test_a_success_does_not_outrank_an_unhandled_exception(place: str) -> None:
    found = diagnose(UNHANDLED[place])
    assert (found.verdict, found.reason) == ("failed", "KeyError")


def test_a_success_does_not_outrank_a_cancellation_a_kill_or_a_loss_that_stays_nan() -> None:
    done = f"{STEPS}Training done, evaluating\n"
    logs = {
        "JobCancelled": f"{done}slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2025-01-02T03:04:05 ***\n",
        "HostOOMKilled": f"{done}slurmstepd: error: Detected 1 oom-kill event(s) in step 7.batch cgroup.\n",
        "LossNaN": "".join(f"Epoch {n}/9 loss: {'nan' if n > 3 else 1.5}\n" for n in range(1, 10))
        + "Training finished.\n",
    }
    assert {diagnose(log).reason for log in logs.values()} == set(logs)


def test_a_success_does_not_outrank_an_exit_code() -> None:
    found = diagnose(f"{STEPS}Training complete\nsrun: error: n1: task 0: Exited with exit code 1\n")
    assert (found.verdict, found.reason) == ("failed", "unknown")


def test_an_error_after_which_the_steps_went_on_does_not_contradict_a_success() -> None:
    logged = DIES.replace("<module>", "upload").replace("KeyError: 'val_acc'", "ConnectionError: aborted")
    assert diagnose(f"{STEPS}{logged}{REST}Training finished in 01:02:03\n").verdict == "healthy"


@pytest.mark.parametrize("text", ["", "!zyxw[]{}\n" * 40, '<?xml version="1.0"?>\n<jobs>\n<job id="1"/>\n</jobs>\n'])
def test_what_is_no_log_of_a_job_is_not_called_healthy(text: str) -> None:
    assert diagnose(text).verdict == "unknown"

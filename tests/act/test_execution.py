"""A plan that is carried out: each step known before it is taken, none taken twice, whatever happens in between."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import dead_jobs
from dead_jobs import NOW, Programs, details, died, recover, settings, statuses, trail
from gpulake.act.commands import Outcome
from gpulake.act.execution import Rescue
from gpulake.act.recovery import Asked, Recovering, run_small
from gpulake.core.clock import FrozenClock
from gpulake.core.errors import ActError, InputError, LakeBusyError, LakeError, UsageError
from gpulake.lake import Lake

CORDON: dict[str, Any] = {"action": "cordon_node_and_restart", "reason": "ECCError"}


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    return dead_jobs.programs(tmp_path / "bin", monkeypatch)


def saved(folder: Path, *steps: int, minutes: float = -60.0) -> Path:
    """Checkpoints of Megatron, a minute apart, from so many minutes after NOW."""
    for number, step in enumerate(steps):
        path = folder / f"iter_{step:07}" / "mp_rank_00" / "model_optim_rng.pt"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"weights")
        at = (NOW + timedelta(minutes=minutes + number)).timestamp()
        os.utime(path, (at, at))
    (folder / "latest_checkpointed_iteration.txt").write_text(str(max(steps)))
    return folder


def test_the_trail_knows_of_each_step_before_and_after(lake: Lake, cluster: Programs) -> None:
    died(lake, node="n1", **CORDON)
    rescue = recover(lake, own=settings(restart_command=()))
    assert statuses(rescue) == [("cordon", "done"), ("restart", "done")]
    assert trail(lake) == [
        ("decide", None, "started"),
        ("cordon", "n1", "started"),
        ("cordon", "n1", "done"),
        ("restart", None, "started"),
        ("restart", None, "done"),
        ("decide", None, "done"),
    ]
    assert set(trail(lake, "recovery_id", "incident_id", "job_id", "cluster_id", "executor", "attempt", "action")) == {
        (rescue.recovery_id, "4f1c2d", "77", "c", "slurm", 1, "cordon_node_and_restart")
    }
    assert details(lake, "restart")[-1] == {
        "why": "after ECCError, from the checkpoint that the job finds itself",
        "commands": [["scontrol", "requeue", "77"]],
        "reason": "ECCError",
        "failed_node": "n1",
        "has_progress": True,
        "checkpoint": None,
        "checkpoint_step": None,
        "exit_code": 0,
        "said": "",
    }
    assert cluster.calls()[0][:4] == ["scontrol", "update", "nodename=n1", "state=drain"]


def test_a_dry_run_leaves_its_plan_once_and_does_nothing(lake: Lake, cluster: Programs) -> None:
    died(lake, node="n1", **CORDON)
    for _ in range(2):
        rescue = recover(lake, executor="dry-run")
        assert statuses(rescue) == [("cordon", "planned"), ("restart", "planned")]
    rows = [("decide", None, "planned"), ("cordon", "n1", "planned"), ("restart", None, "planned")]
    assert trail(lake) == rows
    assert cluster.calls() == []
    # A plan is no deed.
    assert statuses(recover(lake)) == [("cordon", "done"), ("restart", "done")]


def test_a_look_leaves_no_row(lake: Lake, cluster: Programs) -> None:
    died(lake)
    assert statuses(recover(lake, is_executed=False)) == [("restart", None)]
    assert trail(lake) == []
    assert cluster.calls() == []


class Killed(BaseException):
    """The process ended here."""


def recovering(lake: Lake, run: Callable[[Sequence[str], float], Outcome] = run_small) -> Rescue:
    config = replace(lake.config, recoveries=settings())
    with lake.writing():
        asked = Asked("4f1c2d", executor="command", is_executed=True)
        return Recovering(lake, config, FrozenClock(NOW), "run", run).recover(asked)


def killed_at(word: str, is_before: bool) -> Callable[[Sequence[str], float], Outcome]:
    """The process is gone just before, or just after, the program with that word in its call was run."""

    def run(arguments: Sequence[str], most_seconds: float) -> Outcome:
        if word in arguments and is_before:
            raise Killed
        outcome = run_small(arguments, most_seconds)
        if word in arguments:
            raise Killed
        return outcome

    return run


@pytest.mark.parametrize("is_before", [True, False])
@pytest.mark.parametrize(
    ("word", "step", "left"),
    [("cordon", "cordon of node n1", ["cordon", "restart"]), ("restart", "restart", ["restart"])],
)
def test_after_a_crash_nothing_is_repeated_unasked(
    lake: Lake, cluster: Programs, is_before: bool, word: str, step: str, left: list[str]
) -> None:
    died(lake, node="n1", **CORDON)
    with pytest.raises(Killed):
        recovering(lake, killed_at(word, is_before))
    assert trail(lake)[-1][2] == "started"
    calls, rows = cluster.calls(), trail(lake)
    with pytest.raises(ActError, match=f"{step} was begun at .* nobody knows whether it was done .job 77,"):
        recover(lake, executor="command")
    assert (cluster.calls(), trail(lake)) == (calls, rows)
    # Whoever has looked may say so; what was done for certain stays done.
    assert statuses(recover(lake, executor="command", is_again=True)) == [(name, "done") for name in left]
    assert [call[1] for call in cluster.calls()[len(calls) :]] == left
    assert recover(lake, executor="command").done_at is not None


class CutOff(Lake):
    """The process ends before a restart is begun."""

    def append(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        if rows[0]["step"] == "restart":
            raise Killed
        super().append(table, rows)


def test_a_crash_between_two_steps_is_taken_up_where_it_was(lake: Lake, cluster: Programs) -> None:
    died(lake, node="n1", **CORDON)
    with pytest.raises(Killed):
        recovering(CutOff(lake.config))
    assert [call[1] for call in cluster.calls()] == ["cordon"]
    assert statuses(recover(lake, executor="command")) == [("restart", "done")]
    assert [call[1] for call in cluster.calls()] == ["cordon", "restart"]
    assert len(set(trail(lake, "recovery_id"))) == 1


def test_a_step_that_fails_stops_the_rest(lake: Lake, cluster: Programs) -> None:
    cluster.answer(("drain", 1, "slurm_update error: Invalid node name"))
    died(lake, node="n1", **CORDON)
    rescue = recover(lake)
    assert statuses(rescue) == [("cordon", "failed"), ("restart", None)]
    assert rescue.steps[0].detail == "slurm_update error: Invalid node name"
    assert rescue.steps[1].detail == "not taken: the step before it, cordon, did not go well"
    assert len(cluster.calls()) == 1


def test_a_program_that_does_not_end_leaves_a_doubt(lake: Lake, cluster: Programs) -> None:
    died(lake)
    (cluster.folder / "hook").write_text("#!/bin/sh\nexec sleep 60\n")
    own = settings(command_seconds=0.3)
    assert statuses(recover(lake, executor="command", own=own)) == [("restart", "unknown")]
    with pytest.raises(ActError, match="nobody knows whether it was done"):
        recover(lake, executor="command", own=own)


def test_only_one_at_a_time(lake: Lake, cluster: Programs) -> None:
    died(lake)
    with lake.writing(), pytest.raises(LakeBusyError, match="another gpulake is writing"):
        recover(lake)
    assert cluster.calls() == []


def test_again_is_another_attempt(lake: Lake, cluster: Programs) -> None:
    died(lake)
    first, second = recover(lake, executor="command"), recover(lake, executor="command", is_again=True)
    assert (first.attempt, second.attempt) == (1, 2)
    assert first.recovery_id != second.recovery_id
    assert [call[1:] for call in cluster.calls()] == [["restart", "77", "1"], ["restart", "77", "2"]]


def test_a_node_is_not_cordoned_for_two_jobs(lake: Lake, cluster: Programs) -> None:
    died(lake, "aaaa", node="n1", **CORDON)
    died(lake, "bbbb", node="n1", job_id="78", **CORDON)
    recover(lake, "aaaa", executor="command")
    assert statuses(recover(lake, "bbbb", executor="command")) == [("restart", "done")]
    assert [call[1] for call in cluster.calls()] == ["cordon", "restart", "restart"]


def test_the_same_failure_again_without_progress_notifies_the_user(lake: Lake, cluster: Programs) -> None:
    died(lake, "aaaa")
    died(lake, "bbbb", minutes=30)
    died(lake, "cccc", minutes=200)
    recover(lake, "aaaa")
    rescue = recover(lake, "bbbb", minutes=31)
    assert statuses(rescue) == [("tell", "done")]
    assert rescue.steps[0].step.why == (
        "not restarted: it failed the same way again, with no progress since it was restarted"
    )
    # A run of hours is progress enough where no checkpoints are known.
    assert statuses(recover(lake, "cccc", minutes=201)) == [("restart", "done")]
    assert [call[1] for call in cluster.calls()] == ["restart", "tell", "restart"]


def test_a_new_checkpoint_gives_the_budget_back(lake: Lake, cluster: Programs, tmp_path: Path) -> None:
    folder = saved(tmp_path / "ckpt", 500, 1000)
    own = settings(checkpoints=str(tmp_path / "{job_id}"))
    (tmp_path / "77").symlink_to(folder)
    died(lake, "aaaa")
    rescue = recover(lake, "aaaa", own=own)
    assert details(lake, "restart")[-1]["checkpoint_step"] == 1000
    died(lake, "bbbb", minutes=300)
    assert statuses(recover(lake, "bbbb", minutes=301, own=own)) == [("tell", "done")]
    saved(folder, 1500, minutes=310)
    died(lake, "cccc", minutes=320)
    assert statuses(recover(lake, "cccc", minutes=321, own=own)) == [("restart", "done")]
    assert rescue.attempt == 1
    assert [call[1] for call in cluster.calls()] == ["restart", "tell", "restart"]


def test_a_loss_that_went_astray_goes_further_back_each_time(lake: Lake, cluster: Programs, tmp_path: Path) -> None:
    folder = saved(tmp_path / "ckpt", 500, 1000, 1500)
    nan: dict[str, Any] = {
        "reason": "LossNaN",
        "action": "unknown",
        "evidence": [{"line": 1, "text": "iteration 1200 | loss nan"}],
    }
    for number, incident in enumerate(("aaaa", "bbbb", "cccc")):
        died(lake, incident, minutes=10 * number, **nan)
        recover(lake, incident, minutes=10 * number + 1, checkpoints=folder)
    assert [call[1:-1] if call[1] == "tell" else call[1:] for call in cluster.calls()] == [
        ["rollback", "77", f"{folder}/iter_0001000", "1000-1200"],
        ["rollback", "77", f"{folder}/iter_0000500", "500-1200"],
        ["tell", "77"],
    ]


def test_slurm_alone_cannot_roll_back_so_the_user_is_notified(lake: Lake, cluster: Programs, tmp_path: Path) -> None:
    died(lake, reason="LossNaN", action="unknown")
    own = settings(rollback_command=(), tell_command=())
    rescue = recover(lake, own=own, checkpoints=saved(tmp_path / "ckpt", 500))
    assert statuses(rescue) == [("rollback", "refused"), ("tell", "done")]
    assert rescue.steps[1].step.why.startswith("no rollback: no rollback_command is set")
    assert cluster.calls() == []
    assert trail(lake)[1] == ("rollback", None, "refused")


TEST: dict[str, Any] = {"test_command": ("srun", "-w", "{nodes}", "-N", "{count}", "all_gather"), "cluster_nodes": 100}


def test_the_faulty_node_is_found_cordoned_and_left_out(lake: Lake, cluster: Programs) -> None:
    cluster.answer(("srun.*n3", 1, "all_gather failed"), ("drain", 1, "not now"))
    died(lake, **CORDON)
    own = settings(**TEST)
    rescue = recover(lake, own=own, nodes=("n1", "n2", "n3", "n4"))
    assert [(taken.step.step, taken.step.node, taken.status) for taken in rescue.steps] == [
        ("test", None, "done"),
        ("cordon", "n3", "failed"),
        ("restart", None, None),
    ]
    tests = [call for call in cluster.calls() if call[0] == "srun"]
    assert sorted(tests) == [
        ["srun", "-w", world, "-N", "2", "all_gather"] for world in ("n1,n2", "n3,n1", "n3,n4", "n4,n2")
    ]
    assert details(lake, "test")[-1]["faulty"] == ["n3"]
    cluster.answer()
    # What the test found is known; it is not run again.
    assert statuses(recover(lake, own=own, nodes=("n1", "n2", "n3", "n4"))) == [
        ("test", "done"),
        ("cordon", "done"),
        ("restart", "done"),
    ]
    assert [call for call in cluster.calls() if call[0] == "srun"] == tests


def test_the_nodes_that_the_scheduler_knows_are_tested_where_nobody_names_them(lake: Lake, cluster: Programs) -> None:
    cluster.answer(("srun.*n3", 1, "all_gather failed"), ("^hook nodes", 0, "n1 n2 n3 n4"))
    died(lake, **CORDON)
    rescue = recover(lake, own=settings(**TEST))
    assert [(taken.step.step, taken.step.node, taken.status) for taken in rescue.steps] == [
        ("test", None, "done"),
        ("cordon", "n3", "done"),
        ("restart", None, "done"),
    ]


def test_more_faulty_nodes_than_may_be_cordoned_notify_the_user(lake: Lake, cluster: Programs) -> None:
    cluster.answer(("srun.*(n1|n5)", 1, ""))
    died(lake, **CORDON)
    rescue = recover(lake, own=settings(**{**TEST, "cluster_nodes": 8}), nodes=tuple(f"n{n}" for n in range(1, 7)))
    assert [(taken.step.step, taken.step.node, taken.status) for taken in rescue.steps] == [
        ("test", None, "done"),
        ("cordon", "n1", "refused"),
        ("cordon", "n5", "refused"),
        ("restart", None, "refused"),
        ("tell", None, "done"),
    ]
    assert [call[1] for call in cluster.calls() if call[0] == "hook"] == ["tell"]


def test_a_test_that_cannot_be_run_stops_it_all(lake: Lake, cluster: Programs) -> None:
    died(lake, **CORDON)
    own = settings(test_command=("/nowhere/srun", "{nodes}"))
    rescue = recover(lake, own=own, nodes=("n1", "n2"))
    assert statuses(rescue) == [("test", "failed"), ("cordon", None), ("restart", None)]
    assert cluster.calls() == []


def test_a_model_may_have_the_job_restarted_and_no_more(lake: Lake, cluster: Programs) -> None:
    died(lake, node="n1", method="model", **CORDON)
    assert statuses(recover(lake)) == [("restart", "done"), ("tell", "done")]
    assert [call[1] for call in cluster.calls()] == ["restart", "tell"]


def test_a_person_may_correct_what_was_found(lake: Lake, cluster: Programs) -> None:
    died(lake)
    corrected = {"event": "corrected", "reason": "KeyError", "is_confirmed": True, "cause": "no such key"}
    last = lake.journal("incident_events")[-1]
    lake.append("incident_events", [{**last, **corrected}])
    rescue = recover(lake)
    assert statuses(rescue) == [("tell", "done")]
    assert rescue.plan.why == "a person says that it was KeyError, and not NetworkError"
    assert cluster.calls()[0][3].startswith("Job 77: KeyError. no such key.")


def test_nothing_is_done_about_an_incident_that_is_closed_though_an_older_row_was_written_later(
    lake: Lake, cluster: Programs
) -> None:
    died(lake)
    (diagnosed,) = lake.journal("incident_events")
    later = {"event": "resolved", "state": "resolved", "changed_by": "ann", "changed_at": NOW + timedelta(minutes=2)}
    stale = {"event": "updated", "changed_at": NOW + timedelta(minutes=1)}
    lake.append("incident_events", [{**diagnosed, **later}, {**diagnosed, **stale}])
    rescue = recover(lake, minutes=3)
    assert (rescue.steps, rescue.plan.why) == ((), "the incident is resolved")
    assert cluster.calls() == []


def test_a_job_without_an_id_needs_one(lake: Lake, cluster: Programs) -> None:
    died(lake, job_id=None)
    assert statuses(recover(lake, own=settings(tell_command=()))) == [("restart", "refused"), ("tell", "done")]
    assert cluster.calls() == []
    # Nothing was restarted: now it can be, and the user is not told twice.
    for _ in range(2):
        recover(lake, own=settings(tell_command=()))
    assert trail(lake)[1:] == [
        ("restart", None, "refused"),
        ("tell", None, "started"),
        ("tell", None, "done"),
        ("decide", None, "refused"),
    ]
    assert statuses(recover(lake, job_id="78")) == [("restart", "done")]
    assert cluster.calls() == [["hook", "restart", "78", "1"]]
    assert recover(lake, job_id="78").done_at is not None


def test_a_restart_beside_a_cordon_that_was_refused_is_not_repeated(lake: Lake, cluster: Programs) -> None:
    died(lake, node="ALL", **CORDON)
    for _ in range(2):
        rescue = recover(lake)
        assert statuses(rescue) == [("cordon", "refused"), ("restart", "done"), ("tell", "done")]
    assert [call[1] for call in cluster.calls()] == ["restart", "tell"]


def test_an_incident_is_known_by_the_beginning_of_its_id(lake: Lake, cluster: Programs) -> None:
    died(lake, "abc1")
    died(lake, "abd2")
    assert recover(lake, "abc", is_executed=False).failure.incident_id == "abc1"
    with pytest.raises(UsageError, match="'ab' begins 2 incidents"):
        recover(lake, "ab")
    with pytest.raises(UsageError, match="no incident 'x'"):
        recover(lake, "x")
    with pytest.raises(UsageError, match="no executor named 'slrum'"):
        recover(lake, "abc", executor="slrum")
    with pytest.raises(InputError, match="no folder of checkpoints"):
        recover(lake, "abc", checkpoints=Path("/nowhere"))
    assert cluster.calls() == []


def test_a_failure_of_which_two_logs_tell_brings_the_job_back_once(lake: Lake, cluster: Programs) -> None:
    """The logs of two ranks are two incidents. The second restart would end the run that the first one began."""
    died(lake, "aaaa", minutes=0, began_at=NOW - timedelta(hours=5))
    died(lake, "bbbb", minutes=0.1, began_at=NOW - timedelta(hours=5, seconds=1), cluster_id=None)
    recover(lake, "aaaa", minutes=1)
    rescue = recover(lake, "bbbb", minutes=2)
    assert (rescue.steps, cluster.calls()) == ((), [["hook", "restart", "77", "1"]])
    assert rescue.plan.why == (
        "the job was restarted at 2026-01-02 12:01:00 UTC for incident aaaa, after this failure;"
        " with --again it is recovered all the same"
    )
    assert statuses(recover(lake, "bbbb", minutes=3, is_again=True)) == [("restart", "done")]


@pytest.mark.usefixtures("cluster")
def test_a_log_whose_clock_is_ahead_does_not_bring_the_job_back_twice(lake: Lake) -> None:
    died(lake, "aaaa", minutes=0)
    died(lake, "bbbb", minutes=0.1, ended_at=NOW + timedelta(hours=8), began_at=NOW - timedelta(hours=1))
    recover(lake, "aaaa", minutes=1)
    assert recover(lake, "bbbb", minutes=2).steps == ()


def test_a_failure_after_which_the_job_ran_again_is_left_alone(lake: Lake, cluster: Programs) -> None:
    died(lake, "aaaa", minutes=0)
    died(lake, "bbbb", minutes=500, began_at=NOW + timedelta(minutes=400))
    rescue = recover(lake, "aaaa", minutes=501)
    assert rescue.plan.why.startswith("the job ran again since, and that run is incident bbbb;")
    assert cluster.calls() == []
    assert statuses(recover(lake, "bbbb", minutes=501)) == [("restart", "done")]


def test_an_incident_of_last_week_is_left_alone_unless_asked(lake: Lake, cluster: Programs) -> None:
    died(lake)
    rescue = recover(lake, minutes=73 * 60)
    assert rescue.plan.why.startswith("the incident was opened more than 72 hours ago;")
    assert (rescue.steps, trail(lake), cluster.calls()) == ((), [], [])
    assert statuses(recover(lake, minutes=73 * 60, is_again=True)) == [("restart", "done")]


@pytest.mark.usefixtures("cluster")
def test_a_budget_counts_restarts_of_the_job_whether_its_cluster_was_known_or_not(lake: Lake) -> None:
    died(lake, "aaaa", cluster_id=None)
    died(lake, "bbbb", minutes=30)
    recover(lake, "aaaa")
    assert statuses(recover(lake, "bbbb", minutes=31)) == [("tell", "done")]


def test_a_deletion_that_found_nothing_failed_although_kubectl_also_warned(lake: Lake, cluster: Programs) -> None:
    program = cluster.folder / "kubectl"
    program.write_text("#!/bin/sh\necho No resources found\necho Warning: an old version >&2\n")
    died(lake)
    own = settings(restart_command=())
    assert statuses(recover(lake, own=own, executor="kubernetes")) == [("restart", "failed")]


def test_a_test_of_other_nodes_or_of_long_ago_is_repeated(lake: Lake, cluster: Programs) -> None:
    cluster.answer(("srun.*n3", 1, ""), ("drain", 1, "not now"))
    died(lake, **CORDON)
    own = settings(**TEST)
    recover(lake, own=own, nodes=("n1", "n2", "n3", "n4"))
    cluster.answer()
    rescue = recover(lake, own=own, nodes=("n5", "n6"))
    assert statuses(rescue) == [("test", "done"), ("restart", "done")]
    assert [call[2] for call in cluster.calls() if call[0] == "srun"][-1] == "n5,n6"


@pytest.mark.parametrize(
    "row",
    [{}, {"recovery_id": 7}, {"status": "gone"}, {"stepped_at": "yesterday"}, {"attempt": None}, {"step": "explode"}],
)
def test_an_unknown_row_stops_every_recovery(lake: Lake, cluster: Programs, row: dict[str, Any]) -> None:
    died(lake, "aaaa")
    recover(lake, "aaaa")
    whole = lake.journal("recoveries")[1]
    with (lake.root / "recoveries.jsonl").open("a") as journal:
        journal.write(json.dumps({**whole, **row} if row and "recovery_id" not in row else row) + "\n")
    calls = cluster.calls()
    with pytest.raises(LakeError, match="a row of table recoveries cannot be read"):
        recover(lake, "aaaa", is_again=True)
    assert cluster.calls() == calls


@pytest.mark.usefixtures("cluster")
def test_rows_of_others_in_the_journal_of_incidents_are_passed_over(lake: Lake) -> None:
    for file in ("incidents.jsonl", "diagnoses.jsonl"):
        (lake.root / file).write_text('{"something": "else"}\n{"incident_id": 7}\n[1]\n{"incident')
    died(lake)
    assert statuses(recover(lake)) == [("restart", "done")]

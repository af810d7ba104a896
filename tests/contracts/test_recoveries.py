"""What holds for every executor: it acts once, fails as an error that names the job, and trusts no word of a log."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import dead_jobs
from dead_jobs import HOOKS, Programs, died, died_just_now, recover, settings, statuses, trail
from examples import each
from gpulake.act.recoveries import RECOVERIES, Order
from gpulake.cli import root
from gpulake.core.errors import ActError
from gpulake.core.recovery_settings import Recoveries
from gpulake.lake import Lake

ALL = sorted(RECOVERIES)
ACTING = [name for name in ALL if name != "dry-run"]
HOSTILE = '\'; rm -rf / #\n\x1b[31m$(reboot) `x` "--all" {job_id} ' + "x" * 5_000


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    return dead_jobs.programs(tmp_path / "bin", monkeypatch)


@pytest.mark.parametrize("name", ACTING)
def test_it_acts_once(lake: Lake, cluster: Programs, name: str) -> None:
    died(lake, action="cordon_node_and_restart", node="n1")
    first = recover(lake, executor=name)
    assert statuses(first) == [("cordon", "done"), ("restart", "done")]
    calls = cluster.calls()
    assert len(calls) == 2
    assert "n1" in " ".join(calls[0])
    assert "77" in " ".join(calls[1])
    again = recover(lake, executor=name)
    assert again.done_at is not None
    assert cluster.calls() == calls


@pytest.mark.parametrize("name", ACTING)
def test_it_fails_as_an_error_that_names_the_job(lake: Lake, cluster: Programs, name: str) -> None:
    cluster.answer(("77", 1, "no such job"))
    died_just_now(lake)
    flags = ["recover", "4f1c2d", "--lake", str(lake.root), "--executor", name, "--execute"]
    if name == "command":
        Path("gpulake.toml").write_text(f"[recoveries]\nrestart_command = {list(HOOKS['restart_command'])}\n")
    answer = CliRunner().invoke(root, flags)
    assert isinstance(answer.exception, ActError)
    assert answer.exception.message == "restart of job 77 failed with exit code 1: no such job"
    assert trail(lake)[1:] == [("restart", None, "started"), ("restart", None, "failed")]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", ACTING)
def test_what_failed_is_tried_again_and_what_was_done_is_not(lake: Lake, cluster: Programs, name: str) -> None:
    cluster.answer(("77", 1, "not now"))
    died(lake, action="cordon_node_and_restart", node="n1")
    assert statuses(recover(lake, executor=name)) == [("cordon", "done"), ("restart", "failed")]
    cluster.answer()
    assert statuses(recover(lake, executor=name)) == [("restart", "done")]
    assert len(cluster.calls()) == 3
    assert recover(lake, executor=name).done_at is not None


@pytest.mark.parametrize("name", ALL)
def test_words_of_a_log_are_one_harmless_argument(name: str) -> None:
    plug = RECOVERIES.get(name)(settings())
    order = Order("i", 1, "77", "c", "n1", "/ckpt/a", 5, 5, 9, reason=HOSTILE, cause=HOSTILE, message=HOSTILE)
    for take in (plug.restart, plug.rollback, plug.cordon, plug.uncordon, plug.tell):
        for command in take(order):
            for argument in command.arguments:
                assert argument.isascii()
                assert argument.isprintable()
                assert len(argument) <= 2_100
                assert not set("'\"`$\\|&<>{}") & set(argument)
                assert not argument.startswith("--") or argument.startswith(("--namespace=", "--selector=", "--wait="))


@each("name", ALL)
@each("node", ["all", "ALL", "n[1-9]", "n1,n2", "-n1", "n1 n2", "../n1", "", "n1\n", "n" * 300])
def test_a_node_that_is_not_one_is_refused(name: str, node: str) -> None:
    plug, order = RECOVERIES.get(name)(settings()), Order("i", 1, "77", node=node)
    for take in (plug.cordon, plug.uncordon, plug.why_cordoned):
        with pytest.raises(ActError, match="cannot be handed to a program safely"):
            take(order)


@each("name", ACTING)
@each("job", ["-f", "7 8", "7,8", "*", "7;x", "", "7\n"])
def test_a_job_that_is_not_one_is_refused(name: str, job: str) -> None:
    for own in (settings(), settings(restart_command=()) if name != "command" else settings()):
        with pytest.raises(ActError, match="cannot be handed to a program safely"):
            RECOVERIES.get(name)(own).restart(Order("i", 1, job))


@pytest.mark.parametrize("name", ACTING)
def test_a_program_that_is_not_there_is_an_error(lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    died(lake)
    (taken,) = recover(lake, executor=name).steps
    assert taken.status == "failed"
    assert taken.detail.startswith("cannot run ")


def test_slurm_in_its_own_words() -> None:
    slurm = RECOVERIES.get("slurm")(Recoveries())
    order = Order("4f1c", 1, "77_3", "c", "n1", reason="ECCError", cause='GPU 3 "lost" it\'s memory')
    assert [command.arguments for command in (*slurm.restart(order), *slurm.cordon(order))] == [
        ("scontrol", "requeue", "77_3"),
        ("scontrol", "update", "nodename=n1", "state=drain", "reason=gpulake 4f1c: ECCError: GPU 3 ?lost? it?s memory"),
    ]
    with pytest.raises(ActError, match="'abc' is no job id of Slurm"):
        slurm.restart(Order("4f1c", 1, "abc"))
    with pytest.raises(ActError, match="no rollback_command is set"):
        slurm.rollback(order)


def test_kubernetes_in_its_own_words(lake: Lake, cluster: Programs) -> None:
    own = Recoveries(namespace="train", pod_selector="training.kubeflow.org/job-name={job_id}")
    kubernetes = RECOVERIES.get("kubernetes")(own)
    order = Order("4f1c", 1, "gpt-7", "c", "n1")
    assert [command.arguments for command in (*kubernetes.restart(order), *kubernetes.cordon(order))] == [
        (
            *("kubectl", "delete", "pod", "--namespace=train"),
            *("--selector=training.kubeflow.org/job-name=gpt-7", "--wait=false"),
        ),
        ("kubectl", "cordon", "n1"),
    ]
    # As `pull kubernetes` calls its jobs.
    (command,) = RECOVERIES.get("kubernetes")(Recoveries()).restart(Order("4f1c", 1, "vision/gpt-7/3f2a91c0"))
    assert command.arguments[1:] == (
        *("-P", "-m", "gpulake.act.kubernetes_job", "--namespace=vision"),
        *("--selector=batch.kubernetes.io/job-name=gpt-7", "gpt-7/3f2a91c0"),
    )
    # kubectl ends well where there was nothing to delete.
    cluster.answer(("delete", 0, "No resources found"))
    died(lake)
    assert statuses(recover(lake, own=own, executor="kubernetes")) == [("restart", "failed")]


def test_a_command_that_wants_what_nobody_knows_is_not_run() -> None:
    hook = RECOVERIES.get("command")(settings(restart_command=("hook", "{job_id}", "{checkpoint}")))
    with pytest.raises(ActError, match=r"restart_command wants \{checkpoint\}, which is unknown"):
        hook.restart(Order("4f1c", 1, "77"))

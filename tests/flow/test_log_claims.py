"""What a log says of its job and its nodes is a claim: who is acted on is for the scheduler or the caller to say."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

import dead_jobs
from conftest import built_from
from dead_jobs import Programs
from gpulake.act.execution import Rescue
from gpulake.act.recovery import Asked
from gpulake.cli import root
from gpulake.core.clock import FrozenClock
from gpulake.core.recovery_settings import Recoveries
from gpulake.diagnose.diagnoser import DiagnosisRequest
from gpulake.flow import Flow
from gpulake.lake import Lake

FIELDS = "JobID|JobName|User|Cluster|State|Submit|Start|End|NNodes|AllocTRES|NodeList"
TIMES = "2026-03-01T11:00:00|2026-03-01T11:59:00|2026-03-01T12:11:00"
JOBS = [
    f"4711|train|ann|tiger|FAILED|{TIMES}|2|gres/gpu=16|gpu[01-02]",
    f"777|train|bob|tiger|FAILED|{TIMES}|1|gres/gpu=8|gpu09",
    "888|train|bob|tiger|RUNNING|2026-03-01T11:00:00|2026-03-01T11:59:00|Unknown|1|gres/gpu=8|gpu05",
]
NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
XID = "2026-03-01 12:10:00 {host}:1:1 [0] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
STEPS = "2026-03-01 12:00:00 step 1 of 9\n2026-03-01 12:00:05 step 2 of 9\n"
END = "2026-03-01 12:10:00 training finished: 9 iterations in 600.0 s\n"
OWN: Any = Recoveries(tell_command=("hook", "tell", "{message}"), cluster_nodes=100)


@pytest.fixture(autouse=True)
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    monkeypatch.chdir(tmp_path)
    found = dead_jobs.programs(tmp_path / "bin", monkeypatch)
    found.answer(("^sacct", 1, "no database"))
    return found


@pytest.fixture
def known(tmp_path: Path) -> Lake:
    """A lake that knows where two jobs ran."""
    return built_from(tmp_path / "known", {"sacct.txt": "\n".join([FIELDS, *JOBS]) + "\n"})


def ask(lake: Lake, text: str, name: str = "a.log", **more: Any) -> Any:
    path = lake.root.parent / name
    path.write_text(text)
    return Flow(lake.config, FrozenClock(NOW)).diagnose(DiagnosisRequest(path, **more))


def recovered(lake: Lake, incident: str, **more: Any) -> Rescue:
    config = replace(lake.config, recoveries=more.pop("own", OWN))
    asked: Any = {"executor": "slurm", "is_executed": True, **more}
    return Flow(config, FrozenClock(NOW)).recover(Asked(incident, **asked))


def acted(cluster: Programs) -> list[list[str]]:
    return [call[:3] for call in cluster.calls() if call[0] in ("scontrol", "kubectl")]


def refusals(rescue: Rescue) -> list[tuple[str, str | None, str]]:
    return [(taken.step.step, taken.step.node, taken.detail) for taken in rescue.steps if taken.status == "refused"]


def states(lake: Lake) -> list[tuple[str, str]]:
    return [(row["incident_id"], row["state"]) for row in lake.journal("incident_events")]


def test_a_node_that_the_job_never_ran_on_is_left_alone(known: Lake, cluster: Programs) -> None:
    found = ask(known, STEPS + XID.format(host="gpu09"), job_id="4711")
    assert found.notes == (
        "The log names gpu09, and the record of the scheduler gives job 4711 gpu01, gpu02: no node is acted on for it.",
    )
    assert found.diagnosis.is_node_claimed
    rescue = recovered(known, found.diagnosis.incident_id)
    why = "the log names it, and the record of the scheduler gives job 4711 gpu01, gpu02"
    assert refusals(rescue) == [("cordon", "gpu09", why)]
    assert acted(cluster) == [["scontrol", "requeue", "4711"]]


def test_a_node_of_the_job_is_drained_under_the_name_of_the_record(known: Lake, cluster: Programs) -> None:
    found = ask(known, STEPS + XID.format(host="GPU02.example.org"), job_id="4711").diagnosis
    assert not found.is_node_claimed
    recovered(known, found.incident_id)
    assert acted(cluster) == [["scontrol", "update", "nodename=gpu02"], ["scontrol", "requeue", "4711"]]


def test_a_job_id_in_the_text_requeues_nobody(known: Lake, cluster: Programs) -> None:
    found = ask(known, "SLURM_JOB_ID=777\n" + STEPS + XID.format(host="gpu09")).diagnosis
    assert (found.job_id, found.claimed_job_id) == (None, "777")
    rescue = recovered(known, found.incident_id)
    claim = "the log says that it is of job 777, which is no proof; name the job with --job"
    assert refusals(rescue) == [("cordon", "gpu09", claim), ("restart", None, claim)]
    assert acted(cluster) == []
    # A person who says so is heard, and the node is the record's.
    recovered(known, found.incident_id, job_id="777")
    assert acted(cluster) == [["scontrol", "update", "nodename=gpu09"], ["scontrol", "requeue", "777"]]


def test_a_log_that_says_another_job_than_its_caller_stops_it_all(known: Lake, cluster: Programs) -> None:
    found = ask(known, "SLURM_JOB_ID=777\n" + STEPS + XID.format(host="gpu01"), job_id="4711")
    assert found.notes == ("The log says that it is of job 777, and not of 4711: nothing is done for it unasked.",)
    rescue = recovered(known, found.diagnosis.incident_id)
    why = "the log says that it is of job 777, and not of 4711; say which it is with --job"
    assert refusals(rescue) == [("cordon", "gpu01", why), ("restart", None, why)]
    assert acted(cluster) == []
    recovered(known, found.diagnosis.incident_id, job_id="4711")
    assert acted(cluster) == [["scontrol", "update", "nodename=gpu01"], ["scontrol", "requeue", "4711"]]


def test_anothers_job_id_and_a_happy_end_resolve_nothing(known: Lake) -> None:
    own = ask(known, "SLURM_JOB_ID=4711\n" + STEPS + XID.format(host="gpu01"), job_id="4711").diagnosis
    before = states(known)
    happy = ask(known, "SLURM_JOB_ID=4711\n" + STEPS + END, "b.log").diagnosis
    assert (happy.verdict, happy.incident_id) == ("healthy", "")
    ask(known, "SLURM_JOB_ID=4711\n" + STEPS + "KeyError: 'x'\n", "c.log")
    assert [row for row in states(known) if row[0] == own.incident_id] == before
    # Not even who says with --job whose log it is, since the scheduler's record says that it failed.
    ask(known, STEPS + END, "b.log", job_id="4711")
    assert {state for incident, state in states(known) if incident == own.incident_id} == {"open"}


def test_who_says_whose_log_it_is_may_resolve_an_incident_that_no_record_contradicts(known: Lake) -> None:
    own = ask(known, STEPS + XID.format(host="gpu05"), job_id="888").diagnosis
    ask(known, STEPS + END, "b.log", job_id="888")
    assert states(known)[-1] == (own.incident_id, "resolved")


def test_what_is_piped_in_is_known_by_its_words(known: Lake) -> None:
    def piped(text: str) -> str:
        flags = ["diagnose", "-", "--lake", str(known.root), "--json"]
        return str(json.loads(CliRunner().invoke(root, flags, input=text).stdout)["incident_id"])

    first = piped(STEPS + XID.format(host="gpu01"))
    assert piped(STEPS + XID.format(host="gpu01")) == first
    assert piped(STEPS + END) == ""
    assert [state for name, state in states(known) if name == first] == ["open", "open"]


def test_the_scheduler_is_asked_where_the_lake_does_not_know_the_job(lake: Lake, cluster: Programs) -> None:
    cluster.answer(("^sacct", 0, "4712|gpu[03-04]"))
    found = ask(lake, STEPS + XID.format(host="gpu03"), job_id="4712").diagnosis
    recovered(lake, found.incident_id)
    assert acted(cluster) == [["scontrol", "update", "nodename=gpu03"], ["scontrol", "requeue", "4712"]]
    assert cluster.asked() == [
        [
            "sacct",
            "--jobs=4712",
            "--allocations",
            "--duplicates",
            "--noheader",
            "--parsable2",
            "--format=JobID,NodeList",
        ]
    ]


@pytest.mark.parametrize("said", ["", "4712|None assigned", "4712|", "99|gpu03", "rubbish", "4712|gpu[03"])
def test_nobody_who_can_tell_means_no_node_command(lake: Lake, cluster: Programs, said: str) -> None:
    cluster.answer(("^sacct", 0, said))
    found = ask(lake, STEPS + XID.format(host="gpu03"), job_id="4712").diagnosis
    rescue = recovered(lake, found.incident_id)
    why = "no record shows whether job 4712 ran there; land its accounting, or name the job's nodes with --nodes"
    assert refusals(rescue) == [("cordon", "gpu03", why)]
    assert acted(cluster) == [["scontrol", "requeue", "4712"]]


def test_a_person_may_name_the_nodes_where_nobody_else_can(lake: Lake, cluster: Programs) -> None:
    found = ask(lake, STEPS + XID.format(host="gpu03"), job_id="4712").diagnosis
    recovered(lake, found.incident_id, nodes=("gpu03", "gpu04"))
    assert acted(cluster) == [["scontrol", "update", "nodename=gpu03"], ["scontrol", "requeue", "4712"]]


def test_nodes_that_a_person_names_against_the_record_are_not_tested(known: Lake, cluster: Programs) -> None:
    found = ask(known, STEPS + XID.format(host="gpu09"), job_id="4711").diagnosis
    rescue = recovered(known, found.incident_id, nodes=("gpu09",))
    assert [node for _, node, _ in refusals(rescue)] == ["gpu09"]
    assert acted(cluster) == [["scontrol", "requeue", "4711"]]


def test_kubernetes_is_asked_for_the_nodes_of_the_pods(lake: Lake, cluster: Programs) -> None:
    cluster.answer(("^kubectl get pods", 0, "gpu03 gpu04"))
    found = ask(lake, STEPS + XID.format(host="gpu03"), job_id="gpt-7").diagnosis
    recovered(lake, found.incident_id, executor="kubernetes")
    assert acted(cluster) == [["kubectl", "cordon", "gpu03"], ["kubectl", "delete", "pod"]]


def test_a_claimed_node_takes_no_finding_of_that_node_away(known: Lake) -> None:
    ask(known, STEPS + XID.format(host="gpu09"), job_id="4711")
    row = known.journal("incident_events")[-1]
    assert (row["job_id"], row["node"], row["claimed_node"]) == ("4711", None, "gpu09")
    ask(known, "SLURM_JOB_ID=777\n" + STEPS + XID.format(host="gpu09"), "b.log")
    row = known.journal("incident_events")[-1]
    assert (row["job_id"], row["claimed_job_id"], row["node"], row["claimed_node"]) == (None, "777", None, "gpu09")


def test_the_card_the_plan_and_the_json_say_what_is_a_claim(known: Lake) -> None:
    def gpulake(*arguments: str) -> Result:
        return CliRunner().invoke(root, [*arguments, "--lake", str(known.root)])

    log = Path("c.log")
    log.write_text("SLURM_JOB_ID=777\n" + STEPS + XID.format(host="gpu09"))
    card = gpulake("diagnose", str(log))
    assert card.stdout.splitlines()[0] == "XidError (infrastructure) on node gpu09 (claimed by the log)"
    document = json.loads(gpulake("diagnose", str(log), "--json").stdout)
    reported = ("job_id", "claimed_job_id", "node", "is_node_claimed")
    assert [document[name] for name in reported] == [None, "777", "gpu09", True]
    plan = gpulake("recover", document["incident_id"], "--executor", "slurm", "--again")
    assert "job 777 (claimed by the log), XidError" in plan.stdout
    claim = "the log says that it is of job 777, which is no proof; name the job with --job"
    assert f"1. cordon gpu09 [refused]: the diagnosis names it\n     {claim}" in plan.stdout
    steps = json.loads(gpulake("recover", document["incident_id"], "--again", "--json").stdout)
    assert (steps["job_id"], steps["claimed_job_id"]) == (None, "777")
    assert [(step["step"], step["status"], step["detail"]) for step in steps["steps"][:2]] == [
        ("cordon", "refused", claim),
        ("restart", "refused", claim),
    ]


@pytest.fixture
def anns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of this machine are ann's, whoever runs the tests."""
    monkeypatch.setattr("gpulake.diagnose.diagnoser.ROOT", -1)
    monkeypatch.setattr("pwd.getpwuid", lambda _: SimpleNamespace(pw_name="ann"))


@pytest.mark.usefixtures("anns")
def test_a_file_of_the_jobs_user_speaks_for_his_own_job(known: Lake, cluster: Programs) -> None:
    found = ask(known, "SLURM_JOB_ID=4711\n" + STEPS + XID.format(host="gpu01")).diagnosis
    assert (found.job_id, found.claimed_job_id, found.is_node_claimed) == ("4711", "4711", False)
    recovered(known, found.incident_id)
    assert acted(cluster) == [["scontrol", "update", "nodename=gpu01"], ["scontrol", "requeue", "4711"]]


@pytest.mark.usefixtures("anns")
def test_a_file_of_somebody_else_does_not(known: Lake) -> None:
    assert ask(known, "SLURM_JOB_ID=777\n" + STEPS + XID.format(host="gpu09")).diagnosis.job_id is None


@pytest.mark.usefixtures("anns")
@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_a_file_that_others_may_write_to_speaks_for_nobody(known: Lake, mode: int) -> None:
    path = known.root.parent / "a.log"
    path.touch()
    path.chmod(mode)
    assert ask(known, "SLURM_JOB_ID=4711\n" + STEPS + XID.format(host="gpu01")).diagnosis.job_id is None
    path.unlink()
    (known.root.parent / "real.log").write_text("SLURM_JOB_ID=4711\nKeyError: 'x'\n")
    path.symlink_to(known.root.parent / "real.log")
    assert Flow(known.config).diagnose(DiagnosisRequest(path)).diagnosis.job_id is None


def test_a_row_of_a_version_without_claims_is_a_claim(lake: Lake, cluster: Programs) -> None:
    dead_jobs.died(lake)
    row = {name: value for name, value in lake.journal("diagnoses")[-1].items() if name != "claimed_job_id"}
    (lake.root / "diagnoses.jsonl").write_text(json.dumps(row) + "\n")
    rescue = dead_jobs.recover(lake, own=Recoveries())
    assert [step for step, _, _ in refusals(rescue)] == ["restart"]
    assert acted(cluster) == []

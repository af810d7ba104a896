"""gpulake recover as its user meets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import dead_jobs
from cli.verbs import Verb
from dead_jobs import Programs, died_just_now, trail
from gpulake.core.config import Config
from gpulake.core.errors import ActError, UsageError
from gpulake.lake import Lake

gpulake = Verb("recover")


CORDON: dict[str, Any] = {"action": "cordon_node_and_restart", "reason": "ECCError", "node": "n1"}


@pytest.fixture(autouse=True)
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    monkeypatch.chdir(tmp_path)
    return dead_jobs.programs(tmp_path / "bin", monkeypatch)


def test_the_plan_is_shown_word_for_word_and_nothing_is_done(lake: Lake, cluster: Programs) -> None:
    died_just_now(lake, cause="GPU 3 lost it [red]", **CORDON)
    answer = gpulake(lake, "4f", "--executor", "slurm")
    assert answer.exit_code == 0
    assert answer.stdout == (
        "Incident 4f1c2d: job 77, ECCError\n"
        "  GPU 3 lost it [red]\n"
        "  cordon_node_and_restart: links come back\n"
        "Plan (slurm, restart 1 of the job)\n"
        "  1. cordon n1: ECCError began there\n"
        "     $ scontrol update nodename=n1 state=drain"
        " 'reason=gpulake 4f1c2d: ECCError: GPU 3 lost it [red]'\n"
        "  2. restart: after ECCError, from the checkpoint that the job finds itself\n"
        "     $ scontrol requeue 77\n"
        "Budget and brake\n"
        "  restarts without progress: 0 of 3; for the same failure: 0 of 1; rollbacks: 0 of 2\n"
        "  nodes cordoned: 0 of 1 (cluster of unknown size); in the last hour: 0 of 2\n"
    )
    assert answer.stderr == "nothing was done; take these steps with --execute\n"
    assert cluster.calls() == []
    assert trail(lake) == []


def test_it_is_done_with_execute_and_once(lake: Lake, cluster: Programs) -> None:
    died_just_now(lake)
    first = gpulake(lake, "4f1c2d", "--executor", "slurm", "--execute")
    assert "Done (slurm, restart 1 of the job)\n  1. restart [done]: after NetworkError" in first.stdout
    assert cluster.calls() == [["scontrol", "requeue", "77"]]
    second = gpulake(lake, "4f1c2d", "--executor", "slurm", "--execute")
    assert second.exit_code == 0
    assert "UTC already; do it again with --again" in second.stdout
    assert len(cluster.calls()) == 1


def test_the_default_is_a_dry_run(lake: Lake, cluster: Programs) -> None:
    died_just_now(lake)
    answer = gpulake(lake, "4f1c2d", "--execute")
    assert "1. restart [planned]" in answer.stdout
    assert cluster.calls() == []
    assert trail(lake) == [("decide", None, "planned"), ("restart", None, "planned")]


def test_json_says_it_all(lake: Lake) -> None:
    died_just_now(lake, action="needs_code_fix", reason="KeyError")
    document = json.loads(gpulake(lake, "4f1c2d", "--json").stdout)
    assert document["steps"] == [
        {
            "step": "tell",
            "why": "a restart would fail again until somebody changes something",
            "node": None,
            "nodes": [],
            "checkpoint": None,
            "skip_from_step": None,
            "skip_to_step": None,
            "commands": [],
            "status": None,
            "detail": "",
            "message": (
                "Job 77: KeyError. the link went down. Line 12: link down What to do: Look at the switch."
                " A restart would fail again until somebody changes something (incident 4f1c2d)."
            ),
        }
    ]
    assert {name: document[name] for name in ("incident_id", "action", "executor", "is_executed", "attempt")} == {
        "incident_id": "4f1c2d",
        "action": "needs_code_fix",
        "executor": "dry-run",
        "is_executed": False,
        "attempt": 1,
    }
    assert document["budget"]["most_restarts"] == 3
    assert document["breaker"] == {
        "cordoned": [],
        "maybe": [],
        "most": 1,
        "nodes": None,
        "in_last_hour": 0,
        "most_per_hour": 2,
    }


def test_the_history_lists_what_was_done(lake: Lake) -> None:
    died_just_now(lake)
    gpulake(lake, "4f1c2d", "--executor", "slurm", "--execute")
    rows = json.loads(gpulake(lake, "--history", "--json").stdout)
    assert [(row["step"], row["status"]) for row in rows] == [
        ("decide", "started"),
        ("restart", "started"),
        ("restart", "done"),
        ("decide", "done"),
    ]
    assert "requeue" not in gpulake(lake, "ffff", "--history").stdout
    assert "restart" in gpulake(lake, "4f", "--history").stdout


def test_the_settings_name_the_executor_and_its_programs(lake: Lake, cluster: Programs) -> None:
    died_just_now(lake)
    Path("gpulake.toml").write_text(
        '[recoveries]\nexecutor = "command"\nrestart_command = ["hook", "{job_id}", "{reason}"]\n'
    )
    assert gpulake(lake, "4f1c2d", "--execute").exit_code == 0
    assert cluster.calls() == [["hook", "77", "NetworkError"]]


@pytest.mark.parametrize(
    ("arguments", "error", "message", "hint"),
    [
        ((), UsageError, "no incident was named", "list them with: gpulake incidents list"),
        (("ffff",), UsageError, "no incident 'ffff'", "list them with: gpulake incidents list"),
        (("4f1c2e",), UsageError, "no incident '4f1c2e'", "did you mean 4f1c2d?"),
        (("4f", "--executor", "slurn"), UsageError, "no executor named 'slurn'", "did you mean 'slurm'?"),
        (("4f", "--nodes", "n1 -x"), UsageError, "'n1 -x' is not a list of hosts", "name nodes like n1,n2 or n[01-16]"),
        (
            ("4f", "--nodes", "n1,ALL"),
            ActError,
            "node 'ALL' cannot be handed to a program safely",
            "cordon it by hand, if it is one",
        ),
    ],
)
def test_an_error_has_a_way_out(
    lake: Lake, arguments: tuple[str, ...], error: type[UsageError], message: str, hint: str
) -> None:
    died_just_now(lake)
    found = gpulake(lake, *arguments).exception
    assert isinstance(found, error)
    assert (found.message, found.hint) == (message, hint)


def test_nodes_are_named_as_slurm_names_them(lake: Lake) -> None:
    Path("gpulake.toml").write_text('[recoveries]\ntest_command = ["srun", "-w", "{nodes}", "t"]\n')
    died_just_now(lake, **{**CORDON, "node": None})
    steps = json.loads(gpulake(lake, "4f", "--nodes", "n[08-10],x", "--json").stdout)["steps"]
    assert [(step["step"], step["nodes"]) for step in steps] == [
        ("test", ["n08", "n09", "n10", "x"]),
        ("cordon", []),
        ("restart", []),
    ]


def test_a_lake_without_incidents_says_where_they_come_from(lake: Lake) -> None:
    found = gpulake(lake, "4f").exception
    assert isinstance(found, UsageError)
    assert found.hint == "diagnose a log first: gpulake diagnose LOG"


@pytest.mark.slow
def test_the_inventory_is_the_size_of_the_cluster(built_lake: Config) -> None:
    lake = Lake(built_lake)
    with lake.reading() as reader:
        query = "SELECT machine_id FROM silver_machines WHERE cluster_id = 'synth' ORDER BY 1"
        names = [row["machine_id"] for row in reader.query(query).to_pylist()]
    died_just_now(lake, **{**CORDON, "cluster_id": "synth", "node": names[0]})
    document = json.loads(gpulake(lake, "4f", "--nodes", names[0], "--json").stdout)
    assert [step["step"] for step in document["steps"]] == ["cordon", "restart"]
    assert document["breaker"]["nodes"] == len(names)
    died_just_now(lake, "5a", **{**CORDON, "cluster_id": "synth", "node": "login1"})
    steps = json.loads(gpulake(lake, "5a", "--nodes", "login1", "--json").stdout)["steps"]
    assert [(step["step"], step["status"]) for step in steps] == [
        ("cordon", "refused"),
        ("restart", None),
        ("tell", None),
    ]

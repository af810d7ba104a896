"""`gpulake recover` on a real Slurm: a node is drained, its job runs elsewhere, and the node returns once it passes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gpulake.cli import root
from slurm_site import SlurmSite, reason_to_skip, slurm_site

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(reason_to_skip()), reason=reason_to_skip())]

# The GPU of the node that it starts on first fails. Slurm's accounting knows a job of a second or more.
SCRIPT = """#!/bin/sh
if [ ! -e first ]; then
  echo $SLURMD_NODENAME > first
  echo "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus."
  sleep 2
  exit 1
fi
echo "step 1 loss 2.0"
sleep 120
"""
SETTINGS = """[recoveries]
executor = "slurm"
check_command = ["grep", "-q", "passed", "check-{node}"]
"""


def answer(*arguments: str | Path) -> Any:
    found = CliRunner().invoke(root, [*map(str, arguments), "--json"], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def state_of(site: SlurmSite, node: str) -> str:
    """Without the star of a node that has not answered for a moment."""
    return site.run("sinfo", "-h", "-n", node, "-o", "%T %E").replace("*", "").strip()


def test_a_faulty_node_is_drained_its_job_runs_elsewhere_and_the_node_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "gpulake.toml"
    settings.write_text(SETTINGS)
    given = ("--lake", tmp_path / "lake", "--config", settings)
    with slurm_site(tmp_path / "slurm") as site:
        for name, value in site.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(site.folder)
        Path("job.sh").write_text(SCRIPT)
        job = site.run("sbatch", "--parsable", "--gres=gpu:a100:4", "--output=slurm-%j.out", "job.sh").strip()
        site.wait_until(("sacct", "-n", "-X", "-P", "-j", job, "-o", "State"), "FAILED")
        node = Path("first").read_text().strip()
        since = datetime.now(UTC) - timedelta(minutes=10)
        answer("pull", "slurm", "--since", since.isoformat(), "--refresh", *given)
        found = answer("diagnose", f"slurm-{job}.out", *given)
        assert (found["job_id"], found["reason"], found["node"]) == (job, "XidError", None)

        # The log names no node, and the job ran on no other.
        incident = found["incident_id"]
        reason = f"gpulake {incident}: XidError: {found['cause']}"
        drain = ["scontrol", "update", f"nodename={node}", "state=drain", f"reason={reason}"]
        expected = [("cordon", [drain]), ("restart", [["scontrol", "requeue", job]])]
        plan = answer("recover", incident, *given)
        assert [(step["step"], step["commands"]) for step in plan["steps"]] == expected
        assert state_of(site, node) == "idle none"
        done = answer("recover", incident, "--execute", *given)
        assert [(step["step"], step["status"]) for step in done["steps"]] == [("cordon", "done"), ("restart", "done")]
        site.wait_until(("squeue", "-h", "-j", job, "-o", "%T"), "RUNNING")
        assert site.run("squeue", "-h", "-j", job, "-o", "%N").strip() == {"g1": "g2", "g2": "g1"}[node]
        site.wait_until(("sinfo", "-h", "-n", node, "-o", "%T %E"), f"drained {reason}")

        check = Path(f"check-{node}")
        for result, state in (("failed", f"drained {reason}"), ("passed", "idle none")):
            check.write_text(result)
            CliRunner().invoke(root, ["recover", "--uncordon", node, "--execute", *map(str, given)])
            assert state_of(site, node) == state

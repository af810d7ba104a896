from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gpulake.cli.synth import command
from gpulake.core.errors import UsageError


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments))


def test_synth_prints_what_it_wrote(tmp_path: Path) -> None:
    result = run("--out", str(tmp_path / "raw"), "--jobs", "1000")
    assert result.exit_code == 0, result.output
    first, *lines = result.stdout.splitlines()
    assert first == "generated: every id begins with synth-, and the cluster is synth, not pai"
    assert lines[0].split() == ["pai_job_table", "1,000", "rows"]
    assert lines[2].split() == ["pai_instance_table", "7,126", "rows"]
    assert result.stderr == ""
    assert (tmp_path / "raw" / "truth.json").exists()


def test_synth_speaks_json(tmp_path: Path) -> None:
    result = run("--out", str(tmp_path), "--jobs", "1000", "--seed", "4", "--no-incidents", "--tar", "--json")
    record = json.loads(result.stdout)
    assert record["is_generated"] is True
    assert (record["jobs"], record["seed"], record["incidents"]) == (1000, 4, [])
    assert record["rows"]["pai_machine_metric"] == 1904
    assert sorted(record["files"]) == sorted(path.name for path in tmp_path.iterdir())
    assert "pai_job_table.tar.gz" in record["files"]


def test_synth_takes_the_strength_of_incidents(tmp_path: Path) -> None:
    result = run("--out", str(tmp_path), "--jobs", "1000", "--incident-strength", "0.5", "--json")
    assert {entry["strength"] for entry in json.loads(result.stdout)["incidents"]} == {0.5}


@pytest.mark.slow
def test_synth_checks_a_trace_against_the_published_figures(written_in: Path) -> None:
    result = run("--check", str(written_in))
    assert "agreement tests the plumbing, not the world" in result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["figure", "published", "ours", "distance", "bound"]
    (row,) = [line for line in lines if line.startswith("gpu plan above usage")]
    assert row.split()[5] == "98.02"
    assert not any(line.endswith("off") for line in lines)
    record = json.loads(run("--check", str(written_in), "--json").stdout)
    assert len(record) == len(lines) - 1
    assert set(record[0]) == {"name", "measured", "published", "distance", "bound", "passed"}


def test_synth_needs_to_know_where() -> None:
    with pytest.raises(UsageError, match="neither --out nor --check") as caught:
        CliRunner().invoke(command, [], catch_exceptions=False)
    assert caught.value.exit_code == 2


def test_synth_help_has_an_example() -> None:
    assert "gpulake synth --out data_raw" in run("--help").stdout

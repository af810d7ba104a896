"""What is planted in logs, notes, answers of programs and rules stands in no file of the lake."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import dead_jobs
from dead_jobs import Programs
from gpulake.act.recovery import Asked
from gpulake.cli import root
from gpulake.core.alert_settings import Alerts, SinkSettings
from gpulake.core.clock import FrozenClock
from gpulake.core.config import Config
from gpulake.core.errors import UsageError
from gpulake.core.recovery_settings import Recoveries
from gpulake.diagnose.diagnoser import DiagnosisRequest
from gpulake.diagnose.learn.proposing import Proposal, propose_line
from gpulake.flow import Flow
from gpulake.flow.incidents import add_window, change
from gpulake.lake import Lake
from planted import SECRETS

EVERY = "; ".join(line for _, line in SECRETS.values())


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    return dead_jobs.programs(tmp_path / "bin", monkeypatch)


def found_in(lake: Lake) -> list[tuple[str, str]]:
    """Kind of secret and file, for each that stands in clear."""
    files = [path for path in lake.root.rglob("*") if path.is_file()]
    texts = {path.name: path.read_bytes() for path in files}
    return [
        (kind, name) for name, text in texts.items() for kind, (secret, _) in SECRETS.items() if secret.encode() in text
    ]


def log_of(folder: Path) -> Path:
    lines = [f"RuntimeError: the store said: {line}" for _, line in SECRETS.values()]
    path = folder / "a.log"
    path.write_text("step 1\nTraceback (most recent call last):\n" + "\n".join(lines) + f"\nOSError: {EVERY}\n")
    return path


def test_there_are_as_many_kinds_as_were_once_found() -> None:
    assert len(SECRETS) >= 29


@pytest.mark.slow
def test_nothing_planted_is_found_in_the_lake(
    lake: Lake, clock: FrozenClock, cluster: Programs, tmp_path: Path
) -> None:
    sink = SinkSettings(kind="webhook", url_variable="HOOK_URL")
    own = Recoveries(tell_command=("hook", "tell", "{message}"))
    config: Config = replace(lake.config, alerts=Alerts(sinks={"hook": sink}), recoveries=own)
    flow = Flow(config, clock)
    found = flow.diagnose(DiagnosisRequest(log_of(tmp_path), job_id="77")).diagnosis
    said = (*found.evidence, *found.symptoms)
    assert said
    assert not [kind for kind, (secret, _) in SECRETS.items() if any(secret in quote.text for quote in said)]
    name = found.incident_id
    change(flow.lake, clock, "correct", name, "ann", EVERY, reason="DiskFull", cause=EVERY, remedy=EVERY)
    change(flow.lake, clock, "acknowledge", name, "ann", EVERY)
    add_window(flow.lake, clock, "ann", node="n1", note=EVERY, ends_at=clock.now().replace(year=2030))
    cluster.answer((".", 1, EVERY))
    flow.recover(Asked(name, executor="slurm", is_executed=True, job_id="77"))
    for number, (_, line) in enumerate(SECRETS.values()):
        # What is too general, or there already, is refused, and must leave nothing either.
        with suppress(UsageError):
            wish = Proposal("ann", "NodeFailure", EVERY, EVERY, EVERY)
            propose_line(flow.lake, clock, f"{'abcdefghijkl'[number % 12]}flux: {line} of the rack is drained", wish)
    journals = {path.name for path in lake.root.glob("*.jsonl")}
    assert journals >= {"diagnoses.jsonl", "incidents.jsonl", "log_templates.jsonl", "windows.jsonl", "runs.jsonl"}
    assert journals >= {"recoveries.jsonl", "rules.jsonl", "alerts.jsonl"}
    assert found_in(lake) == []


def test_the_card_hides_them_too(lake: Lake, tmp_path: Path) -> None:
    for flags in ((), ("--json",)):
        answer = CliRunner().invoke(root, ["diagnose", str(log_of(tmp_path)), "--lake", str(lake.root), *flags])
        assert "OSError" in answer.stdout
        assert not [kind for kind, (secret, _) in SECRETS.items() if secret in answer.stdout]


def test_a_rule_from_a_line_with_a_secret_matches_its_like(lake: Lake, clock: FrozenClock) -> None:
    line = "fabric: login with token=abc123def456ghi of rack 12 was refused"
    proposed = propose_line(lake, clock, line, Proposal("ann", "NodeFailure", "It is locked out.", "Renew it."))
    assert "abc123def456ghi" not in str(proposed)
    assert proposed.candidate.matches("fabric: login with token=zzz999yyy888xxx of rack 7 was refused")

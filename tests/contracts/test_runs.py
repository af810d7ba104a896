"""Every command that writes to a lake leaves a row in `runs`: each is run for real, on one small lake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from click.testing import CliRunner

import dead_jobs
from cli.test_commands import verbs
from diagnose.learning import QUOTA, record
from gpulake.act.alerts.alert import Alert
from gpulake.cli import root
from gpulake.core.clock import SystemClock
from gpulake.core.config import Config
from gpulake.lake import Lake
from receiving import listening_receiver
from replay.test_imported import V2_FRAGMENTS, V3_TASKS, write

# The verbs that only read a lake, and those that need none; a collected run is no lake.
READING = {
    *{("advise", "cluster"), ("advise", "job"), ("advise", "policies"), ("advise", "runtimes")},
    *{("config", "check"), ("config", "show")},
    *{("alerts", "list"), ("completion",), ("detect", "explain"), ("detect", "list"), ("detect", "training")},
    *{("detect", "watches"), ("doctor",), ("export", "grafana"), ("fetch",), ("incidents", "list"), ("mcp",)},
    *{("incidents", "show"), ("incidents", "windows", "list"), ("rules", "check"), ("rules", "export")},
    *{("rules", "list"), ("rules", "show"), ("rules", "test"), ("serve",), ("sql",), ("synth", "site"), ("tables",)},
    *{("restore",), ("run", "status"), ("run", "unit"), ("tests",), ("whatif", "policies")},
}
# Under other names: the steps of refresh, and the card and the study of a lake.
SAME_AS_OTHERS = {
    *{("demo",), ("prefect", "run"), ("prefect", "serve"), ("report", "efficiency"), ("report", "job")},
    *{("report", "pai"), ("ingest", "http"), ("replay",)},  # what it leaves is what ingest kafka leaves
    *{("run", "ingest"), ("run", "build"), ("run", "serve")},  # they start other commands
    ("whatif", "price"),  # its rows and its run: tests/cli/test_whatif_cli.py
    ("whatif", "backtest"),  # needs weeks of a cluster: tests/cli/test_whatif_cli.py
}
SETTINGS = """
[alerts]
is_sent_at_once = false
[alerts.sinks.ops]
kind = "webhook"
url_variable = "GPULAKE_OPS_URL"
"""
BUILT = ("build", "test", "score", "publish", "incidents")


# An answer to each of its queries.
PROMETHEUS = (
    b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"node_load1","instance":"n1"},'
    b'"value":[1700000000,"1"],"values":[[1700000000,"0.5"]]}]}}'
)


RULES = """
[[rule]]
name = "ours_seat"
role = "cause"
reason = "DiskFull"
pattern = 'scratch seat of \\S+ expired'
cause = "the seat on scratch expired"
remedy = "Renew the seat."
source = "our own handbook"
matches = ["scratch seat of ada expired"]
"""
NODES = (
    '{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}]}'
)


class Scene:
    """A lake and what the commands are about, by the names that their arguments use."""

    prometheus = ""
    kafka = ""

    def __init__(self, folder: Path) -> None:
        self.lake = Lake(Config(lake=folder / "lake", threads=1)).create()
        self.folder = folder
        raw = folder / "raw"
        raw.mkdir()
        for name, user in (("pai_job_table", "u"), ("more", "w")):
            (raw / f"{name}.csv").write_text(f"job,inst,{user},Terminated,100.0,200.0\n")
        (raw / "more.csv").rename(folder / "pai_job_table.csv")
        # Uncaught, so that who follows it need not wait whether the job goes on after the error.
        (folder / "job.log").write_text(
            'step 1 of 9\nTraceback (most recent call last):\n  File "train.py", line 7, in <module>\n    train()\n'
            "RuntimeError: CUDA error: out of memory\n"
        )
        (folder / "slurm").mkdir()
        (folder / "slurm" / "nodes.txt").write_text("NodeName=g1 Arch=x86_64 Gres=gpu:a100:4 State=IDLE\n")
        (folder / "kube").mkdir()
        (folder / "kube" / "nodes.json").write_text(NODES)
        (folder / "rules.toml").write_text(RULES)
        write(folder / "workload", V3_TASKS, V2_FRAGMENTS)
        record(self.lake, "3f2a11", reason="RuntimeError", evidence=(QUOTA,))
        dead_jobs.died_just_now(self.lake)
        dropped = Alert("a-1", SystemClock().now(), "dropped", "ops", "opened", reason="given up")
        self.lake.append("alert_events", [dropped.row()])

    def run(self, *arguments: str) -> list[tuple[str, str]]:
        """The steps that the command leaves, with their status."""
        before = len(self.lake.journal("runs"))
        answer = CliRunner().invoke(root, [*arguments, "--lake", str(self.lake.root)], catch_exceptions=False)
        assert answer.exit_code == 0, (arguments, answer.output)
        return [(row["step"], row["status"]) for row in self.lake.journal("runs")[before:]]

    def newest(self, table: str, column: str) -> str:
        return str(self.lake.journal(table)[-1][column])


# In an order in which each finds what it works on. What a command leaves, and how it is called.
WRITING: list[tuple[tuple[str, ...], tuple[str, ...], Callable[[Scene], list[Any]]]] = [
    (("land",), ("land",), lambda scene: [scene.folder / "raw"]),
    (("build",), BUILT, lambda _: []),
    (("land",), ("undo",), lambda scene: ["--undo", scene.folder / "raw" / "pai_job_table.csv"]),
    (("refresh",), ("land", *BUILT, "report"), lambda scene: [scene.folder / "pai_job_table.csv"]),
    (("pull", "prometheus"), ("land", "pull"), lambda scene: ["--url", scene.prometheus, "--since", "1m"]),
    (("pull", "slurm"), ("land", "pull"), lambda scene: ["--from", scene.folder / "slurm", "--cluster", "tiger"]),
    (("pull", "state_metrics"), ("pull",), lambda scene: ["--url", scene.prometheus, "--since", "1m"]),
    (("pull", "slurm_metrics"), ("pull",), lambda scene: ["--url", scene.prometheus, "--since", "1m"]),
    (("ingest", "kafka"), ("ingest",), lambda scene: ["--servers", scene.kafka, "--topic", "gpus=json", "--once"]),
    (("pull", "kubernetes"), ("land", "pull"), lambda scene: ["--from", scene.folder / "kube", "--cluster", "k"]),
    (("config", "set"), ("settings",), lambda _: ["currency", "EUR"]),
    (("repair",), ("repair",), lambda _: []),
    (("import", "opendc"), ("import",), lambda scene: [scene.folder / "workload"]),
    (("config", "set"), ("settings",), lambda _: ["retention.raw_days", "14"]),
    (("retention",), (*BUILT[:4], "publish", "retention"), lambda _: []),
    (("export", "opendc"), ("export",), lambda scene: ["--cluster", "workload", "--out", scene.folder / "out"]),
    (("forget",), (*BUILT[:4], "forget"), lambda _: ["--user", "nobody-here"]),
    (("migrate",), ("migrate",), lambda _: []),
    (("backup",), ("backup",), lambda scene: [scene.folder / "backup"]),
    (("build",), BUILT, lambda _: ["--force"]),
    (("export", "alibaba"), ("export",), lambda scene: ["--cluster", "workload", "--out", scene.folder / "jobs.csv"]),
    (
        ("export", "swf"),
        ("export",),
        lambda scene: ["--cluster", "workload", "--processors", "cores", "--out", scene.folder / "jobs.swf"],
    ),
    (("report", "overview"), ("report",), lambda _: []),
    (("report", "nudges"), ("nudge",), lambda _: ["--execute"]),
    (("diagnose",), ("diagnose",), lambda scene: [scene.folder / "job.log"]),
    (("diagnose",), ("diagnose",), lambda scene: [scene.folder / "job.log", "--follow", "--until-end"]),
    (("recover",), ("recover",), lambda _: ["4f1c2d", "--executor", "slurm", "--execute"]),
    (("incidents", "update"), ("incidents",), lambda _: []),
    (("incidents", "ack"), ("incidents",), lambda _: ["3f2a11"]),
    (("incidents", "assign"), ("incidents",), lambda _: ["3f2a11", "--to", "ada"]),
    (("incidents", "comment"), ("incidents",), lambda _: ["3f2a11", "on it"]),
    (("incidents", "mute"), ("incidents",), lambda _: ["3f2a11", "--for", "2h"]),
    (("incidents", "unmute"), ("incidents",), lambda _: ["3f2a11"]),
    (("incidents", "correct"), ("incidents",), lambda _: ["3f2a11", "--reason", "DiskFull", "--cause", "it is full"]),
    (("incidents", "confirm"), ("incidents",), lambda _: ["3f2a11"]),
    (("incidents", "resolve"), ("incidents",), lambda _: ["3f2a11"]),
    (("incidents", "reopen"), ("incidents",), lambda _: ["3f2a11"]),
    (("incidents", "windows", "add"), ("windows",), lambda _: ["--for", "2h"]),
    (
        ("incidents", "windows", "remove"),
        ("windows",),
        lambda scene: [scene.newest("maintenance_window_events", "window_id")],
    ),
    (
        ("rules", "propose"),
        ("rules",),
        lambda _: ["--line", QUOTA, "--reason", "DiskFull", "--cause", "full", "--remedy", "Delete what is old."],
    ),
    (("rules", "review"), ("rules",), lambda scene: ["--approve", scene.newest("rule_events", "rule_id")]),
    (("rules", "retire"), ("rules",), lambda scene: [scene.newest("rule_events", "rule_id")]),
    (("rules", "import"), ("rules",), lambda scene: [scene.folder / "rules.toml"]),
    (("alerts", "test"), ("alerts",), lambda _: ["ops"]),
    (("alerts", "retry"), ("alerts",), lambda _: ["a-1"]),
    (("alerts", "send"), ("alerts",), lambda _: []),
]


@pytest.mark.slow
def test_each_command_that_writes_leaves_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    dead_jobs.programs(tmp_path / "bin", monkeypatch)
    scene = Scene(tmp_path)
    with listening_receiver() as sink, listening_receiver() as prometheus:
        prometheus.answer = (200, {}, PROMETHEUS)
        scene.prometheus = prometheus.url
        # The mock broker of its library; it lives as long as this producer.
        producer = confluent_kafka.Producer({"test.mock.num.brokers": 1, "log_level": 0})
        producer.produce("gpus", b'{"Hostname": "g1", "DCGM_FI_DEV_GPU_UTIL": 0}')
        assert producer.flush(10) == 0
        (broker,) = producer.list_topics(timeout=10).brokers.values()
        scene.kafka = f"{broker.host}:{broker.port}"
        # Alerts wait until they are sent by their own command.
        monkeypatch.setenv("GPULAKE_OPS_URL", sink.url)
        Path("gpulake.toml").write_text(SETTINGS)
        left = [(verb, scene.run(*verb, *map(str, arguments(scene)))) for verb, _, arguments in WRITING]
    assert left == [(verb, [(step, "succeeded") for step in steps]) for verb, steps, _ in WRITING]


def test_every_command_is_known_to_read_or_to_write() -> None:
    writing = {verb for verb, _, _ in WRITING}
    assert {verb for verb in verbs() if verb[0] != "collect"} == READING | SAME_AS_OTHERS | writing

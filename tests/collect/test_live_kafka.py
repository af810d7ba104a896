"""The collector's metrics in a topic of a real Kafka, and in the lake; a broker that is away costs nothing but time."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.kafka_server import KafkaServer
from click.testing import CliRunner

from bench import kafka_server
from collect.test_live_otlp import counts, until
from gpulake.cli import root
from gpulake.collect.live import push as pushing
from gpulake.collect.live.kafka import Topic, topic_of
from gpulake.collect.live.push import Pusher
from gpulake.collect.live.session import LiveOptions, live
from gpulake.core.config import Config
from gpulake.core.errors import ConfigError
from gpulake.flow import Flow
from live_rows import state

pytest.importorskip("confluent_kafka", reason="confluent-kafka is missing")


@pytest.mark.slow
@pytest.mark.skipif(bool(kafka_server.why_not()), reason=kafka_server.why_not() or "there is a Kafka")
def test_what_is_pushed_is_in_the_lake_after_a_broker_that_was_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pushing, "LEAST_WAIT_SECONDS", 0.01)
    seen, said = state(), list[str]()
    with KafkaServer(tmp_path / "kafka") as kafka:
        kafka.create("gpus")
        kafka.kill()
        pusher = Pusher(seen, Topic(kafka.servers, "gpus", timeout_seconds=0.5), every_seconds=0.05, say=said.append)
        until(lambda: counts(seen).get("requests_failed_total", 0) > 0)
        assert counts(seen)["points_sent_total"] == 0
        kafka.start()
        until(lambda: counts(seen)["points_sent_total"] > 0)
        pusher.close()
        lake = tmp_path / "lake"
        words = ["ingest", "kafka", "--servers", kafka.servers, "--topic", "gpus=otlp", "--once", "--lake", str(lake)]
        CliRunner().invoke(root, words, catch_exceptions=False)
    assert said[0].startswith(f"topic gpus of {kafka.servers} does not take metrics, and is tried again")
    with Flow(Config(lake=lake, threads=1)).lake.open().reading() as reader:
        names = reader.query("SELECT DISTINCT metric FROM bronze_prometheus_samples").column(0).to_pylist()
    assert {"DCGM_FI_DEV_GPU_UTIL", "node_load1"} <= set(names)


@pytest.mark.parametrize("wrong", ["kafka:9092", "/gpus", "kafka:9092/", "kafka: 9092/gpus"])
def test_a_topic_has_servers_and_a_name(wrong: str) -> None:
    with pytest.raises(ConfigError, match="--kafka is"):
        topic_of(wrong, {})


def test_one_target_is_chosen_and_a_background_collector_gets_the_same() -> None:
    assert topic_of("a:1,b:2/gpus", {}) == Topic("a:1,b:2", "gpus")
    assert LiveOptions(kafka="a:1/gpus").arguments() == ["--kafka", "a:1/gpus"]
    both = LiveOptions(otlp="http://a", kafka="a:1/gpus")
    with (
        pytest.raises(ConfigError, match="--otlp and --kafka"),
        live(both, interval_seconds=1, say=print, environment={}),
    ):
        pass

"""Metrics pushed to a topic of Kafka, as OTLP in JSON: `gpulake ingest kafka --topic NAME=otlp` lands them."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpulake.collect.live.push import TIMEOUT_SECONDS, Failure, Send
from gpulake.core.errors import ConfigError
from gpulake.core.kafka_access import require_client, security


@dataclass(frozen=True)
class Topic:
    servers: str
    name: str
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)  # it has secrets
    timeout_seconds: float = TIMEOUT_SECONDS

    @property
    def host(self) -> str:
        """For messages."""
        return f"topic {self.name} of {self.servers}"

    def sender(self) -> Send:
        require_client()
        from confluent_kafka import KafkaError, KafkaException, Producer

        settings = {"bootstrap.servers": self.servers, "client.id": "gpulake", "compression.type": "gzip"}
        try:
            producer = Producer({**settings, "log_level": 0, **security(self.environment)})
        except KafkaException as error:
            raise ConfigError(
                f"Kafka's client does not start: {error}", "check the GPULAKE_KAFKA_ variables"
            ) from error

        def send(body: bytes) -> tuple[Failure | None, bytes]:
            """What was not acknowledged in time is given up here, and sent again by the caller."""
            errors: list[str] = []

            def delivered(error: KafkaError | None, _: object) -> None:
                if error is not None:
                    errors.append(error.str())

            producer.produce(self.name, gzip.decompress(body), on_delivery=delivered)
            if producer.flush(self.timeout_seconds):
                producer.purge()
                producer.flush(0)
                errors.append(f"no answer in {self.timeout_seconds:g} seconds")
            return (Failure(errors[-1], is_permanent=False, wait_seconds=None) if errors else None), b""

        return send


def topic_of(given: str, environment: Mapping[str, str]) -> Topic:
    servers, slash, name = given.rpartition("/")
    if not slash or not servers or not name or any(letter.isspace() for letter in given):
        raise ConfigError(f"--kafka is {given!r}", "use HOST:PORT/TOPIC, such as kafka:9092/gpus")
    return Topic(servers, name, environment)

"""gpulake ingest kafka: topics of Kafka, exactly once."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._options import FILE
from gpulake.cli._times import Since, Span
from gpulake.cli.ingest._stream import print_stream, say
from gpulake.core.errors import UsageError
from gpulake.flow import Flow

HOW = "write --topic NAME=FORMAT, such as --topic gpus=json"


@click.command()
@click.option("--servers", required=True, metavar="HOST:PORT,…", help="Brokers to begin with.")
@click.option(
    "--topic",
    "topics",
    required=True,
    multiple=True,
    metavar="NAME=FORMAT",
    help="Topic and the format of its messages.",
)
@click.option("--group", default="gpulake", show_default=True, help="Consumers of one group share the partitions.")
@click.option(
    "--from-time",
    type=Since(),
    metavar="TIME|SPAN",
    help="Read from this time, or so far back; what has landed counts once. [default: from where the lake is]",
)
@click.option("--batch", type=Span(), default="2s", show_default=True, metavar="SPAN", help="Land at least so often.")
@click.option(
    "--registry",
    default="",
    metavar="URL",
    help="Schema registry of messages in Avro, Protobuf or JSON Schema, such as http://registry:8081.",
)
@click.option("--ca-file", type=FILE, help="Certificates of the registry to trust, as PEM. [default: the system's]")
@click.option("--once", "is_once", is_flag=True, help="End at the present end of the topics.")
@flow_options
def command(
    servers: str,
    topics: tuple[str, ...],
    group: str,
    from_time: datetime | timedelta | None,
    batch: timedelta,
    registry: str,
    ca_file: Path | None,
    is_once: bool,
    flow: Flow,
    as_json: bool,
) -> None:
    """Land the messages of topics, each exactly once, until it is stopped.

    How far a topic is, is part of the commit that adds its rows: a crash, a rebalance or a second consumer changes
    nothing. Messages that cannot be read are in the quarantine, with topic, partition and offset. A user and a password
    come from GPULAKE_KAFKA_USER and GPULAKE_KAFKA_PASSWORD, those of a schema registry from GPULAKE_REGISTRY_USER and
    GPULAKE_REGISTRY_PASSWORD; docs/kafka.md has the formats, and TLS.

    \b
    Example:  gpulake ingest kafka --servers kafka:9092 --topic gpus=json --topic kernel=kernel
              gpulake ingest kafka --servers kafka:9092 --topic gpus=remote_write --from-time 2h --once
              gpulake ingest kafka --servers kafka:9092 --registry http://registry:8081 --topic gpus=json
    """
    from gpulake.flow.ingesting import Ingesting, Limits
    from gpulake.formats.messages import MESSAGES
    from gpulake.pull.kafka import Kafka
    from gpulake.pull.schema_registry import SchemaRegistry

    if isinstance(from_time, timedelta):
        from_time = flow.clock.now() - from_time
    named = dict(pair(topic) for topic in topics)
    for kind in named.values():
        MESSAGES.get(kind)
    limits = Limits(seconds=batch.total_seconds())
    schemas = SchemaRegistry(registry, ca_file) if registry else None
    ingesting = Ingesting(flow, Kafka(servers, group), named, limits, from_time, say(as_json), schemas)
    print_stream(flow, ingesting.run(is_once), ingesting.stop, as_json)


def pair(topic: str) -> tuple[str, str]:
    """A topic and its format."""
    name, _, kind = topic.rpartition("=")
    if not name or not kind:
        raise UsageError(f"--topic is {topic!r}", HOW)
    return name, kind

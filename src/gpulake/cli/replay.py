"""gpulake replay: recorded telemetry as a stream."""

from __future__ import annotations

import click

from gpulake.cli._flow import flow_option
from gpulake.cli.ingest.kafka import pair
from gpulake.flow import Flow


@click.command()
@click.option("--from", "source", default="lake", show_default=True, metavar="lake|FOLDER", help="The lake, or a run.")
@click.option("--to", "target", type=click.Choice(["kafka"]), default="kafka", show_default=True, help="Where to.")
@click.option("--servers", required=True, metavar="HOST:PORT,…", help="Brokers to begin with.")
@click.option("--topic", required=True, metavar="NAME=FORMAT", help="Topic; json for samples, cctf for collected rows.")
@click.option(
    "--speed", type=click.FloatRange(0), default=1.0, show_default=True, help="So many times as fast; 0: at once."
)
@flow_option
def command(source: str, target: str, servers: str, topic: str, speed: float, flow: Flow) -> None:  # noqa: ARG001
    """Play recorded telemetry into a topic, in the order of its time.

    Samples keep their recorded times: what is read back from the topic is what was recorded.

    \b
    Example:  gpulake replay --from lake --to kafka --servers kafka:9092 --topic gpus=json --speed 60
              gpulake replay --from run/cctf --servers kafka:9092 --topic run=cctf --speed 0
    """
    from gpulake.flow.replaying import replay
    from gpulake.pull.kafka import Kafka

    name, kind = pair(topic)
    sent = replay(flow, source, Kafka(servers), name, kind, speed)
    click.echo(f"{sent:,} messages sent to {name}.", err=True)

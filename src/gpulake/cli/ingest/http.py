"""gpulake ingest http: what senders push, OTLP and Prometheus remote write."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._times import Span
from gpulake.cli.ingest._stream import print_stream
from gpulake.core.errors import GpulakeError, UsageError
from gpulake.flow import Flow


@click.command()
@click.option("--listen", default="127.0.0.1:4318", show_default=True, metavar="HOST:PORT", help="Where to listen.")
@click.option("--batch", type=Span(), default="1s", show_default=True, metavar="SPAN", help="Land so often.")
@flow_options
def command(listen: str, batch: timedelta, flow: Flow, as_json: bool) -> None:
    """Land the metrics that senders push: OTLP to /v1/metrics, Prometheus remote write to /api/v1/write.

    A request is answered once its rows are on the disk; one that is sent again lands once. Beyond this host a token is
    needed: GPULAKE_RECEIVER_TOKEN, which senders give as a bearer token.

    \b
    Example:  gpulake ingest http
              GPULAKE_RECEIVER_TOKEN=… gpulake ingest http --listen 0.0.0.0:4318
    """
    from gpulake.flow.receiving import Receiving

    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"--listen is {listen!r}", "write it like 127.0.0.1:4318")
    try:
        receiving = Receiving(flow, host.strip("[]"), int(port), batch.total_seconds(), partial(click.echo, err=True))
    except OSError as error:
        raise GpulakeError(f"cannot listen on {listen}: {error.strerror}", "choose another port") from error
    click.echo(f"listening on {receiving.receiver.address}", err=True)
    print_stream(flow, receiving.run(), receiving.stop, as_json)

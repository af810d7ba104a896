"""Receiving: requests that wait are landed together, and answered then. A request that comes again lands once.

The hashes of the requests are in the commit that adds their rows; those of the last commits are known. Receivers of one
lake take turns by a number in the same commit.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gpulake.core.errors import GpulakeError
from gpulake.core.types import Landing
from gpulake.flow.ingesting import Ingested, Say, stream_layout
from gpulake.flow.urgent import Urgent
from gpulake.formats.messages import MESSAGES, SAMPLES
from gpulake.lake.streams import Batch, Move, MovedOnError, Streams
from gpulake.pull.receiver import Receiver, Request

if TYPE_CHECKING:
    from gpulake.flow import Flow

STREAM = "requests"
KEY = "gpulake.requests"  # of a commit: the beginnings of the hashes of its requests
KEPT_COMMITS = 2_000  # more than an hour of them
HASH_DIGITS = 24


class Receiving:
    def __init__(self, flow: Flow, host: str, port: int, seconds: float, say: Say) -> None:
        self._flow, self._seconds, self._say = flow, seconds, say
        self.receiver = Receiver(host, port, os.environ)
        self._stopping = threading.Event()
        self._formats = {kind: MESSAGES.get(kind)() for kind in ("otlp", "remote_write")}

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> Iterator[Ingested]:
        """Until it is stopped; what waits then is landed and answered."""
        serving = threading.Thread(target=self.receiver.serve_forever, args=(0.1,), daemon=True)
        with Streams(self._flow.lake.create()) as streams:
            self._streams, self._urgent = streams, Urgent(self._flow, streams)
            self._reload()
            serving.start()
            try:
                while not self._stopping.wait(self._seconds):
                    yield from self._land(self.receiver.take())
            finally:
                self.receiver.shutdown()
                self.receiver.server_close()
            yield from self._land(self.receiver.take())

    def _reload(self) -> None:
        self._position = self._streams.positions(SAMPLES, [STREAM])[STREAM]
        said = self._streams.said(SAMPLES, KEY, KEPT_COMMITS)
        self._known = dict.fromkeys(word for words in said for word in words.split())

    def _land(self, requests: Sequence[Request]) -> Iterator[Ingested]:
        try:
            landings = self._landed(requests)
        except GpulakeError:
            for one in requests:
                one.answer(503)
            raise
        for one in requests:
            one.answer(200)
        if said := self._urgent.see(landings):
            self._say(said)
        if landings:
            yield Ingested(
                "http",
                len(requests),
                sum(one.rows_landed for one in landings),
                sum(one.rows_quarantined for one in landings),
                datetime.fromtimestamp(max(one.message.at_ms for one in requests) / 1000, UTC),
                0,
                tuple(landings),
            )

    def _landed(self, requests: Sequence[Request]) -> list[Landing]:
        while True:
            new = {_short(one): one for one in requests if _short(one) not in self._known}
            try:
                return [self._commit(kind, part) for kind, part in _by_kind(new).items()]
            except MovedOnError:  # another receiver was faster; it may have had a request that is sent again
                self._reload()

    def _commit(self, kind: str, requests: Mapping[str, Request]) -> Landing:
        after = (self._position or 0) + 1
        messages = [one.message for one in requests.values()]
        address = self.receiver.address
        batch = Batch(
            source=f"http://{address}/{kind}?batch={after}",
            layout=stream_layout(self._formats[kind], SAMPLES, messages, kind, address, self._flow.clock.now()),
            moves={STREAM: Move(self._position, after)},
            size_bytes=sum(len(one.value) for one in messages),
            said={KEY: " ".join(requests)},
        )
        landing = self._streams.land(batch, self._flow.clock)
        self._position = after
        self._known |= dict.fromkeys(requests)
        for word in list(self._known)[: max(0, len(self._known) - 100 * KEPT_COMMITS)]:
            del self._known[word]
        return landing


def _short(request: Request) -> str:
    return f"{request.kind}:{request.sha256[:HASH_DIGITS]}"


def _by_kind(requests: Mapping[str, Request]) -> dict[str, dict[str, Request]]:
    kinds = sorted({one.kind for one in requests.values()})
    return {kind: {word: one for word, one in requests.items() if one.kind == kind} for kind in kinds}

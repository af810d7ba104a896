"""What a Prometheus knew at each step of a time, as snapshots in the form in which another source saves them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gpulake.core.http_client import HttpClient
from gpulake.formats.query_range import Series, series_of
from gpulake.pull import Desk, Piece, Span
from gpulake.pull.prometheus import PrometheusPull, check_clock

STEPS_A_PIECE = 12
# Writes a snapshot; None where the series say nothing: the server, or the exporter, was down.
Write = Callable[[Iterable[Series], datetime, Path], Path | None]


@dataclass(frozen=True)
class Past:
    prometheus: PrometheusPull
    names: Iterable[str]  # of metrics
    match: str  # such as cluster="tiger": further conditions of every series

    @property
    def selector(self) -> str:
        names = "|".join(sorted(set(self.names)))
        return f'{{__name__=~"{names}"{f",{self.match}" if self.match else ""}}}'

    def pieces(self, span: Span, desk: Desk, write: Write) -> Iterator[Piece]:
        client = self.prometheus.client(desk)
        check_clock(client, desk.clock)
        seconds = int(self.prometheus.step.total_seconds())
        first, end = (math.ceil(at.timestamp() / seconds) for at in (span.since, span.until))
        for begin in range(first, end, STEPS_A_PIECE):
            last = min(begin + STEPS_A_PIECE, end)
            times = [datetime.fromtimestamp(step * seconds, UTC) for step in range(begin, last + 1)]
            desk.report(f"{times[0]:%Y-%m-%d %H:%M}", (begin - first) / (end - first))
            files = (self._save(client, at, desk.folder, write) for at in times[:-1])
            yield Piece(Span(times[0], times[-1]), tuple(file for file in files if file))

    def _save(self, client: HttpClient, at: datetime, folder: Path, write: Write) -> Path | None:
        answer = folder / "answer.json"
        parameters = {"query": self.selector, "time": str(int(at.timestamp()))}
        client.ask("/api/v1/query", parameters, answer, is_posted=True)
        found = write((one for one in series_of(answer) if isinstance(one, Series)), at, folder)
        answer.unlink()
        return found

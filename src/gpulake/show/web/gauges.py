"""Metrics of the lake, from the queries of questions/gauges.sql."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from gpulake.show.web.questions import Question, sections


@dataclass(frozen=True)
class Gauge:
    name: str
    help: str
    sql: str
    kind: Literal["gauge", "summary"] = "gauge"

    @cached_property
    def question(self) -> Question:
        return Question(self.name, self.help, self.sql, "ALL")

    def samples(self, row: dict[str, Any]) -> Sequence[tuple[str, dict[str, str], float | None]]:
        """The name, labels and value of each sample of a row."""
        labels = {name: str(label) for name, label in row.items() if name not in ("value", "quantiles", "count", "sum")}
        if self.kind == "gauge":
            return [(self.name, labels, row["value"])]
        quantiles = [
            (self.name, {**labels, "quantile": one["quantile"]}, one["value"])
            for one in row["quantiles"]
            if one["value"] is not None
        ]
        return [*quantiles, (f"{self.name}_sum", labels, row["sum"]), (f"{self.name}_count", labels, row["count"])]


GAUGES = tuple(
    Gauge(head["gauge"], head["help"], sql, "summary" if head.get("kind") == "summary" else "gauge")
    for head, sql in sections("gauge")
)

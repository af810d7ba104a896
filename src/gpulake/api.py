"""The lake in Python, for notebooks: `gpulake.open("lake")`. Read-only; docs/python.md has examples that run."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulake.core.config import Config, load
from gpulake.core.errors import UsageError, choice_hint

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from gpulake.show.efficiency import Card
    from gpulake.show.job_report import JobReport

MOST_SHOWN = 20  # rows of a table in a notebook
MOST_CELL = 120
PLOTLY = "application/vnd.plotly.v1+json"


def open_lake(path: str | PathLike[str] | None = None) -> OpenLake:
    """The lake at a path, or the one that gpulake.toml and the environment name."""
    return OpenLake(load({"lake": None if path is None else Path(path)}))


@dataclass(frozen=True)
class Rows:
    """The rows of a query, as Arrow."""

    arrow: pa.Table

    @property
    def columns(self) -> list[str]:
        names: list[str] = self.arrow.column_names
        return names

    def to_arrow(self) -> pa.Table:
        return self.arrow

    def to_pylist(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.arrow.to_pylist()
        return rows

    def to_pandas(self) -> pd.DataFrame:
        """Needs pandas."""
        frame: pd.DataFrame = self.arrow.to_pandas()
        return frame

    def to_polars(self) -> pl.DataFrame:
        """Needs polars."""
        import polars as pl

        frame = pl.from_arrow(self.arrow)
        assert isinstance(frame, pl.DataFrame)
        return frame

    def __len__(self) -> int:
        return int(self.arrow.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.to_pylist())

    def __repr__(self) -> str:
        return f"{len(self):,} rows of {', '.join(self.columns)}"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        shown = (list(row.values()) for row in self.arrow.slice(0, MOST_SHOWN).to_pylist())
        body = "".join(f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row)}</tr>" for row in shown)
        more = f"<p>the first {MOST_SHOWN} of {len(self):,} rows</p>" if len(self) > MOST_SHOWN else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


@dataclass(frozen=True)
class Plot:
    """A figure of Plotly as plain data, as the reports draw it. A notebook with Plotly's extension shows it."""

    name: str
    figure: dict[str, Any]

    def to_plotly(self) -> Any:
        """Needs plotly."""
        from plotly.graph_objects import Figure

        return Figure(self.figure)

    def save(self, path: str | PathLike[str]) -> Path:
        """An HTML page that works offline."""
        from gpulake.show.page import write_figure

        return write_figure(Path(path), self.name, self.figure)

    def __repr__(self) -> str:
        return f"plot {self.name}: {len(self.figure['data'])} traces"

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        return {PLOTLY: self.figure, "text/plain": repr(self)}


@dataclass(frozen=True)
class TextCard:
    """A card or a report: its facts, and the text that the command line prints."""

    facts: Card | JobReport
    text: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self.facts)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text)}</pre>"


@dataclass(frozen=True)
class OpenLake:
    """A lake that is open for reading. Each call sees the last complete build."""

    config: Config

    def __post_init__(self) -> None:
        from gpulake.lake import Lake

        Lake(self.config).open()

    def sql(self, query: str, **values: str | float | None) -> Rows:
        """The rows of one query. It reads the values by their names: getvariable('user')."""
        from gpulake.lake import Lake

        with Lake(self.config).reading() as reader:
            return Rows(reader.query(query, **values))

    def tables(self) -> Rows:
        """What the lake holds: name, layer, rows, freshness, and what a row is."""
        import pyarrow as pa

        from gpulake.flow import known_tables
        from gpulake.lake import Lake
        from gpulake.show.catalogue import table_infos

        with Lake(self.config).reading() as reader:
            infos = table_infos(reader, known_tables())
        rows = [
            {"name": one.table.name, "layer": one.layer, "rows": one.rows, "fresh_at": one.fresh_at}
            | {"grain": one.table.grain}
            for one in infos
        ]
        return Rows(pa.Table.from_pylist(rows))

    def table(self, name: str) -> Rows:
        """All rows of a table. Large ones are better narrowed with `sql`."""
        from gpulake.lake import Lake

        with Lake(self.config).reading() as reader:
            if name not in (known := reader.tables()):
                raise UsageError(f"no table named {name!r}", choice_hint(name, sorted(known)))
            return Rows(reader.query(f'FROM "{name}"'))

    def findings(self) -> Rows:
        """What the last build found, most important first."""
        return self.sql("FROM findings ORDER BY rank")

    def incidents(self, state: str | None = None) -> Rows:
        """The incidents, the newest first; of one state if it is given."""
        query = "FROM incidents WHERE getvariable('state') IS NULL OR state = getvariable('state')"
        return self.sql(f"{query} ORDER BY opened_at DESC, incident_id", state=state)

    def diagnoses(self) -> Rows:
        """Why jobs died, as far as logs were diagnosed; the newest first."""
        return self.sql("FROM diagnoses ORDER BY diagnosed_at DESC, diagnosis_id")

    def card(
        self, user: str | None = None, job: str | None = None, cluster: str | None = None, days: int | None = None
    ) -> TextCard:
        """The efficiency card of a user or of everyone, or the report of a job."""
        from gpulake.lake import Lake
        from gpulake.show.card_text import card_text
        from gpulake.show.efficiency import Scope, efficiency_card
        from gpulake.show.job_report import job_report
        from gpulake.show.job_text import job_text

        if job is not None and (user is not None or days is not None):
            raise UsageError("a card is of a job, or of a user and days", "leave out job, or user and days")
        with Lake(self.config).reading() as reader:
            if job is not None:
                report = job_report(reader, self.config, job, cluster)
                return TextCard(report, job_text(report))
            card = efficiency_card(reader, self.config, Scope(user, cluster=cluster, days=days))
        return TextCard(card, card_text(card))

    def plots(self) -> Mapping[str, Plot]:
        """The plots of the overview by name: utilisation, ledger, holders and jobs."""
        from gpulake.lake import Lake
        from gpulake.show.report import NEEDED, figures

        with Lake(self.config).reading() as reader:
            reader.need(NEEDED)
            return {name: Plot(name, figure) for name, figure in figures(reader).items()}

    def plot(self, name: str) -> Plot:
        plots = self.plots()
        if name not in plots:
            raise UsageError(f"no plot named {name!r}", choice_hint(name, plots))
        return plots[name]


def _cell(value: object) -> str:
    if value is None:
        return "–"
    text = f"{value:,.4g}" if isinstance(value, float) and abs(value) < 1e6 else str(value)
    return html.escape(text if len(text) <= MOST_CELL else f"{text[: MOST_CELL - 1]}…")

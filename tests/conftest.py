"""What many tests share: a frozen clock, a small generated trace, a lake built from it, and the public data."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from gpulake.core.clock import FrozenClock
from gpulake.core.config import Config
from gpulake.core.tables import bronze_tables
from gpulake.flow import Flow
from gpulake.lake import Lake
from gpulake.synth import TraceSummary, write_trace
from lake_cache import copied

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

    from gpulake.show.web.answers import Answers

JOBS = 1_000
# The same examples in every run, however slow the machine; scripts/test asks for few of them.
for profile, examples in {"quick": 20, "full": 100}.items():
    settings.register_profile(profile, max_examples=examples, derandomize=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "full"))
# A background job inherits SIGINT as ignored, and so would every program that a test starts and stops with it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("GPULAKE_") and name != "GPULAKE_REAL_DATA"]:
        monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a power cut would take is the subject of tests that watch the calls; the others need not wait for a disk."""
    monkeypatch.setattr(os, "fsync", os.fstat)


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(lake=tmp_path / "lake", threads=1)


@pytest.fixture
def lake(config: Config) -> Lake:
    return Lake(config).create()


@pytest.fixture(scope="session")
def trace(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TraceSummary]:
    """A generated trace, shared and never changed."""
    folder = tmp_path_factory.mktemp("trace")
    return folder, write_trace(folder, jobs=JOBS, seed=7)


@pytest.fixture(scope="session")
def shared_lake(trace: tuple[Path, TraceSummary], tmp_path_factory: pytest.TempPathFactory) -> Config:
    """A lake built from the trace, for tests that only read."""

    def make(folder: Path) -> None:
        Flow(Config(lake=folder / "lake", threads=1)).refresh([trace[0]], folder / "lake" / "report.html")

    return Config(lake=copied("trace", make, tmp_path_factory.mktemp("shared")) / "lake", threads=1)


@pytest.fixture
def built_lake(shared_lake: Config, config: Config) -> Config:
    """A copy of it, for tests that write."""
    shutil.copytree(shared_lake.lake, config.lake)
    return config


@pytest.fixture(scope="session")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """A lake of everything that the dashboard shows, for tests that only read."""
    from show.web.lakes import rich_config, write_rich_lake

    return rich_config(copied("rich", write_rich_lake, tmp_path_factory.mktemp("rich")))


@pytest.fixture(scope="module")
def client(rich: Config) -> TestClient:
    """Its dashboard."""
    from show.web.asking import client_of

    return client_of(rich)


@pytest.fixture(scope="module")
def traced(shared_lake: Config) -> TestClient:
    """The dashboard of the lake that is built from the trace."""
    from show.web.asking import client_of

    return client_of(shared_lake)


@pytest.fixture(scope="module")
def answers(rich: Config) -> Iterator[Answers]:
    from gpulake.show.web.answers import Answers

    answers = Answers(Lake(rich).open())
    yield answers
    answers.snapshots.close()


@pytest.fixture
def rich_copy(rich: Config, tmp_path: Path) -> Config:
    """A copy of it, for tests that write."""
    shutil.copytree(rich.lake, tmp_path / "rich" / "lake")
    return replace(rich, lake=tmp_path / "rich" / "lake")


@pytest.fixture
def real_data() -> Path:
    """The folder of the public data sets."""
    folder = os.environ.get("GPULAKE_REAL_DATA")
    if not folder:
        pytest.skip("the public data sets are not here: set GPULAKE_REAL_DATA to their folder")
    return Path(folder)


@pytest.fixture
def write_csv(tmp_path: Path) -> Callable[..., Path]:
    """Writes rows as a PAI table: write_csv('pai_job_table', rows)."""

    def write(name: str, lines: list[str] | bytes, folder: str = "raw") -> Path:
        path = tmp_path / folder / f"{name}.csv"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(lines if isinstance(lines, bytes) else "".join(f"{line}\n" for line in lines).encode())
        return path

    return write


def built(folder: Path, table: str, *names: str) -> Lake:
    """A lake in the folder, with one table built from what lies there, or from the files named."""
    flow = Flow(Config(lake=folder / "lake", threads=1))
    flow.land([folder / name for name in names] or [folder])
    flow.build([table])
    return flow.lake


def built_from(folder: Path, files: Mapping[str, str], tables: Sequence[str] = (), **settings: Any) -> Lake:
    """A lake built from the texts of these files, whole or these tables only; a name may have a folder."""

    def make(place: Path) -> None:
        paths = {place / "raw" / name: text for name, text in files.items()}
        for path, text in paths.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        flow = Flow(Config(lake=place / "lake", threads=1, **settings))
        flow.land(list(paths))
        flow.build(tables)

    copied(repr((list(files.items()), tables, settings)), make, folder)
    return Lake(Config(lake=folder / "lake", threads=1, **settings)).open()


def without_keys(lake: Lake, table: str) -> list[dict[str, object]]:
    """Whole rows, less the hashes that join them."""
    return rows_of(lake, f"SELECT columns(name -> name NOT LIKE '%_key') FROM {table} ORDER BY ALL")


def rows_of(lake: Lake, query: str) -> list[dict[str, object]]:
    with lake.open().reading() as reader:
        found: list[dict[str, object]] = reader.query(query).to_pylist()
        return found


def count_of(lake: Lake, table: str) -> int:
    return int(str(rows_of(lake, f"SELECT count(*) AS n FROM {table}")[0]["n"]))


def bronze_counts(lake: Lake) -> dict[str, int]:
    with lake.open().reading() as reader:
        return {
            table: reader.query(f"SELECT count(*) AS n FROM {table}").to_pylist()[0]["n"] for table in bronze_tables()
        }

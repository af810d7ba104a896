"""What `gpulake run` does by itself: `[run]` in gpulake.toml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpulake.core.errors import choice_hint, require, require_name

PARTS = ("pull", "ingest", "land", "build", "retention", "alerts", "recover", "dashboard")
_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[\w.-]+):(?P<port>\d{1,5})", re.ASCII)


@dataclass(frozen=True)
class RunSource:
    """A live source, pulled again and again or a stream: `[run.sources.<name>]` in gpulake.toml."""

    pull: tuple[str, ...] = ()  # the words after gpulake pull, such as ["slurm", "--cluster", "tiger"]
    ingest: tuple[str, ...] = ()  # instead: the words after gpulake ingest, such as ["kafka", "--servers", "k:9092"]
    every_seconds: float = 60.0  # from the end of a pull to the next

    def __post_init__(self) -> None:
        _check_seconds("every_seconds", self.every_seconds)
        require(not (self.pull and self.ingest), "a source has pull and ingest", "name the one that it is")


@dataclass(frozen=True)
class Budget:
    """What the processes of a part may take: `[run.budgets.<part>]`, one of pull, ingest, land, build, retention, …"""

    memory_mebibytes: int = 0  # that each holds; one with more is ended, and started again; 0: no limit
    cores: int = 0  # 0: all

    def __post_init__(self) -> None:
        require(self.memory_mebibytes >= 0, f"memory_mebibytes is {self.memory_mebibytes}", "use 0 or more")
        require(self.cores >= 0, f"cores is {self.cores}", "use 0 for all, or their number")


@dataclass(frozen=True)
class RunSettings:
    """What gpulake run follows, builds and serves: `[run]` in gpulake.toml."""

    sources: Mapping[str, RunSource] = field(
        default_factory=dict, metadata={"of": RunSource, "example": "pull = ['slurm']"}
    )
    budgets: Mapping[str, Budget] = field(
        default_factory=dict, metadata={"of": Budget, "example": "memory_mebibytes = 1024"}
    )
    folders: tuple[str, ...] = ()  # new and grown files in these land
    folder_seconds: float = 5.0  # between two looks; a file that has changed since the last one is not complete yet
    build_seconds: float = 60.0  # from the begin of a build to the next; there is none unless something landed
    most_seconds: float = 3600.0  # a pull, a landing or a build that takes longer is stopped, and tried again
    drain_seconds: float = 30.0  # for what is at work, once the service is to stop
    niceness: int = 10  # of builds, so that pulls and the dashboard go first
    dashboard: str = "127.0.0.1:8080"  # where it listens; empty: nowhere

    def __post_init__(self) -> None:
        for name in self.sources:
            require_name("a source", name)
        for name in self.budgets:
            require(name in PARTS, f"no part of the service is named {name!r}", choice_hint(name, PARTS))
        for name in ("folder_seconds", "build_seconds", "most_seconds", "drain_seconds"):
            _check_seconds(f"run.{name}", getattr(self, name))
        require(0 <= self.niceness <= 19, f"run.niceness is {self.niceness}", "use a number from 0 to 19")
        hint = "write it like 127.0.0.1:8080, or leave it empty"
        require(not self.dashboard or self._is_address, f"run.dashboard is {self.dashboard!r}", hint)

    @property
    def _is_address(self) -> bool:
        found = _ADDRESS.fullmatch(self.dashboard)
        return found is not None and int(found["port"]) <= 65535

    @property
    def host_and_port(self) -> tuple[str, str]:
        host, _, port = self.dashboard.rpartition(":")
        return host.strip("[]"), port


def _check_seconds(name: str, value: float) -> None:
    require(0 < value <= 86_400, f"{name} is {value}", "use a number above 0, up to 86400")

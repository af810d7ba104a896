"""One gpulake.toml, one frozen Config: flag over environment over file over default."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from zoneinfo import available_timezones

from gpulake.core.errors import ConfigError, choice_hint

MOST_THREADS = 1024
MEMORY = re.compile(r"[1-9]\d*(\.\d+)? ?[KMGT]i?B")
FILE_NAME = "gpulake.toml"
ENVIRONMENT_PREFIX = "GPULAKE_"
# Variables with our prefix that are not settings of Config.
OTHER_VARIABLES = {"GPULAKE_CONFIG", "GPULAKE_REAL_DATA"}


@dataclass(frozen=True)
class Config:
    """Every setting, with its default. The name is the key in gpulake.toml; GPULAKE_<NAME> is its variable."""

    lake: Path = Path("lake")  # the folder that holds the lakehouse
    threads: int = 0  # engine threads; 0 takes every core
    memory_limit: str = "400MB"  # what the engine may buffer before it spills to disk
    keep_builds: int = 2  # finished builds kept on disk, the current one included
    reference_time_zone: str = "UTC"  # day boundaries of gold_cluster_util_daily_reference
    poor_coverage_ratio: float = 0.5  # a day with less than this share of the usual coverage is poorly covered

    def __post_init__(self) -> None:
        if not 0 <= self.threads <= MOST_THREADS:
            raise ConfigError(f"threads is {self.threads}", f"use 0 for every core, or a number up to {MOST_THREADS}")
        if not MEMORY.fullmatch(self.memory_limit):
            raise ConfigError(f"memory_limit is {self.memory_limit!r}", "write it like 400MB or 2GB")
        if not str(self.lake).isprintable():
            raise ConfigError(f"lake is {self.lake!r}", "name a folder in printable characters")
        if self.keep_builds < 1:
            raise ConfigError(f"keep_builds is {self.keep_builds}", "keep at least 1: the build that readers use")
        if not 0 <= self.poor_coverage_ratio <= 1:
            raise ConfigError(f"poor_coverage_ratio is {self.poor_coverage_ratio}", "use a share from 0 to 1")
        if self.reference_time_zone not in available_timezones():
            hint = "use a name such as UTC or Asia/Shanghai"
            raise ConfigError(f"no time zone named {self.reference_time_zone!r}", hint)


def load(flags: Mapping[str, object], environment: Mapping[str, str] | None = None) -> Config:
    """The settings in force. Flags that are None were not given."""
    env = os.environ if environment is None else environment
    config = Config()
    config = _apply(config, _from_file(env), "in the configuration file")
    config = _apply(config, _from_environment(env), "in the environment")
    return _apply(config, {name: value for name, value in flags.items() if value is not None}, "as a flag")


def _from_file(env: Mapping[str, str]) -> dict[str, object]:
    named = env.get("GPULAKE_CONFIG")
    path = Path(named) if named else Path(FILE_NAME)
    if not path.is_file():
        if named:
            raise ConfigError(f"no configuration file at {path}", "unset GPULAKE_CONFIG or create the file")
        return {}
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}", "correct the line that the message names") from error
    lake = values.get("lake")
    if isinstance(lake, str):
        # A relative lake lies beside the file that names it, wherever the command is typed.
        values["lake"] = str(path.parent / lake)
    return values


def _from_environment(env: Mapping[str, str]) -> dict[str, object]:
    return {
        name.removeprefix(ENVIRONMENT_PREFIX).lower(): value
        for name, value in env.items()
        if name.startswith(ENVIRONMENT_PREFIX) and name not in OTHER_VARIABLES
    }


def _apply(config: Config, values: Mapping[str, object], where: str) -> Config:
    known = {field.name: type(field.default) for field in fields(Config)}
    changes: dict[str, object] = {}
    for name, value in values.items():
        if name not in known:
            raise ConfigError(f"unknown setting {name!r} {where}", choice_hint(name, known))
        changes[name] = _convert(name, value, known[name], where)
    return replace(config, **changes)  # type: ignore[arg-type]


def _convert(name: str, value: object, kind: type, where: str) -> object:
    convert: Callable[[object], object] = Path if issubclass(kind, Path) else kind
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | float | Path):
            raise TypeError
        return convert(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{name} is {value!r} {where}", f"give a {kind.__name__}") from error

"""One frozen Config: flag over environment over the lake's own settings over gpulake.toml over default.

Settings that decide the numbers of a lake belong to it (`lake_settings.py`): its own file counts, and a gpulake.toml
elsewhere that says otherwise is an error. A lake without settings takes those of gpulake.toml with its next build.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from gpulake.core.alert_settings import Alerts, Incidents
from gpulake.core.clock import is_time_zone
from gpulake.core.errors import ConfigError, choice_hint
from gpulake.core.gpu_models import PRICE_CURRENCY, gpu_models, model_of
from gpulake.core.judge_settings import KEY_VARIABLE, Judge
from gpulake.core.lake_settings import dotted, leaves, read_own, read_toml, settings_of, split
from gpulake.core.nudge_settings import Nudges
from gpulake.core.packaged import packaged_toml
from gpulake.core.recovery_settings import Recoveries
from gpulake.core.retention_settings import Retention
from gpulake.core.run_settings import RunSettings
from gpulake.core.serve_settings import PROXY_VARIABLE, TOKENS_VARIABLE, Serve

MOST_THREADS = 1024
MEMORY = re.compile(r"[1-9]\d*(\.\d+)? ?[KMGT]i?B")
FILE_NAME = "gpulake.toml"
# Modes of a lake's folder, by who may read it; a group also writes, and its files stay the group's.
LAKE_MODES = {"owner": 0o700, "group": 0o2770, "everyone": 0o755}
LAKE_MARKER = "gpulake.json"  # the file that makes a folder a lake
ENVIRONMENT_PREFIX = "GPULAKE_"
# How to log in at live sources: the words after the prefix that each of them has.
SOURCE_VARIABLES = {
    "GPULAKE_PROMETHEUS_": ("TOKEN", "USER", "PASSWORD"),
    "GPULAKE_RECEIVER_": ("TOKEN",),
    "GPULAKE_KAFKA_": (
        *("USER", "PASSWORD", "SASL_MECHANISM", "SECURITY_PROTOCOL"),
        *("CA_FILE", "CERTIFICATE_FILE", "KEY_FILE", "KEY_PASSWORD"),
    ),
}
# Variables with our prefix that are not settings of Config.
OTHER_VARIABLES = {
    *("GPULAKE_CONFIG", "GPULAKE_REAL_DATA", "GPULAKE_TRACE"),
    *(prefix + word for prefix, words in SOURCE_VARIABLES.items() for word in words),
    *(KEY_VARIABLE, TOKENS_VARIABLE, PROXY_VARIABLE),
}


@dataclass(frozen=True)
class Cluster:
    """Facts of a cluster that its files lack: `[clusters.<name>]` in gpulake.toml."""

    time_zone: str = "UTC"  # of its days, its hours and its naive times
    gpus: int = 0  # capacity, where no inventory of machines lands; 0: the most that was ever held at once
    gpu_type: str = ""  # of that capacity
    has_stale_running: bool = False  # attempts are called running that cannot be: their end was not recorded
    observed_from: str = ""  # begin and end of the time under observation, with an offset; empty: from the events
    observed_until: str = ""  # the end of that time

    def __post_init__(self) -> None:
        _check_zone(self.time_zone)
        begin, end = (_instant(name, getattr(self, name)) for name in ("observed_from", "observed_until"))
        if begin and end and begin >= end:
            raise ConfigError(
                f"observed_until is {self.observed_until}, and observed_from {self.observed_from}",
                "let the end of the time under observation come after its begin",
            )
        if self.gpus < 0:
            raise ConfigError(f"gpus is {self.gpus}", "give the number of the cluster's GPUs, or leave it out")


@dataclass(frozen=True)
class GpuType:
    """What a GPU of a type costs: `[gpu_types.<name>]` in gpulake.toml. Below zero: unknown."""

    price_per_hour: float = -1.0  # in the setting `currency`
    busy_watts: float = -1.0  # power of a board at work
    idle_watts: float = -1.0  # power of a board that does nothing


def _known_clusters() -> Mapping[str, Cluster]:
    return {name: Cluster(**values) for name, values in packaged_toml("gpulake.core", "facts.toml")["clusters"].items()}


def _known_gpu_types(currency: str = PRICE_CURRENCY) -> Mapping[str, GpuType]:
    """The catalogue's power and, in its currency, prices."""
    return {
        name: GpuType(
            price_per_hour=_or_unknown(model.usd_per_hour if currency == PRICE_CURRENCY else None),
            busy_watts=_or_unknown(model.busy_watts),
            idle_watts=_or_unknown(model.idle_watts),
        )
        for name, model in gpu_models().items()
    }


def _or_unknown(number: float | None) -> float:
    return -1.0 if number is None else float(number)


@dataclass(frozen=True)
class Config:
    """Every setting, with its default. The name is the key in gpulake.toml; GPULAKE_<NAME> is its variable."""

    lake: Path = Path("lake")  # the folder that holds the lakehouse
    lake_access: str = "owner"  # who may read a lake that is made: owner, group (and write) or everyone
    threads: int = 0  # engine threads; 0 takes every core
    memory_limit: str = "1GB"  # what the engine may buffer before it spills to disk
    keep_builds: int = 2  # finished builds kept on disk, the current one included
    reference_time_zone: str = "UTC"  # day boundaries of gold_cluster_util_daily_reference
    poor_coverage_ratio: float = 0.5  # a day with less than this share of the usual coverage is poorly covered
    idle_gpu_ratio: float = 0.01  # an attempt that uses less than this share of the GPUs it holds holds them empty
    missed_busy_hours: float = 20.0  # silence in which a machine would usually be busy this long means that it is down
    telemetry_cluster: str = "local"  # of collected nodes that no inventory and no scheduler knows
    hot_gpu_celsius: float = 80.0  # a GPU is hot from here on, if its slowdown temperature is unknown
    currency: str = "USD"  # of the prices
    clusters: Mapping[str, Cluster] = field(default_factory=_known_clusters)
    gpu_types: Mapping[str, GpuType] = field(default_factory=_known_gpu_types)
    nudges: Nudges = field(default_factory=Nudges)
    recoveries: Recoveries = field(default_factory=Recoveries)
    judge: Judge = field(default_factory=Judge)
    incidents: Incidents = field(default_factory=Incidents)
    alerts: Alerts = field(default_factory=Alerts)
    serve: Serve = field(default_factory=Serve)
    run: RunSettings = field(default_factory=RunSettings)
    retention: Retention = field(default_factory=Retention)
    # Settings of a lake that a file outside of it has, and the lake has not yet.
    unclaimed: Mapping[str, Any] = field(
        default_factory=dict, compare=False, repr=False, metadata={"is_internal": True}
    )

    @property
    def own_file(self) -> Path:
        return self.lake / FILE_NAME

    @property
    def has_lake(self) -> bool:
        """Here, so that it can be checked without loading the engine."""
        return (self.lake / LAKE_MARKER).is_file()

    def __post_init__(self) -> None:
        if not 0 <= self.threads <= MOST_THREADS:
            raise ConfigError(f"threads is {self.threads}", f"use 0 for every core, or a number up to {MOST_THREADS}")
        if not MEMORY.fullmatch(self.memory_limit):
            raise ConfigError(f"memory_limit is {self.memory_limit!r}", "write it like 400MB or 2GB")
        self._check_lake()
        for name in ("poor_coverage_ratio", "idle_gpu_ratio"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} is {getattr(self, name)}", "use a share from 0 to 1")
        if not self.missed_busy_hours > 0:
            raise ConfigError(f"missed_busy_hours is {self.missed_busy_hours}", "use a number above 0")
        if not -40 <= self.hot_gpu_celsius <= 150:
            raise ConfigError(f"hot_gpu_celsius is {self.hot_gpu_celsius}", "give a temperature, such as 80")
        if not self.telemetry_cluster or self.telemetry_cluster != self.telemetry_cluster.lower():
            raise ConfigError(f"telemetry_cluster is {self.telemetry_cluster!r}", "name it in lower case")
        _check_zone(self.reference_time_zone)

    def _check_lake(self) -> None:
        if not str(self.lake).isprintable():
            raise ConfigError(f"lake is {self.lake!r}", "name a folder in printable characters")
        if self.lake_access not in LAKE_MODES:
            raise ConfigError(f"lake_access is {self.lake_access!r}", choice_hint(self.lake_access, LAKE_MODES))
        if self.keep_builds < 1:
            raise ConfigError(f"keep_builds is {self.keep_builds}", "keep at least 1: the build that readers use")


@dataclass(frozen=True)
class Layer:
    """Settings from one place."""

    where: str
    words: str  # of the place, in an error
    values: Mapping[str, object]


@dataclass(frozen=True)
class Loaded:
    config: Config
    layers: tuple[Layer, ...]  # the weakest first
    conflicts: tuple[ConfigError, ...]  # a file that says other than the lake's own settings

    def origin(self, key: tuple[str, ...]) -> str:
        """Where a setting's value comes from."""
        given = [layer.where for layer in self.layers if _has(layer.values, key)]
        return given[-1] if given else "default"


def load(flags: Mapping[str, object], environment: Mapping[str, str] | None = None) -> Config:
    """The settings in force. Flags that are None were not given."""
    loaded = load_layers(flags, environment)
    for conflict in loaded.conflicts:
        raise conflict
    return loaded.config


def load_layers(flags: Mapping[str, object], environment: Mapping[str, str] | None = None) -> Loaded:
    env = os.environ if environment is None else environment
    given = {name: value for name, value in flags.items() if value is not None and name != "config"}
    path, values = _from_file(env, flags.get("config"))
    file = _apply(Config(), values, "in the configuration file")
    variables = _from_environment(env, file.alerts.variables)
    over = [Layer("environment", "in the environment", variables), Layer("flag", "as a flag", given)]
    lake = file
    for layer in over:
        lake = _apply(lake, {name: value for name, value in layer.values.items() if name == "lake"}, layer.words)
    own_file = lake.own_file
    if path.is_file() and own_file.is_file() and path.samefile(own_file):
        values = {}
    owned, rest = split(values)
    own = read_own(own_file)
    words = f"in {own_file}"
    conflicts = tuple(_conflicts(path, owned, own_file, own)) if own else ()
    layers = (
        Layer(str(path), "in the configuration file", rest if own else values),
        Layer("lake", words, own),
        *over,
    )
    config = _layered(Config(), layers)
    if config.currency != PRICE_CURRENCY:
        config = _layered(Config(gpu_types=_known_gpu_types(config.currency)), layers)
    return Loaded(replace(config, unclaimed={} if own else owned), layers, conflicts)


def _layered(config: Config, layers: Sequence[Layer]) -> Config:
    for layer in layers:
        config = _apply(config, layer.values, layer.words)
    return config


def checked(values: Mapping[str, Any], where: str) -> Config:
    """The defaults with these settings; an error if one is wrong."""
    return _apply(Config(), values, where)


def _conflicts(path: Path, owned: Mapping[str, Any], own_file: Path, own: Mapping[str, Any]) -> Iterator[ConfigError]:
    here = dict(settings_of(_apply(Config(), owned, f"in {path}")))
    there = dict(settings_of(_apply(Config(), own, f"in {own_file}")))
    for key in leaves(owned):
        if here.get(key) != (kept := there.get(key)):
            said = "nothing" if kept is None else repr(kept)
            yield ConfigError(
                f"{dotted(key)} is {here.get(key)!r} in {path}, and {said} in the lake's own settings, {own_file}",
                f"give it to the lake: gpulake config set --from {path}; or remove it from {path}",
            )


def _has(values: Mapping[str, Any], key: tuple[str, ...]) -> bool:
    value: Any = values
    for part in key:
        if not isinstance(value, Mapping) or part not in value:
            return False
        value = value[part]
    return True


def _check_zone(name: str) -> None:
    if not is_time_zone(name):
        raise ConfigError(f"no time zone named {name!r}", "use a name such as UTC or Asia/Shanghai")


def _instant(name: str, text: str) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ConfigError(f"{name} is {text!r}", "give a time with its offset, such as 2026-01-31T00:00:00+08:00")
    return moment


def _from_file(env: Mapping[str, str], named_here: object) -> tuple[Path, dict[str, Any]]:
    named = named_here or env.get("GPULAKE_CONFIG")
    path = Path(str(named)) if named else Path(FILE_NAME)
    if not path.is_file():
        if named:
            way_out = "check the path" if named_here else "unset GPULAKE_CONFIG or create the file"
            raise ConfigError(f"no configuration file at {path}", way_out)
        return path, {}
    values = read_toml(path)
    lake = values.get("lake")
    if isinstance(lake, str):
        # A relative lake path is relative to the file that names it, not to the working directory.
        values["lake"] = str(path.parent / lake)
    return path, values


def _from_environment(env: Mapping[str, str], secrets: Collection[str]) -> dict[str, object]:
    """Variables that hold the secrets of sinks are no settings, though they may have our prefix."""
    return {
        name.removeprefix(ENVIRONMENT_PREFIX).lower(): value
        for name, value in env.items()
        if name.startswith(ENVIRONMENT_PREFIX) and name not in OTHER_VARIABLES and name not in secrets
    }


def _apply(config: Config, values: Mapping[str, object], where: str) -> Config:
    settings = (setting for setting in fields(Config) if not setting.metadata.get("is_internal"))
    known: dict[str, Any] = {setting.name: setting.default for setting in settings}
    changes: dict[str, object] = {}
    for name, value in values.items():
        if name not in known:
            raise ConfigError(f"unknown setting {name!r} {where}", choice_hint(name, known))
        if name == "clusters":
            changes[name] = _with_facts(config.clusters, Cluster, name, value, where, "time_zone = 'UTC'")
        elif name == "gpu_types":
            changes[name] = _with_gpu_types(config.gpu_types, value, where)
        elif is_dataclass(getattr(config, name)):
            changes[name] = _with_changes(getattr(config, name), name, value, where)
        else:
            changes[name] = _convert(name, value, type(known[name]), where)
    return replace(config, **changes)  # type: ignore[arg-type]


def _with_facts(
    known: Mapping[str, Any], kind: type[Any], table: str, value: object, where: str, example: str
) -> dict[str, Any]:
    """The known facts, with those that the table gives in their place, one by one."""
    if not isinstance(value, dict) or not all(isinstance(entry, dict) for entry in value.values()):
        raise ConfigError(f"{table} is {value!r} {where}", f"write a table in gpulake.toml: [{table}.name] {example}")
    facts = dict(known)
    for name, entry in value.items():
        facts[name] = _with_changes(facts.get(name, kind()), f"{table}.{name}", entry, where)
    return facts


def _with_gpu_types(known: Mapping[str, GpuType], value: object, where: str) -> dict[str, Any]:
    """What is given for one name of a model counts for its other names too."""
    named = {name: model.name for name in (value if isinstance(value, dict) else ()) if (model := model_of(name))}
    base = {**known, **{name: known[model] for name, model in named.items() if name not in known and model in known}}
    facts = _with_facts(base, GpuType, "gpu_types", value, where, "price_per_hour = 2.5")
    return facts | {model: facts[name] for name, model in named.items() if model not in named}


def _with_changes(known: Any, table: str, value: object, where: str) -> Any:
    """The known settings of a table, with those that it gives in their place."""
    if not isinstance(value, dict):
        raise ConfigError(f"{table} is {value!r} {where}", f"write a table in gpulake.toml: [{table}]")
    defaults = {setting.name: setting for setting in fields(known)}
    changes: dict[str, Any] = {}
    for key, given in value.items():
        if key not in defaults:
            raise ConfigError(f"unknown setting {key!r} in {table} {where}", choice_hint(key, defaults))
        metadata = defaults[key].metadata
        if "of" in metadata:
            entry, example = metadata["of"], metadata["example"]
            changes[key] = _with_facts(getattr(known, key), entry, f"{table}.{key}", given, where, example)
        else:
            changes[key] = _convert(f"{table}.{key}", given, type(defaults[key].default), where)
    try:
        return replace(known, **changes)
    except ConfigError as error:
        # The message names the table, where there are several of a kind.
        named = f"{error.message} in [{table}]" if "." in table else error.message
        raise ConfigError(named, error.hint) from error


def _convert(name: str, value: object, kind: type, where: str) -> object:
    if kind is tuple:
        if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
            raise ConfigError(f"{name} is {value!r} {where}", "give a list of texts")
        return tuple(value)
    if kind is str and isinstance(value, datetime):
        return value.isoformat()  # TOML has a type for times
    convert: Callable[[object], object] = Path if issubclass(kind, Path) else kind
    try:
        if isinstance(value, bool) != (kind is bool) or not isinstance(value, str | int | float | Path):
            raise TypeError
        converted = convert(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"{name} is {value!r} {where}", f"give a {kind.__name__}") from error
    if isinstance(converted, float) and not math.isfinite(converted):
        raise ConfigError(f"{name} is {value!r} {where}", "give a number that is finite")
    return converted

"""The settings of a lake: taken from a file once, set by command, and checked against what the lake has."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpulake.core.config import Cluster, Config, checked
from gpulake.core.disk import replace_text
from gpulake.core.errors import ConfigError, GpulakeError, UsageError, choice_hint
from gpulake.core.lake_settings import check_owned, dotted, leaves, with_setting
from gpulake.core.redaction import redacted
from gpulake.lake import lake_errors
from gpulake.lake.access import as_private_as

if TYPE_CHECKING:
    from gpulake.flow import Flow
    from gpulake.lake import Lake

Settings = Mapping[tuple[str, ...], Any]
HEADER = "# Settings of this lake, for every command that works on it: gpulake config show; docs/settings.md\n"


def keep_settings(flow: Flow) -> None:
    """Before a build: a lake without settings keeps those of gpulake.toml, so that builds elsewhere give the same.

    A lake that was built with such settings before lakes kept them is not built without them.
    """
    config = flow.config
    if config.unclaimed:
        change_settings(flow.lake, leaves(config.unclaimed), is_checked=False)
        flow.notes.append(f"the lake keeps these settings from now on: {config.own_file}")
    elif not config.own_file.is_file():
        for cluster, zone in _clusters(flow.lake).items():
            here = config.clusters.get(cluster, Cluster()).time_zone
            if zone != here:
                raise ConfigError(
                    f"the times of cluster {cluster} were built in {zone}, and the settings here say {here}",
                    f"gpulake config set clusters.{dotted([cluster])}.time_zone {zone} --lake {config.lake}"
                    "; or build where gpulake.toml has the lake's settings",
                )


def change_settings(lake: Lake, changes: Settings, is_checked: bool = True) -> None:
    """Written only if the whole file is then right. Comments in it stay."""
    path = lake.config.own_file
    for key, value in changes.items():
        words = f"{dotted(key)} = {value}"
        if redacted(words) != words:
            raise ConfigError(
                f"the value of {dotted(key)} looks like a secret", "secrets come only from the environment"
            )
    for name in sorted({key[1] for key in changes if is_checked and key[0] == "clusters" and len(key) > 1}):
        check_cluster(lake, name)
    with lake.alone("settings", is_patient=True):
        text = path.read_text(encoding="utf-8") if path.is_file() else HEADER
        for key, value in changes.items():
            check_owned(key, path)
            text = with_setting(text, key, value)
        checked(tomllib.loads(text), f"in {path}")
        with lake_errors(f"writing {path}"), as_private_as(lake.root):
            replace_text(path.absolute(), text)


def check_cluster(lake: Lake, name: str) -> None:
    """A cluster that is neither in the lake nor known by itself is a mistyped one, where the lake has clusters."""
    known = {*_clusters(lake), *Config().clusters, lake.config.telemetry_cluster}
    if _clusters(lake) and name not in known:
        raise UsageError(f"no cluster named {name!r} in the lake", choice_hint(name, known))


def problems(lake: Lake, config: Config) -> list[str]:
    """What is set for something that the lake does not have."""
    found = _clusters(lake)
    known = {*found, *Config().clusters, config.telemetry_cluster}
    return [
        f"clusters.{dotted([name])}: no cluster of that name in the lake; {choice_hint(name, found)}"
        for name in sorted(config.clusters)
        if found and name not in known
    ]


def _clusters(lake: Lake) -> dict[str, str]:
    """The time zone of each cluster of the current build; none where there is no build, or it cannot be read."""
    try:
        if not lake.exists or lake.builds.current() is None:
            return {}
        with lake.reading(may_spill=False) as reader:
            if "silver_clusters" not in reader.tables():
                return {}
            rows = reader.query("SELECT cluster_id, time_zone FROM silver_clusters").to_pylist()
    except GpulakeError:
        return {}
    return {row["cluster_id"]: row["time_zone"] for row in rows}

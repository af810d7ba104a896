"""Settings that belong to a lake: `gpulake.toml` in its folder. They decide its numbers, wherever a command is run.

What starts programs, sends data or opens ports is none of them: it stays with whoever runs the command.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from gpulake.core.errors import ConfigError, choice_hint

OWNED = (
    *("reference_time_zone", "poor_coverage_ratio", "idle_gpu_ratio", "missed_busy_hours", "telemetry_cluster"),
    *("hot_gpu_celsius", "currency", "clusters", "gpu_types", "incidents", "nudges", "retention"),
)
# Of owned tables: a program that it names is run by whoever acts.
NOT_OWNED = ("nudges.cancel_command",)
_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}", "correct the line that the message names") from error
    except RecursionError as error:
        raise ConfigError(f"{path} is nested too deeply", "no setting needs more than three levels") from error
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", "check the file and its permissions") from error


def read_own(path: Path) -> dict[str, Any]:
    """The settings of a lake; none where it has no file."""
    values = read_toml(path) if path.is_file() else {}
    for key in leaves(values):
        check_owned(key, path)
    return values


def check_owned(key: tuple[str, ...], path: Path) -> None:
    word = dotted(key)
    if key[0] not in OWNED or word in NOT_OWNED:
        hint = "keep it in the gpulake.toml of the folder you work in, or in the environment"
        raise ConfigError(f"{word} in {path} is not a setting of a lake", hint)


def split(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What belongs to a lake, and the rest."""
    owned: dict[str, Any] = {}
    rest: dict[str, Any] = {name: value for name, value in values.items() if name not in OWNED}
    for key, value in leaves({name: value for name, value in values.items() if name in OWNED}).items():
        _put(rest if dotted(key) in NOT_OWNED else owned, key, value)
    return owned, rest


def leaves(values: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
    """Every setting of nested tables, by its path."""
    found: dict[tuple[str, ...], Any] = {}
    for name, value in values.items():
        inner = leaves(value) if isinstance(value, dict) and value else {(): value}
        found.update({(name, *key): leaf for key, leaf in inner.items()})
    return found


def settings_of(config: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every setting of a Config and its tables, by its path, with its value."""
    named = (
        {entry.name: getattr(config, entry.name) for entry in fields(config) if not entry.metadata.get("is_internal")}
        if is_dataclass(config)
        else config
    )
    for name, value in named.items():
        if is_dataclass(value) or isinstance(value, Mapping):
            yield from (((name, *key), leaf) for key, leaf in settings_of(value))
        else:
            yield (name,), value


def dotted(key: Sequence[str]) -> str:
    return ".".join(part if _BARE.fullmatch(part) else json.dumps(part, ensure_ascii=False) for part in key)


def key_of(word: str) -> tuple[str, ...]:
    """The path of a dotted key as the user writes it."""
    try:
        (found,) = leaves(tomllib.loads(f"{word} = 0"))
    except (tomllib.TOMLDecodeError, ValueError) as error:
        raise ConfigError(f"{word!r} is no name of a setting", "write it like clusters.tiger.time_zone") from error
    if found[0] not in OWNED:
        raise ConfigError(f"{word} is not a setting of a lake", choice_hint(found[0], OWNED))
    return found


def value_of(word: str) -> Any:
    """A value as TOML writes it, or plain text."""
    try:
        return tomllib.loads(f"value = {word}")["value"]
    except tomllib.TOMLDecodeError:
        return word


def with_setting(text: str, key: tuple[str, ...], value: Any) -> str:
    """The text of a TOML file with one setting changed or added; comments and order stay."""
    wanted = tomllib.loads(text)
    _put(wanted, key, value)
    lines = text.splitlines()
    begin, end = _section(lines, key[:-1])
    entry = f"{dotted(key[-1:])} = {_literal(value)}"
    if begin is None:
        lines += [*([""] if lines and lines[-1].strip() else []), f"[{dotted(key[:-1])}]", entry]
    else:
        place = next((at for at in range(begin, end) if _sets(lines[at], key[-1])), None)
        if place is None:
            while end > begin and not lines[end - 1].strip():
                end -= 1
            lines.insert(end, entry)
        else:
            lines[place] = entry + _comment(lines[place])
    changed = "\n".join(lines) + "\n"
    try:
        is_right = tomllib.loads(changed) == wanted
    except tomllib.TOMLDecodeError:
        is_right = False
    if not is_right:
        raise ConfigError(f"{dotted(key)} cannot be changed in place", "change the file with an editor")
    return changed


def _section(lines: Sequence[str], table: tuple[str, ...]) -> tuple[int | None, int]:
    """The lines of a table, after its header; those before any header are the settings without a table."""
    heads = [at for at, line in enumerate(lines) if line.lstrip().startswith("[")]
    if not table:
        return 0, min(heads, default=len(lines))
    for at in heads:
        try:
            named = [key for key in leaves(tomllib.loads(lines[at])) if key == table]
        except tomllib.TOMLDecodeError:
            continue  # a line of a list
        if named:
            return at + 1, min((other for other in heads if other > at), default=len(lines))
    return None, len(lines)


def _sets(line: str, name: str) -> bool:
    try:
        return list(tomllib.loads(line)) == [name]
    except tomllib.TOMLDecodeError:
        return False


def _comment(line: str) -> str:
    for found in re.finditer("#", line):
        try:
            if tomllib.loads(line[: found.start()]):
                return f"  {line[found.start() :]}"
        except tomllib.TOMLDecodeError:
            continue
    return ""


def _put(values: dict[str, Any], key: tuple[str, ...], value: Any) -> None:
    for part in key[:-1]:
        values = values.setdefault(part, {})
    values[key[-1]] = value


def _literal(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_literal, value))}]"
    return json.dumps(value, ensure_ascii=False)

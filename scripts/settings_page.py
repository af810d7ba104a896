"""docs/settings.md: every key of gpulake.toml, from the fields of the dataclasses and the comments beside them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import Field, fields, is_dataclass
from typing import Any

from gpulake.core.config import Cluster, Config, GpuType
from gpulake.core.lake_settings import NOT_OWNED, OWNED

TYPES = {str: "text", int: "whole number", float: "number", bool: "true or false", tuple: "list of texts"}
NAMED: Mapping[str, type[Any]] = {"clusters": Cluster, "gpu_types": GpuType}
INTRODUCTION = """\
# Settings

Each setting has one place in which it counts:

- **Settings of a lake** decide its numbers. They are in `gpulake.toml` in the lake's own folder, and every command
  uses them, wherever it is run: `gpulake config set KEY VALUE` writes them.
- **Settings of whoever runs a command** (memory, threads, where the lake is, programs to start, servers to talk to)
  are in `./gpulake.toml`, in the file that `--config` or `GPULAKE_CONFIG` names, or in the environment.

A flag beats the environment (`GPULAKE_<NAME>`, for settings without a table), which beats the lake's own settings,
which beat the file, which beats the default. A file that has a setting of a lake with another value than the lake
itself is an error, which names both and the way out. A lake that has no settings yet takes those of the file with its
next build, and says so; one that was built in other time zones than the settings at hand have is not built. A build
whose numbers depend on a changed setting is made anew. Unknown keys are errors that name the nearest one. Secrets are
in no file: settings name the environment variables that hold them.

```console
$ gpulake config show                 # every setting, its value, and where it comes from
$ gpulake config set clusters.tiger.time_zone America/New_York
$ gpulake config set --from ./gpulake.toml   # give the lake what a file has
$ gpulake config check                # wrong values, conflicts, names that the lake does not have
```
"""


def settings_page(note: str) -> str:
    lines = [note, INTRODUCTION]
    top = [entry for entry in _settings(Config) if not _is_table(entry)]
    lines += ["## Without a table\n", *_rows("", Config, top)]
    for entry in _settings(Config):
        if _is_table(entry):
            kind = NAMED.get(entry.name) or type(getattr(Config(), entry.name))
            lines += _section(f"{entry.name}.<name>" if entry.name in NAMED else entry.name, kind)
    return "\n".join(lines)


def _section(table: str, kind: type[Any]) -> Iterator[str]:
    yield f"## [{table}]\n"
    yield f"{(inspect.getdoc(kind) or '').split(chr(10) + chr(10))[0]}\n"
    plain = [entry for entry in _settings(kind) if "of" not in entry.metadata]
    yield from _rows(table, kind, plain)
    for entry in _settings(kind):
        if "of" in entry.metadata:
            yield from _section(f"{table}.{entry.name}.<name>", entry.metadata["of"])


def _rows(table: str, kind: type[Any], entries: list[Field[Any]]) -> Iterator[str]:
    said = _comments(kind)
    yield "| key | type | default | what it is | belongs to |"
    yield "|---|---|---|---|---|"
    for entry in entries:
        default = entry.default
        word = "" if default in ("", ()) else f"`{_default(default)}`"
        key = f"{table}.{entry.name}" if table else entry.name
        owner = "lake" if key.split(".")[0] in OWNED and key not in NOT_OWNED else "whoever runs it"
        meaning = said.get(entry.name, "").replace("|", "\\|")
        yield f"| `{entry.name}` | {TYPES.get(type(default), 'path')} | {word} | {meaning} | {owner} |"
    yield ""


def _default(value: object) -> str:
    words = (
        ", ".join(value) if isinstance(value, tuple) else str(value).lower() if isinstance(value, bool) else str(value)
    )
    return words.splitlines()[0]


def _settings(kind: type[Any]) -> list[Field[Any]]:
    return [entry for entry in fields(kind) if not entry.metadata.get("is_internal")]


def _is_table(entry: Field[Any]) -> bool:
    return entry.name in NAMED or is_dataclass(getattr(Config(), entry.name))


def _comments(kind: type[Any]) -> dict[str, str]:
    """The comment beside each field, or on the lines before it."""
    found: dict[str, str] = {}
    above: list[str] = []
    for line in inspect.getsource(kind).splitlines():
        if comment := re.fullmatch(r"    # (.*)", line):
            above.append(comment[1])
            continue
        if field := re.match(r"    (\w+): .*?(?:  # (.*))?$", line):
            found[field[1]] = field[2] or " ".join(above)
        above = []
    return found

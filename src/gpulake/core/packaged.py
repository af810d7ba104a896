"""Files of the package that are data: TOML, and SQL in which each query follows a line `-- query: name`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any

_HEAD = re.compile(r"^-- query: (\w+)\n", re.MULTILINE)
_PART = re.compile(r"\(\?&(\w+)\)")
_TABLE = re.compile(r"\b(?:FROM|JOIN)\s+((?:silver|gold)_\w+)")


def packaged_text(package: str, file: str) -> str:
    return files(package).joinpath(file).read_text(encoding="utf-8")


@cache
def packaged_toml(package: str, file: str) -> dict[str, Any]:
    return tomllib.loads(packaged_text(package, file))


def spelled_out(pattern: str, parts: Mapping[str, str]) -> str:
    """A pattern in which (?&name) stands for the part of that name."""
    return _PART.sub(lambda part: parts[part[1]], pattern)


@cache
def queries(package: str, file: str, **parts: str) -> Mapping[str, str]:
    """The queries of a file of the package, by their names.

    Where parts are given, $name is the part or the earlier query of that name.
    """
    _, *texts = _HEAD.split(packaged_text(package, file))
    found: dict[str, str] = {}
    for name, text in zip(texts[::2], texts[1::2], strict=True):
        found[name] = Template(text).substitute(parts | found) if parts else text
    return found


def built_tables(sql: Mapping[str, str]) -> set[str]:
    """The tables of a build that the queries read."""
    return {table for text in sql.values() for table in _TABLE.findall(text)}

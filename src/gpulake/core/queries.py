"""SQL in files of its own: each query follows a line `-- query: name`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from string import Template

_HEAD = re.compile(r"^-- query: (\w+)\n", re.MULTILINE)
_TABLE = re.compile(r"\b(?:FROM|JOIN)\s+((?:silver|gold)_\w+)")


@cache
def queries(package: str, file: str, **parts: str) -> Mapping[str, str]:
    """The queries of a file of the package, by their names. $name in the file is the part of that name."""
    text = files(package).joinpath(file).read_text(encoding="utf-8")
    _, *found = _HEAD.split(Template(text).substitute(parts) if parts else text)
    return dict(zip(found[::2], found[1::2], strict=True))


def built_tables(sql: Mapping[str, str]) -> set[str]:
    """The tables of a build that the queries read."""
    return {table for text in sql.values() for table in _TABLE.findall(text)}

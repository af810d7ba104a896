"""Files that are shipped beside the code: catalogues and settings in TOML, queries in SQL."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


def text_of(package: str, name: str) -> str:
    return files(package).joinpath(name).read_text(encoding="utf-8")


@cache
def toml_of(package: str, name: str) -> dict[str, Any]:
    return tomllib.loads(text_of(package, name))


def queries(package: str, name: str, **words: str) -> dict[str, str]:
    """The queries of an SQL file, each below a line `-- query: name`.

    {word} is replaced by one of the given words, or by an earlier query of the file; other words stay.
    """
    parts = re.split(r"^-- query: (\w+)\n", text_of(package, name), flags=re.MULTILINE)[1:]
    found = dict(words)
    for query, body in zip(parts[::2], parts[1::2], strict=True):
        found[query] = re.sub(r"\{(\w+)\}", lambda word: found.get(word[1], word[0]), body)
    return found

"""Lines that a learned rule is tested on: of healthy jobs, common words, random text, signs of trouble."""

from __future__ import annotations

import random
import string
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from gpulake.diagnose.rulebook.book import compiled

RANDOM_LINES = 300


@cache
def _probes() -> dict[str, Any]:
    return tomllib.loads(files("gpulake.diagnose.learn").joinpath("probes.toml").read_text(encoding="utf-8"))


@cache
def healthy_lines() -> tuple[tuple[str, str], ...]:
    """Lines of healthy jobs, each with its source."""
    logs: Sequence[Mapping[str, str]] = _probes()["healthy"]
    return tuple((line, log["source"]) for log in logs for line in log["lines"].splitlines() if line.strip())


@cache
def common_words() -> tuple[str, ...]:
    return ("", *_probes()["common"])


@cache
def random_lines() -> tuple[str, ...]:
    """The same ones each time, so that checks are reproducible."""
    draw = random.Random(5)
    letters = string.ascii_letters + string.digits + " .:,-_/()[]='"
    vocabulary = " ".join(word for word in common_words() if word.isalpha()).split()
    noise = ["".join(draw.choices(letters, k=draw.randint(5, 200))) for _ in range(RANDOM_LINES)]
    salad = [" ".join(draw.choices(vocabulary, k=draw.randint(3, 12))) for _ in range(RANDOM_LINES)]
    return (*noise, *salad)


@cache
def _markers() -> Any:
    return compiled("(?i)" + "|".join(_probes()["markers"]))


def marker(line: str) -> str:
    """The sign of trouble in a line; empty where there is none."""
    found = _markers().search(line)
    return str(found[0]) if found else ""

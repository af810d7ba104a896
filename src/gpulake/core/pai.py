"""What is known in public of the Alibaba PAI trace v2020: the generator draws from it, the study compares with it."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def published() -> dict[str, Any]:
    return tomllib.loads(files("gpulake.core").joinpath("pai.toml").read_text(encoding="utf-8"))

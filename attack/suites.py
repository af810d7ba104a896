"""The suites by name. Each lives in a module of its own with `run(tries, seed, folder) -> Score` and a doc line."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

from attack.score import Score

Suite = Callable[[int, int, Path], Score]
# Name, and how many tries the long form makes.
LONG = {"crashes": 500, "power": 100, "inputs": 50_000, "sql": 5_000, "web": 4_000, "logs": 200}


def doc(name: str) -> str:
    return (importlib.import_module(f"attack.{name}").__doc__ or "").splitlines()[0]


def load(name: str) -> Suite:
    run: Suite = importlib.import_module(f"attack.{name}").run
    return run

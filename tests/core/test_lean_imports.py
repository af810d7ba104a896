"""Imports that a command does without, and the rest of the process does not notice."""

from __future__ import annotations

import importlib
import sys

import pytest

from gpulake.core.lean_imports import leave_out_pandas, without_numpy


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    for package in ("pandas", "numpy"):
        monkeypatch.delitem(sys.modules, package, raising=False)


def test_pandas_is_not_there_for_those_who_try_it() -> None:
    leave_out_pandas()
    leave_out_pandas()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("pandas")


def test_numpy_is_left_out_only_for_a_while() -> None:
    before = list(sys.meta_path)
    with without_numpy(), pytest.raises(ModuleNotFoundError):
        importlib.import_module("numpy")
    assert sys.meta_path == before


def test_what_is_imported_already_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("pandas", "numpy"):
        monkeypatch.setitem(sys.modules, package, sys)
    leave_out_pandas()
    with without_numpy():
        assert importlib.import_module("numpy") is importlib.import_module("pandas") is sys

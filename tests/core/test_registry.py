"""Plugs are found by their file, and a mistyped name is the user's error."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpulake.core.errors import UsageError
from gpulake.core.registry import Registry
from gpulake.land.readers import READERS


def test_every_file_of_the_package_is_a_plug_of_its_name() -> None:
    import gpulake.land.readers as package

    folder = Path(str(package.__file__)).parent
    assert list(READERS) == sorted(path.stem for path in folder.glob("*.toml"))
    assert {path.stem for path in folder.glob("*.py")} - {"__init__", "declared"} <= set(READERS)


def test_an_unknown_name_gets_the_nearest_one() -> None:
    with pytest.raises(UsageError, match="no reader named 'pay'") as raised:
        READERS.get("pay")
    assert raised.value.hint == "did you mean 'pai'?"


def test_two_plugs_may_not_share_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_plugs").mkdir()
    (tmp_path / "my_plugs" / "__init__.py").write_text("")
    registry: Registry[int] = Registry("plug", "my_plugs")
    registry.register("one")(1)
    with pytest.raises(UsageError, match="two plugs are named 'one'"):
        registry.register("one")(2)
    assert registry.get("one") == 1
    sys.modules.pop("my_plugs")

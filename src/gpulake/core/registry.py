"""Plugs: one file each in a package, imported when asked for; third parties add theirs through entry points."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from gpulake.core.errors import UsageError, choice_hint

Plug = TypeVar("Plug")
Given = TypeVar("Given")


class Registry(Generic[Plug]):
    """Plugs of one kind by name. They are imported on first use, never at start-up."""

    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind
        self.package = package
        self._plugs: dict[str, Plug] = {}
        self._is_loaded = False

    def register(self, name: str) -> Callable[[Given], Given]:
        def keep(plug: Given) -> Given:
            if name in self._plugs:
                raise UsageError(f"two {self.kind}s are named {name!r}", "rename one of them")
            self._plugs[name] = plug  # type: ignore[assignment]
            return plug

        return keep

    def get(self, name: str) -> Plug:
        self._load()
        if name not in self._plugs:
            raise UsageError(f"no {self.kind} named {name!r}", choice_hint(name, self._plugs))
        return self._plugs[name]

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(sorted(self._plugs))

    def _load(self) -> None:
        if self._is_loaded:
            return
        self._is_loaded = True
        package = importlib.import_module(self.package)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{self.package}.{module.name}")
        for entry in entry_points(group=self.package):
            entry.load()

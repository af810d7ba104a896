"""Packages that others import if they are installed, though nothing here uses them."""

from __future__ import annotations

import sys


class _WithoutPandas:
    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def leave_out_pandas() -> None:
    """For this process. Arrow would import it for times with a zone: 0.2 s of CPU, and memory."""
    if "pandas" not in sys.modules and _WithoutPandas not in sys.meta_path:
        sys.meta_path.insert(0, _WithoutPandas)

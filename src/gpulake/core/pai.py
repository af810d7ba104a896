"""What is known in public of the Alibaba PAI trace v2020: the generator draws from it, the study compares with it."""

from __future__ import annotations

from typing import Any

from gpulake.core.packaged import packaged_toml


def published() -> dict[str, Any]:
    return packaged_toml("gpulake.core", "pai.toml")

"""JSON that others wrote: one object, or nothing. No text raises, however deep or large."""

from __future__ import annotations

import json
from typing import Any


def object_of(text: str) -> dict[str, Any] | None:
    """The object that the text is; None for all that is none: NaN, numbers of any length, nesting without end."""
    try:
        content = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not JSON")

"""Frozen dataclasses as rows of a journal and as documents, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import Field, fields
from datetime import datetime
from typing import Any, TypeVar

Class = TypeVar("Class")


def as_row(one: Any) -> dict[str, Any]:
    return {column.name: getattr(one, column.name) for column in fields(one)}


def as_document(one: Any) -> dict[str, Any]:
    """The row for machines: times in ISO 8601."""
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in one.row().items()}


def json_rows(value: Any) -> list[dict[str, Any]]:
    """A column of JSON that holds a list of objects, as text or parsed; empty where it cannot be read."""
    try:
        listed = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return []
    return [row for row in listed if isinstance(row, dict)] if isinstance(listed, list | tuple) else []


def text_or_none(value: object) -> str | None:
    """None for an empty text, too."""
    return str(value) if value not in (None, "") else None


def from_row(kind: type[Class], row: Mapping[str, Any]) -> Class | None:
    """What the row holds; None, where it is no row of the class or a time in it has no zone."""
    columns: dict[str, Field[Any]] = {column.name: column for column in fields(kind)}  # type: ignore[arg-type]
    values = {name: value for name, value in row.items() if name in columns and value is not None}
    try:
        for name, value in values.items():
            if "datetime" in str(columns[name].type):
                values[name] = datetime.fromisoformat(value)
                if values[name].tzinfo is None:
                    return None
        return kind(**values)
    except (TypeError, ValueError):
        return None

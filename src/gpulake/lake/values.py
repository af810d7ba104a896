"""Values of the engine as JSON has them."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

MOST_EXACT = 2**53  # of a whole number in JavaScript


def kind_of(kind: pa.DataType) -> str:
    if pa.types.is_boolean(kind):
        return "flag"
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_timestamp(kind):
        return "time"
    return "date" if pa.types.is_date(kind) else "text"


def values(column: pa.ChunkedArray) -> list[Any]:
    """Of a column. Times that Python cannot represent, such as those after the year 9999, are text."""
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError):
        return [_value(one) for one in column]


def _value(one: pa.Scalar) -> Any:
    try:
        return one.as_py()
    except (ValueError, OverflowError):
        return str(one.type) if pa.types.is_nested(one.type) else one.cast(pa.string()).as_py()


def plain(value: Any) -> Any:
    """As JSON has it: no number that a reader would round or cannot read, times with their zone."""
    if isinstance(value, Decimal) and value.is_finite() and value == value.to_integral_value():
        value = int(value)  # such as a sum of many: a float would round it
    if isinstance(value, float | Decimal):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, int):
        return value if abs(value) <= MOST_EXACT else str(value)
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, list | tuple):
        # Most of a long list is nothing or text: the rows of a map would be gone through for a second time.
        return [one if one is None or type(one) is str else plain(one) for one in value]
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return value if value is None else str(value)

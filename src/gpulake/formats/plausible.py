"""What a measured value can be. Drivers and exporters say "blank" with numbers that look like data: never stored."""

from __future__ import annotations

# DCGM's blanks: INT32, INT64 and FP64, each with the values above it that say why it is blank.
BLANK_INTEGERS = ((0x7FFFFFF0, 0x7FFFFFFF), (0xFFFFFFF0, 0xFFFFFFFF), (0x7FFFFFFFFFFFFFF0, 0xFFFFFFFFFFFFFFFF))
BLANK_NUMBER = 140737488355328.0
# By the unit that a name ends with: the least and the most that this hardware can be.
RANGES = {
    "_ratio": (0.0, 1.0),
    "_celsius": (-40.0, 150.0),
    "_watts": (0.0, 20_000.0),
    "_joules_total": (0.0, 1e13),
    "_hertz": (0.0, 2e10),
    "_per_second": (0.0, 1e13),
    "_bytes": (0.0, 1e17),
    "_total": (0.0, 2.0**63 - 17),
}


def is_plausible(name: str, value: float) -> bool:
    """Whether a value of this name can be true; a name without a known unit is only held to be no blank."""
    if value != value or value in (float("inf"), float("-inf")):
        return False
    if isinstance(value, int):
        if any(first <= value <= last for first, last in BLANK_INTEGERS):
            return False
    elif value >= BLANK_NUMBER:
        return False
    least, most = next((span for unit, span in RANGES.items() if name.endswith(unit)), (-1e300, 1e300))
    return least <= value <= most

"""Numbers, times and labels as people read them, in texts that go to a terminal or into a message."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable

BLOCKS = " ▏▎▍▌▋▊▉█"
NO_NAME = "(unknown)"


def label(value: object, most: int = 0) -> str:
    """A label of the data: on one line, unable to steer a terminal, and cut where it would break the lines."""
    if value is None:
        return NO_NAME
    plain = str(value)
    if not plain.isprintable():
        plain = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in plain)
    return plain if not most or len(plain) <= most else plain[: most - 1] + "…"


def opened(text: str) -> str:
    """A sentence begins with a capital, whatever it was put together from."""
    return text[:1].upper() + text[1:]


def sentence(text: str) -> str:
    text = opened(text.strip())
    return text if not text or text.endswith((".", "!", "?", ":")) else f"{text}."


def amount(value: float) -> str:
    """Small amounts keep a digit; only zero is shown as 0."""
    if value == 0:
        return "0"
    if abs(value) < 0.05:
        return "<0.1"
    return f"{value:,.1f}" if abs(value) < 100 else f"{value:,.0f}"


def share(part: float, whole: float) -> str:
    if whole <= 0:
        return "–"
    ratio = part / whole
    return f"{ratio:.1%}" if ratio < 0.1 else f"{ratio:.0%}"


def bounds(least: float, most: float, form: Callable[[float], str] = amount) -> str:
    """A range, unless both ends look the same."""
    low, high = form(least), form(most)
    return high if low == high else f"{low} to {high}"


def inferred(part: float, whole: float) -> str:
    """The note of a figure that uses inferred times."""
    return f" ({share(part, whole)} inferred)" if part > 0 else ""


def bar(part: float, whole: float, width: int) -> str:
    """A bar in eighths of a character; any value above zero is visible."""
    eighths = round(8 * width * part / whole) if whole > 0 else 0
    if part > 0:
        eighths = max(eighths, 1)
    full, rest = divmod(min(eighths, 8 * width), 8)
    return (BLOCKS[8] * full + (BLOCKS[rest] if rest else "")).ljust(width)


def span(seconds: float) -> str:
    """A stretch of time, in two units at most."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{hours / 24:.1f} days"


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(names: Iterable[str], most: int = 5) -> str:
    """`gpu01, gpu02 and 3 more`."""
    every = sorted(names)
    more = f" and {len(every) - most:,} more" if len(every) > most else ""
    return f"{', '.join(every[:most])}{more}"


def ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"


def quantity(value: float | None, unit: str) -> str:
    """A measured value with its unit; a share as percent."""
    if value is None:
        return "–"
    if unit == "ratio":
        return f"{value:.1%}"
    size = abs(value)
    number = f"{value:,.0f}" if size >= 1000 else f"{value:.3g}" if size else "0"
    return f"{number} {label(unit, 20)}".strip()


def cells(text: str) -> int:
    """Columns that it takes on a terminal: Chinese characters two, accents none."""
    if text.isascii():
        return len(text)
    return sum(_cells(character) for character in text)


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1

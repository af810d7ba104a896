"""JSON with the place of each part: what cannot be read is quarantined with its own line and text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from gpulake.core.errors import InputError

DECODER = json.JSONDecoder()
BLANKS = " \t\r\n"


class Part(NamedTuple):
    line_number: int
    key: str  # of an object's member; empty for an element of a list
    value: Any
    text: str


def parts(text: str) -> Iterator[Part]:
    """The members of an object, or the elements of a list."""
    at = _skip(text, 0)
    is_object = text[at : at + 1] == "{"
    if not is_object and text[at : at + 1] != "[":
        raise InputError("neither a JSON object nor a list", "is this file what its name says?")
    end, at = "}" if is_object else "]", _skip(text, at + 1, ",")
    line, counted = 1, 0
    while text[at : at + 1] != end:
        line, counted = line + text.count("\n", counted, at), at
        begin, key = at, ""
        try:
            if is_object:
                key, at = DECODER.raw_decode(text, at)
                at = _skip(text, at, ":")
            value, at = DECODER.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise InputError(f"line {line} is cut short or no JSON: {error}", "write the file again") from error
        yield Part(line, str(key), value, text[begin:at])
        at = _skip(text, at, ",")


def json_object(text: str) -> dict[str, Any]:
    """Empty for what is no JSON object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def word(value: object) -> str:
    """A value as a field of text. A string keeps to its line: control characters are escaped."""
    return WORDS.get(type(value), _document)(value)


def escaped(text: str) -> str:
    """Whatever would steer a terminal or break a line, as a backslash and its code."""
    return "".join(
        letter if letter.isprintable() or "\ud800" <= letter <= "\udfff" else repr(letter)[1:-1] for letter in text
    )


def _document(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


WORDS: dict[type, Callable[[Any], str]] = {
    str: lambda value: value if value.isprintable() else escaped(value),
    int: str,
    float: lambda value: str(int(value)) if value.is_integer() else repr(value),
    bool: lambda value: "true" if value else "false",
    type(None): lambda _: "",
}


def _skip(text: str, at: int, also: str = "") -> int:
    while text[at : at + 1] and text[at] in BLANKS + also:
        at += 1
    return at

"""Messages of protocol buffers, field by field: their own library is not needed for the few that matter here."""

from __future__ import annotations

from collections.abc import Iterator

VARINT, DOUBLE, BYTES, FLOAT = 0, 1, 2, 5  # kinds of a field on the wire
Field = tuple[int, int, int | bytes]


def fields(message: bytes) -> Iterator[Field]:
    """Number, kind on the wire, and value of each field."""
    at = 0
    while at < len(message):
        key, at = varint(message, at)
        kind = key & 7
        value: int | bytes
        if kind == VARINT:
            value, at = varint(message, at)
        else:
            size = {DOUBLE: 8, FLOAT: 4}.get(kind)
            if size is None:
                if kind != BYTES:
                    raise ValueError(f"a field of kind {kind}")
                size, at = varint(message, at)
            value, at = message[at : at + size], at + size
            if at > len(message):
                raise ValueError("a field beyond its message")
        yield key >> 3, kind, value


def varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def as_bytes(field: int | bytes) -> bytes:
    if isinstance(field, int):
        raise ValueError("a number where a message is expected")
    return field

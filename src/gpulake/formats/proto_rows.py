"""Messages of protocol buffers by their .proto files, as JSON would have them, under the names that the file has.

What proto3 does not write because it is zero is zero here; texts and lists that are empty are left out.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from gpulake.formats.proto_file import KNOWN, ProtoField, ProtoFile, ProtoMessage
from gpulake.formats.protobuf import BYTES, as_bytes, fields, varint

MOST_DEPTH = 64
_FIXED = {
    word: struct.Struct(f"<{code}")
    for word, code in (
        ("double", "d"), ("float", "f"), ("fixed64", "Q"), ("sfixed64", "q"), ("fixed32", "I"), ("sfixed32", "i")
    )
}  # fmt: skip
_VARINTS = ("int32", "int64", "uint32", "uint64", "sint32", "sint64", "bool")
_TEXTS = ("string", "bytes")
_GOOGLE = "google.protobuf."
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ProtoSchema:
    def __init__(self, text: str, references: Sequence[str] = ()) -> None:
        """References are the files that it imports. Raises ValueError for what is no .proto file."""
        self._top = ProtoFile(text).messages
        files = [ProtoFile(one) for one in (text, *references, KNOWN)]
        self._enums = {name: values for file in files for name, values in file.enums.items()}
        found = {one.name: one for file in files for one in file.all_messages()}
        self._types = {name: self._resolved(one, found) for name, one in found.items()}

    def decoded(self, message: bytes) -> dict[str, Any]:
        """After the magic byte and the schema's id: which message of the file, and its fields."""
        try:
            one, at = self._which(message)
            return self._fields(one.name, message[at:], 0)
        except (IndexError, struct.error, UnicodeDecodeError) as error:
            raise ValueError(f"not of its Protobuf schema: {error}") from None

    def _which(self, message: bytes) -> tuple[ProtoMessage, int]:
        count, at = varint(message, 0)
        path = []
        for _ in range(_signed(count)):
            number, at = varint(message, at)
            path.append(_signed(number))
        found, inner = None, self._top
        for number in path or [0]:
            if not 0 <= number < len(inner):
                raise ValueError(f"the schema has no message {number}")
            found, inner = inner[number], inner[number].inner
        assert found
        return found, at

    def _resolved(self, one: ProtoMessage, found: Mapping[str, ProtoMessage]) -> dict[int, ProtoField]:
        fields_of = {}
        for field in one.fields:
            kind = self._named(field.kind, one.name, found)
            if kind:
                fields_of[field.number] = ProtoField(**{**vars(field), "kind": kind})
        return fields_of

    def _named(self, kind: str, scope: str, found: Mapping[str, ProtoMessage]) -> str:
        """The name of a type in full, by the scopes around its use; none for one of Google's that is not read."""
        if kind in _FIXED or kind in _VARINTS or kind in _TEXTS:
            return kind
        parts = [] if kind.startswith(".") else scope.split(".")
        name = kind.removeprefix(".")
        for count in range(len(parts), -1, -1):
            full = ".".join((*parts[:count], name))
            if full in found or full in self._enums:
                return full
        if name.startswith(_GOOGLE):
            return ""
        raise ValueError(f"the schema has no type {name}")

    def _fields(self, name: str, message: bytes, depth: int) -> dict[str, Any]:
        if depth > MOST_DEPTH:
            raise ValueError("messages within messages without end")
        found: dict[str, Any] = {}
        known = self._types[name]
        for number, wire, value in fields(message):
            field = known.get(number)
            if field is None:
                continue
            if not field.is_repeated:
                found[field.name] = self._value(field.kind, value, depth)
            elif field.is_map:
                entry = self._fields(field.kind, as_bytes(value), depth + 1)
                found.setdefault(field.name, {})[str(entry.get("key", ""))] = entry.get("value", "")
            elif wire == BYTES and field.kind not in _TEXTS and field.kind not in self._types:
                found.setdefault(field.name, []).extend(self._packed(field.kind, as_bytes(value)))
            else:
                found.setdefault(field.name, []).append(self._value(field.kind, value, depth))
        for field in known.values():
            if not field.has_presence and not field.is_repeated and field.name not in found:
                found.update(self._default(field))
        return found

    def _value(self, kind: str, value: int | bytes, depth: int) -> Any:
        if kind in _FIXED:
            return _FIXED[kind].unpack(as_bytes(value))[0]
        if kind == "string":
            return as_bytes(value).decode()
        if kind == "bytes":
            return as_bytes(value)
        if kind in self._types:
            found = self._fields(kind, as_bytes(value), depth + 1)
            return _known(kind.removeprefix(_GOOGLE), found) if kind.startswith(_GOOGLE) else found
        if isinstance(value, bytes):
            raise ValueError("bytes where a number is expected")
        if kind in self._enums:
            number = _whole("int32", value)
            return self._enums[kind].get(number, number)
        return bool(value) if kind == "bool" else _signed(value) if kind[0] == "s" else _whole(kind, value)

    def _packed(self, kind: str, values: bytes) -> list[Any]:
        if kind in _FIXED:
            return [one for (one,) in _FIXED[kind].iter_unpack(values)]
        found, at = [], 0
        while at < len(values):
            value, at = varint(values, at)
            found.append(self._value(kind, value, 0))
        return found

    def _default(self, field: ProtoField) -> dict[str, Any]:
        if field.kind in _FIXED or field.kind in _VARINTS:
            return {field.name: False if field.kind == "bool" else 0}
        if field.kind in self._enums:
            return {field.name: self._enums[field.kind].get(0, 0)}
        return {}


def _whole(kind: str, value: int) -> int:
    return value - (1 << 64) if kind[0] == "i" and value >> 63 else value


def _signed(value: int) -> int:
    """Zigzag: the sign is the last bit."""
    return value >> 1 ^ -(value & 1)


def _known(kind: str, found: Mapping[str, Any]) -> Any:
    seconds, nanos = found.get("seconds", 0), found.get("nanos", 0)
    if kind == "Timestamp":
        try:
            return (_EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)).isoformat()
        except OverflowError:
            raise ValueError(f"a time of {seconds} seconds") from None
    if kind == "Duration":
        return seconds + nanos / 1e9
    return found.get("value", "")

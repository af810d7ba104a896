"""A .proto file, read at run time: its messages with their fields, and its enumerations. No compiler is needed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\.?[A-Za-z_][\w.]*|[-+]?[\d.][\w.+-]*|.)""",
    re.DOTALL,
)
_LABELS = ("optional", "required", "repeated")
_SKIPPED = ("option", "reserved", "extensions", "import")
# Types that every file may import, and that no registry holds.
KNOWN = """
syntax = "proto3";
package google.protobuf;
message Timestamp { int64 seconds = 1; int32 nanos = 2; }
message Duration { int64 seconds = 1; int32 nanos = 2; }
message DoubleValue { double value = 1; }
message FloatValue { float value = 1; }
message Int64Value { int64 value = 1; }
message UInt64Value { uint64 value = 1; }
message Int32Value { int32 value = 1; }
message UInt32Value { uint32 value = 1; }
message BoolValue { bool value = 1; }
message StringValue { string value = 1; }
message BytesValue { bytes value = 1; }
"""


@dataclass(frozen=True)
class ProtoField:
    name: str
    number: int
    kind: str  # a scalar's word, or the name of a type as the file writes it
    is_repeated: bool = False
    is_map: bool = False
    has_presence: bool = False  # without it, what is not there has its default


@dataclass
class ProtoMessage:
    name: str  # with its package
    fields: list[ProtoField] = field(default_factory=list)
    inner: list[ProtoMessage] = field(default_factory=list)


class ProtoFile:
    def __init__(self, text: str) -> None:
        """Raises ValueError for what is no .proto file."""
        self._tokens = [found[1] for found in _TOKEN.finditer(text) if found[1]]
        self._at = 0
        self._has_presence = True  # of proto2, and of editions
        self._package = ""
        self.messages: list[ProtoMessage] = []  # at the top, in their order
        self._entries: list[ProtoMessage] = []  # of maps
        self.enums: dict[str, dict[int, str]] = {}
        while self._at < len(self._tokens):
            self._statement()

    def all_messages(self) -> Iterator[ProtoMessage]:
        waiting = [*self.messages, *self._entries]
        while waiting:
            yield (one := waiting.pop())
            waiting += one.inner

    def _statement(self) -> None:
        word = self._next()
        if word == "syntax":
            self._expect("=")
            self._has_presence = self._next().strip("\"'") != "proto3"
            self._expect(";")
        elif word == "package":
            self._package = self._next() + "."
            self._expect(";")
        elif word == "message":
            self.messages.append(self._message(self._package))
        elif word == "enum":
            self._enum(self._package)
        elif word != ";":
            self._skip()

    def _message(self, scope: str) -> ProtoMessage:
        found = ProtoMessage(scope + self._next())
        self._expect("{")
        self._body(found)
        return found

    def _body(self, found: ProtoMessage, is_choice: bool = False) -> None:
        while (word := self._next()) != "}":
            if word == "message":
                found.inner.append(self._message(f"{found.name}."))
            elif word == "enum":
                self._enum(f"{found.name}.")
            elif word == "oneof":
                self._next()
                self._expect("{")
                self._body(found, is_choice=True)
            elif word == "extend" or (word in _SKIPPED and self._tokens[self._at] != "="):
                self._skip()
            elif word != ";":
                self._field(found, word, is_choice)

    def _field(self, found: ProtoMessage, word: str, is_choice: bool) -> None:
        label = word if word in _LABELS else ""
        kind = self._next() if label else word
        if kind == "group":
            raise ValueError(f"{found.name} has a group, which is not read")
        is_map = kind == "map" and self._tokens[self._at] == "<"
        if is_map:
            self._expect("<")
            key = self._next()
            self._expect(",")
            entry = ProtoMessage(f"{found.name}.<{len(found.fields)}>")
            entry.fields = [ProtoField("key", 1, key), ProtoField("value", 2, self._next())]
            self._expect(">")
            self._entries.append(entry)
            kind = f".{entry.name}"
        name = self._next()
        self._expect("=")
        number = int(self._next(), 0)
        is_repeated = label == "repeated" or is_map
        has_presence = is_choice or label == "optional" or self._has_presence
        found.fields.append(ProtoField(name, number, kind, is_repeated, is_map, has_presence))
        self._skip()

    def _enum(self, scope: str) -> None:
        values = self.enums[scope + self._next()] = {}
        self._expect("{")
        while (word := self._next()) != "}":
            if word in ("option", "reserved") and self._tokens[self._at] != "=":
                self._skip()
            elif word != ";":
                self._expect("=")
                values.setdefault(int(self._next(), 0), word)
                self._skip()

    def _skip(self) -> None:
        """To the end of a statement, or of its block."""
        depth = 0
        while (word := self._next()) != ";" or depth:
            depth += (word in "{[(") - (word in "}])")
            if word == "}" and not depth:
                return

    def _next(self) -> str:
        if self._at >= len(self._tokens):
            raise ValueError("the schema ends within a statement")
        self._at += 1
        return self._tokens[self._at - 1]

    def _expect(self, word: str) -> None:
        if (found := self._next()) != word:
            raise ValueError(f"the schema has {found!r} where {word!r} is expected")

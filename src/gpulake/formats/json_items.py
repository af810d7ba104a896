"""A large JSON document, an element at a time: a list, or an object with a list among its members."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from gpulake.core.errors import InputError
from gpulake.core.lines import LARGEST_DOCUMENT_BYTES
from gpulake.formats.json_text import DECODER, Part

CHUNK_CHARACTERS = 1 << 20
_BLANKS = re.compile(r"[ \t\r\n,:]*")


def items(path: Path, key: str) -> Iterator[Part]:
    """The elements of the list under the key, without a key, among the other members of the object."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        text = _Text(file)
        if text.next_letter() != "{":
            raise InputError("no JSON object", "is this file what its name says?")
        text.at += 1
        while text.next_letter() != "}":
            line = text.line
            name = text.value().value
            if name != key or text.next_letter() != "[":
                part = text.value()
                yield Part(line, str(name), part.value, part.text)
                continue
            text.at += 1
            while text.next_letter() != "]":
                yield text.value()
            text.at += 1


class _Text:
    """A piece of the file, and the place up to which it is read."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._text = file.read(CHUNK_CHARACTERS)
        self._counted = 0
        self._lines = 1
        self.at = 0

    @property
    def line(self) -> int:
        self._lines += self._text.count("\n", self._counted, self.at)
        self._counted = self.at
        return self._lines

    def next_letter(self) -> str:
        """That is no blank, comma or colon; the file may not end before it."""
        while True:
            blanks = _BLANKS.match(self._text, self.at)
            self.at = blanks.end() if blanks else self.at
            if self.at < len(self._text):
                return self._text[self.at]
            if not self._more():
                raise InputError(f"line {self.line}: the file is cut short", "write it again")

    def value(self) -> Part:
        self.next_letter()
        line = self.line
        while True:
            try:
                value, end = DECODER.raw_decode(self._text, self.at)
            except (ValueError, RecursionError) as error:
                # The value may go on behind this piece; each is twice as long, lest it be tried too often.
                if len(self._text) - self.at >= LARGEST_DOCUMENT_BYTES or not self._more():
                    raise InputError(f"line {line} is cut short or no JSON: {error}", "write it again") from error
                continue
            begin, self.at = self.at, end
            return Part(line, "", value, self._text[begin:end])

    def _more(self) -> bool:
        _ = self.line  # counts what is dropped
        rest = self._text[self.at :]
        more = self._file.read(max(CHUNK_CHARACTERS, len(rest)))
        self._text, self.at, self._counted = rest + more, 0, 0
        return bool(more)

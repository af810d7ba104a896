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
STRANGE = "is this file what its name says?"
_BLANKS = re.compile(r"[ \t\r\n,:]*")


def items(path: Path, *keys: str, what: str = "value") -> Iterator[Part]:
    """The elements of the lists under the keys, without a key, among the other members of the object; without names of
    keys, those of the list that the file is. No more than one and a chunk of the file is held."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        text = _Text(file, what)
        if text.next_letter() != ("{" if keys else "["):
            raise InputError(f"no JSON {'object' if keys else 'list'}", STRANGE)
        text.at += 1
        if not keys:
            yield from text.elements()
            return
        while text.next_letter() != "}":
            line = text.line
            name = text.value().value
            if name in keys and text.next_letter() == "[":
                text.at += 1
                yield from text.elements()
            else:
                part = text.value()
                yield Part(line, str(name), part.value, part.text)


def elements_behind(path: Path, head: re.Pattern[str], what: str) -> Iterator[Part]:
    """The elements of the list whose bracket ends what the pattern matches at the beginning of the file."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        text = _Text(file, what)
        text.skip(head)
        yield from text.elements()


class _Text:
    """A piece of the file, and the place up to which it is read."""

    def __init__(self, file: IO[str], what: str) -> None:
        self._file = file
        self._what = what
        self._text = file.read(CHUNK_CHARACTERS)
        self._counted = 0
        self._lines = 1
        self._elements = 0
        self.at = 0

    @property
    def line(self) -> int:
        self._lines += self._text.count("\n", self._counted, self.at)
        self._counted = self.at
        return self._lines

    def skip(self, head: re.Pattern[str]) -> None:
        found = head.match(self._text)
        if found is None:
            raise InputError(f"no list of {self._what}", STRANGE)
        self.at = found.end()

    def next_letter(self) -> str:
        """That is no blank, comma or colon; the file may not end before it."""
        while True:
            blanks = _BLANKS.match(self._text, self.at)
            self.at = blanks.end() if blanks else self.at
            if self.at < len(self._text):
                return self._text[self.at]
            if not self._more():
                raise InputError(f"line {self.line}: the file is cut short", "write it again")

    def elements(self) -> Iterator[Part]:
        """Up to the end of the list whose bracket was read."""
        while self.next_letter() != "]":
            self._elements += 1
            yield self.value()
        self.at += 1

    def value(self) -> Part:
        self.next_letter()
        line = self.line
        while True:
            try:
                value, end = DECODER.raw_decode(self._text, self.at)
            except (ValueError, RecursionError) as error:
                # The value may go on behind this piece; each is twice as long, lest it be tried too often.
                if len(self._text) - self.at >= LARGEST_DOCUMENT_BYTES or not self._more():
                    name = f"{self._what} {self._elements}" if self._elements else "a value"
                    message = f"{name} is cut short or no JSON, in line {line}: {error}"
                    raise InputError(message, "write or fetch it again") from error
                continue
            if end == len(self._text) and self._more():
                continue  # the rest of a number may follow
            begin, self.at = self.at, end
            return Part(line, "", value, self._text[begin:end])

    def _more(self) -> bool:
        _ = self.line  # counts what is dropped
        rest = self._text[self.at :]
        more = self._file.read(max(CHUNK_CHARACTERS, len(rest)))
        self._text, self.at, self._counted = rest + more, 0, 0
        return bool(more)

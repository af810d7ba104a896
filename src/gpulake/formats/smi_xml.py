"""The XML of `nvidia-smi -q -x`, made safe: of a document type only the line that nvidia-smi itself writes passes.

No entity is declared, fetched or expanded; a file may hold several documents, as `nvidia-smi -l` writes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from gpulake.core.lines import KEPT_BYTES, byte_lines
from gpulake.core.types import BadRow

DOCTYPE = re.compile(r"nvsmi_device_v\d+\.dtd")
DOCUMENT = re.compile(rb"(?=<\?xml\s)")
MOST_DEPTH = 32
LARGEST_BYTES = 4 << 20  # of a document: a GPU has some 30 KiB


@dataclass
class Element:
    name: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def find(self, path: str) -> Element | None:
        """The first element at a path of names."""
        at: Element | None = self
        for name in path.split("/"):
            at = next((child for child in at.children if child.name == name), None) if at else None
        return at

    def word(self, path: str) -> str:
        found = self.find(path)
        return " ".join(found.text.split()) if found else ""


@dataclass(frozen=True)
class Snapshot:
    """One GPU of one document, with what the document says of all of them."""

    gpu: Element
    timestamp: str
    driver_version: str
    position: int  # of the GPU in its document
    line_number: int
    text: str


@dataclass(frozen=True)
class Broken:
    line_number: int
    reason: str
    text: str


def snapshots(path: Path) -> Iterator[Snapshot | Broken]:
    line, held = 1, b""
    for number, more in byte_lines(path):
        if isinstance(more, BadRow):
            yield Broken(number, more.reason, more.text)
        text = b"\n" if isinstance(more, BadRow) else more
        before, *begun = DOCUMENT.split(text) if b"<?xml" in text else [text]
        held += before
        if len(held) > LARGEST_BYTES:
            yield Broken(
                line, f"a document of more than {LARGEST_BYTES} bytes", held[:KEPT_BYTES].decode(errors="replace")
            )
            line, held = number + 1, b""
        for document in begun:
            yield from _read(held, line)
            line, held = number, document
    yield from _read(held, line)


def _read(document: bytes, line: int) -> Iterator[Snapshot | Broken]:
    if document.strip():
        yield from _Document(document, line).read()


class _RefusedError(Exception):
    """What nvidia-smi never writes."""


class _Document:
    def __init__(self, content: bytes, first_line: int) -> None:
        self.content = content
        self.first_line = first_line
        self.root = Element("")
        self.open: list[Element] = [self.root]
        self.found: list[Snapshot] = []
        self.begun = (0, 0)  # where the GPU at hand begins: line and byte
        self.parser = expat.ParserCreate()
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.EntityDeclHandler = self._refuse
        self.parser.SkippedEntityHandler = self._refuse
        self.parser.ExternalEntityRefHandler = self._refuse
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters

    def read(self) -> Iterator[Snapshot | Broken]:
        """The GPUs before a break are whole."""
        reason = ""
        try:
            self.parser.Parse(self.content, True)
        except expat.ExpatError as error:
            reason = f"no XML: {error}"
        except _RefusedError as error:
            reason = str(error)
            self.found.clear()
        yield from self.found
        if reason:
            line, at = self.begun if len(self.open) > 2 else (self._line(), 0)
            yield Broken(line or self.first_line, reason, self.content[at:].decode("utf-8", "replace"))

    def _doctype(self, name: str, system_id: str | None, public_id: str | None, has_internal_subset: int) -> None:
        is_usual = name == "nvidia_smi_log" and system_id and DOCTYPE.fullmatch(system_id) and not public_id
        if not is_usual or has_internal_subset:
            raise _RefusedError("a document type that nvidia-smi does not write")

    def _refuse(self, *_: object) -> int:
        raise _RefusedError("an entity, which nvidia-smi does not write")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self.open) > MOST_DEPTH:
            raise _RefusedError(f"elements more than {MOST_DEPTH} deep, which nvidia-smi does not write")
        if self._is_gpu(name, len(self.open)):
            self.begun = (self._line(), self.parser.CurrentByteIndex)
        element = Element(name, attributes)
        self.open[-1].children.append(element)
        self.open.append(element)

    def _end(self, name: str) -> None:
        element = self.open.pop()
        if not self._is_gpu(name, len(self.open)):
            return
        log = self.open[-1]
        line, begin = self.begun
        end = self.content.find(b">", self.parser.CurrentByteIndex) + 1
        text = self.content[begin:end].decode("utf-8", "replace")
        stamp, driver = log.word("timestamp"), log.word("driver_version")
        self.found.append(Snapshot(element, stamp, driver, len(self.found), line, text))

    def _is_gpu(self, name: str, depth: int) -> bool:
        return name == "gpu" and depth == 2

    def _characters(self, text: str) -> None:
        self.open[-1].text += text

    def _line(self) -> int:
        return self.first_line + self.parser.CurrentLineNumber - 1

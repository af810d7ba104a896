"""JSON lines a block at a time: usual lines are left to the engine's parser, every other one is parsed by itself."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from gpulake.core.lines import BOM, line_blocks
from gpulake.core.tables import Table
from gpulake.core.types import BadRow, JsonBlock
from gpulake.formats.json_text import json_object
from gpulake.formats.usual import NEVER, TIMES, UsualLines, number

PLAIN_KEY = re.compile(r"[ !#-\[\]-~]+")
# Printable: ASCII, Latin letters and Chinese characters. Others may have to be escaped.
_LETTERS = r"\x{A1}-\x{AC}\x{AE}-\x{377}\x{4E00}-\x{9FEF}"
_STRING = rf"[ !#-\[\]-~{_LETTERS}]*"
# A string that looks like a list or an object would be taken for one.
_SOME_TEXT = rf'"[ !#-Z\]-z|}}~{_LETTERS}]{_STRING}"'
_WHOLE = "(?:0|-?[1-9][0-9]{0,17})"
_ANY = rf'"{_STRING}"|-?(?:0|[1-9][0-9]{{0,17}})(?:\.[0-9]{{1,17}})?(?:[eE][+-]?[0-9]{{1,2}})?|true|false|null'
# Numbers that Python and the engine write alike, and as they are here.
_PLAIN = r"(?:0|-?[1-9][0-9]{0,14}|0\.0|-?[1-9][0-9]{0,6}\.(?:0|[0-9]{0,6}[1-9])|-?0\.0{0,3}[1-9](?:[0-9]{0,9}[1-9])?)"
_LIST = rf"\[(?:{_PLAIN}(?:, ?{_PLAIN})*)?\]"
_MEMBER = rf'"[A-Za-z0-9_./-]+": ?(?:{_PLAIN}|{_LIST})'
_DOCUMENT = rf"{_LIST}|\{{(?:{_MEMBER}(?:, ?{_MEMBER})*)?\}}"


def usual_objects(
    table: Table, heads: Sequence[str], required: Collection[str], documents: Collection[str] = ()
) -> UsualLines:
    """Lines with the keys of the first ones in the same order.

    `required` have a value in every line. `documents` may be lists and objects. Columns that the first lines lack may
    follow where the table has them.
    """
    keys = _ordered([list(json_object(head)) for head in heads], table.column_names)
    if not keys or not all(PLAIN_KEY.fullmatch(key) for key in keys):
        return UsualLines(NEVER)
    first, *others = (
        rf'"{re.escape(key)}": ?(?:{_value(table, key, key in required, key in documents)})' for key in keys
    )
    parts = [f", ?{pair}" if key in required else f"(?:, ?{pair})?" for key, pair in zip(keys[1:], others, strict=True)]
    return UsualLines(rf"\{{{first}{''.join(parts)}\}}")


def _ordered(lists: Sequence[Sequence[str]], columns: Sequence[str]) -> list[str]:
    """All keys in one order: each new one comes behind the one that it follows where it was found."""
    order: list[str] = []
    for found in (*lists, columns if any(lists) else ()):
        at = 0
        for key in found:
            if key in order:
                at = order.index(key) + 1
            else:
                order.insert(at, key)
                at += 1
    return order


def _value(table: Table, key: str, is_required: bool, is_document: bool) -> str:
    kind = table.column_types.get(key)
    if kind is None:
        return f"{_ANY}|{_DOCUMENT}"
    if kind in TIMES:
        found = f'"{TIMES[kind]}"'
    elif kind in ("number", "integer"):
        found = number(table, key, kind)
    elif kind == "flag":
        found = "true|false"
    elif kind == "text":
        found = f"{_SOME_TEXT}|{_WHOLE}"
        found += f"|{_DOCUMENT}" if is_document else ""
        found += "" if is_required else '|""'
    else:
        found = NEVER
    return found if is_required else f"{found}|null"


def json_blocks(
    path: Path, usual: UsualLines, added: dict[str, str] | None = None
) -> Iterator[JsonBlock | tuple[int, Any, str]]:
    """Blocks of usual lines, each with the members that are `added`; of every other line its number, value and text.

    The value is None for what is no JSON, and a BadRow for a line that is too long. Blank lines are left out.
    """
    begin = f"{{{json.dumps(added)[1:-1]}, ".encode() if added else b"{"
    offset = None if added else _begin(path)
    for first, found in line_blocks(path):
        if isinstance(found, BadRow):
            yield first, found, found.text
            offset = None  # how long the line is was not kept
            continue
        block = found if found.endswith(b"\n") else found + b"\n"
        at = first
        for is_usual, start, end in usual.runs(block):
            if is_usual:
                count = block.count(b"\n", start, end)
                lines = block[start:end]
                if added:
                    lines = begin + lines[1:].replace(b"\n{", b"\n" + begin)
                yield JsonBlock(lines, count, None if offset is None else offset + start)
                at += count
                continue
            if text := block[start:end].decode("utf-8", "replace").strip():
                yield at, _parsed(text), text
            at += 1
        offset = None if offset is None else offset + len(block)


def _begin(path: Path) -> int:
    """Where the first line begins: behind a byte order mark."""
    with path.open("rb") as file:
        return len(BOM) if file.read(len(BOM)) == BOM else 0


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None

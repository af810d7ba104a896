"""The shape of a line: the line without its digits. Most lines of a log share a few shapes."""

from __future__ import annotations

import re

DIGITS = b"0123456789"
# Where hashes and addresses make every line unique, their letters are dropped, too.
HEX_DIGITS = b"0123456789abcdefABCDEF"
# A progress bar overwrites itself with carriage returns: each state counts as a line.
_LINE_ENDS = bytes.maketrans(b"\r", b"\n")
# Colours and cursor movements, titles of windows, and other escapes of a terminal.
_ESCAPES = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n\r]{0,4096}(?:\x07|\x1b\\)?|[PX^_][^\x1b\n\r]{0,4096}|.)"
)
# Words that differ each time: addresses, hashes, ids.
_RANDOM_WORDS = re.compile(
    rb"0x[0-9a-fA-F]+|\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"
    rb"|\b(?=[0-9]*[a-fA-F])(?=[a-fA-F]*[0-9])[0-9a-fA-F]{7,}\b"
)
_CONTROLS = bytes(code for code in range(32) if code not in b"\t\n\r\x1b\b\f")
_UNSEEN = {code: None for code in (*range(32), *range(127, 160)) if chr(code) != "\t"}


def is_binary(text: bytes) -> bool:
    """Text has few control characters."""
    return len(text) - len(text.translate(None, _CONTROLS)) > len(text) // 20


def cleaned(block: bytes) -> bytes:
    """Without what a terminal would not show. Line feeds stay."""
    if b"\0" in block:  # a hole in the file, or a text of two bytes a character
        block = block.replace(b"\0", b"")
    if b"\x1b" in block:
        block = _ESCAPES.sub(b"", block)
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
    return block


def shapes_of(block: bytes, dropped: bytes = DIGITS) -> list[bytes]:
    """Of each line of a block, and of each state of its progress bars."""
    return block.translate(_LINE_ENDS, dropped).split(b"\n")


def shape_of(line: bytes, dropped: bytes = DIGITS) -> bytes:
    return line.translate(None, dropped)


def template_of(example: bytes) -> bytes:
    """The line without digits, random words and alignment."""
    return b" ".join(shape_of(_RANDOM_WORDS.sub(b"*", example)).split())


def readable(line: bytes) -> str:
    """Printable text: invalid UTF-8 is replaced, control characters are removed."""
    text = line.decode("utf-8", "replace")
    return text if text.isprintable() else text.translate(_UNSEEN)

"""Inputs made worse: a seed decides how."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

MOST_BYTES = 1 << 18  # a mutation of a mutation must not grow for ever
NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
NUMBERS = (
    *(b"0", b"-1", b"1e999", b"-1e999", b"NaN", b"inf", b"-Infinity", b"1e-400", b"0x10", b"1_000", b"-0", b""),
    *(b"9" * 25, b"9" * 5_000, b"18446744073709551615", b"-9223372036854775809", b"1e18", b"253402300800000"),
)
PIECES = (
    *(b"\x00", b"\x00" * 100, b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80"),
    *(b"\r", b"\r\n", b"\n\n", b"\x1f", b"\x1b[31m", b"\xe2\x80\xa8", b"\xc2\x85", b"\\ud800", b"\\u0000", b"\\"),
    *(b'"', b'""', b"'", b",", b",,,,,,,,,,,,,,,,,,,,", b"|", b"\t", b"{", b"}", b"[", b"]", b":", b"=", b"<", b"&a;"),
    *(b"[" * 3_000, b'{"a":' * 3_000, b"<a>" * 100, b"null", b"true", b'{"a":1,"a":2}', b"[[]]", b"{}", b'"x"'),
    *(b"9999-99-99T99:99:99", b"0000-01-01T00:00:00", b"2020-02-30 00:00:00", b"Unknown", b"n[1-99999999]", b"%s%n"),
    *(b"# EOF", b"<!ENTITY a SYSTEM 'file:///etc/passwd'>", b"gpu:99999999999999999999", b"1-00:00:00", b"../../x"),
)
Change = Callable[[random.Random, bytearray, bytes], bytearray]


def mutated(rng: random.Random, content: bytes, other: bytes) -> bytes:
    """The content after a few changes; `other` is another input, of which parts may be put into it."""
    found = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        found = rng.choice(CHANGES)(rng, found, other)[:MOST_BYTES]
    return bytes(found)


def _flip(rng: random.Random, content: bytearray, _: bytes) -> bytearray:
    for _place in range(rng.choice((1, 1, 4, 32))):
        if content:
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return content


def _cut(rng: random.Random, content: bytearray, _: bytes) -> bytearray:
    begin, end = _span(rng, content)
    return content[:begin] if rng.random() < 0.5 else content[:begin] + content[end:]


def _splice(rng: random.Random, content: bytearray, other: bytes) -> bytearray:
    at, (begin, end) = _span(rng, content)[0], _span(rng, other)
    return content[:at] + other[begin:end] + content[at:]


def _repeat(rng: random.Random, content: bytearray, _: bytes) -> bytearray:
    begin, end = _span(rng, content)
    return content[:end] + content[begin:end] * rng.choice((1, 2, 50)) + content[end:]


def _insert(rng: random.Random, content: bytearray, _: bytes) -> bytearray:
    at = rng.randrange(len(content) + 1)
    return content[:at] + rng.choice(PIECES) + content[at:]


def _number(rng: random.Random, content: bytearray, _: bytes) -> bytearray:
    found = [match.span() for match in NUMBER.finditer(content)]
    if not found:
        return content
    begin, end = rng.choice(found)
    return content[:begin] + rng.choice(NUMBERS) + content[end:]


def _cell(rng: random.Random, content: bytearray, _: bytes) -> bytearray:
    """A very long one."""
    at = rng.randrange(len(content) + 1)
    return (
        content[:at]
        + rng.choice((b"x", b"9", b" ", b"\\", b'"', b"\xc3\xa9")) * rng.choice((300, 70_000))
        + content[at:]
    )


def _lines(rng: random.Random, content: bytearray, _: bytes) -> bytearray:
    lines = content.split(b"\n")
    change = rng.randrange(4)
    if change == 0:
        rng.shuffle(lines)
    elif change == 1:
        del lines[rng.randrange(len(lines))]
    elif change == 2:
        lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
    return bytearray((b"\r\n" if change == 3 else b"\n").join(lines))


def _mark(_: random.Random, content: bytearray, __: bytes) -> bytearray:
    return bytearray(b"\xef\xbb\xbf") + content


def _span(rng: random.Random, content: Sequence[int]) -> tuple[int, int]:
    begin = rng.randrange(len(content) + 1)
    return begin, min(len(content), begin + rng.choice((1, 4, 16, 256, 4096)))


CHANGES: tuple[Change, ...] = (
    *(_flip, _flip, _cut, _splice, _repeat),
    *(_insert, _insert, _number, _number, _cell, _lines, _mark),
)

"""From a line of a log to a pattern: parts that differ from job to job become classes, the rest stays literal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MOST_LINE = 4_000  # characters of a line that are read
BLANK = " \t\f\r\n"  # RE2's \s
MOST_PATTERN = 300  # a pattern ends at the first token beyond

# Kinds of token, the first match counts: its pattern, its class in a rule's pattern, its substitute in an example.
# Repetitions are bounded, since these patterns run in an engine that backtracks.
_LABEL = r"[\w-]{0,62}"
_HEX = "[0-9a-fA-F]"
_DOMAINS = "local|internal|cluster|lan|com|net|org|cloud"
_NODE = r"(?<=\bhost[ =])|(?<=\bnode[ =])|(?<=\bhost: )|(?<=\bnode: )"
_KINDS = (
    ("secret", r"\*{3}", r"\S+", "***"),
    ("url", r"\b[a-zA-Z][a-zA-Z0-9+.-]{0,20}://[^\s'\"<>]+", r"[a-zA-Z0-9+.-]+://[^\s'\"<>]+", "https://example.org/x"),
    ("mail", rf"\b[\w.+-]{{1,64}}@\w{_LABEL}(?:\.\w{_LABEL}){{1,8}}", r"[\w.+-]+@[\w.-]+", "someone@example.org"),
    ("single", r"(?<!\w)'[^']*'(?!\w)", r"'[^']*'", "'name'"),
    ("double", r'(?<!\w)"[^"]*"(?!\w)', r'"[^"]*"', '"name"'),
    ("path", r"(?<![\w/])(?:~|\.{1,2})?(?:/[\w.@%+=~-]+){2,}/?", r"[\w./@%+=~-]+", "/path/to/file"),
    ("uuid", rf"\b{_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}}\b", r"[0-9a-fA-F-]+", f"{0:08}-{'0000-' * 3}{0:012}"),
    ("address", r"\b\d{1,3}(?:\.\d{1,3}){3}(?![\d.]*\d)", r"\d+(?:\.\d+){3}", "192.0.2.1"),
    ("host", rf"\b[a-zA-Z](?:{_LABEL}\.){{1,8}}(?:{_DOMAINS})\b", r"[\w.-]+", "host.example.org"),
    ("named", rf"(?:{_NODE})[a-zA-Z][\w.-]{{0,200}}\d{_LABEL}", r"[\w.-]+", "node-1"),
    ("hex", r"\b0[xX][0-9a-fA-F]+\b", r"0[xX][0-9a-fA-F]+", "0x0"),
    ("hash", r"\b(?=[a-fA-F]*\d)(?=\d*[a-fA-F])[0-9a-fA-F]{8,}\b", r"[0-9a-fA-F]+", "00000000"),
    ("tiny", r"\d+(?:\.\d+)?[eE][+-]?\d+", r"[\d.eE+-]+", ""),
    ("number", r"\d+(?:[.,]\d+)*", r"[\d.,]+", ""),
    ("gap", r"[ \t\f\r]{2,}|[\t\f\r]", r"\s+", " "),
)  # fmt: skip
_TOKEN = re.compile("|".join(f"(?P<{name}>{found})" for name, found, _, _ in _KINDS), re.ASCII)
_CLASS = {name: stands_for for name, _, stands_for, _ in _KINDS}
_EXAMPLE = {name: example for name, _, _, example in _KINDS}
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")

# Prefixes of launchers and loggers: times, levels, ranks, places of code.
_BEFORE = re.compile(
    r"\s*(?:"
    r"\[[^\[\]]{0,60}\]:?(?=\s|\[)"
    r"|\(\w+ pid=\d+[^()]{0,40}\)"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?(?:\s*[-|:])?"
    r"|\d+:(?=\s)"
    r"|(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)\s*[:|-]?(?=\s)"
    r")\s*",
    re.ASCII,
)


@dataclass(frozen=True)
class Token:
    text: str
    kind: str = ""  # empty: literal


def plain(line: str) -> str:
    """A line that can be encoded as UTF-8, without its line end."""
    return line[:MOST_LINE].encode(errors="replace").decode().rstrip("\r\n")


def message(line: str) -> str:
    """Without prefixes; the whole line where nothing else is left."""
    at = 0
    while (before := _BEFORE.match(line, at)) and before.end() > at:
        at = before.end()
    return line[at:] or line


def generalised(line: str, keep: Sequence[str] = ()) -> str:
    """A pattern for the line and all that differ only in numbers, names, paths and hosts.

    Words in `keep` stay literal, such as the 79 of an Xid.
    """
    parts: list[str] = []
    for token in tokens(message(plain(line).rstrip(BLANK)), keep):
        if sum(map(len, parts)) > MOST_PATTERN:
            break
        parts.append(_CLASS.get(token.kind) or escaped(token.text))
    return "".join(parts)


def whole_line(line: str, keep: Sequence[str] = ()) -> str:
    """The same for a filter: it matches the whole line, so that longer lines are not dropped."""
    parts = [_CLASS.get(token.kind) or escaped(token.text) for token in tokens(plain(line).rstrip(BLANK), keep)]
    return f"^{''.join(parts)}\\s*$"


def masked(line: str) -> str:
    """An example to share: names, paths, hosts and addresses are replaced, numbers and words stay."""
    return "".join(_EXAMPLE.get(token.kind) or token.text for token in tokens(message(plain(line))))


def escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", text)


def tokens(text: str, keep: Sequence[str] = ()) -> Iterator[Token]:
    """The text, cut into tokens."""
    kept = "|".join(re.escape(word) for word in sorted(filter(None, keep), key=len, reverse=True))
    for index, piece in enumerate(re.split(f"({kept})", text) if kept else [text]):
        if index % 2:
            yield Token(piece)
            continue
        at = 0
        for found in _TOKEN.finditer(piece):
            yield from map(Token, re.findall(r"\w+|\W", piece[at : found.start()]))
            yield Token(found[0], found.lastgroup or "")
            at = found.end()
        yield from map(Token, re.findall(r"\w+|\W", piece[at:]))

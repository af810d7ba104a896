"""Parse lines that were written by a format of words and variables.

Linear in the length of a line, whatever its content: a variable ends at the first occurrence of the text that follows
it in the format, without backtracking.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from gpulake.core.errors import UsageError

MOST_LINE_CHARACTERS = 1 << 16
QUOTED = r'([^"]*+)'
QUOTED_ESCAPED = r'((?:[^"\\]|\\.)*+)'
ESCAPE = re.compile(r"(?:\\x[0-9A-Fa-f]{2})+|\\u[0-9A-Fa-f]{4}|\\.", re.DOTALL)
SHORT = {"\\n": "\n", "\\t": "\t", "\\r": "\r", "\\b": "\b", "\\f": "\f"}


@dataclass(frozen=True)
class Variable:
    name: str
    pattern: str = ""  # of its values; empty: any text


Part: TypeAlias = str | Variable


class LineFormat:
    def __init__(self, parts: Sequence[Part], *, has_escapes: bool) -> None:
        self._has_escapes = has_escapes
        self._names: list[str] = []
        self._expression = re.compile(self._compiled(_merged(parts)), re.DOTALL)

    def parse(self, line: str) -> Mapping[str, str] | None:
        """Values by variable, unescaped; None if the line does not match the format."""
        if len(line) > MOST_LINE_CHARACTERS:
            return None
        found = self._expression.fullmatch(line)
        if not found:
            return None
        # A variable that occurs twice has the same value.
        values = dict(zip(self._names, found.groups(), strict=True))
        return {name: unescaped(value) for name, value in values.items()} if self._has_escapes else values

    def _compiled(self, parts: list[Part]) -> str:
        pattern = ""
        for before, part, after in zip(["", *parts], parts, [*parts[1:], ""], strict=False):
            if isinstance(part, str):
                pattern += re.escape(part) if not isinstance(before, Variable) else ""
                continue
            if isinstance(after, Variable):
                raise UsageError(
                    f"nothing is between {part.name!r} and {after.name!r} in the format",
                    "adjacent values cannot be separated: put a blank between them",
                )
            self._names.append(part.name)
            is_quoted = isinstance(before, str) and before.endswith('"') and after.startswith('"')
            pattern += self._group(part, after, is_quoted)
        if not self._names:
            raise UsageError("the format has no variables", "give it as in the configuration, in quotes")
        return pattern

    def _group(self, variable: Variable, after: str, is_quoted: bool) -> str:
        if variable.pattern:
            inner = f"({variable.pattern})"
        elif is_quoted:
            inner = QUOTED_ESCAPED if self._has_escapes else QUOTED
        else:
            inner = "(.*?)" if after else "(.*)"
        # Atomic: once the following text is found, the variable is fixed.
        return f"(?>{inner}{re.escape(after)})"


def _merged(parts: Sequence[Part]) -> list[Part]:
    merged: list[Part] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        elif part:
            merged.append(part)
    return merged


def unescaped(text: str) -> str:
    r"""`\x22`, `\"`, `\u00e9` as the characters they encode; consecutive bytes are UTF-8."""
    return ESCAPE.sub(_plain, text) if "\\" in text else text


def _plain(found: re.Match[str]) -> str:
    escape = found[0]
    if escape.startswith("\\x") and len(escape) > 2:
        return bytes.fromhex(escape.replace("\\x", "")).decode("utf-8", "replace")
    if escape.startswith("\\u") and len(escape) > 2:
        return chr(int(escape[2:], 16))
    return SHORT.get(escape, escape[1:])

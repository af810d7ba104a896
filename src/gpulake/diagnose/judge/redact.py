"""Reversible redaction of prompts: names and secrets become placeholders, and are restored in the answer."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Iterator, Sequence

from gpulake.core import secret_words
from gpulake.core.secret_words import SECRET, Span, key_lines
from gpulake.diagnose.judge import private_words
from gpulake.diagnose.judge.private_words import COMMON, HOST, SHOWN, USER

TEXT = "TEXT"  # text that already looks like a placeholder
MOST_NAMES = 500
LEAST_NAME = 3
_SMALL = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)  # as many characters as before

Finder = Callable[[str], Iterator[Span]]

# A placeholder has exactly one "<", at its begin, and one ">", at its end. What looks like one in the original is
# redacted, too, so that restoring is unambiguous.
_PLACEHOLDER = re.compile(r"<[A-Z]+_[0-9]+>")
_NO_TEXT = re.compile("[\ud800-\udfff]+")  # lone surrogates, which cannot be encoded


def _literals(text: str) -> Iterator[Span]:
    for pattern in (_PLACEHOLDER, _NO_TEXT):
        for match in pattern.finditer(text):
            yield match.start(), match.end(), TEXT


# In this order: text that an earlier finder takes is not passed to later ones.
_FINDERS: tuple[Finder, ...] = (
    _literals,
    private_words.addresses,
    secret_words.named,
    secret_words.tokens,
    private_words.mails,
    private_words.logins,
    private_words.identities,
    private_words.numbers,
    secret_words.likely,
    private_words.paths,
    private_words.users,
    private_words.hosts,
    secret_words.random_runs,
)


class Redactor:
    """The same value has the same placeholder in every text."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        """`names` are names of machines."""
        self._placeholders: dict[str, str] = {}
        self._values: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._names: dict[str, str] = {}  # of users and machines, redacted wherever they occur
        for name in names:
            self._learn_name(name, HOST)

    def learn(self, texts: Iterable[str]) -> None:
        """Learns names from all texts before the first is redacted, since a name in one line is redacted in all."""
        for text in texts:
            for name in private_words.homes(_NO_TEXT.sub(" ", text)):
                self._learn_name(name, USER)
            for piece, kind in _pieces(text, _FINDERS):
                if kind in (USER, HOST):
                    self._learn_name(piece, kind)

    def hide(self, text: str) -> str:
        lines = text.split("\n")
        self.learn(lines)
        return "\n".join(self.hide_lines(lines))

    def hide_lines(self, lines: Sequence[str]) -> list[str]:
        """Line by line. The body of a private key is redacted whole, even where its beginning is missing."""
        keys = key_lines([_NO_TEXT.sub(" ", line) for line in lines])
        return [
            self._placeholder(line, SECRET) if number in keys and line else self._hidden(line)
            for number, line in enumerate(lines)
        ]

    def restore(self, text: str, but: Sequence[str] = ()) -> str:
        """Kinds in `but` stay redacted, and so do unknown placeholders."""

        def value(match: re.Match[str]) -> str:
            placeholder = match.group()
            kind = placeholder[1:].rpartition("_")[0]
            return placeholder if kind in but else self._values.get(placeholder, placeholder)

        return _PLACEHOLDER.sub(value, text)

    def _hidden(self, line: str) -> str:
        pieces = _pieces(line, (*_FINDERS, self._known))
        return "".join(piece if kind in ("", SHOWN) else self._placeholder(piece, kind) for piece, kind in pieces)

    def _placeholder(self, value: str, kind: str) -> str:
        if value not in self._placeholders:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            placeholder = f"<{kind}_{self._counts[kind]}>"
            self._placeholders[value] = placeholder
            self._values[placeholder] = value
        return self._placeholders[value]

    def _learn_name(self, name: str, kind: str) -> None:
        first = name.split(".")[0]
        # The first label of a domain is a machine's name only where it is no common word such as git or www.
        is_own = kind == HOST and any(letter in "-0123456789" for letter in first) and not first.isdigit()
        for word in (name, first) if is_own else (name,):
            is_name = len(word) >= LEAST_NAME and word.lower() not in COMMON and not word.isdigit()
            if is_name and len(self._names) < MOST_NAMES:
                self._names.setdefault(word.translate(_SMALL), kind)

    def _known(self, text: str) -> Iterator[Span]:
        """In any case, and as parts of other names: the run of anna may be called Anna_7b."""
        small = text.translate(_SMALL)
        for name, kind in self._names.items():
            start = small.find(name)
            while start >= 0:
                end = start + len(name)
                if not _is_within_word(text, start, end, kind):
                    yield start, end, kind
                start = small.find(name, end)


def _pieces(text: str, finders: Sequence[Finder]) -> list[tuple[str, str]]:
    """The text in pieces; pieces without a kind are not redacted."""
    pieces = [(text, "")] if text else []
    for finder in finders:
        split: list[tuple[str, str]] = []
        for piece, kind in pieces:
            split += [(piece, kind)] if kind else _split(piece, finder)
        pieces = split
    return pieces


def _split(text: str, finder: Finder) -> list[tuple[str, str]]:
    pieces: list[tuple[str, str]] = []
    done = 0
    for first, end, kind in sorted(finder(text), key=lambda span: (span[0], -span[1])):
        start = max(first, done)  # of two that overlap, the rest of the second is redacted, too
        if end <= start:
            continue
        pieces += [(text[done:start], "")] if start > done else []
        pieces.append((text[start:end], kind))
        done = end
    return [*pieces, (text[done:], "")] if done < len(text) else pieces


def _is_within_word(text: str, start: int, end: int, kind: str) -> bool:
    """Whether it is part of a longer word; a machine's name followed by a digit is another machine."""
    before, behind = text[max(0, start - 1) : start], text[end : end + 1]
    return before.isalpha() or behind.isalpha() or (kind == HOST and (before.isdigit() or behind.isdigit()))

"""Find secrets in a line: by the form of a token, by the name before it, or by its randomness.

A finder takes a text and gives what to hide, from one place to another. Patterns are RE2's: linear on any text.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import re2

from gpulake.core.packaged import packaged_toml

Span = tuple[int, int, str]  # start, end, kind
SECRET = "SECRET"  # noqa: S105 - the kind, not one of them

_NO_VALUE = {"none", "null", "nil", "true", "false", "undefined", "unset", "missing", "empty", "required", "invalid"}

_FORMS = packaged_toml("gpulake.core", "secret_words.toml")
_TOKEN = re2.compile("|".join(_FORMS["tokens"]))
_NAMES = "|".join(_FORMS["names"])
# Quoted, quoted within a quoted text, or up to the next space: a value may hold commas and brackets.
_VALUE = r'(?:[bruf]?"((?:[^"\\]|\\.)+)"|[bruf]?\'((?:[^\'\\]|\\.)+)\'|\\"([^"\\]+)\\"|(\S+))'
# Between a name and its value: as programs, settings, tables, markup and addresses write it; Megatron writes dots.
SEPARATOR = r"\s*(?:=>|->|:=|==|=|:|\||%3D|%3A|\\u003[ad]|\.{3,})\s*"
_NAMED = re2.compile(
    rf"(?i)(?:{_NAMES})[\w-]*(?:\.\w[\w-]*)*(?:[\\\"'\]]*{SEPARATOR}(?:!!\w+\s+)?|[\\\"']+\s*,\s*|>){_VALUE}"
)
_FLAG = re2.compile(rf"(?i)--?[\w-]*(?:{_NAMES})(?:[_-]\w+)*\s+{_VALUE}")
_TOKEN_FLAG = re2.compile(rf"(?i)--?[\w-]*token\s+{_VALUE}")
_HEADER = re2.compile(
    r"(?i)authorization[\\\"']*\s*[:=]\s*[\\\"']*(?:(?:bearer|basic|token|digest|negotiate)\s+)?([^\s\"'\\]+)"
    r"|\b(?:set-)?cookie[\\\"']*\s*[:=]\s*(\S.*)"
    r"|\b(?:sshpass|docker|podman|helm|mysql\w*|mongo\w*|redis-cli)\s(?:.*?\s)?-(?:p|a)\s*(\S+)"
    r"|--from-literal[= ]\S+?=(\S+)"
    r"|\bcurl\b.*?\s(?:-u|--user)[\s=]*(\S+:\S+)"
)
_SCHEME = re2.compile(r"(?i)\b(?:bearer|basic|token)\s+([\w.~+/=-]{8,})")
_PROSE = re2.compile(rf"(?i)\b(?:{_NAMES}|api key|token)\s+(?:is\s+)?{_VALUE}")
# Names that are mostly harmless (a key of a dictionary, a token of a text): the value itself must look like a secret.
_WEAK = re2.compile(
    rf"(?i)(?:key|token|auth|session|cookie|cred|signature|sig|salt|hash|nonce|pass)[\w-]*[\\\"'\]]*\s*[=:]\s*{_VALUE}"
)
_AWS_SECRET = re2.compile(r"(?:^|[^\w/+])([A-Za-z0-9/+]{40})(?:[^\w/+]|$)")
_RUN = re2.compile(r"[A-Za-z0-9+/_=-]{20,}")
_KEY_BEGINS = re2.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----")
_KEY_ENDS = re2.compile(r"-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----")
MOST_KEY_LINES = 120
# https://user:password@host; without a colon it is a token where it is long.
_CREDENTIALS = re2.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://(?:[^\s/:@\"'<>]*:([^\s/@\"'<>]+)|([^\s/:@\"'<>]{16,}))@")
_ALPHANUMERIC = re2.compile(r"[A-Za-z0-9]+")


def tokens(text: str) -> Iterator[Span]:
    for match in _TOKEN.finditer(text):
        yield match.start(), match.end(), SECRET


def named(text: str) -> Iterator[Span]:
    """Values of settings, flags and headers with the name of a secret."""
    for pattern in (_NAMED, _HEADER):
        for start, end in groups(pattern, text):
            if not _is_nothing(text[start:end]):
                yield start, end, SECRET
    for pattern in (_FLAG, _TOKEN_FLAG):
        for start, end in groups(pattern, text):
            value = text[start:end]
            is_count = pattern is _TOKEN_FLAG and _is_number(value)
            if not _is_nothing(value) and not value.startswith("-") and not is_count:
                yield start, end, SECRET


def credentials(text: str) -> Iterator[Span]:
    """Passwords in addresses."""
    for start, end in groups(_CREDENTIALS, text):
        yield start, end, SECRET


def likely(text: str) -> Iterator[Span]:
    """Values that look like a secret, after a name that may be that of a secret."""
    for pattern in (_SCHEME, _PROSE):
        for start, end in groups(pattern, text):
            if end - start >= 6 and _is_mixed(text[start:end]):
                yield start, end, SECRET
    for start, end in groups(_WEAK, text):
        value = text[start:end].rstrip(",;)]}\"'")
        is_exception = text[:start].rstrip("'\" ").endswith("KeyError:")  # the key is the missing name, not a secret
        if len(value) >= 8 and _is_mixed(value) and "/" not in value[:1] and not is_exception:
            yield start, start + len(value), SECRET


def random_runs(text: str) -> Iterator[Span]:
    """Long random strings of letters and digits. A mangled C++ symbol is evidence and not a secret."""
    for match in _AWS_SECRET.finditer(text):
        if _is_scrambled(match.group(1)):
            yield match.start(1), match.end(1), SECRET
    for match in _RUN.finditer(text):
        run = match.group()
        if "_Z" not in run[:3] and _is_random(run):
            yield match.start(), match.end(), SECRET


def key_lines(lines: Sequence[str]) -> set[int]:
    """Numbers, from 0, of the lines between the beginning and the end of a private key."""
    found: set[int] = set()
    for number, line in enumerate(lines):
        if _KEY_BEGINS.search(line) and not _KEY_ENDS.search(line):
            found |= _body_after(lines, number)
        elif _KEY_ENDS.search(line):
            before = number - 1
            while before >= 0 and number - before < MOST_KEY_LINES and _is_key_end(lines[before]):
                found.add(before)
                before -= 1
    return found


def _body_after(lines: Sequence[str], begin: int) -> set[int]:
    last = min(len(lines), begin + MOST_KEY_LINES)
    for end in range(begin + 1, last):
        if _KEY_ENDS.search(lines[end]):
            return set(range(begin + 1, end))
    body = begin + 1
    while body < last and (_is_key_body(lines[body]) or _is_key_end(lines[body])):
        body += 1
    return set(range(begin + 1, body))


def _is_key_body(line: str) -> bool:
    """A line of a key in base64, perhaps after a prefix of the log."""
    words = line.split()
    return bool(words) and re2.fullmatch(r"[A-Za-z0-9+/]{16,}={0,2}", words[-1]) is not None


def _is_key_end(line: str) -> bool:
    return re2.fullmatch(r"[A-Za-z0-9+/]{1,}={0,2}", line.strip()) is not None


def groups(pattern: re2._Regexp, text: str) -> Iterator[tuple[int, int]]:
    """Start and end of the first group that matched."""
    for match in pattern.finditer(text):
        for group in range(1, pattern.groups + 1):
            start, end = match.span(group)
            if start >= 0:
                if end > start:
                    yield start, end
                break


def _is_nothing(value: str) -> bool:
    plain = value.strip("\"'\\,;)]}(<>[{*.x-").lower()
    return not plain or plain in _NO_VALUE


def _is_number(value: str) -> bool:
    return re2.fullmatch(r"[0-9.,e+-]+", value) is not None


def _is_mixed(value: str) -> bool:
    """Letters and digits, but not an amount, a version or a name that ends with a number."""
    letters = sum(character.isalpha() for character in value)
    digits = sum(character.isdigit() for character in value)
    return letters >= 2 and digits >= 2 and _entropy(value) >= 2.5 and not value.startswith(("0x", "cuda:"))


def _is_random(run: str) -> bool:
    longest = max((match.group() for match in _ALPHANUMERIC.finditer(run)), key=len, default="")
    if len(longest) < 16:
        return False
    digits = sum(character.isdigit() for character in longest)
    letters = len(longest) - digits
    if digits < 2 or letters < 3 or _entropy(longest) < 3.2:
        return False
    has_cases = longest.lower() != longest and longest.upper() != longest
    return has_cases or digits / len(longest) >= 0.15


def _is_scrambled(text: str) -> bool:
    """Like base64, and not a path: capitals and digits inside words, few repeated letters."""
    is_mixed = sum(map(str.isupper, text)) >= 6 and sum(map(str.islower, text)) >= 6 and any(map(str.isdigit, text))
    return is_mixed and _entropy(text) >= 4.2


def _entropy(text: str) -> float:
    """Entropy in bits per character, from the frequencies in the text."""
    return -sum(n / len(text) * math.log2(n / len(text)) for n in Counter(text).values())

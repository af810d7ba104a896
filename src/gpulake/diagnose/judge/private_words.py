"""Finders of names of people, machines and paths in a line; see secret_words."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

import re2

from gpulake.core.packaged import packaged_toml, spelled_out
from gpulake.core.secret_words import SECRET, SEPARATOR, Span, groups

EMAIL, USER, HOST, IP, MAC, ID, PATH = "EMAIL", "USER", "HOST", "IP", "MAC", "ID", "PATH"
SHOWN = "SHOWN"  # public: no later finder sees it

_PUBLIC = packaged_toml("gpulake.diagnose.judge", "public_words.toml")
PUBLIC_HOSTS, DOCUMENTATION, COMMON, _PUBLIC_TREES, _SOURCE_TREES, _STRONG_ENDS, _WEAK_ENDS = (
    frozenset(_PUBLIC[name])
    for name in ("hosts", "documentation", "common", "trees", "source_trees", "strong_ends", "weak_ends")
)
_COMPILED = (".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".c")
SHARED_MEMORY = "/dev/shm/"  # noqa: S108 - a name that logs hold


_URL = re2.compile(
    r"([a-zA-Z][a-zA-Z0-9+.-]*://)"
    r"(?:([^\s/@\"'<>]*)@)?"
    r"(\[[0-9a-fA-F:.%\w]+\]|[^\s/:?#\"'<>\\,;)(\]\[{}@]*)"
    r"(:[0-9]+)?"
    r"(/[^\s?#\"'<>\\)(\]\[{}]*)?"
    r"([?#][^\s\"'<>]*)?"
)
_EMAIL = re2.compile(r"[\w.+%-]+(?:@|%40)[\w-]+(?:\.[\w-]+)+")
_CALLED = re2.compile(r"([A-Z][\w'.-]*(?: [A-Z][\w'.-]*){0,3}) <[^<>\s]+@[^<>\s]+>")
_AT = re2.compile(r"([A-Za-z_][\w.-]*)@([A-Za-z0-9_][\w.-]*)")
_UUID = re2.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")
_SERIAL = re2.compile(r"(?i)\bserial(?:[ _-]?(?:number|no))?\b[\s\"':=#.]+([A-Za-z0-9-]{6,})")
_MAC = re2.compile(r"[0-9a-fA-F]{2}(?:[:-][0-9a-fA-F]{2}){5,}")
_IP4 = re2.compile(r"[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}")
_IP6 = re2.compile(r"[0-9a-fA-F:]*:[0-9a-fA-F:]*:[0-9a-fA-F:.]*")

# A part of a path. It may contain an equals sign and brackets: day=7, shard_{0..9}.
_LETTER = r"(?:[^\s\"'`<>|:;,()\[\]{}=*?\\/]|\{[^\s\"'{}/]*\}|\[[^\s\"'\[\]/]*\])"
_PLACE = rf"{_LETTER}(?:=?{_LETTER})*"
_PATH = re2.compile(
    rf"(?:~[\w.-]*|\.{{1,2}}|\$\w+|\$\{{\w+\}})?(?:/+{_PLACE})+/?"
    r"|[A-Za-z]:\\+[^\s\"'<>|;,()]+"
    r"|\\\\[\w.-]+\\[^\s\"'<>|;,()]+"
)
_QUOTED_PATH = re2.compile(r"'([~.]?/[^']*)'|\"([~.]?/[^\"]*)\"")
_RELATIVE = re2.compile(rf"{_PLACE}(?:/{_PLACE})+\.[A-Za-z][A-Za-z0-9]{{0,7}}\b")
_SYSTEM = re2.compile(
    r"/(?:usr/(?:bin|sbin|lib\w*|include|share|src)|lib|lib64|bin|sbin|proc|sys|etc|opt/nvidia)(?:/.*)?"
    r"|/(?:usr/local|opt/conda)(?:/(?:bin|sbin|lib\w*|include|share|cuda[^/]*|nvidia|nccl|mpi|openmpi|ompi)(?:/.*)?)?/?"
    r"|/dev(?:/[a-z0-9-]+)?/?|/(?:usr|opt|tmp|home|mnt|data|scratch|var|var/log)/?"
    r"|/var/log/(?:messages|syslog|dmesg|kern\.log|nvidia[^/]*)"
)
_PACKAGES = re2.compile(r"/(?:site-packages|dist-packages)(?:/|$)")
_EXTENSION = re2.compile(r"\.[A-Za-z][A-Za-z0-9]{0,8}(?:\.(?:gz|zst|bz2|xz|[0-9]+))?$")
_HOME = re2.compile(r"(?i)[/\\](?:home|users)[/\\]+([^\s/\\\"'<>:;,()\[\]{}]+)")

_TABLE = packaged_toml("gpulake.diagnose.judge", "private_words.toml")
_PARTS = {**_TABLE["parts"], "separated": rf"[\\\"']*{SEPARATOR}[\\\"']*"}
_USERS, _HOSTS = (re2.compile(spelled_out("|".join(_TABLE[name]), _PARTS)) for name in ("users", "hosts"))
# Launchers such as pdsh prefix each line with the machine; loggers use other prefixes with a number.
_LINE_OF = re2.compile(r"^([a-z][a-z0-9-]*[0-9][a-z0-9-]*): \S")
_DOTTED = re2.compile(r"[A-Za-z0-9_](?:[\w-]*[\w])?(?:\.[A-Za-z0-9](?:[\w-]*[\w])?)+")


def addresses(text: str) -> Iterator[Span]:
    """User, host and path of URLs, but neither the scheme nor public hosts."""
    for match in _URL.finditer(text):
        if match.start(2) >= 0 and match.end(2) > match.start(2):
            yield match.start(2), match.end(2), SECRET
        host = match.group(3).lower().rstrip(".")
        is_shown = host in PUBLIC_HOSTS or _is_own_address(host.strip("[]"))
        yield match.start(1), match.end(1), SHOWN
        if host:
            yield match.start(3), match.start(3) + len(host), SHOWN if is_shown else HOST
        path = match.group(5)
        if path and len(path) > 1:
            yield (match.start(5), match.end(5), SHOWN) if host in DOCUMENTATION else _within(match.start(5), path)
        if match.start(6) >= 0 and match.end(6) - match.start(6) > 1:
            is_shown = host in DOCUMENTATION and match.group(6)[0] == "#"
            yield match.start(6) + 1, match.end(6), SHOWN if is_shown else SECRET


def mails(text: str) -> Iterator[Span]:
    for match in _CALLED.finditer(text):
        yield match.start(1), match.end(1), USER
    for match in _EMAIL.finditer(text):
        yield match.start(), match.end(), EMAIL


def logins(text: str) -> Iterator[Span]:
    for match in _AT.finditer(text):
        yield match.start(1), match.end(1), USER
        if match.group(2) not in PUBLIC_HOSTS:
            yield match.start(2), match.end(2), HOST


def identities(text: str) -> Iterator[Span]:
    for match in _UUID.finditer(text):
        yield match.start(), match.end(), ID
    for match in _SERIAL.finditer(text):
        if any(character.isdigit() for character in match.group(1)):
            yield match.start(1), match.end(1), ID


def numbers(text: str) -> Iterator[Span]:
    """Network addresses."""
    for match in _MAC.finditer(text):
        yield match.start(), match.end(), MAC
    for match in _IP6.finditer(text):
        start, end = _longest_address(text, *match.span())
        if end > start and not _is_own_address(text[start:end]):
            yield start, end, IP
    for match in _IP4.finditer(text):
        start, end = match.span()
        is_longer = text[start - 1 : start].isdigit() or text[end : end + 1].isdigit()
        if not is_longer and _address(match.group()) and not _is_own_address(match.group()):
            yield start, end, IP


def _longest_address(text: str, start: int, end: int) -> tuple[int, int]:
    """Without an interface before it and a port behind it: eth0:fd00::17:29500. Empty if there is none."""
    while end > start and text[end - 1] in ".:" and not text[start:end].endswith("::"):
        end -= 1
    starts = (start, text.find(":", start, end) + 1)
    for first, last in ((first, last) for last in (end, text.rfind(":", start, end)) for first in starts):
        is_apart = not _joins(text, first - 1) and not _joins(text, last)
        if is_apart and first < last and _address(text[first:last]):
            return first, last
    return start, start


def paths(text: str) -> Iterator[Span]:
    for start, end in groups(_QUOTED_PATH, text):
        if " " in text[start:end] and text.count("/", start, end) > 1:
            yield start, end, PATH
    for match in _PATH.finditer(text):
        if not _is_amount(text, match.start()) and not _is_public(match.group()):
            yield _within(match.start(), match.group())
    for match in _RELATIVE.finditer(text):
        if text[match.start() - 1 : match.start()] not in ("/", "~", "\\") and not _is_public(match.group()):
            yield _within(match.start(), match.group())


def homes(text: str) -> Iterator[str]:
    """Names of users, from their home folders."""
    for match in _HOME.finditer(text):
        yield match.group(1)


def users(text: str) -> Iterator[Span]:
    yield from _named(_USERS, text, USER)


def hosts(text: str) -> Iterator[Span]:
    yield from _named(_HOSTS, text, HOST)
    if (before := _LINE_OF.match(text)) and before.group(1).rstrip("-0123456789") not in COMMON:
        yield before.start(1), before.end(1), HOST
    for match in _DOTTED.finditer(text):
        name, end = match.group(), match.end()
        if text[end : end + 1] in ("(", "_", "=", "[") or text[match.start() - 1 : match.start()] in (".", "_", "@"):
            continue
        if name.lower() not in PUBLIC_HOSTS and _is_domain(name):
            yield match.start(), end, HOST


def _named(pattern: re2._Regexp, text: str, kind: str) -> Iterator[Span]:
    for match in pattern.finditer(text):
        for group in range(1, pattern.groups + 1):
            start, end = match.span(group)
            while end > start and text[end - 1] in ".-_":
                end -= 1
            word = text[start:end]
            if start >= 0 and word and word.lower() not in COMMON and not word.isdigit() and word not in PUBLIC_HOSTS:
                yield start, end, kind


def _is_domain(name: str) -> bool:
    labels = name.lower().split(".")
    if "_" in labels[-1] or labels[0] in ("self", "cls", "torch", "np", "os", "sys", "model"):
        return False
    if labels[-1] in _STRONG_ENDS:
        return True
    return labels[-1] in _WEAK_ENDS and (len(labels) > 2 or any(letter in "-0123456789" for letter in labels[0]))


def _within(start: int, path: str) -> Span:
    """The private part of a path: not its extension, not the part inside a package."""
    if packages := _PACKAGES.search(path):
        return start, start + packages.start(), PATH
    if _SYSTEM.fullmatch(path):
        return start, start, PATH
    kept = len(SHARED_MEMORY) if path.startswith(SHARED_MEMORY) else 0
    extension = _EXTENSION.search(path)
    end = extension.start() if extension and extension.start() > 0 and path[extension.start() - 1] != "/" else len(path)
    return start + kept, start + end, PATH


def _is_public(path: str) -> bool:
    """A path in a library's sources."""
    places = [place for place in path.split("/") if place not in (".", "..")]
    if path[:1] in "/~$" or len(places) < 2:
        return False
    if places[0] in _SOURCE_TREES:  # a common name of private trees, too
        return places[1] in _PUBLIC_TREES or path.endswith(_COMPILED)
    return places[0] in _PUBLIC_TREES


def _is_amount(text: str, start: int) -> bool:
    """A slash between words or numbers, or of a tag: 12/500, tokens/s, N/A, </s>."""
    return text[start] == "/" and start > 0 and (text[start - 1].isalnum() or text[start - 1] in "%)]_<")


def _joins(text: str, place: int) -> bool:
    return 0 <= place < len(text) and (text[place].isalnum() or text[place] == "_")


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _is_own_address(text: str) -> bool:
    """Loopback, unspecified or broadcast."""
    found = _address(text)
    return found is not None and (found.is_loopback or found.is_unspecified or str(found) == "255.255.255.255")

"""Access to the page: users and passwords of the web configuration, which is read again when a file changes.

Passwords are bcrypt hashes, verified by the libcrypt of the system: Python has no bcrypt.
"""

from __future__ import annotations

import base64
import ctypes
import hashlib
import hmac
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpulake.collect.live.web_config import WebConfig, read_web_config, server_context
from gpulake.core.clock import Clock
from gpulake.core.errors import ConfigError

LIBRARIES = ("libcrypt.so.1", "libcrypt.so.2", None)  # None: the C library itself
CRYPT_DATA_BYTES = 1 << 18  # more than any libcrypt's struct crypt_data
# The hash of the password "gpulake", at the lowest cost.
KNOWN = "$2b$04$abcdefghijklmnopqrstuujdQaLeIwiThxUKKQl7d6J4cyomI3X0e"
MOST_KNOWN = 100  # verified pairs that are cached
BURST = 10  # hashes at once; then one a second
SALT_LENGTH = 29  # version, cost and salt

Crypt = Callable[[bytes, bytes], bytes]


class TooManyError(Exception):
    """Too many passwords were tried: each hash costs CPU time of a training node."""


def load_crypt() -> Crypt:
    """The bcrypt of libcrypt. Raises ConfigError if there is none."""
    for name in LIBRARIES:
        try:
            function = ctypes.CDLL(name).crypt_r
        except (OSError, AttributeError):
            continue
        function.restype = ctypes.c_char_p
        function.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)

        def crypt(password: bytes, salt: bytes, function: Callable[..., bytes | None] = function) -> bytes:
            return function(password, salt, ctypes.create_string_buffer(CRYPT_DATA_BYTES)) or b""

        if crypt(b"gpulake", KNOWN[:SALT_LENGTH].encode()) == KNOWN.encode():
            return crypt
    raise ConfigError(
        "this system's libcrypt cannot do bcrypt, which basic_auth_users needs",
        "install libxcrypt (Debian: libcrypt1), or let tls_server_config ask for client certificates instead",
    )


class Verifier:
    """Verifies passwords. A verified pair is cached and costs no further hash."""

    def __init__(self, users: Mapping[str, str], crypt: Crypt, elapsed: Callable[[], float]) -> None:
        self._users = dict(users)
        self._crypt = crypt
        self._elapsed = elapsed
        self._lock = threading.Lock()  # one hash at a time: many guesses cost at most one core
        self._known: dict[bytes, None] = {}
        self._left = float(BURST)
        self._refilled = elapsed()
        # An unknown user is compared with a hash of the highest cost, so that it takes no less time.
        costliest = max(self._users.values(), key=lambda known: known[4:6])
        self._decoy = costliest[:SALT_LENGTH] + "." * 31

    def is_right(self, user: str, password: str) -> bool:
        known = self._users.get(user, self._decoy)
        pair = hashlib.sha256("\0".join((user, known, password)).encode("utf-8", "surrogateescape")).digest()
        with self._lock:
            if pair in self._known:
                return True
            self._take()
            given = password.encode("utf-8", "surrogateescape")
            # libcrypt would end the password at a zero byte.
            computed = self._crypt(given.replace(b"\0", b"\xff"), known[:SALT_LENGTH].encode())
            is_same = hmac.compare_digest(computed, known.encode()) and b"\0" not in given
            if is_same and user in self._users:
                if len(self._known) >= MOST_KNOWN:
                    self._known.pop(next(iter(self._known)))
                self._known[pair] = None
                return True
            return False

    def _take(self) -> None:
        now = self._elapsed()
        self._left = min(BURST, self._left + now - self._refilled)
        self._refilled = now
        if self._left < 1:
            raise TooManyError
        self._left -= 1


Stamp = tuple[tuple[str, int, int, int], ...]


@dataclass(frozen=True)
class Rules:
    """The requirements for clients."""

    config: WebConfig
    context: ssl.SSLContext | None = None
    verifier: Verifier | None = None

    @property
    def needs_credentials(self) -> bool:
        """Whether a client needs a password or a certificate."""
        return self.verifier is not None or (self.config.tls is not None and self.config.tls.client_ca is not None)

    def permits(self, path: str, authorization: str) -> bool:
        """Raises TooManyError when too many passwords were tried."""
        if self.verifier is None or path in self.config.open_paths:
            return True
        user, password = _credentials(authorization)
        return self.verifier.is_right(user, password)


class Access:
    """Keeps the rules up to date. While the file is invalid clients are refused: old rules may be revoked."""

    def __init__(self, path: Path | None, clock: Clock, say: Callable[[str], None]) -> None:
        self._path = path
        self._clock = clock
        self._say = say
        self._lock = threading.Lock()
        self._rules: Rules | None = None
        self._stamp: Stamp = ()
        self._last_message = ""
        self._load()

    def rules(self) -> Rules | None:
        """The current rules; None while they cannot be read."""
        with self._lock:
            if self._path is not None and self._stamped() != self._stamp:
                try:
                    self._load()
                    self._last_message = ""
                except ConfigError as error:
                    self._rules = None
                    if self._last_message != error.message:
                        self._last_message = error.message
                        self._say(f"nobody is let in: {error.message}")
            return self._rules

    def _load(self) -> None:
        if self._path is None:
            self._rules = Rules(WebConfig())
            return
        config = read_web_config(self._path)
        files = config.tls.files() if config.tls is not None else ()
        stamp = _stamp((self._path, *files))  # before reading: a change meanwhile is detected
        context = server_context(config.tls) if config.tls is not None else None
        verifier = Verifier(config.users, load_crypt(), self._clock.elapsed) if config.users else None
        self._rules = Rules(config, context, verifier)
        self._stamp = stamp
        for note in config.notes:
            self._say(f"{self._path.name}: {note}")

    def _stamped(self) -> Stamp:
        assert self._path is not None
        tls = self._rules.config.tls if self._rules is not None else None
        return _stamp((self._path, *(tls.files() if tls is not None else ())))


def _stamp(paths: tuple[Path, ...]) -> Stamp:
    found = []
    for path in paths:
        try:
            status = path.stat()
            found.append((str(path), status.st_ino, status.st_mtime_ns, status.st_size))
        except OSError:
            found.append((str(path), 0, 0, 0))
    return tuple(found)


def _credentials(authorization: str) -> tuple[str, str]:
    """User and password of a basic authorization; empty if it is invalid, which costs a hash as well."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode("utf-8", "surrogateescape")
    except ValueError:  # not base64, or not ASCII
        return "", ""
    user, _, password = text.partition(":")
    return user, password

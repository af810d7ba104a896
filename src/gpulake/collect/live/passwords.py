"""Passwords against bcrypt hashes, by the system's libcrypt: Python has no bcrypt of its own."""

from __future__ import annotations

import ctypes
import hashlib
import hmac
import re
import threading
from collections.abc import Callable, Mapping

from gpulake.core.errors import ConfigError

BCRYPT = re.compile(r"\$2[aby]\$(0[4-9]|[12]\d|3[01])\$[./A-Za-z0-9]{53}")
LIBRARIES = ("libcrypt.so.1", "libcrypt.so.2", None)  # None: what is loaded already, where the C library has it
CRYPT_DATA_BYTES = 1 << 18  # more than any libcrypt's struct crypt_data
# A hash that is known: of the password "gpulake", at the least cost.
KNOWN = "$2b$04$abcdefghijklmnopqrstuujdQaLeIwiThxUKKQl7d6J4cyomI3X0e"
MOST_KNOWN = 100  # verified pairs that are remembered
BURST = 10  # hashes that are worked out at once, before there is one a second
SALT_LENGTH = 29  # version, cost and salt

Crypt = Callable[[bytes, bytes], bytes]


class TooManyError(Exception):
    """So many passwords were tried that the rest must wait: each costs a training node real time."""


def load_crypt() -> Crypt:
    """libcrypt's bcrypt, or an error that says that there is none."""
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
    """Says whether a user gave the right password. What was right before costs no hash again."""

    def __init__(self, users: Mapping[str, str], crypt: Crypt, elapsed: Callable[[], float]) -> None:
        self._users = dict(users)
        self._crypt = crypt
        self._elapsed = elapsed
        self._lock = threading.Lock()  # one hash at a time: a crowd of guesses may cost one core and no more
        self._known: dict[bytes, None] = {}
        self._left = float(BURST)
        self._refilled = elapsed()
        # A user who does not exist is compared with a hash of the highest cost, so that it takes no less time.
        dearest = max(self._users.values(), key=lambda known: known[4:6])
        self._decoy = dearest[:SALT_LENGTH] + "." * 31

    def is_right(self, user: str, password: str) -> bool:
        known = self._users.get(user, self._decoy)
        pair = hashlib.sha256("\0".join((user, known, password)).encode("utf-8", "surrogateescape")).digest()
        with self._lock:
            if pair in self._known:
                return True
            self._take()
            given = password.encode("utf-8", "surrogateescape")
            # libcrypt would stop at a zero byte, and take what stands before it for the password.
            worked_out = self._crypt(given.replace(b"\0", b"\xff"), known[:SALT_LENGTH].encode())
            is_same = hmac.compare_digest(worked_out, known.encode()) and b"\0" not in given
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

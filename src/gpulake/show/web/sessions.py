"""Sessions of people who logged in, and the limit on wrong tokens."""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

MOST_SESSIONS = 10_000
MOST_ADDRESSES = 10_000


def user_of(token: str, tokens: Mapping[str, str]) -> str | None:
    """The user of a token. All tokens are compared in constant time."""
    given, owner = token.encode(errors="replace"), None
    for known, user in tokens.items():
        if secrets.compare_digest(given, known.encode()):
            owner = user
    return owner


@dataclass
class Sessions:
    """In memory only: a restart logs everyone out. Session ids are stored as hashes."""

    seconds: float
    _users: OrderedDict[bytes, tuple[str, float]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, user: str, now: float) -> str:
        session = secrets.token_urlsafe(32)
        with self._lock:
            self._users[_hash(session)] = (user, now + self.seconds)
            while len(self._users) > MOST_SESSIONS:
                self._users.popitem(last=False)
        return session

    def user(self, session: str, now: float) -> str | None:
        with self._lock:
            user, ends = self._users.get(_hash(session), ("", 0.0))
            if ends > now:
                return user
            self._users.pop(_hash(session), None)
            return None

    def end(self, session: str) -> None:
        with self._lock:
            self._users.pop(_hash(session), None)


@dataclass
class Tries:
    """Wrong tokens by client address, of logins and of API clients."""

    most: int
    seconds: float
    _failed: OrderedDict[str, deque[float]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wait_seconds(self, address: str, now: float) -> float:
        """How long this address has to wait; 0: it may try."""
        with self._lock:
            failed = self._failed.get(address, deque())
            while failed and failed[0] <= now - self.seconds:
                failed.popleft()
            return failed[0] + self.seconds - now if len(failed) >= self.most else 0.0

    def fail(self, address: str, now: float) -> None:
        with self._lock:
            self._failed.setdefault(address, deque(maxlen=self.most)).append(now)
            self._failed.move_to_end(address)
            while len(self._failed) > MOST_ADDRESSES:
                self._failed.popitem(last=False)


def _hash(session: str) -> bytes:
    return hashlib.sha256(session.encode(errors="replace")).digest()

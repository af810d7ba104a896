"""Logins: who is in, for how long, and how often somebody may try."""

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
    """Whose token it is. All are compared, in a time that does not tell how much of one was right."""
    given, found = token.encode(errors="replace"), None
    for known, user in tokens.items():
        if secrets.compare_digest(given, known.encode()):
            found = user
    return found


@dataclass
class Sessions:
    """In memory alone: a restart logs everybody out. An id is kept as its hash, as a token of its own would be."""

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
    """Wrong tokens by address, of logins and of programs."""

    most: int
    seconds: float
    _failed: OrderedDict[str, deque[float]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wait_seconds(self, address: str, now: float) -> float:
        """How long this address has to wait; 0 if it may try."""
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

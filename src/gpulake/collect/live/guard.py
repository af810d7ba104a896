"""Who may see the page: the web configuration as it is now, read again when one of its files changed."""

from __future__ import annotations

import base64
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpulake.collect.live.passwords import Verifier, load_crypt
from gpulake.collect.live.tls import server_context
from gpulake.collect.live.web_config import Tls, WebConfig, read_web_config
from gpulake.core.clock import Clock
from gpulake.core.errors import ConfigError

Stamp = tuple[tuple[str, int, int, int], ...]


@dataclass(frozen=True)
class Rules:
    """What is asked of a client now."""

    config: WebConfig
    context: ssl.SSLContext | None
    verifier: Verifier | None

    @property
    def tls(self) -> Tls | None:
        return self.config.tls

    @property
    def headers(self) -> Mapping[str, str]:
        return self.config.headers

    @property
    def asks_who(self) -> bool:
        """Whether a client must have a password or a certificate."""
        return self.verifier is not None or (self.tls is not None and self.tls.client_ca is not None)

    def lets_in(self, path: str, authorization: str) -> bool:
        """Raises TooManyError when too many passwords were tried."""
        if self.verifier is None or path in self.config.open_paths:
            return True
        user, password = _credentials(authorization)
        return self.verifier.is_right(user, password)


class Guard:
    """Keeps the rules up to date. Rules that do not parse let nobody in: the old ones may have been taken back."""

    def __init__(self, path: Path | None, clock: Clock, say: Callable[[str], None]) -> None:
        self._path = path
        self._clock = clock
        self._say = say
        self._lock = threading.Lock()
        self._rules: Rules | None = None
        self._stamp: Stamp = ()
        self._said = ""
        self._load()

    def rules(self) -> Rules | None:
        """The rules in force; None while they cannot be read."""
        with self._lock:
            if self._path is not None and self._stamped() != self._stamp:
                try:
                    self._load()
                    self._said = ""
                except ConfigError as error:
                    self._rules = None
                    if self._said != error.message:
                        self._said = error.message
                        self._say(f"nobody is let in: {error.message}")
            return self._rules

    def _load(self) -> None:
        if self._path is None:
            self._rules = Rules(WebConfig(), None, None)
            return
        config = read_web_config(self._path)
        files = config.tls.files() if config.tls is not None else ()
        stamp = _stamp((self._path, *files))  # before they are read: what changes meanwhile is read again
        context = server_context(config.tls) if config.tls is not None else None
        verifier = Verifier(config.users, load_crypt(), self._clock.elapsed) if config.users else None
        self._rules = Rules(config, context, verifier)
        self._stamp = stamp
        for note in config.notes:
            self._say(f"{self._path.name}: {note}")

    def _stamped(self) -> Stamp:
        assert self._path is not None
        tls = self._rules.tls if self._rules is not None else None
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
    """User and password of a basic authorization; what is none comes out as nobody, who costs a hash like others."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode("utf-8", "surrogateescape")
    except ValueError:  # binascii.Error is one; what is not ASCII is another
        return "", ""
    user, _, password = text.partition(":")
    return user, password

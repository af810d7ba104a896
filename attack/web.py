"""Requests to a real server: authentication, paths, other sites, stored scripts, limits, half-open connections."""

from __future__ import annotations

import logging
import random
import socket
import sys
import urllib.parse
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from attack.score import Score, peak_mib
from attack.serving import all_of, serving
from attack.web_requests import KINDS, Asked, Tools, safe_headers
from gpulake.core.config import Config
from gpulake.core.serve_settings import Serve, ServeUser
from gpulake.show.web.guard import Guard

sys.path.append(str(Path(__file__).parents[1] / "tests"))  # the lake and the hostile texts that tests use, too

TOKENS = {"operator-token-of-ann": "ann", "viewer-token-of-bob-": "bob", "limited-token-of-eve": "eve"}
USERS = {"ann": ServeUser("operator"), "eve": ServeUser(groups=("nobody-has-this-group",))}
LIMITS = Serve(
    users=USERS, request_seconds=0.5, idle_seconds=1.0, most_connections=400, most_connections_per_address=40
)
PATIENT_SECONDS = 20.0
EVERY = 250  # tries, after which a well-behaved viewer is answered
MOST_MIB = 300


def run(tries: int, seed: int, folder: Path) -> Score:
    config, score = _lake(folder), Score()
    log = _Log()
    logging.getLogger().addHandler(log)
    Path("/proc/self/clear_refs").write_text("5")  # from here on the peak is that of the server
    before = peak_mib()
    try:
        with serving(config, Guard(LIMITS, TOKENS, hosts=frozenset({"localhost", "127.0.0.1"}))) as url:
            _Attack(url, score, Tools.of(config)).go(tries, seed)
    finally:
        logging.getLogger().removeHandler(log)
    grown_mib = peak_mib() - before
    if grown_mib > MOST_MIB:
        score.fault(f"the server grew by {grown_mib} MiB; {MOST_MIB} are allowed")
    for line in log.said:
        score.fault(f"the server's log: {line}")
    score.measured["grown by"] = f"{grown_mib} MiB"
    return score


def _lake(folder: Path) -> Config:
    """The one that lies in the folder, or one that is made there."""
    from show.web.lakes import rich_config, write_rich_lake

    config = Config(lake=folder / "lake", threads=1)
    if config.has_lake:
        return config
    write_rich_lake(folder)
    return rich_config(folder)


class _Log(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage()[:300])


@dataclass
class _Attack:
    url: str
    score: Score
    tools: Tools
    half_open: list[socket.socket] = field(default_factory=list)

    def go(self, tries: int, seed: int) -> None:
        kinds, reported = list(KINDS.items()), Counter[str]()
        for number in range(tries):
            rng = random.Random(f"{seed}:{number}")
            name, make = kinds[number % len(kinds)]
            self.score.tries += 1
            reported[name] += 1
            asked = make(rng, self.tools)
            wrong = self._held(asked) if asked.is_left_open else self._answered(rng, asked)
            if wrong:
                self.score.fault(f"try {number} of seed {seed}, {name}: {wrong}: {asked.raw[:200]!r}")
            if number % EVERY == EVERY - 1:
                self._look_after(number)
        self._look_after(tries)
        self.score.measured |= {name: f"{count}" for name, count in reported.items()}

    def _held(self, asked: Asked) -> str:
        """A connection that is left open: the server is to close it."""
        with suppress(OSError):
            connection = self._connected(f"127.1.{len(self.half_open) // 30}.1")
            connection.sendall(asked.raw)
            self.half_open.append(connection)
        return ""

    def _answered(self, rng: random.Random, asked: Asked) -> str:
        """What is wrong with the answer."""
        try:
            # Each from an address of its own: who is locked out would prove nothing.
            with self._connected(
                f"127.{rng.randrange(2, 255)}.{rng.randrange(255)}.{rng.randrange(1, 255)}"
            ) as connection:
                with suppress(ConnectionError):
                    connection.sendall(asked.raw)
                answer = all_of(connection)
        except TimeoutError:
            return f"no answer in {PATIENT_SECONDS:.0f} s"
        if not answer:
            return "" if asked.may_be_cut_off else "no answer"
        status = int(answer.split(b" ", 2)[1])
        if status not in asked.allowed:
            return f"status {status}"
        return safe_headers(answer) or asked.check(answer)

    def _look_after(self, number: int) -> None:
        """A viewer is answered meanwhile, and half-open connections are not kept."""
        token = next(iter(TOKENS))
        raw = f"GET /api/v1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        with self._connected("127.0.0.9") as connection:
            connection.sendall(raw.encode())
            if not all_of(connection).startswith(b"HTTP/1.1 200 "):
                self.score.fault(f"after try {number} a viewer is not answered")
        for connection in self.half_open:
            with connection:
                try:
                    all_of(connection)
                except TimeoutError:
                    self.score.fault(f"a half-open connection is still open after {PATIENT_SECONDS:.0f} s")
        self.half_open.clear()

    def _connected(self, source: str) -> socket.socket:
        place = urllib.parse.urlsplit(self.url)
        return socket.create_connection((str(place.hostname), int(place.port or 0)), PATIENT_SECONDS, (source, 0))

"""Readers of a dashboard: each looks at a page, then reads it for a while, over one connection."""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from html import unescape
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlencode, urlsplit

READERS = 20
SOURCE = re.compile(r'data-source="([^"]+)"')


@dataclass
class Asked:
    """What was asked, and how many seconds each answer took."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, what: str, seconds: float, status: int) -> None:
        with self._lock:
            self.seconds.setdefault(what, []).append(seconds)
            if status >= 400:
                self.faults.append(f"{status} {what}")

    @property
    def every(self) -> list[float]:
        return sorted(one for many in self.seconds.values() for one in many)


def quantile(values: Sequence[float], share: float) -> float:
    return values[min(len(values) - 1, int(share * len(values)))]


def get(connection: HTTPConnection, path: str) -> tuple[int, bytes]:
    connection.request("GET", path, headers={"Accept-Encoding": "gzip"} if "openapi" not in path else {})
    response = connection.getresponse()
    return response.status, response.read()


def plain(url: str, path: str) -> Any:
    connection = HTTPConnection(urlsplit(url).netloc, timeout=60)
    connection.request("GET", path)
    found = connection.getresponse().read()
    connection.close()
    return json.loads(found) if path.startswith("/api/") else found.decode()


def panels(url: str) -> dict[str, list[str]]:
    """The panels of each page of the navigation."""
    names = dict.fromkeys(re.findall(r'<a href="/(\w+)[^"]*"[^>]*>', plain(url, "/explore").partition("</nav>")[0]))
    return {name: [unescape(found) for found in SOURCE.findall(plain(url, f"/{name}"))] for name in names}


def questions(url: str) -> list[str]:
    """Those of the API that can be asked with filters alone."""
    paths = plain(url, "/api/v1/openapi.json")["paths"]
    return [
        path
        for path, verbs in paths.items()
        if "{" not in path
        and path.rpartition(".")[2] not in ("csv", "parquet")
        and "questions" in verbs.get("get", {}).get("tags", ())
        and not any(one.get("required") for one in verbs["get"].get("parameters", ()))
    ]


def varied(path: str, draw: random.Random, days: Sequence[str], kinds: Sequence[str]) -> str:
    """The same under filters as people choose them: the last days, a week of the past, one type of GPU."""
    given: dict[str, str] = {}
    last = draw.choice((0, 1, 7, 30, -7))
    if last > 0:
        given["from"] = days[-last]
    elif last < 0:
        begin = draw.randrange(len(days) + last)
        given |= {"from": days[begin], "to": days[begin - last - 1]}
    if draw.random() < 0.2:
        given["gpu_type"] = draw.choice(kinds)
    return f"{path}{'&' if '?' in path else '?'}{urlencode(given)}" if given else path


def one_by_one(url: str, paths: Sequence[str]) -> Asked:
    asked = Asked()
    connection = HTTPConnection(urlsplit(url).netloc, timeout=60)
    for path in paths:
        sent = time.perf_counter()
        status, _ = get(connection, path)
        asked.note(path.partition("?")[0], time.perf_counter() - sent, status)
    connection.close()
    return asked


def read(url: str, views: Callable[[random.Random], Iterator[str]], seconds: float, pause: float) -> Asked:
    """Each reader looks at one view after another, and begins one every `pause` seconds; 0: without a pause."""
    asked, end = Asked(), time.perf_counter() + seconds

    def reader(number: int) -> None:
        draw = random.Random(number)
        connection = HTTPConnection(urlsplit(url).netloc, timeout=60)
        time.sleep(draw.random() * pause)
        while (begin := time.perf_counter()) < end:
            for path in views(draw):
                sent = time.perf_counter()
                status, _ = get(connection, path)
                asked.note(path.partition("?")[0], time.perf_counter() - sent, status)
            time.sleep(max(0.0, begin + pause - time.perf_counter()))
        connection.close()

    threads = [threading.Thread(target=reader, args=(number,)) for number in range(READERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return asked

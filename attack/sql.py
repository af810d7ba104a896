"""Hostile queries to the SQL endpoint of a running server: takeovers, files, settings, resource bombs, odd values."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from attack.score import Score
from attack.sql_queries import Hostile, Queries
from gpulake.core.clock import SystemClock
from gpulake.core.config import Config
from gpulake.core.types import Run
from gpulake.lake import Lake

SECONDS, MEMORY = 2.0, 300_000_000
TOLERANCE = 1.2
SECRET, TOKEN = "the-secret-of-a-file", "the-token-of-ann-0123456789"
LEAKS = (SECRET, TOKEN, "root:x:0", "root:*:0")
# Words of the engine about what it was given to run, and of limits that only a running query meets.
RAN = re.compile(r"the query failed: (?!Parser |Syntax )\w[\w ]* Error: |took more than|needs more memory|crashed")
SETTINGS = f"[serve]\nsql = true\nsql_seconds = {SECONDS:g}\nsql_memory = '{MEMORY // 10**6}MB'\nsql_rows = 100\n"
PROGRAM = (sys.executable, "-c", "from gpulake.cli import main; main()", "serve", "--port", "0")
AT_ONCE = 2  # as many as the server answers at once


@dataclass
class Server:
    url: str
    process: psutil.Process
    peaks: dict[int, int] = field(default_factory=dict)  # bytes, by the process of a query

    def ask(self, query: str) -> tuple[int, str, float]:
        """Status, text and seconds; status 0 if there was no answer."""
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
        body, begun = json.dumps({"query": query}).encode(), time.monotonic()
        try:
            request = urllib.request.Request(f"{self.url}/api/v1/sql", body, headers)
            with urllib.request.urlopen(request, timeout=120) as response:
                status, text = response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read().decode()
        except OSError as error:
            status, text = 0, str(error)
        return status, text, time.monotonic() - begun

    def watch(self, is_over: threading.Event) -> None:
        while not is_over.wait(0.01):
            for child in self.process.children():
                try:
                    self.peaks[child.pid] = max(self.peaks.get(child.pid, 0), child.memory_info().rss)
                except psutil.Error:
                    continue


def run(tries: int, seed: int, folder: Path) -> Score:
    score, counts = Score(), Counter[str]()
    secret = folder / "secret.txt"
    secret.write_text(SECRET)
    hostile = list(Queries(seed, secret).make(tries))
    with _serving(folder) as server, ThreadPoolExecutor(AT_ONCE) as pool:
        starts = [server.ask("SELECT 1")[2] for _ in range(5)]
        longest = 0.0
        for one, (status, text, seconds) in zip(
            hostile, pool.map(lambda one: server.ask(one.query), hostile), strict=True
        ):
            score.tries += 1
            counts[_kind(status, text)] += 1
            _judge(score, one, status, text)
            if not one.is_bomb:
                starts.append(seconds)
                continue
            longest = max(longest, seconds)
        # A query's time begins when its process has started: the slowest start stands for that.
        longest -= max(starts)
        if longest > TOLERANCE * SECONDS:
            score.fault(f"a query took {longest:.1f} s under a limit of {SECONDS:g} s")
        for pid, peak in server.peaks.items():
            if peak > TOLERANCE * MEMORY:
                score.fault(f"process {pid} took {peak / 1e6:,.0f} MB under a limit of {MEMORY / 1e6:,.0f} MB")
        if not server.process.is_running() or server.ask("SELECT 41 + 1")[1].find("[[42]]") < 0:
            score.fault("the server did not survive")
        peak = max(server.peaks.values(), default=0)
    score.measured = {
        **{kind: f"{count:,}" for kind, count in sorted(counts.items())},
        "most memory": f"{peak / MEMORY:.0%} of the limit",
        "longest": f"{max(0.0, longest) / SECONDS:.0%} of the limit",
    }
    return score


def _judge(score: Score, one: Hostile, status: int, text: str) -> None:
    shown = one.query if len(one.query) < 300 else f"{one.query[:300]}... ({len(one.query):,} characters)"
    if status not in (200, 400, 422):
        score.fault(f"{status} for {shown!r}: {text[:200]}")
    elif one.must_fail and (status == 200 or RAN.search(text)):
        score.fault(f"let through {shown!r}: {text[:200]}")
    # An error repeats the query, and so what it names.
    elif any(leak in text and leak not in one.query for leak in LEAKS):
        score.fault(f"leaked by {shown!r}: {text[:200]}")


def _kind(status: int, text: str) -> str:
    words = {"took more than": "timed out", "needs more memory": "out of memory", "crashed": "processes crashed"}
    if status == 200:
        return "answered"
    return next((kind for words, kind in words.items() if words in text), "refused")


@contextmanager
def _serving(folder: Path) -> Iterator[Server]:
    lake = Lake(Config(lake=folder / "lake")).create()
    lake.record(Run("r1", "land", "succeeded", SystemClock().now(), 1.0, {}))
    settings = folder / "gpulake.toml"
    settings.write_text(SETTINGS)
    variables = {**os.environ, "GPULAKE_CONFIG": str(settings), "GPULAKE_SERVE_TOKENS": f"ann:{TOKEN}"}
    command, is_over = [*PROGRAM, "--lake", str(lake.root)], threading.Event()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=variables
    ) as process:
        assert process.stdout
        server = Server(process.stdout.readline().strip(), psutil.Process(process.pid))
        watcher = threading.Thread(target=server.watch, args=(is_over,))
        watcher.start()
        try:
            yield server
        finally:
            is_over.set()
            watcher.join()
            process.terminate()

"""What the dashboard of a whole cluster costs its readers, while another process builds."""

from __future__ import annotations

import random
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from bench import readers_at_once as readers
from bench import sides
from bench.data import Bench
from bench.lines import Line, cpu_ratio
from bench.measure import PROGRAMS, BenchError, environment, free_port, process_cpu_seconds, run
from bench.startup import libraries

BUILT_SCALE = 0.1  # of what is built meanwhile, again and again
SMOKE_ROUNDS = 2
READ_SECONDS = 40.0
VIEW_SECONDS = 10.0  # a reader looks at a page every so often
MOST_PAINT, MOST_MEDIAN, MOST_P99, MOST_MEBIBYTES = 1.0, 0.3, 1.0, 1024
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
SQL = """SELECT dt, sum(used_gpu_hours), sum(idle_gpu_hours), sum(capacity_gpu_hours)
FROM gold_ledger_hourly GROUP BY dt ORDER BY dt"""


def dashboard(bench: Bench) -> Iterator[Line]:
    lake = sides.whole_lake(bench.trace(bench.scales[-1]), bench.work)
    folder = bench.folder("dashboard")
    if bench.is_smoke:
        yield from _questions(lake, folder)
        return
    small = sides.whole_lake(bench.trace(BUILT_SCALE), bench.work)
    with _server(lake) as (url, process):
        with _building(small):
            yield from _reading(url)
        yield from _painting(url)
        yield Line("dashboard: server, peak memory", _peak_mebibytes(process.pid), "MiB", MOST_MEBIBYTES)
        yield from _peer(url, lake, folder)


def _questions(lake: Path, folder: Path) -> Iterator[Line]:
    """Each question of the API once, and each page, in CPU seconds of a server that is started for it."""
    costs, peers = [], []
    for _ in range(SMOKE_ROUNDS):
        with _server(lake) as (url, process):
            begin = process_cpu_seconds(process.pid)
            pages = readers.panels(url)
            asked = readers.one_by_one(
                url, [*readers.questions(url), *(path for paths in pages.values() for path in paths)]
            )
            costs.append(process_cpu_seconds(process.pid) - begin)
        if asked.faults:
            raise BenchError(f"{len(asked.faults)} answers are errors, such as {asked.faults[0]}")
        peers.append(libraries(folder).cpu_seconds)
    yield Line("dashboard: all questions and panels once, CPU time", min(costs), "s")
    what = "dashboard: all questions and panels once, CPU ratio to importing click, duckdb and pyarrow"
    yield cpu_ratio(what, min(peers), min(costs))


def _reading(url: str) -> Iterator[Line]:
    days = [row["day"] for row in readers.plain(url, "/api/v1/ledger_by_day?limit=1000")["rows"]]
    types = readers.plain(url, "/explore").partition('name="gpu_type"')[2].partition("</select>")[0]
    kinds = [part.partition("<")[0] for part in types.split("<option>")[1:]] or ["V100"]
    pages, asked = readers.panels(url), readers.questions(url)

    def mixed(draw: random.Random) -> Iterator[str]:
        if draw.random() < 0.7:
            name = draw.choice(list(pages))
            yield from (readers.varied(path, draw, days, kinds) for path in [f"/{name}", *pages[name]])
        else:
            yield from (readers.varied(path, draw, days, kinds) for path in draw.sample(asked, min(4, len(asked))))

    def warm(draw: random.Random) -> Iterator[str]:
        name = draw.choice(list(pages))
        yield from (f"/{name}", *pages[name])

    day = days[len(days) // 2]
    alone = readers.one_by_one(url, [f"{path}?{urlencode({'from': day})}" for path in asked])
    _print_slowest("one reader, uncached", alone)
    yield Line("dashboard: one reader, uncached, median", 1000 * readers.quantile(alone.every, 0.5), "ms", 300)
    yield Line("dashboard: one reader, uncached, p99", 1000 * readers.quantile(alone.every, 0.99), "ms", 1000)
    for words, views, pause in (
        ("different filters", mixed, VIEW_SECONDS),
        ("cached", warm, VIEW_SECONDS),
        ("cached, without a pause", warm, 0.0),
    ):
        found = readers.read(url, views, READ_SECONDS if pause else READ_SECONDS / 4, pause)
        if found.faults:
            raise BenchError(f"{len(found.faults)} answers are errors, such as {found.faults[0]}")
        what = f"dashboard: {readers.READERS} readers, {words}"
        every = found.every
        middle, high = readers.quantile(every, 0.5), readers.quantile(every, 0.99)
        yield Line(f"{what}, median", 1000 * middle, "ms", 1000 * MOST_MEDIAN if pause else None)
        yield Line(f"{what}, p99", 1000 * high, "ms", 1000 * MOST_P99 if pause else None)
        _print_slowest(what, found)


def _print_slowest(what: str, found: readers.Asked) -> None:
    for path, taken in sorted(found.seconds.items(), key=lambda item: -statistics.median(item[1]))[:5]:
        words = f"{path}: median {1000 * statistics.median(taken):.0f} ms of {len(taken)}"
        print(f"  slowest of {what}: {words}", file=sys.stderr)


def _painting(url: str) -> Iterator[Line]:
    if BROWSER is None:
        print("no browser is installed here: first paint is not measured", file=sys.stderr)
        return
    from playwright.sync_api import sync_playwright

    paints, fills = {}, {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--headless", "--no-sandbox"])
        for name in readers.panels(url):
            with browser.new_context() as context:
                page = context.new_page()
                begin = time.perf_counter()
                page.goto(f"{url}/{name}", wait_until="commit")
                page.wait_for_function(
                    "() => document.readyState !== 'loading' && document.querySelector('section') && "
                    "!document.querySelector('section[aria-busy=true]')"
                )
                fills[name] = time.perf_counter() - begin
                paints[name] = (
                    page.evaluate("() => performance.getEntriesByName('first-contentful-paint')[0].startTime") / 1e3
                )
        browser.close()
    for name, seconds in paints.items():
        yield Line(f"dashboard: /{name}, first paint", seconds, "s", MOST_PAINT)
    yield Line("dashboard: slowest page, all panels filled", max(fills.values()), "s")


def _peer(url: str, lake: Path, folder: Path) -> Iterator[Line]:
    """The same rows, by a process that is started for the question and by the server that is there."""
    fresh = statistics.median(run([PROGRAMS / "gpulake", "sql", SQL, "--lake", lake], folder).seconds for _ in range(5))
    days = [row["day"] for row in readers.plain(url, "/api/v1/ledger_by_day?limit=1000")["rows"]]
    taken = []
    for begin in range(20):
        # Days not asked for before in this run: answers that the server keeps would measure its memory alone.
        given = urlencode({"from": days[begin], "to": days[begin + len(days) // 2], "limit": 999})
        sent = time.perf_counter()
        readers.plain(url, f"/api/v1/ledger_by_day?{given}")
        taken.append(time.perf_counter() - sent)
    ours = statistics.median(taken)
    yield Line("dashboard: ledger by day, new gpulake sql process", fresh, "s")
    yield Line("dashboard: ledger by day, server, uncached", ours, "s")
    yield Line("dashboard: times faster than a new gpulake sql", fresh / ours, "", 1.0, "at least")


@contextmanager
def _server(lake: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    port = free_port()
    command = [str(PROGRAMS / "gpulake"), "serve", "--lake", str(lake), "--port", str(port)]
    process = subprocess.Popen(command, env=environment({}), stdout=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            try:
                readers.plain(url, "/api/v1")
                break
            except OSError:
                if process.poll() is not None:
                    raise BenchError(f"gpulake serve exits {process.returncode}") from None
                time.sleep(0.1)
        yield url, process
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def _building(lake: Path) -> Iterator[None]:
    """Another process builds another lake, again and again."""
    is_over = threading.Event()

    def build() -> None:
        while not is_over.is_set():
            run([PROGRAMS / "gpulake", "build", "--force", "--lake", lake], lake.parent)

    thread = threading.Thread(target=build)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _peak_mebibytes(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise BenchError("this system does not tell a process' peak memory")

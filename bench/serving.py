"""What the dashboard of a whole cluster costs its readers, while another process builds."""

from __future__ import annotations

import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from bench import readers_at_once as readers
from bench import sides
from bench.data import FULL_JOBS, generated, jobs_at
from bench.lines import Line
from bench.measure import PROGRAMS, BenchError, environment, run

ROOT = Path(__file__).parent.parent
BUILT_SCALE = 0.1  # of what is built meanwhile, again and again
READ_SECONDS = 40.0
VIEW_SECONDS = 10.0  # a reader looks at a page every so often
MOST_PAINT, MOST_MEDIAN, MOST_P99, MOST_MEBIBYTES = 1.0, 0.3, 1.0, 1024
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
SQL = """SELECT dt, sum(used_gpu_hours), sum(idle_gpu_hours), sum(capacity_gpu_hours)
FROM gold_ledger_hourly GROUP BY dt ORDER BY dt"""
SETTINGS = {"PYTHONPATH": str(ROOT / "src")}


def serving(out: Path, seed: int = 0, lake: Path | None = None) -> Iterator[Line]:
    out.mkdir(parents=True, exist_ok=True)
    place = lake or sides.everything(generated(out / "data", FULL_JOBS, seed), out / "work").place
    small = sides.everything(generated(out / "data", jobs_at(BUILT_SCALE), seed), out / "work-small").place
    with tempfile.TemporaryDirectory(dir=out) as scratch, _server(place) as (url, process):
        with _building(small):
            yield from _reading(url)
        yield from _painting(url)
        peak = _peak_mebibytes(process.pid)
        yield Line("dashboard: server, peak memory", peak, "MiB", MOST_MEBIBYTES)
        yield Line("dashboard: server, peak memory / target", peak / MOST_MEBIBYTES, "", 1.0)
        yield from _peer(url, place, Path(scratch))


def _reading(url: str) -> Iterator[Line]:
    days = [row["day"] for row in readers.plain(url, "/api/v1/ledger_by_day?limit=1000")["rows"]]
    types = readers.plain(url, "/overview").partition('name="gpu_type"')[2].partition("</select>")[0]
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
    _tell("one reader, uncached", alone)
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
        yield Line(f"{what}, responses per second", len(every) / (READ_SECONDS if pause else READ_SECONDS / 4), "")
        _tell(what, found)
        if pause:
            yield Line(f"{what}, median / target", middle / MOST_MEDIAN, "", 1.0)
            yield Line(f"{what}, p99 / target", high / MOST_P99, "", 1.0)


def _tell(what: str, found: readers.Asked) -> None:
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
        yield Line(f"dashboard: /{name}, all panels filled", fills[name], "s")
    yield Line("dashboard: slowest first paint / target", max(paints.values()) / MOST_PAINT, "", 1.0)


def _peer(url: str, lake: Path, folder: Path) -> Iterator[Line]:
    """The same rows, by a process that is started for the question and by the server that is there."""
    fresh = statistics.median(
        run([PROGRAMS / "gpulake", "sql", SQL, "--lake", lake], folder, SETTINGS).seconds for _ in range(5)
    )
    days = [row["day"] for row in readers.plain(url, "/api/v1/ledger_by_day?limit=1000")["rows"]]
    taken = []
    for begin in range(20):
        # Days that nobody asked for before, in this run: what the server keeps would tell of memory alone.
        given = urlencode({"from": days[begin], "to": days[begin + len(days) // 2], "limit": 999})
        sent = time.perf_counter()
        readers.plain(url, f"/api/v1/ledger_by_day?{given}")
        taken.append(time.perf_counter() - sent)
    ours = statistics.median(taken)
    yield Line("dashboard: ledger by day, new gpulake sql process", fresh, "s")
    yield Line("dashboard: ledger by day, server, uncached", ours, "s")
    yield Line("dashboard: times faster than a new gpulake sql process", fresh / ours, "", 1.0, "at least")


@contextmanager
def _server(lake: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(PROGRAMS / "gpulake"), "serve", "--lake", str(lake), "--port", str(port)]
    process = subprocess.Popen(command, env=environment(SETTINGS), stdout=subprocess.DEVNULL)
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
            run([PROGRAMS / "gpulake", "build", "--force", "--lake", lake], lake.parent, SETTINGS)

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

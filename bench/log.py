"""What reading a log costs: ours, and others on the beginning of the same file; and a whole diagnosis."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.data import Bench
from bench.joblog import write_log
from bench.lines import Line, cpu_ratio
from bench.measure import PROGRAMS, Cost, environment, interleaved, run

LOG_BYTES = 1 << 30
SMOKE_BYTES = 128 << 20
SMALL_BYTES = 1 << 20
# What the others get of it: they are slower, and their time grows with it.
GREP_BYTES = 64 << 20
EXPRESSIONS_BYTES = 256 << 10
LEAST_RATE = 300
MOST_MEBIBYTES = 300
MOST_SECONDS = 0.4
LOGS, ALL_LOGS = 100, 10_000
MOST_ALL_SECONDS = 300
ROUNDS = 3
ROOT = Path(__file__).parent.parent


def log(bench: Bench) -> Iterator[Line]:
    """Rates are by CPU time, less what an empty file costs."""
    folder = bench.folder("log")
    whole, part, empty = folder / "job.log", folder / "slice.log", folder / "empty.log"
    write_log(whole, SMOKE_BYTES if bench.is_smoke else LOG_BYTES, bench.seed)
    _slice(whole, part, EXPRESSIONS_BYTES)
    empty.touch()
    ours, fixed, theirs, their_fixed = interleaved(
        ROUNDS,
        lambda: _read("ours", whole, folder),
        lambda: _read("ours", empty, folder),
        lambda: _read("expressions", part, folder),
        lambda: _read("expressions", empty, folder),
    )
    megabytes = whole.stat().st_size / 1e6
    what = f"log of {whole.stat().st_size >> 20:,} MiB"
    rate = megabytes / (ours.cpu_seconds - fixed.cpu_seconds)
    their_rate = EXPRESSIONS_BYTES / 1e6 / (theirs.cpu_seconds - their_fixed.cpu_seconds)
    yield Line(f"{what}: ours", rate, "MB/s a core", LEAST_RATE, "at least")
    yield Line(f"{what}: ours, wall time", megabytes / ours.seconds, "MB/s", side="at least")
    yield Line(f"{what}: ours, peak memory", ours.mebibytes, "MiB", MOST_MEBIBYTES)
    yield Line(f"{what}: Python's re, line by line", their_rate, "MB/s a core", kind="peer")
    yield cpu_ratio(f"{what}: times less CPU than Python's re", rate, their_rate)
    if not bench.is_smoke:
        yield from _grep(whole, rate, folder)
        yield from _start_to_answer(bench, folder)
        yield from _many(bench, folder / "many")
    shutil.rmtree(folder)


def _slice(whole: Path, part: Path, size: int) -> None:
    with whole.open("rb") as source:
        part.write_bytes(source.read(size))


def _read(way: str, path: Path, folder: Path) -> Cost:
    return run([sys.executable, "-m", "bench.readers", way, path], folder, {"PYTHONPATH": str(ROOT)})


def _grep(whole: Path, rate: float, folder: Path) -> Iterator[Line]:
    if shutil.which("grep") is None:
        print("grep is not installed here: not compared", file=sys.stderr)
        return
    known, part = _known_to_grep(folder), folder / "slice.log"
    _slice(whole, part, GREP_BYTES)
    # grep ends with 1 where it finds nothing, which is no fault.
    script = ["sh", "-c", 'grep -E -c -f "$1" "$2" || true', "sh", str(folder / "patterns"), str(part)]
    (cost,) = interleaved(1, lambda: run(script, folder, {"LC_ALL": "C"}))
    theirs = GREP_BYTES / 1e6 / cost.cpu_seconds
    yield Line(f"log: grep -E with the {known} patterns that it supports", theirs, "MB/s a core", kind="peer")
    yield cpu_ratio("log: times less CPU than grep", rate, theirs)


def _known_to_grep(folder: Path) -> int:
    """Writes the patterns that grep can take, and returns their number."""
    from gpulake.diagnose.rulebook.book import shipped

    words = {"(?:": "(", r"\d": "[0-9]", r"\D": "[^0-9]"}
    known = []
    for rule in shipped().rules:
        pattern = re.sub(r"\(\?P<\w+>", "(", rule.pattern)
        for theirs, grep in words.items():
            pattern = pattern.replace(theirs, grep)
        if "(?" in pattern or "\n" in pattern or re.search(r"[*+?}]\?|\[[^\]]*\\|\\[zxpQ]", pattern):
            continue
        command = ["grep", "-E", "-c", "-e", pattern, "/dev/null"]
        if subprocess.run(command, env=environment({"LC_ALL": "C"}), capture_output=True, check=False).returncode < 2:
            known.append(pattern)
    (folder / "patterns").write_text("\n".join(known) + "\n", encoding="utf-8")
    return len(known)


def _start_to_answer(bench: Bench, folder: Path) -> Iterator[Line]:
    small = folder / "small.log"
    write_log(small, SMALL_BYTES, bench.seed)
    (cost,) = interleaved(5, lambda: run([PROGRAMS / "gpulake", "diagnose", small, "--json"], folder))
    yield Line("log of 1 MiB: start to answer", cost.seconds, "s", MOST_SECONDS)
    yield Line("log of 1 MiB: start to answer, CPU time", cost.cpu_seconds, "s")


def _many(bench: Bench, folder: Path) -> Iterator[Line]:
    """By CPU time of a part, as if two cores had nothing else to do."""
    folder.mkdir()
    for seed in range(LOGS):
        write_log(folder / f"slurm-{seed}.out", SMALL_BYTES, bench.seed + seed)
    cost = run([PROGRAMS / "gpulake", "diagnose", "--each", folder, "--json"], folder.parent)
    each = cost.cpu_seconds / LOGS
    yield Line(f"{LOGS} logs of 1 MiB at once: each, CPU time", each, "s")
    yield Line(f"{ALL_LOGS:,} logs of 1 MiB on two cores, from {LOGS}", each * ALL_LOGS / 2, "s", MOST_ALL_SECONDS)

"""What reading a log costs: ours on 1 GiB, and others on the beginning of the same file; and a whole diagnosis."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.joblog import write_log
from bench.lines import Line
from bench.measure import PROGRAMS, Cost, environment, median, run

LOG_BYTES = 1 << 30
SMALL_BYTES = 1 << 20
# What the others get of it: they are slower, and their time grows with it.
SLICE_BYTES = {"grep": 64 << 20, "expressions": 4 << 20}
LEAST_RATE = 300
MOST_MEBIBYTES = 300
MOST_SECONDS = 1.0
ROOT = Path(__file__).parent.parent


def diagnose(out: Path, seed: int = 0) -> Iterator[Line]:
    """Rates are by the time of one processor: what else the machine does counts less then."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out) as scratch:
        folder = Path(scratch)
        log, small = folder / "job.log", folder / "small.log"
        write_log(log, LOG_BYTES, seed)
        write_log(small, SMALL_BYTES, seed)
        ours = median([_reader("ours", log, folder) for _ in range(3)])
        rate = log.stat().st_size / 1e6 / ours.cpu_seconds
        yield Line("log of 1 GiB: ours", rate, "MB/s a core", LEAST_RATE, "at least")
        yield Line("log of 1 GiB: ours, wall time", log.stat().st_size / 1e6 / ours.seconds, "MB/s")
        yield Line("log of 1 GiB: ours, peak memory", ours.mebibytes, "MiB", MOST_MEBIBYTES)
        yield from _others(log, rate, folder)
        yield from _start_to_answer(small, folder)


def _others(log: Path, rate: float, folder: Path) -> Iterator[Line]:
    known = _known_to_grep(folder)
    names = {
        "grep": f"grep -E with the {known} patterns that it supports",
        "expressions": "Python's re, line by line",
    }
    for way, size in SLICE_BYTES.items():
        if way == "grep" and shutil.which("grep") is None:
            print("grep is not installed here: not compared", file=sys.stderr)
            continue
        part, empty = folder / "slice.log", folder / "empty.log"
        with log.open("rb") as source:
            part.write_bytes(source.read(size))
        empty.touch()
        taken = _reader(way, part, folder).cpu_seconds - _reader(way, empty, folder).cpu_seconds
        theirs = size / 1e6 / max(taken, 1e-3)
        yield Line(f"log of 1 GiB: {names[way]}", theirs, "MB/s a core")
        yield Line(f"log of 1 GiB: times faster than {way}", rate / theirs, "")


def _reader(way: str, log: Path, folder: Path) -> Cost:
    if way == "grep":
        # grep ends with 1 where it finds nothing, and that is no fault.
        script = ["sh", "-c", 'grep -E -c -f "$1" "$2" || true', "sh", str(folder / "patterns"), str(log)]
        return run(script, folder, {"LC_ALL": "C"})
    return run([sys.executable, "-m", "bench.readers", way, log], folder, {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"})


def _known_to_grep(folder: Path) -> int:
    """Writes the patterns that grep can take, and tells how many they are."""
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


def _start_to_answer(log: Path, folder: Path) -> Iterator[Line]:
    program = PROGRAMS / "gpulake"
    # As installed: compiled once, and not at every start.
    settings = {"PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": ""}
    asked = subprocess.run([program, "diagnose", "--help"], env=environment(settings), capture_output=True, check=False)
    if asked.returncode:
        print("gpulake has no diagnose yet: start to answer is not measured", file=sys.stderr)
        return
    costs = [run([program, "diagnose", log, "--json"], folder, settings) for _ in range(5)]
    yield Line("log of 1 MiB: start to answer", median(costs).seconds, "s", MOST_SECONDS)

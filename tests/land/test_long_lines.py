"""A file whose one line has no end: it lands in bounded memory, and what stands around that line lands, too."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from attack.examples import EXAMPLES

from conftest import rows_of
from gpulake.core.clock import FrozenClock
from gpulake.core.errors import InputError
from gpulake.core.progress import silent
from gpulake.diagnose.telemetry import exposition
from gpulake.diagnose.telemetry.samples import Gathering, Window
from gpulake.formats.samples import NUMBER as PROMETHEUS_NUMBER
from gpulake.lake import Lake, sanitise
from gpulake.lake.fields import NUMBER
from gpulake.land.landing import land

LONG_BYTES = 300 << 20
LIMIT_MIB = 200
SPARE_MIB = 300
# One for each way of reading: the engine's, quoted, joined lines, JSON lines, lines of text, documents of lines.
CHOSEN = ("pai_job_table.csv", "machines.csv", "sacct.txt", "host_metrics.jsonl", "page.prom", "node.xml")
CHILD = """
import sys
from pathlib import Path
from gpulake.core.clock import SystemClock
from gpulake.core.config import Config
from gpulake.core.progress import silent
from gpulake.lake import Lake
from gpulake.land.landing import land
from gpulake.formats.samples import NUMBER as PROMETHEUS_NUMBER

folder, limit, *names = sys.argv[1:]
lake = Lake(Config(lake=Path(folder) / "lake", threads=2, memory_limit=f"{limit}MB")).create()
for name in names:
    with lake.writing():
        (landing,) = land(lake, [Path(folder) / name], SystemClock(), silent).landings
    print(name, landing.rows_landed, landing.rows_quarantined)
# Not ru_maxrss: that is also of who started this.
(peak,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")]
print(int(peak.split()[1]) >> 10)
"""


@pytest.mark.slow
def test_a_line_of_hundreds_of_megabytes_lands_in_bounded_memory(tmp_path: Path) -> None:
    examples = {example.name: example for examples in EXAMPLES.values() for example in examples}
    for name in CHOSEN:
        good, end = examples[name].good, examples[name].end
        with (tmp_path / name).open("wb") as file:
            file.write(f"{good}long".encode())
            file.seek(LONG_BYTES, os.SEEK_CUR)
            file.write(f"\n{good.splitlines()[-1]}\n{end}".encode())
    ran = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path), str(LIMIT_MIB), *CHOSEN],
        capture_output=True,
        text=True,
        check=False,
    )
    *landed, peak_mib = ran.stdout.splitlines() or ["0"]
    assert (landed, ran.stderr) == ([f"{name} 3 1" for name in CHOSEN], "")
    assert int(peak_mib) < LIMIT_MIB + SPARE_MIB


def test_bad_rows_without_end_are_the_fault_of_the_file(
    lake: Lake, clock: FrozenClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sanitise, "MOST_BAD_ROWS", 100)
    monkeypatch.setattr(sanitise, "MOST_KEPT_CHARACTERS", 1_000)
    path = tmp_path / "page.prom"
    bad = f"bad {'x' * 600}\n"
    path.write_text("# TYPE up gauge\nup 0\n" + bad * 100)
    with lake.writing():
        (landing,) = land(lake, [path], clock, silent).landings
    assert (landing.rows_landed, landing.rows_quarantined) == (1, 100)
    query = (
        "SELECT len(row_text) AS n, max(len(reason)) AS reason, count(*) AS rows FROM quarantine GROUP BY 1 ORDER BY 1"
    )
    assert rows_of(lake, query) == [{"n": 128, "reason": 500, "rows": 99}, {"n": 604, "reason": 500, "rows": 1}]
    path.write_text("# TYPE up gauge\nup 0\n" + bad * 101)
    with lake.writing(), pytest.raises(InputError, match="more than 100 errors, such as: value is 'xxx"):
        land(lake, [path], clock, silent)


def test_what_is_nearly_a_number_or_a_label_is_looked_at_once() -> None:
    """Each of them took time by the square of its length: 17 s and more for 70,000 characters."""
    begin = time.process_time()
    assert NUMBER.fullmatch("9" * 200_000 + "x") is None
    assert PROMETHEUS_NUMBER.fullmatch("9" * 200_000 + "x") is None
    gathering = Gathering(Window(), 10)
    exposition.read([f'DCGM_FI_DEV_GPU_UTIL{{gpu="1",UUID="G"{"x" * 200_000}}} 5\n'], gathering, "n", 0.0)
    assert time.process_time() - begin < 2

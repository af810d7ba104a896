"""gpulake detect training, as its user meets it: on runs of our own on a real GPU, and on small files of any form."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from conftest import built_from
from detect import lab_runs
from gpulake.cli import root
from gpulake.core.errors import UsageError

BEGIN_MS = 1_794_726_400_000
TICK_MS = 250
TOTAL = 80 << 30
HOSTILE = '\x1b[2J</script><img src=x onerror=alert(1)>"'
Row = dict[str, Any]


def training(*arguments: object) -> Result:
    return CliRunner().invoke(root, ["detect", "training", *(str(each) for each in arguments)])


def document(*arguments: object) -> list[Row]:
    answer = training(*arguments, "--json")
    assert answer.exit_code == 0, (answer.output, answer.exception)
    found: list[Row] = json.loads(answer.stdout)
    return found


def failure(*arguments: object) -> UsageError:
    error = training(*arguments).exception
    assert isinstance(error, UsageError)
    assert (error.exit_code, bool(error.hint)) == (2, True)
    return error


def milliseconds(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def written(path: Path, rows: Iterable[object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


def samples(seconds: int, memory: Callable[[float], float] = lambda _: 0.2, **names: str) -> list[Row]:
    """A GPU that works; how much of its memory is in use is a function of the second."""
    return [
        {
            "ts_ms": BEGIN_MS + tick * TICK_MS,
            "gpu_util": 90,
            "cpu_util": 20.0,
            "mem_used": round(TOTAL * memory(tick * TICK_MS / 1000)),
            "mem_total": TOTAL,
            **names,
        }
        for tick in range(seconds * 1000 // TICK_MS)
    ]


def leaking(second: float) -> float:
    return 0.2 if second < 20 else min(0.9, 0.2 + 0.05 * (second - 20))


def paused(seconds: int, begin: int, end: int) -> list[Row]:
    """Steps of 50 ms, and none between two seconds."""
    ends = [at for at in range(50, seconds * 1000, 50) if not begin * 1000 < at <= end * 1000]
    return [{"ts_ms": BEGIN_MS + at, "step_ms": 50.0} for at in ends]


@pytest.mark.real
def test_each_of_six_real_phases_is_found_with_its_time_and_nothing_between(real_data: Path) -> None:
    folder = real_data / "lab" / "phases"
    truth = json.loads((folder / "truth.json").read_text())
    found = document(folder / "telemetry.jsonl", "--steps", folder / "steps.jsonl")
    assert [phase["kind"] for phase in found] == [phase["kind"] for phase in truth]
    for phase, true in zip(found, truth, strict=True):
        assert true["start_ms"] <= milliseconds(phase["began_at"]) <= true["start_ms"] + 6_000
        assert true["end_ms"] - 5_000 <= milliseconds(phase["ended_at"]) <= true["end_ms"] + 7_000
        assert phase["seconds"] == (milliseconds(phase["ended_at"]) - milliseconds(phase["began_at"])) / 1000
    lines = training(folder / "telemetry.jsonl", "--steps", folder / "steps.jsonl").stdout.splitlines()
    assert lines[0] == "6 phases in 4 min of 1 GPU"
    assert [line.split()[0] for line in lines if "2026-11-15 0" in line] == [phase["kind"] for phase in truth]


@pytest.mark.real
def test_of_twenty_real_jobs_in_sequence_the_starved_and_the_leaking_one_are_found(real_data: Path) -> None:
    folder = real_data / "lab"
    jobs = {job["id"]: job for job in lab_runs.read_lines(folder / "truth.jsonl")}
    found = document(folder / "telemetry.jsonl")
    assert [phase["kind"] for phase in found] == ["starved", "leak", "memory_cliff"]
    for phase, job in zip(found, ("starved_loader", "leak_oom", "leak_oom"), strict=True):
        assert jobs[job]["start_ms"] <= milliseconds(phase["began_at"])
        assert milliseconds(phase["ended_at"]) <= jobs[job]["end_ms"]


@pytest.mark.real
@pytest.mark.parametrize("name", ["healthy_single", "healthy_ddp", "nan_loss", "rank1_sigkill", "eval_file"])
def test_a_real_run_that_nothing_slowed_is_clean_with_the_steps_of_its_own_log(real_data: Path, name: str) -> None:
    (job,) = (job for job in lab_runs.read_lines(real_data / "lab" / "truth.jsonl") if job["id"] == name)
    since, until = (datetime.fromtimestamp(job[end] / 1000, UTC).isoformat() for end in ("start_ms", "end_ms"))
    telemetry, log = real_data / "lab" / "telemetry.jsonl", real_data / "lab" / "logs" / f"{name}.log"
    answer = training(telemetry, "--steps", log, "--since", since, "--until", until)
    assert (answer.exit_code, answer.stderr) == (0, "")
    assert answer.stdout.startswith("nothing unusual in ")
    assert answer.stdout.endswith(" s of 1 GPU\n")


def test_each_gpu_has_its_own_phases_and_the_numbers_are_those_of_the_file(tmp_path: Path) -> None:
    rows = [
        *samples(60, node="n1", uuid="GPU-1"),
        *samples(60, leaking, node="n1", uuid="GPU-2"),
        *samples(60, node="n2", uuid="GPU-2"),
    ]
    path = written(tmp_path / "run.jsonl", rows)
    # A leak is one once memory is half more than it was: 0.2 grows by 0.05 a second, and ends at 0.9.
    (phase,) = document(path)
    assert (phase["node"], phase["gpu"], phase["kind"]) == ("n1", "GPU-2", "leak")
    assert milliseconds(phase["began_at"]) == BEGIN_MS + 22_250
    assert milliseconds(phase["ended_at"]) == BEGIN_MS + 59_750
    assert phase["seconds"] == 37.5
    assert phase["detail"] == "GPU memory grew from 31% to 90% although the run had settled"
    text = training(path).stdout
    assert text.startswith("1 phase in 60 s of 3 GPUs\n")
    assert "GPU-2 of n1" in text


@pytest.mark.parametrize(
    ("cpu_util", "kind"), [(20.0, "checkpoint_storm"), (0.5, "stopped"), (None, "stopped")], ids=str
)
def test_a_pause_is_a_checkpoint_where_the_host_works_and_else_a_stop(
    tmp_path: Path, cpu_util: float | None, kind: str
) -> None:
    rows = samples(60)
    for row in rows:
        second = (row["ts_ms"] - BEGIN_MS) / 1000
        if 30 < second <= 45:
            row.update(gpu_util=0, cpu_util=cpu_util)
        if cpu_util is None:
            del row["cpu_util"]
    telemetry = written(tmp_path / "run.jsonl", rows)
    steps = written(tmp_path / "steps.jsonl", paused(60, 30, 45))
    (phase,) = document(telemetry, "--steps", steps)
    assert phase["kind"] == kind
    assert 31_000 < milliseconds(phase["began_at"]) - BEGIN_MS <= 31_500, "a second without a step is none too many"
    assert 44_500 <= milliseconds(phase["ended_at"]) - BEGIN_MS <= 46_000
    assert ("the host's cores" in phase["detail"]) == (cpu_util is not None)
    assert "each took 50 ms before" in phase["detail"]


def test_a_run_that_ends_saves_and_lets_go_and_one_that_stays_is_stopped(tmp_path: Path) -> None:
    steps = written(tmp_path / "steps.jsonl", paused(30, 30, 30))

    def ended(let_go_at: float) -> Path:
        rows = samples(120, lambda second: 0.2 if second < let_go_at else 0.005)
        for row in rows:
            if row["ts_ms"] >= BEGIN_MS + 30_000:
                row.update(gpu_util=0, cpu_util=0.1)
        return written(tmp_path / f"{let_go_at}.jsonl", rows)

    assert document(ended(38), "--steps", steps) == []
    (phase,) = document(ended(100), "--steps", steps)
    assert phase["kind"] == "stopped"
    assert 99_000 <= milliseconds(phase["ended_at"]) - BEGIN_MS <= 100_000


@pytest.mark.parametrize("took", [2.0, 15.0])
def test_steps_that_take_many_seconds_are_no_pauses(tmp_path: Path, took: float) -> None:
    """Within each the GPU pauses for a tenth of it."""
    rows = samples(1_200)
    for row in rows:
        if (row["ts_ms"] - BEGIN_MS) / 1000 % took < took / 10:
            row["gpu_util"] = 0
    telemetry = written(tmp_path / "run.jsonl", rows)
    ends = [BEGIN_MS + round(1000 * took * number) for number in range(1, int(1_200 / took))]
    times = [f"{datetime.fromtimestamp(end / 1000, UTC).isoformat()},{took}" for end in ends]
    assert document(telemetry, "--steps", written(tmp_path / "steps.csv", ["time,seconds", *times])) == []
    slow = [end for end in ends if end < BEGIN_MS + 600_000 or end > BEGIN_MS + 900_000]
    rest = [{"ts_ms": end, "step_ms": 1000 * took} for end in slow]
    (phase,) = document(telemetry, "--steps", written(tmp_path / "steps.jsonl", rest))
    assert phase["kind"] == "checkpoint_storm"
    assert abs(milliseconds(phase["ended_at"]) - BEGIN_MS - 900_000) <= 1000 * took


def test_a_gpu_that_waits_for_data_is_starved_from_where_it_began_to_wait(tmp_path: Path) -> None:
    rows = samples(60)
    for row in rows:
        if row["ts_ms"] >= BEGIN_MS + 20_000:
            row["gpu_util"] = 5
    (phase,) = document(written(tmp_path / "run.jsonl", rows))
    assert phase["kind"] == "starved"
    assert 19_000 <= milliseconds(phase["began_at"]) - BEGIN_MS <= 20_500
    assert milliseconds(phase["ended_at"]) == BEGIN_MS + 59_750


def test_the_usual_value_of_a_phase_excludes_earlier_phases(tmp_path: Path) -> None:
    rows = samples(110)
    for row in rows:
        if (row["ts_ms"] - BEGIN_MS) / 1000 % 40 >= 30 or row["ts_ms"] >= BEGIN_MS + 100_000:
            row["gpu_util"] = 30
    telemetry = written(tmp_path / "run.jsonl", rows)
    found = document(telemetry, "--steps", written(tmp_path / "steps.jsonl", paused(110, 0, 0)))
    assert [phase["kind"] for phase in found] == ["small_batch"] * 3
    for phase in found:
        reported = re.fullmatch(
            r"steps took 50 ms \(50 ms before\); the GPU was busy (\d+)% of the time \((\d+)% before\), "
            r"the host's cores 20% \(20% before\)",
            phase["detail"],
        )
        assert reported
        assert 29 <= int(reported[1]) <= 36, "a look is the mean of a second"
        assert 87 <= int(reported[2]) <= 90


def test_gpus_that_a_short_name_does_not_tell_apart_are_named_in_full(tmp_path: Path) -> None:
    uuids = [f"GPU-00000000-0000-0000-0000-00000000000{place}" for place in range(2)]
    rows = [row for uuid in uuids for row in samples(60, leaking, uuid=uuid)]
    text = training(written(tmp_path / "run.jsonl", rows)).stdout
    assert [uuid for uuid in uuids if uuid not in text] == []


def test_a_log_of_nvidia_smi_and_the_folder_of_a_collected_run_say_the_same(tmp_path: Path) -> None:
    rows = samples(60, leaking)
    smi = [
        f"{datetime.fromtimestamp(row['ts_ms'] / 1000, UTC):%Y/%m/%d %H:%M:%S.%f}, GPU-2, {row['gpu_util']} %, "
        f"{row['mem_used'] >> 20} MiB, {TOTAL >> 20} MiB"
        for row in rows
    ]
    header = "timestamp, uuid, utilization.gpu [%], memory.used [MiB], memory.total [MiB]"
    logged = document(written(tmp_path / "smi.csv", [header, *smi]))
    collected = [
        {
            "ts_ms": row["ts_ms"],
            "gpu_uuid": "GPU-2",
            "gpu_busy_ratio": 0.9,
            "memory_used_bytes": row["mem_used"],
            "memory_total_bytes": TOTAL,
        }
        for row in rows
    ]
    written(tmp_path / "run" / "n1" / "cctf" / "gpu_metrics.jsonl", collected)
    hosts = [{"ts_ms": row["ts_ms"] - 100, "cpu_util": 20.0, "mem_free_mb": 1000} for row in rows]
    written(tmp_path / "run" / "n1" / "cctf" / "host_metrics.jsonl", hosts)
    (found,) = document(tmp_path / "run")
    assert (found["node"], found["kind"]) == ("n1", "leak")
    assert [{**phase, "node": "n1"} for phase in logged] == [found]
    assert "Not in the telemetry of every GPU: host CPU busy." in training(tmp_path / "smi.csv").stderr
    assert "Not in the telemetry" not in training(tmp_path / "run").stderr


def test_a_page_of_an_exporter_is_one_moment_without_phases(tmp_path: Path) -> None:
    lines = ['DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1"} 50', 'DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-1"} 1000']
    answer = training(written(tmp_path / "page.prom", lines))
    assert (answer.exit_code, answer.stdout) == (0, "nothing unusual in 0 s of 1 GPU\n")


@pytest.mark.slow
def test_the_telemetry_of_a_job_is_taken_from_the_lake(tmp_path: Path) -> None:
    """Of its nodes, and of its time: what was before and after is of others, and so is node n2."""
    job = ["JobID|JobName|User|Cluster|State|Submit|Start|End|NNodes|AllocTRES|NodeList"]
    job += ["7|train|ann|tiger|FAILED|2026-11-15T07:00:00|2026-11-15T07:06:45|2026-11-15T07:07:30|1|gres/gpu=1|n1"]
    files = {"sacct.txt": "\n".join([*job, ""])}
    for node, memory in (("n1", leaking), ("n2", leaking)):
        rows = [
            {
                "ts_ms": row["ts_ms"],
                "node": node,
                "gpu_uuid": f"GPU-{node}",
                "gpu_busy_ratio": 0.9,
                "memory_used_bytes": row["mem_used"],
                "memory_total_bytes": TOTAL,
            }
            for row in samples(60, memory)
        ]
        files[f"{node}/cctf/gpu_metrics.jsonl"] = "".join(f"{json.dumps(row)}\n" for row in rows)
    lake = built_from(tmp_path / "built", files)
    (phase,) = document("--job", "7", "--lake", lake.root)
    assert (phase["node"], phase["gpu"], phase["kind"]) == ("n1", "GPU-n1", "leak")
    assert milliseconds(phase["began_at"]) == BEGIN_MS + 22_250
    assert milliseconds(phase["ended_at"]) == BEGIN_MS + 50_000, "the job ended then"
    assert document("--job", "7", "--cluster", "tiger", "--lake", lake.root, "--until", "2026-11-15T07:07:00") == []
    for arguments in (["--job", "8"], ["--job", "7", "--cluster", "lion"], ["--job", "7", "--since", "2027-01-01"]):
        assert failure(*arguments, "--lake", lake.root).message.startswith("the lake has no samples of GPUs of job '")


def test_telemetry_is_given_or_a_job_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "run.jsonl", samples(10))
    for arguments in ([], [path, "--job", "7"], [path, "--cluster", "tiger"], ["--cluster", "tiger"]):
        assert failure(*arguments).message == "telemetry is needed once"


def test_names_of_the_data_steer_no_terminal_and_no_page(tmp_path: Path) -> None:
    rows = [*samples(60, leaking, node=HOSTILE, uuid=HOSTILE), *samples(60, node="n2", uuid="GPU-1")]
    answer = training(written(tmp_path / "run.jsonl", rows), "--plot", tmp_path / "page.html")
    assert answer.exit_code == 0
    assert "\x1b" not in answer.output
    assert answer.stdout.splitlines()[-1] == str(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "<img src=x" not in page
    assert "&lt;img src=x onerror=alert(1)&gt;" in page


def test_what_cannot_be_read_ends_with_2_and_says_what_could(tmp_path: Path) -> None:
    good = written(tmp_path / "run.jsonl", samples(10))
    assert "no such file" in failure(tmp_path / "none").message.lower()
    assert failure(written(tmp_path / "poem.txt", ["roses are red"])).message.endswith("is no telemetry that we know")
    assert failure(written(tmp_path / "host.jsonl", [{"ts_ms": BEGIN_MS, "cpu_util": 1.0}])).message.endswith(
        "has no samples of GPUs in that time"
    )
    assert "no such file of steps" in failure(good, "--steps", tmp_path / "none").message
    poem = tmp_path / "poem.txt"
    assert failure(good, "--steps", poem).message == f"{poem} has no step with a time"
    other = written(tmp_path / "steps.jsonl", [{"ts_ms": BEGIN_MS - 9_000_000, "step_ms": 1}])
    error = failure(good, "--steps", other)
    assert "ended while the telemetry was taken, 2026-11-15 07:06:40 to 2026-11-15 07:06:49 UTC" in error.message
    assert "--time-zone" in error.hint
    assert failure(good, "--since", "2027-01-01").hint == "it covers 2026-11-15 07:06:40 to 2026-11-15 07:06:49 UTC"
    assert failure(good, "--time-zone", "Mars").message == "no time zone named 'Mars'"


def test_rows_that_cannot_be_read_are_counted_and_do_no_harm(tmp_path: Path) -> None:
    telemetry = written(tmp_path / "run.jsonl", [*samples(60), "{broken", '{"ts_ms": "never"}'])
    rows = [*paused(60, 30, 45), "{broken", {"ts_ms": BEGIN_MS, "step_ms": -1}, {"ts_ms": "x", "step_ms": 1}]
    steps = written(tmp_path / "steps.jsonl", rows)
    answer = training(telemetry, "--steps", steps)
    assert "2 rows of the telemetry could not be read and were left out." in answer.stderr
    assert "3 rows of the steps could not be read and were left out." in answer.stderr
    assert answer.stdout.startswith("1 phase in 60 s of 1 GPU\n")


def test_rare_samples_are_reported(tmp_path: Path) -> None:
    rows = [{**row, "ts_ms": BEGIN_MS + place * 15_000} for place, row in enumerate(samples(15))]
    answer = training(written(tmp_path / "run.jsonl", rows))
    assert "Samples are 15 s apart: phases that last only a few samples are not seen." in answer.stderr
    assert answer.stdout == "nothing unusual in 15 min of 1 GPU\n"
    # A pause that one look fell into, by chance, may have been a short one.
    steps = written(tmp_path / "steps.jsonl", paused(900, 748, 752))
    assert document(tmp_path / "run.jsonl", "--steps", steps) == []

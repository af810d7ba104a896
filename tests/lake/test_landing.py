"""Landing: nothing is lost, nothing lands twice, and a bad row costs only itself."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from conftest import count_of, rows_of
from examples import cases
from gpulake.core.clock import FrozenClock
from gpulake.core.errors import InputError, LakeError
from gpulake.core.progress import silent
from gpulake.core.types import Landing
from gpulake.lake import Lake, blocks
from gpulake.land.landing import land

JOB = "4b3f04b66a525d2df903eb16,8cb3bec23d14,58540f191766,Terminated,4550879.0,4551416.0"
WriteCsv = Callable[..., Path]


def land_one(lake: Lake, path: Path, clock: FrozenClock, is_replacing: bool = False) -> Landing:
    with lake.writing():
        (landing,) = land(lake, [path], clock, silent, is_replacing=is_replacing).landings
    return landing


def test_a_row_lands_in_the_sources_words_with_its_types(lake: Lake, clock: FrozenClock, write_csv: WriteCsv) -> None:
    land_one(lake, write_csv("pai_job_table", [JOB, "1e2147483648,,u,Waiting,,"]), clock)
    assert rows_of(lake, "FROM bronze_job_events ORDER BY job_name") == [
        {
            "job_name": "1e2147483648",
            "inst_id": None,
            "user": "u",
            "status": "Waiting",
            "start_time": None,
            "end_time": None,
        },
        {
            "job_name": "4b3f04b66a525d2df903eb16",
            "inst_id": "8cb3bec23d14",
            "user": "58540f191766",
            "status": "Terminated",
            "start_time": 4550879.0,
            "end_time": 4551416.0,
        },
    ]


def test_bad_rows_go_to_quarantine_with_file_line_and_reason(
    lake: Lake, clock: FrozenClock, write_csv: WriteCsv
) -> None:
    lines = [JOB, "too,few", "", "j,i,u,Failed,noon,2.0", ",i,u,Failed,1.0,2.0", "j,i,u,Failed,1.0,2.0,9", JOB]
    path = write_csv("pai_job_table", lines)
    landing = land_one(lake, path, clock)
    assert (landing.rows_read, landing.rows_landed, landing.rows_quarantined) == (6, 2, 4)
    kept = rows_of(lake, "SELECT source, line_number, reason, row_text FROM quarantine ORDER BY line_number")
    cast = "start_time is 'noon', which is not a number"
    assert kept == [
        {"source": str(path), "line_number": 2, "reason": "2 columns where 6 are expected", "row_text": "too,few"},
        {"source": str(path), "line_number": 4, "reason": cast, "row_text": "j,i,u,Failed,noon,2.0"},
        {"source": str(path), "line_number": 5, "reason": "job_name is empty", "row_text": ",i,u,Failed,1.0,2.0"},
        {
            "source": str(path),
            "line_number": 6,
            "reason": "7 columns where 6 are expected",
            "row_text": "j,i,u,Failed,1.0,2.0,9",
        },
    ]


def test_a_bad_number_is_found_on_its_line_deep_in_a_file(lake: Lake, clock: FrozenClock, write_csv: WriteCsv) -> None:
    lines = [JOB] * 60_000
    lines[43_210] = "j,i,u,Failed,noon,2.0"
    landing = land_one(lake, write_csv("pai_job_table", lines), clock)
    assert (landing.rows_landed, landing.rows_quarantined) == (59_999, 1)
    assert rows_of(lake, "SELECT line_number FROM quarantine") == [{"line_number": 43_211}]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (b"a\xff,i,u,T,1.0,2.0\r\n", "not UTF-8"),
        (b"a\x00,i,u,T,1.0,2.0\r\n", "control character in the row"),
        (b"a\ra,i,u,T,1.0,2.0\n", "control character in the row"),
        (b"a,i,u,T,1.0,2.0\ra,i,u,T,1.0,2.0\n", "control character in the row"),
        (b"a" * 1_100_000 + b",i,u,T,1.0,2.0\r\n", "row of 1100014 bytes; the longest allowed has 1048576"),
    ],
    ids=["encoding", "null byte", "carriage return", "carriage return for a line feed", "endless row"],
)
def test_bytes_that_trip_the_fast_reader_cost_one_row(
    lake: Lake, clock: FrozenClock, write_csv: WriteCsv, row: bytes, reason: str
) -> None:
    good = JOB.encode() + b"\n"
    landing = land_one(lake, write_csv("pai_job_table", good + row + good), clock)
    assert (landing.rows_read, landing.rows_landed) == (3, 2)
    assert rows_of(lake, "SELECT line_number, reason FROM quarantine") == [{"line_number": 2, "reason": reason}]


def test_windows_line_ends_and_a_missing_last_one_are_no_fault(
    lake: Lake, clock: FrozenClock, write_csv: WriteCsv
) -> None:
    landing = land_one(lake, write_csv("pai_job_table", f"{JOB}\r\n{JOB}".encode()), clock)
    assert (landing.rows_read, landing.rows_landed, landing.rows_quarantined) == (2, 2, 0)
    assert rows_of(lake, "SELECT DISTINCT end_time FROM bronze_job_events") == [{"end_time": 4551416.0}]


def test_blank_lines_are_no_rows(lake: Lake, clock: FrozenClock, write_csv: WriteCsv) -> None:
    landing = land_one(lake, write_csv("pai_job_table", f"{JOB}\n\n{JOB}\n".encode()), clock)
    assert (landing.rows_read, landing.rows_landed, landing.rows_quarantined) == (2, 2, 0)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("block_bytes", [200, 333, 1000])
def test_rows_are_the_same_wherever_blocks_are_cut(
    lake: Lake, clock: FrozenClock, write_csv: WriteCsv, monkeypatch: pytest.MonkeyPatch, end: bytes, block_bytes: int
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", block_bytes)
    content = b"".join(JOB.replace("4551416.0", f"{number}.5").encode() + end for number in range(50))
    landing = land_one(lake, write_csv("pai_job_table", content), clock)
    assert (landing.rows_landed, landing.sha256) == (50, hashlib.sha256(content).hexdigest())
    found = rows_of(lake, "SELECT end_time, user FROM bronze_job_events ORDER BY end_time")
    assert found == [{"end_time": number + 0.5, "user": JOB.split(",")[2]} for number in range(50)]


def test_the_same_content_lands_once_wherever_it_lies(lake: Lake, clock: FrozenClock, write_csv: WriteCsv) -> None:
    first = land_one(lake, write_csv("pai_job_table", [JOB]), clock)
    again = land_one(lake, write_csv("pai_job_table", [JOB]), clock)
    elsewhere = land_one(lake, write_csv("pai_job_table", [JOB], folder="copy"), clock)
    assert (first.is_new, again.is_new, elsewhere.is_new) == (True, False, False)
    assert count_of(lake, "bronze_job_events") == 1


def test_a_changed_file_is_a_new_version_that_takes_the_place_of_the_old(
    lake: Lake, clock: FrozenClock, write_csv: WriteCsv
) -> None:
    other = JOB.replace("Terminated", "Failed")
    contents = ([JOB], [other, other], [JOB])
    versions = [land_one(lake, write_csv("pai_job_table", lines), clock, is_replacing=True) for lines in contents]
    assert [landing.version for landing in versions] == [1, 2, 3]
    assert rows_of(lake, "SELECT status FROM bronze_job_events") == [{"status": "Terminated"}]
    assert rows_of(lake, "SELECT version, rows_landed FROM landings ORDER BY version") == [
        {"version": 1, "rows_landed": 1},
        {"version": 2, "rows_landed": 2},
        {"version": 3, "rows_landed": 1},
    ]


def test_two_days_of_one_table_add_up(lake: Lake, clock: FrozenClock, write_csv: WriteCsv) -> None:
    land_one(lake, write_csv("pai_job_table", [JOB], folder="monday"), clock)
    land_one(lake, write_csv("pai_job_table", [JOB.replace("4b3f", "ffff")], folder="tuesday"), clock)
    assert count_of(lake, "bronze_job_events") == 2


def test_a_moved_file_and_a_new_one_in_its_place_both_count(
    lake: Lake, clock: FrozenClock, write_csv: WriteCsv
) -> None:
    land_one(lake, write_csv("pai_job_table", [JOB, JOB]), clock)
    moved = write_csv("pai_job_table", [JOB, JOB], folder="archive")
    fresh = write_csv("pai_job_table", [JOB.replace("4b3f", "ffff")])
    with lake.writing():
        landings = land(lake, [moved, fresh], clock, silent).landings
    assert [landing.is_new for landing in landings] == [False, True]
    assert count_of(lake, "bronze_job_events") == 3


def test_a_file_that_becomes_a_copy_of_another_gives_up_its_old_rows(
    lake: Lake, clock: FrozenClock, write_csv: WriteCsv
) -> None:
    land_one(lake, write_csv("pai_job_table", [JOB], folder="a"), clock)
    land_one(lake, write_csv("pai_job_table", [JOB.replace("4b3f", "ffff")], folder="b"), clock)
    land_one(lake, write_csv("pai_job_table", [JOB], folder="b"), clock, is_replacing=True)
    assert rows_of(lake, "SELECT job_name FROM bronze_job_events") == [{"job_name": "4b3f04b66a525d2df903eb16"}]
    land_one(lake, write_csv("pai_job_table", [JOB.replace("4b3f", "eeee")], folder="a"), clock, is_replacing=True)
    assert count_of(lake, "bronze_job_events") == 2


def test_a_path_that_now_holds_another_table_gives_up_its_old_rows(
    lake: Lake, clock: FrozenClock, tmp_path: Path
) -> None:
    path = tmp_path / "data.csv"
    path.write_text("machine,gpu_type,cap_cpu,cap_mem,cap_gpu\nm,T4,96,512,2\n")
    land_one(lake, path, clock)
    path.write_text("job_name,inst_id,user,status,start_time,end_time\nj,i,u,Failed,1.0,2.0\n")
    land_one(lake, path, clock, is_replacing=True)
    assert (count_of(lake, "bronze_machine_spec"), count_of(lake, "bronze_job_events")) == (0, 1)


@pytest.mark.parametrize("value", ["nan", "inf", "1e308", "-1e12", "-1.0", "1e18"])
def test_a_time_that_cannot_be_is_quarantined(lake: Lake, clock: FrozenClock, write_csv: WriteCsv, value: str) -> None:
    landing = land_one(lake, write_csv("pai_job_table", [JOB, f"j,i,u,Failed,{value},2.0"]), clock)
    assert (landing.rows_landed, landing.rows_quarantined) == (1, 1)
    reason = f"start_time is {value}, which is out of range"
    assert rows_of(lake, "SELECT line_number, reason FROM quarantine") == [{"line_number": 2, "reason": reason}]


def test_quarantined_rows_go_with_the_version_that_held_them(
    lake: Lake, clock: FrozenClock, write_csv: WriteCsv
) -> None:
    land_one(lake, write_csv("pai_job_table", [JOB, "too,few"]), clock)
    land_one(lake, write_csv("pai_job_table", [JOB]), clock, is_replacing=True)
    assert count_of(lake, "quarantine") == 0


def test_a_file_of_which_nothing_parses_lands_nothing(lake: Lake, clock: FrozenClock, write_csv: WriteCsv) -> None:
    with pytest.raises(InputError, match=r"no row of .* can be read as job events: start_time is 'noon'") as raised:
        land_one(lake, write_csv("pai_job_table", ["j,i,u,Failed,noon,2.0"]), clock)
    assert "job_name, inst_id, user" in raised.value.hint
    assert rows_of(lake, "SELECT count(*) AS n FROM landings") == [{"n": 0}]


def test_a_second_writer_gets_an_error(lake: Lake) -> None:
    with lake.writing(), pytest.raises(LakeError, match="another gpulake is writing"), lake.writing():
        pass


FIELD = st.one_of(
    st.text(alphabet="abc019.eE+- \t\"'é", max_size=6),
    st.sampled_from(["", "1.0", "nan", "inf", "1e999", "NULL", "0x10", "1_000", "Terminated"]),
)
ROW = st.one_of(
    st.just(JOB),
    st.lists(FIELD, min_size=1, max_size=8).map(",".join),
    st.sampled_from(["", "   ", ",,,,,", '"a,b",c,d,e,1,2']),
)


@pytest.mark.slow
@settings(max_examples=cases(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(rows=["0,,,,,,"], end="\n", is_cut=False)
@example(rows=["0,,,,,,", "too,few", ",,,,,"], end="\r\n", is_cut=True)
@given(rows=st.lists(ROW, min_size=1, max_size=12), end=st.sampled_from(["\n", "\r\n"]), is_cut=st.booleans())
def test_every_row_lands_or_is_quarantined_whatever_it_holds(
    tmp_path_factory: pytest.TempPathFactory, clock: FrozenClock, rows: list[str], end: str, is_cut: bool
) -> None:
    from gpulake.core.config import Config

    folder = tmp_path_factory.mktemp("any")
    path = folder / "pai_job_table.csv"
    path.write_text(JOB + end + end.join(rows) + ("" if is_cut else end), newline="")
    lake = Lake(Config(lake=folder / "lake", threads=1)).create()
    landing = land_one(lake, path, clock)
    # The oracle: a row is a line that is not empty; it must have a job name and six fields, and behind them only empty
    # ones.
    lines = [JOB, *rows]
    sound = [line for line in lines if line.count(",") >= 5 and line.split(",")[0] and not any(line.split(",")[6:])]
    assert landing.rows_read == sum(bool(line) for line in lines)
    assert landing.rows_read == landing.rows_landed + landing.rows_quarantined
    assert landing.rows_landed <= len(sound)
    assert count_of(lake, "bronze_job_events") == landing.rows_landed
    assert count_of(lake, "quarantine") == landing.rows_quarantined
    numbers = {str(row["line_number"]) for row in rows_of(lake, "SELECT line_number FROM quarantine")}
    broken = {str(number) for number, line in enumerate(lines, start=1) if line and line not in sound}
    assert broken <= numbers

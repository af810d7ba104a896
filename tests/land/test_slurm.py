"""What `sacct` prints: any fields, line breaks and all; and the dumps of a real cluster."""

from __future__ import annotations

import base64
import gzip
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import rows_of
from gpulake.core.clock import FrozenClock
from gpulake.core.errors import InputError
from gpulake.core.progress import silent
from gpulake.core.tables import bronze_tables
from gpulake.core.types import BadRow, CsvLayout, Landing, RowBlock, TextRow
from gpulake.lake import Lake
from gpulake.land.landing import land
from gpulake.land.readers import READERS, Sample

HEADER = "JobID|JobIDRaw|State|Start|End|AllocTRES|NodeList|ReqMem|NNodes|AdminComment|AveRSS"
COLUMNS = bronze_tables()["bronze_slurm_jobs"].column_names


def land_text(lake: Lake, clock: FrozenClock, path: Path, text: str | bytes) -> Landing:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return land_file(lake, clock, path)


def land_file(lake: Lake, clock: FrozenClock, path: Path) -> Landing:
    with lake.writing():
        (landing,) = land(lake, [path], clock, silent).landings
    return landing


def read(path: Path, text: str) -> list[dict[str, str] | BadRow]:
    """What the reader makes of a dump, without a lake: rows, then bad rows."""
    path.write_text(text, newline="")
    layout = layout_of(text)
    assert layout
    assert layout.rewrite
    empty = dict.fromkeys(COLUMNS, "")
    rows: list[dict[str, str]] = []
    bad: list[BadRow] = []
    for found in layout.rewrite(path):
        if isinstance(found, RowBlock):
            columns = (column.to_pylist() for column in found.columns.values())
            rows += [empty | dict(zip(found.columns, row, strict=True)) for row in zip(*columns, strict=True)]
        elif isinstance(found, TextRow):
            rows.append(empty | dict(zip(layout.file_columns, found.fields, strict=True)))
        elif isinstance(found, BadRow):
            bad.append(found)
    return [*rows, *bad]


def layout_of(text: str) -> CsvLayout | None:
    return READERS.get("slurm")().recognise(Sample("sacct.txt", tuple(filter(None, text.split("\n")))))


def test_a_row_keeps_sacct_s_words_and_gains_what_they_mean(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    comment = "JS1:" + base64.b64encode(gzip.compress(b'{"gpus": 16}')).decode()
    row = (
        "71_3|74|CANCELLED by 1000|2024-05-01T10:00:00|Unknown|cpu=64,gres/gpu:h100=16,gres/gpu=16|"
        f"gpu[09-10]|64Gn|2|{comment}|12K"
    )
    landing = land_text(lake, clock, tmp_path / "sacct.txt", f"{HEADER}\n{row}\n")
    assert (landing.table, landing.rows_landed) == ("bronze_slurm_jobs", 1)
    (found,) = rows_of(lake, "FROM bronze_slurm_jobs")
    assert {name: value for name, value in found.items() if value is not None} == {
        "job_id": "71_3",
        "raw_job_id": "74",
        "array_job_id": "71",
        "array_task_id": "3",
        "base_state": "CANCELLED",
        "cancelled_by": "1000",
        "gpus": 16.0,
        "gpu_type": "h100",
        "memory_bytes": float(128 << 30),
        "nodes": "gpu09,gpu10",
        "js1": '{"gpus":16}',
        "JobID": "71_3",
        "JobIDRaw": "74",
        "State": "CANCELLED by 1000",
        "Start": datetime(2024, 5, 1, 10),  # noqa: DTZ001
        "NNodes": 2.0,
        "ReqMem": "64Gn",
        "AllocTRES": "cpu=64,gres/gpu:h100=16,gres/gpu=16",
        "NodeList": "gpu[09-10]",
        "AdminComment": comment,
        "other_fields": '{"AveRSS":"12K"}',
    }


def test_bad_rows_are_set_aside_with_their_line_and_reason(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    good = b"%d|COMPLETED|2024-05-01T10:00:00|gres/gpu=1|n1|bash"
    lines = [
        b"JobID|State|Start|AllocTRES|NodeList|JobName",
        good % 1,
        b"2|COMPLETED|noon|gres/gpu=1|n1|bash",
        b"3|COMPLETED|None|gres/gpu=x|n1|bash",
        b"4|COMPLETED|None|gres/gpu=1|n[1|bash",
        b"5|COMPLETED|None|gres/gpu=1|n1|b\xffsh",
        b"6|COMPLETED|None|gres/gpu=1|n1|ba|sh",
        b"7|COMPLETED|None",
        b"",
        good % 8,
        b"slurm_load: error",
        good % 9,
        b"|COMPLETED|None|gres/gpu=1|n1|bash",
        b"10|?|None|gres/gpu=1|n1|bash",
        b"11|COMPLETED|None",
    ]
    landing = land_text(lake, clock, tmp_path / "sacct.txt", b"\n".join(lines))
    assert (landing.rows_read, landing.rows_landed, landing.rows_quarantined) == (13, 4, 9)
    assert rows_of(lake, "SELECT line_number AS line, reason FROM quarantine ORDER BY 1") == [
        {"line": 3, "reason": "Start is 'noon', which is not a local time"},
        {"line": 4, "reason": "'gres/gpu=x' has GPUs that are not a number"},
        {"line": 5, "reason": "'n[1' is not a list of hosts"},
        {"line": 6, "reason": "not UTF-8"},
        {"line": 8, "reason": "3 fields where 6 are expected"},
        {"line": 11, "reason": "1 fields where 6 are expected"},
        {"line": 13, "reason": "'' is not the id of a job or a step"},
        {"line": 14, "reason": "'?' is not a state"},
        {"line": 15, "reason": "3 fields where 6 are expected"},
    ]


def test_a_field_of_many_lines_is_joined_and_keeps_its_place(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    text = "JobID|State|SubmitLine|User\n1|FAILED|sbatch \n\n --wrap a|u\n2|FAILED|x|u\n3|soon|a\nb|u\n"
    landing = land_text(lake, clock, tmp_path / "sacct.txt", text)
    assert (landing.rows_read, landing.rows_landed) == (3, 2)
    assert rows_of(lake, 'SELECT JobID, SubmitLine AS line, "User" AS u FROM bronze_slurm_jobs ORDER BY 1') == [
        {"JobID": "1", "line": r"sbatch \n\n --wrap a", "u": "u"},
        {"JobID": "2", "line": "x", "u": "u"},
    ]
    kept = rows_of(lake, "SELECT line_number, row_text FROM quarantine")
    assert kept == [{"line_number": 6, "row_text": "3|soon|a\nb|u"}]


def test_two_short_rows_are_not_taken_for_one(tmp_path: Path) -> None:
    rows = read(tmp_path / "sacct.txt", "JobID|State|User|Account|QOS\n1|FAILED|u\n2|FAILED|u\n")
    assert rows == [
        BadRow(2, "3 fields where 5 are expected", "1|FAILED|u"),
        BadRow(3, "3 fields where 5 are expected", "2|FAILED|u"),
    ]


@pytest.mark.parametrize("delimiter", ["|", "|#", ",", "\t", ";;"])
@pytest.mark.parametrize("is_closed", [True, False], ids=["parsable", "parsable2"])
def test_the_header_tells_the_delimiter(tmp_path: Path, delimiter: str, is_closed: bool) -> None:
    lines = [["State", "JobIDRaw", "User"], ["RUNNING", "5.batch", "u"]]
    text = "".join(delimiter.join(line) + (delimiter if is_closed else "") + "\n" for line in lines)
    (row,) = read(tmp_path / "sacct.txt", text)
    assert isinstance(row, dict)
    assert (row["raw_job_id"], row["step"], row["State"], row["User"]) == ("5", "batch", "RUNNING", "u")


def test_numbers_that_stand_for_none_are_none(tmp_path: Path) -> None:
    text = "JobID|State|TimelimitRaw|ConsumedEnergyRaw|Reserved\n1|PENDING|UNLIMITED|18446744073709551614|00:01:00\n"
    (row,) = read(tmp_path / "sacct.txt", text)
    assert isinstance(row, dict)
    assert (row["TimelimitRaw"], row["ConsumedEnergyRaw"], row["Planned"]) == ("", "", "00:01:00")


@pytest.mark.parametrize(
    ("header", "values", "expected"),
    [
        ("Elapsed", "1-00:00:01", "86401"),
        ("Elapsed|ElapsedRaw", "00:01:00|61", "61"),
        ("Elapsed|ElapsedRaw", "00:01:00|", "60"),
        ("Elapsed", "INVALID", ""),
    ],
)
def test_the_run_time_is_in_seconds(tmp_path: Path, header: str, values: str, expected: str) -> None:
    (row,) = read(tmp_path / "sacct.txt", f"JobID|State|{header}\n1|FAILED|{values}\n")
    assert isinstance(row, dict)
    assert row["ElapsedRaw"] == expected


def test_a_column_that_comes_twice_counts_once(tmp_path: Path) -> None:
    (row,) = read(tmp_path / "sacct.txt", "JobID|State|User|User\n1|FAILED|u|v\n")
    assert isinstance(row, dict)
    assert (row["User"], row["other_fields"]) == ("u", '{"User":"v"}')


@pytest.mark.parametrize(
    "first", ["JOBID|STATE", "JobID|JobName", "JobID  State", "JobID", "State|User", "job_id,state", "JobID|State|%"]
)
def test_other_headers_are_not_ours(first: str) -> None:
    assert layout_of(first) is None


WORD = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="|\ufffd\ufeff"), max_size=8)
ROW = st.tuples(st.integers(1, 10**12), st.sampled_from(["FAILED", "CANCELLED by 7"]), WORD, WORD)


@given(rows=st.lists(ROW, min_size=1, max_size=8))
def test_rows_without_line_breaks_come_back_as_they_went(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, str, str, str]]
) -> None:
    lines = ["JobID|State|JobName|Account", *("|".join(map(str, row)) for row in rows)]
    found = read(tmp_path_factory.mktemp("sacct") / "sacct.txt", "\n".join(lines) + "\n")
    assert [tuple(row[name] for name in lines[0].split("|")) for row in found if isinstance(row, dict)] == [
        (str(job), *others) for job, *others in rows
    ]


@given(st.lists(st.text("0129|_.[]+, \tabCOMPLETED\r\x1f", max_size=30), max_size=8))
def test_every_line_of_any_dump_is_a_row_or_a_part_of_one(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    text = "\n".join(["JobID|State|NodeList", *lines])
    found = read(tmp_path_factory.mktemp("sacct") / "sacct.txt", text)
    kept = sum(row.text.count("\n") + 1 if isinstance(row, BadRow) else 1 for row in found)
    assert kept <= len(lines)
    assert len(found) <= sum(bool(line.rstrip("\r")) for line in lines)


REAL = {
    "fake-line-break": (4, 0),
    "multiple-multiline": (6, 0),
    "one-multiline": (4, 0),
    "output": (68, 0),
    "output-invalid-utf8": (10, 1),
    "output-midnight-edge-case": (1186, 0),
    "output-midnight-edge-case-small": (11, 0),
    "running-output": (10, 0),
    "running-output-large": (5040, 0),
}


@pytest.mark.slow
@pytest.mark.real
def test_the_real_dumps_land_whole(lake: Lake, clock: FrozenClock, real_data: Path) -> None:
    landings = {name: land_file(lake, clock, real_data / f"slurm/sample-sacct-{name}.txt") for name in REAL}
    assert {name: (landing.rows_landed, landing.rows_quarantined) for name, landing in landings.items()} == REAL
    assert all(landing.rows_read == sum(REAL[name]) for name, landing in landings.items())
    assert rows_of(lake, "SELECT line_number, reason FROM quarantine") == [{"line_number": 12, "reason": "not UTF-8"}]
    large = """
    SELECT count(DISTINCT raw_job_id) AS jobs, sum(gpus) AS gpus, count("End") AS ended, count(nodes) AS placed
    FROM bronze_slurm_jobs WHERE step = 'extern' AND base_state = 'RUNNING'
    """
    assert rows_of(lake, large) == [{"jobs": 1, "gpus": 5050.0, "ended": 0, "placed": 5050}]


@pytest.mark.real
@pytest.mark.parametrize("name", ["fake-line-break", "multiple-multiline", "one-multiline"])
def test_broken_lines_of_real_dumps_are_joined_as_expected(tmp_path: Path, real_data: Path, name: str) -> None:
    broken, expected = (real_data / f"slurm/sample-sacct-{name}{end}.txt" for end in ("", "-expected"))
    assert read(tmp_path / "a.txt", broken.read_text()) == read(tmp_path / "b.txt", expected.read_text())


@pytest.mark.real
def test_a_real_dump_of_which_nothing_is_whole_is_refused(lake: Lake, clock: FrozenClock, real_data: Path) -> None:
    with pytest.raises(InputError, match=r"no row of .* can be read as slurm jobs: 93 fields where 109 are expected"):
        land_file(lake, clock, real_data / "slurm" / "sample-sacct-output-with-invalid-lines.txt")


@pytest.mark.real
def test_what_other_commands_of_slurm_print_is_left_alone(lake: Lake, clock: FrozenClock, real_data: Path) -> None:
    read = ("sample-sacct-", "sample-sinfo-", "sample-scontrol-")
    others = [path for path in (real_data / "slurm").glob("*.txt") if not path.name.startswith(read)]
    for path in others:
        with pytest.raises(InputError, match="no reader recognises"):
            land_file(lake, clock, path)
    assert len(others) == 6

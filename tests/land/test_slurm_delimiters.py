"""sacct quotes nothing: rows in which a text holds the delimiter."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulake.core.types import BadRow, TextRow
from gpulake.formats.sacct import Header, header_of, joined_rows

NAMES = "JobID|JobName|User|Account|State|Submit|Start|End|ElapsedRaw|AllocTRES|NodeList"
REST = "ann|math|COMPLETED|2024-05-01T09:00:00|2024-05-01T10:00:00|2024-05-01T11:00:00|3600|cpu=8,gres/gpu=4|gpu[01-02]"


def header(names: str) -> Header:
    found = header_of(names)
    assert found is not None
    return found


def read(names: str, *lines: str) -> list[dict[str, str] | BadRow]:
    of = header(names)
    rows = joined_rows(((number, line) for number, line in enumerate(lines, start=2)), of)
    return [row if isinstance(row, BadRow) else dict(zip(of.names, row.fields, strict=True)) for row in rows]


def whole(names: str, *fields: str) -> dict[str, str]:
    return dict(zip(names.split("|"), fields, strict=True))


@pytest.mark.parametrize("name", ["a|b", "lr=1|COMPLETED", "|", "||x||", "a|b|c|d|e|f|g|h", "2024-05-01T09:00:00|1"])
def test_a_name_with_a_delimiter_is_kept(name: str) -> None:
    assert read(NAMES, f"1|{name}|{REST}") == [whole(NAMES, "1", name, *REST.split("|"))]


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("Constraints", "a100|h100"),
        ("Comment", "see a | b"),
        ("AdminComment", "a|b"),
        ("SubmitLine", "sbatch --wrap 'cat x | sort || true'"),
        ("WorkDir", "/home/a|b"),
    ],
)
def test_texts_beside_each_other_are_reported_apart_by_what_they_hold(column: str, text: str) -> None:
    names = f"{NAMES}|Comment|Constraints|ExitCode|SubmitLine|Restarts|AdminComment|WorkDir"
    fields = whole(names, "1", "train", *REST.split("|"), "", "", "0:0", "sbatch x", "0", "JS1:Short", "/home")
    if column == "AdminComment":
        fields["WorkDir"] = ""
    fields[column] = text
    assert read(names, "|".join(fields.values())) == [fields]


def test_a_delimiter_and_a_line_break_in_one_text() -> None:
    names = "JobID|State|SubmitLine|User"
    lines = ["1|FAILED|sbatch --wrap 'a | b", "", "c | d | e'|ann", "2|FAILED|sbatch x|bob"]
    assert read(names, *lines) == [
        whole(names, "1", "FAILED", r"sbatch --wrap 'a | b\n\nc | d | e'", "ann"),
        whole(names, "2", "FAILED", "sbatch x", "bob"),
    ]


def test_where_a_delimiter_belongs_is_not_guessed() -> None:
    names = "JobID|State|JobName|Comment"
    forged = "JobID|JobName|User|State|Comment"
    assert read(names, "1|FAILED|a|b|c", "2|FAILED|a|b") == [
        BadRow(2, "5 fields where 4 are expected, and more than one way to join them", "1|FAILED|a|b|c"),
        whole(names, "2", "FAILED", "a", "b"),
    ]
    # The job of ann, or one of bob by a name that somebody chose well.
    (found,) = read(forged, "1|x|bob|COMPLETED|ann|FAILED|y")
    assert isinstance(found, BadRow)


def test_more_fields_than_fit_in_any_way_are_set_aside() -> None:
    assert read("JobID|State|User", "1|FAILED|ann|x") == [
        BadRow(2, "4 fields where 3 are expected", "1|FAILED|ann|x"),
    ]
    many = f"1|{'|' * 33}|{REST}"
    assert read(NAMES, many) == [BadRow(2, "44 fields where 11 are expected", many)]


def test_what_follows_an_odd_row_is_no_part_of_it() -> None:
    odd, error = f"1|x|{REST.replace('COMPLETED', 'DREAMING')}", "slurm_load: error"
    assert read(NAMES, odd, error, f"2|x|{REST}") == [
        whole(NAMES, *odd.split("|")),
        BadRow(3, "1 fields where 11 are expected", error),
        whole(NAMES, "2", "x", *REST.split("|")),
    ]


NAME = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.just("|"), max_size=20)


@given(name=NAME, before=st.integers(0, 10), is_closed=st.booleans())
def test_any_name_in_any_place_comes_back(name: str, before: int, is_closed: bool) -> None:
    names, fields = NAMES.split("|"), ["1", "", *REST.split("|")]
    names.insert(before, names.pop(1))
    fields.insert(before, fields.pop(1))
    fields[names.index("JobName")] = name
    end = "|" if is_closed else ""
    found = read("|".join(names) + end, "|".join(fields) + end)
    assert found == [dict(zip(names, fields, strict=True))]


TEXTS = ["JobName", "AdminComment", "SystemComment", "WorkDir", "SubmitLine"]


@pytest.mark.real
@pytest.mark.parametrize("name", ["output", "running-output"])
def test_in_rows_of_real_dumps_no_text_is_put_together_wrong(real_data: Path, name: str) -> None:
    lines = (real_data / "slurm" / f"sample-sacct-{name}.txt").read_text().splitlines()
    of = header(lines[0])
    texts = [text for text in TEXTS if text in of.names]
    for row in joined_rows(((number, line) for number, line in enumerate(lines[1:], start=2)), of):
        assert isinstance(row, TextRow)
        for text in texts:
            fields = list(row.fields)
            fields[of.names.index(text)] = of.delimiter.join(["/a", " b ", "c"])
            assert list(joined_rows(iter([(1, of.delimiter.join(fields))]), of)) == [
                TextRow(1, tuple(fields), of.delimiter.join(fields))
            ]

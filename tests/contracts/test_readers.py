"""What holds for every reader, whatever its format. A new reader adds an example and nothing else."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from attack.examples import EXAMPLES, Example
from hypothesis import given
from hypothesis import strategies as st

from conftest import rows_of
from gpulake.core.clock import FrozenClock
from gpulake.core.errors import InputError
from gpulake.core.progress import silent
from gpulake.core.tables import bronze_tables
from gpulake.lake import Lake
from gpulake.land.landing import land
from gpulake.land.readers import READERS, Sample

NAMES = [example.name for examples in EXAMPLES.values() for example in examples]


def sample_of(example: Example) -> Sample:
    text = example.whole.decode("utf-8-sig", "replace")
    return Sample(example.name, tuple(line for line in text.splitlines() if line))


@pytest.fixture(
    params=[(reader, example) for reader in READERS for example in EXAMPLES.get(reader, ())],
    ids=lambda pair: f"{pair[0]}-{pair[1].name}",
)
def example(request: pytest.FixtureRequest) -> Example:
    found: Example = request.param[1]
    return found


@pytest.mark.slow
def test_bad_rows_are_quarantined_counts_add_up_and_twice_is_once(
    lake: Lake, clock: FrozenClock, tmp_path: Path, example: Example
) -> None:
    path = tmp_path / example.name
    path.write_bytes(example.whole)
    for is_new in (True, False):
        with lake.writing():
            (landing,) = land(lake, [path], clock, silent).landings
        assert landing.is_new is is_new
        assert (landing.rows_read, landing.rows_landed, landing.rows_quarantined) == (3, 2, 1)
        assert rows_of(lake, f"SELECT count(*) AS n FROM {landing.table}") == [{"n": 2}]
        (kept,) = rows_of(lake, "FROM quarantine")
        assert kept["row_text"] == example.bad.strip()
        assert kept["reason"]
        assert kept["line_number"] == (example.good + example.bad).count("\n")


LINES = [
    (reader, example)
    for reader, examples in EXAMPLES.items()
    for example in examples
    if not example.content and not example.end
]


@pytest.mark.slow
@pytest.mark.parametrize(("reader", "example"), LINES, ids=[example.name for _, example in LINES])
def test_a_line_that_is_too_long_costs_its_own_row(
    lake: Lake, clock: FrozenClock, tmp_path: Path, reader: str, example: Example
) -> None:
    path = tmp_path / example.name
    long, last = b"long " + b"x" * (3 << 20) + b"\n", example.good.splitlines()[-1]
    path.write_bytes(example.good.encode() + long + f"{last}\n".encode())
    with lake.writing():
        (landing,) = land(lake, [path], clock, silent).landings
    good = 3 if reader != "helios" or "date" not in example.good else landing.rows_landed
    assert (landing.rows_landed, landing.rows_quarantined) == (good, 1)
    (kept,) = rows_of(lake, "FROM quarantine")
    assert kept["line_number"] == example.good.count("\n") + 1
    assert str(kept["row_text"]).startswith("long xxx")
    assert len(str(kept["row_text"])) <= 4096
    assert kept["reason"]


DOCUMENTS = [example for examples in EXAMPLES.values() for example in examples if example.end]


@pytest.mark.parametrize("example", DOCUMENTS, ids=lambda example: example.name)
def test_a_document_that_is_too_large_is_refused_or_quarantined(
    lake: Lake, clock: FrozenClock, tmp_path: Path, example: Example
) -> None:
    path = tmp_path / example.name
    path.write_bytes(example.good.encode() + b"x" * (40 << 20) + example.end.encode())
    with lake.writing(), suppress(InputError):
        (landing,) = land(lake, [path], clock, silent).landings
        assert landing.rows_quarantined > 0


def test_a_column_whose_name_is_not_utf_8_is_refused(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    path = tmp_path / "fragments.parquet"
    (content,) = (example.content for example in EXAMPLES["opendc"] if example.name == path.name)
    path.write_bytes(content.replace(b"duration", b"d\xf0ration"))
    with lake.writing(), pytest.raises(InputError, match="not a Parquet file that can be read"):
        land(lake, [path], clock, silent)


def test_every_reader_has_an_example_of_each_of_its_tables() -> None:
    lacking = [reader for reader in READERS if not EXAMPLES.get(reader)]
    assert not lacking, f"no example of {lacking}: add [[<table>.examples]] to src/gpulake/land/readers/<name>.toml"
    assert sorted(EXAMPLES) == list(READERS)
    samples = [(reader, sample_of(example)) for reader, examples in EXAMPLES.items() for example in examples]
    layouts = [READERS.get(reader)().recognise(sample) for reader, sample in samples]
    lacking_tables = set(bronze_tables()).difference(layout.table.name for layout in layouts if layout)
    assert not lacking_tables, f"no example of {sorted(lacking_tables)} that its reader recognises"


def test_no_reader_takes_what_is_anothers(example: Example) -> None:
    takers = [reader for reader in READERS if READERS.get(reader)().recognise(sample_of(example))]
    assert takers == [reader for reader, examples in EXAMPLES.items() if example in examples]


def test_no_two_columns_of_a_table_differ_only_in_their_letters_case() -> None:
    for table in bronze_tables().values():
        assert len({name.lower() for name in table.column_names}) == len(table.columns), table.name


@given(st.lists(st.text(max_size=60), min_size=1, max_size=4).filter(any), st.sampled_from(NAMES))
def test_no_reader_breaks_on_any_text(lines: list[str], name: str) -> None:
    for reader in READERS:
        with suppress(InputError):
            READERS.get(reader)().recognise(Sample(name, tuple(line for line in lines if line)))

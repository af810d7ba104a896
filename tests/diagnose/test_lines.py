"""What stands before the words of a line."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from examples import each
from gpulake.diagnose.story.lines import ParsedLine, parse_line


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]


@each(
    "text, said",
    [
        ("[rank3]: ValueError: x", ParsedLine("ValueError: x", rank=3)),
        ("[default5]: ValueError: x", ParsedLine("ValueError: x", rank=5)),
        ("[0]: ValueError: x", ParsedLine("ValueError: x", rank=0)),
        (" 12:   File 'a'", ParsedLine("  File 'a'", rank=12)),
        ("[1,4]<stderr>:KeyError: 3", ParsedLine("KeyError: 3", rank=4)),
        ("(Worker pid=77, ip=10.0.0.1) hello", ParsedLine("hello", pid=77, host="10.0.0.1", name="Worker")),
        ("(raylet) hello", ParsedLine("hello", name="raylet")),
        ("node1: hello", ParsedLine("hello", host="node1")),
        ("10.1.2.3: hello", ParsedLine("hello", host="10.1.2.3")),
        (
            "W1115 07:10:10.888000 1449 torch/distributed/elastic/api.py:900] hello",
            ParsedLine("hello", at(2024, 11, 15, 7, 10, 10, 888000), "warning", pid=1449),
        ),
        ("[E socket.cpp:462] [c10d] hello", ParsedLine("[c10d] hello", severity="error")),
        (
            "[2024-04-17 09:44:36,551] [INFO] [launch.py:324:main] hello",
            ParsedLine("hello", at(2024, 4, 17, 9, 44, 36, 551000), "info"),
        ),
        (" [2024-03-05 12:00:00] iteration 3", ParsedLine("iteration 3", at(2024, 3, 5, 12))),
        ("2024-03-05T12:00:00.5+02:00 hello", ParsedLine("hello", at(2024, 3, 5, 10, 0, 0, 500000))),
        (
            "[NeMo W 2023-05-01 12:00:01 nemo_logging:349] hello",
            ParsedLine("hello", at(2023, 5, 1, 12, 0, 1), "warning"),
        ),
        (
            "[WARNING|logging.py:328] 2025-12-16 21:28:25,863 >> hello",
            ParsedLine("hello", at(2025, 12, 16, 21, 28, 25, 863000), "warning"),
        ),
        (
            "12/16/2025 16:20:59 - ERROR - __main__ - x",
            ParsedLine("__main__ - x", at(2025, 12, 16, 16, 20, 59), "error"),
        ),
        ("INFO:torch.distributed.run:hello", ParsedLine("hello", severity="info")),
        ("gpu7:811:922 [1] NCCL WARN hello", ParsedLine("NCCL WARN hello", host="gpu7", pid=811)),
        ("[Sun Feb 23 16:24:18 2025] NVRM: hello", ParsedLine("NVRM: hello", at(2025, 2, 23, 16, 24, 18))),
        (
            "kern  :warn  : 2025-01-21T04:41:44,283302+00:00 NVRM: x",
            ParsedLine("NVRM: x", at(2025, 1, 21, 4, 41, 44, 283302), "warning"),
        ),
        (
            '{"log":"[rank1]: hello\\n","stream":"stderr","time":"2024-05-01T10:00:00Z"}',
            ParsedLine("hello", at(2024, 5, 1, 10), rank=1),
        ),
        ("  3%|▎  | 10/312 [00:43<20:20,  4.04s/it][rank0]: hello", ParsedLine("hello", rank=0)),
        ("old\r 10%|█ | 1/10 [00:01<00:09]\rhello", ParsedLine("hello")),
        ("ValueError: node1: no", ParsedLine("ValueError: node1: no")),
        ("  File 'x', line 3, in y", ParsedLine("  File 'x', line 3, in y")),
    ],
)
def test_a_line_is_reported_apart_from_what_its_writers_put_before_it(text: str, said: ParsedLine) -> None:
    assert parse_line(text, year=2024) == said


def test_the_time_of_an_mlperf_line_is_in_its_words() -> None:
    said = parse_line('0: :::MLLOG {"namespace": "", "time_ms": 1683716552632, "key": "run_stop"}')
    assert (said.rank, said.at) == (0, at(2023, 5, 10, 11, 2, 32, 632000))


def test_a_time_without_a_zone_is_of_the_zone_that_is_given() -> None:
    assert parse_line("2024-07-05 12:00:00 x", "Europe/Berlin").at == at(2024, 7, 5, 10)


def test_a_date_without_a_year_tells_no_time_unless_the_year_is_known() -> None:
    text = "E0811 19:10:32.605000 138 torch/x.py:900] hello"
    assert (parse_line(text).at, parse_line(text, year=2025).at) == (None, at(2025, 8, 11, 19, 10, 32, 605000))


@given(st.text())
def test_any_text_is_read_and_its_words_are_its_end(text: str) -> None:
    said = parse_line(text)
    if not text.startswith("{"):
        assert said.body in text


@given(
    st.sampled_from(["[rank7]: ", "7: ", "[default7]: ", "[rank7]:[2024-01-02 03:04:05,678] [INFO] "]),
    st.sampled_from(["hello", "ValueError: 3", "Traceback (most recent call last):", '  File "a.py", line 3, in f']),
)
def test_ranks_are_read_whatever_stands_behind_them(prefix: str, words: str) -> None:
    said = parse_line(prefix + words)
    assert (said.rank, said.body) == (7, words)

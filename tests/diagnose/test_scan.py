from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import cases
from gpulake.diagnose.logs import kept_lines, selection
from gpulake.diagnose.logs.digest import Digest, Line, Template
from gpulake.diagnose.logs.filters import Filters
from gpulake.diagnose.logs.markers import ERROR
from gpulake.diagnose.logs.reading import open_logs
from gpulake.diagnose.logs.scan import HEAD_LINES, TAIL_LINES, Scanner, scan
from gpulake.diagnose.logs.shapes import readable
from gpulake.diagnose.rulebook.book import Rulebook, compiled, shipped
from gpulake.diagnose.rulebook.rule import Rule

RULES = Rulebook(
    [
        Rule("nan", r"nan iterations: +[1-9]", "cause", (), reason="LossNaN"),
        Rule("memory", r"CUDA out of memory", "cause", (), unless="recovered", reason="OutOfMemoryError"),
        Rule("step", r"^step \d+", "progress", ()),
        Rule("xid", r"Xid \((?P<bus>[0-9a-f:.]+)\): 79\b", "cause", (), reason="XidError"),
    ]
)
NO_FILTERS = Filters(())


def digest_of(content: bytes, *, cuts: tuple[int, ...] = (), block_bytes: int = 1 << 19) -> Digest:
    scanner = Scanner(RULES, NO_FILTERS, "", block_bytes)
    places = [0, *sorted(cut % (len(content) + 1) for cut in cuts), len(content)]
    for begin, end in pairwise(places):
        scanner.feed(content[begin:end])
    return scanner.finish()


def numbers(digest: Digest) -> list[int]:
    return [line.number for line in digest.lines]


def hits(digest: Digest) -> list[Line]:
    return [line for line in digest.lines if line.is_hit]


def filler(count: int) -> list[bytes]:
    """Lines of which no two have the same shape."""
    return [b"quiet " + bytes(107 + int(digit) for digit in str(place)) for place in range(count)]


def test_a_short_log_is_kept_whole() -> None:
    digest = scan(
        "log", [b"step 1\n\n\x1b[31mCUDA out of me", b"mory\x1b[0m\r\nbad \xff\xfe\0 bytes\n"], RULES, NO_FILTERS
    )
    assert digest == Digest(
        "log",
        (
            Line(1, "step 1", is_hit=True, file="log"),
            Line(2, "", file="log"),
            Line(3, "CUDA out of memory", is_hit=True, file="log"),
            Line(4, "bad �� bytes", file="log"),
        ),
        lines_read=4,
        lines_kept=3,
        bytes_read=51,
        templates=(
            Template("step", 1, 1, "step 1", is_routine=False),
            Template("CUDA out of memory", 1, 3, "CUDA out of memory", is_routine=False),
            Template("bad �� bytes", 1, 4, "bad �� bytes", is_routine=False),
        ),
    )


def test_an_empty_log_is_empty() -> None:
    assert scan("log", [], RULES) == Digest("log", (), 0, 0, 0, ())
    assert scan("log", [b"", b""], RULES) == Digest("log", (), 0, 0, 0, ())


def test_of_a_long_log_head_and_tail_are_kept() -> None:
    lines = filler(5_000)
    digest = digest_of(b"\n".join(lines))
    assert numbers(digest) == [*range(1, HEAD_LINES + 1), *range(5_000 - TAIL_LINES + 1, 5_001)]
    assert digest.lines[-1].text == lines[-1].decode()
    assert digest.lines_read == 5_000


@pytest.mark.parametrize("block_bytes", [300, 1_000, 1 << 19])
def test_a_hit_keeps_its_context_over_the_ends_of_blocks(block_bytes: int) -> None:
    lines = filler(3_000)
    for number in range(700, 2_000, 97):
        lines[number - 1] = b"NVRM: Xid (0000:3b:00): 79, gone"
    digest = digest_of(b"\n".join(lines) + b"\n", block_bytes=block_bytes)
    wanted = {near for number in range(700, 2_000, 97) for near in range(number - 3, number + 4)}
    assert numbers(digest) == [*range(1, 201), *sorted(wanted), *range(2_601, 3_001)]
    assert [line.number for line in hits(digest)] == [*range(700, 2_000, 97)]


def test_a_rule_that_minds_digits_finds_the_one_line_among_many() -> None:
    lines = [b"iteration %d | number of nan iterations: 0 |" % step for step in range(50_000)]
    lines[30_000] = b"iteration 30000 | number of nan iterations: 3 |"
    digest = digest_of(b"\n".join(lines))
    assert hits(digest) == [Line(30_001, "iteration 30000 | number of nan iterations: 3 |", is_hit=True)]
    assert digest.lines_kept == 1


def test_of_lines_that_say_the_same_the_first_and_the_last_are_kept() -> None:
    lines = [b"step %d" % step for step in range(200_000)]
    digest = digest_of(b"\n".join(lines))
    kept = [*range(1, HEAD_LINES + 1), *range(200_000 - TAIL_LINES + 1, 200_001)]
    assert numbers(digest) == kept
    lines += filler(1_000)
    first, last = kept_lines.FIRST_HITS, kept_lines.LAST_HITS
    assert first < HEAD_LINES
    assert numbers(digest_of(b"\n".join(lines))) == [
        *range(1, HEAD_LINES + 1),
        *range(200_001 - last, 200_001),
        *range(201_001 - TAIL_LINES, 201_001),
    ]


def test_the_last_ones_are_found_though_most_lines_of_the_shape_are_none() -> None:
    lines = [b"nan iterations: %d" % (step % 500 == 0) for step in range(120_000)] + filler(1_000)
    wanted = [step + 1 for step in range(120_000) if step % 500 == 0]
    found = [line.number for line in hits(digest_of(b"\n".join(lines)))]
    assert found == wanted[: kept_lines.FIRST_HITS] + wanted[-kept_lines.LAST_HITS :]


def test_a_condition_takes_a_hit_back() -> None:
    digest = digest_of(b"CUDA out of memory, recovered\n")
    assert [line.is_hit for line in digest.lines] == [False]


def test_an_error_in_a_progress_bar_is_found_with_its_line() -> None:
    bar = b"\r".join(b"%d%%|###   | %d/100000" % (step // 1000, step) for step in range(100_000))
    digest = digest_of(b"begin\n" + bar + b"\rRuntimeError: CUDA out of memory\r\nend\n" + b"\n".join(filler(500)))
    assert digest.lines_read == 503
    assert hits(digest) == [Line(2, "RuntimeError: CUDA out of memory", is_hit=True)]


def test_of_a_progress_bar_what_a_terminal_would_show_is_kept() -> None:
    assert digest_of(b"10%\r50%\r100%\r\ndone\r\n").lines == (Line(1, "100%"), Line(2, "done"))


def test_a_line_without_end_is_read_in_pieces() -> None:
    line = b"x" * 3_000_000 + b" CUDA out of memory " + b"y" * 3_000_000
    digest = digest_of(b"one\n" + line + b"\nthree\n")
    assert digest.lines_read == 3
    assert {line.number for line in hits(digest)} == {2}
    assert "CUDA out of memory" in hits(digest)[0].text
    assert max(len(line.text) for line in digest.lines) <= kept_lines.LONG_LINE_BYTES
    assert [digest.lines[0], digest.lines[-1]] == [Line(1, "one"), Line(3, "three")]


def test_what_is_cut_in_two_between_pieces_is_found() -> None:
    for before in range(980, 1_030, 7):
        digest = digest_of(b"x" * before + b"CUDA out of memory" + b"y" * 5_000, block_bytes=1_000)
        assert "CUDA out of memory" in hits(digest)[0].text


def test_a_traceback_is_kept_whole() -> None:
    traceback = [b"[rank3]: Traceback (most recent call last):"]
    for depth in range(40):
        traceback += [b'[rank3]:   File "/app/%s.py", line %d, in f' % (b"abcdefghij"[depth % 10 :], depth)]
        traceback += [b"[rank3]:     call(%d)" % depth, b"[rank3]:     ^^^^^^^"]
    traceback += [b"[rank3]: mine.Trouble: it went wrong"]
    digest = digest_of(b"\n".join([*filler(1_000), *traceback, *filler(1_000)]))
    kept = set(numbers(digest))
    assert set(range(1_001, 1_001 + len(traceback))) <= kept


def test_tracebacks_of_many_ranks_that_are_mixed_are_kept_of_the_first() -> None:
    ranks = range(256)
    mixed = [b"[rank%d]: Traceback (most recent call last):" % rank for rank in ranks]
    for depth in range(12):
        mixed += [b'[rank%d]:   File "/app/%s.py", line 7, in f' % (rank, b"abcdefghijkl"[depth:]) for rank in ranks]
    mixed += [b"[rank%d]: KeyError: 'x'" % rank for rank in ranks]
    kept = {line.text for line in digest_of(b"\n".join([*filler(1_000), *mixed, *filler(1_000)])).lines}
    assert {line.decode() for line in mixed if line.startswith(b"[rank5]")} <= kept


LINES = st.sampled_from(
    [
        b"",
        b"step 12",
        b"step 7 loss 3.5",
        b"nan iterations: 0",
        b"nan iterations: 4",
        b"RuntimeError: CUDA out of memory",
        b"Traceback (most recent call last):",
        b'  File "a.py", line 3, in f',
        b"10%|#  |\r20%|## |\r",
        b"NVRM: Xid (0000:3b:00): 79, off",
        b"NVRM: Xid (0000:3b:00): 179, off",
        b"\x1b[32mINFO\x1b[0m fine",
        b"ERROR in \xff\xfe",
        b"w" * 300,
    ]
)
LOGS = st.tuples(st.lists(LINES, max_size=120), st.sampled_from([b"\n", b"\r\n"]), st.booleans()).map(
    lambda drawn: drawn[1].join(drawn[0]) + (drawn[1] if drawn[2] else b"")
)


@settings(max_examples=cases(150))
@given(LOGS, st.lists(st.integers(0, 10_000), max_size=30), st.sampled_from([350, 1_000, 5_000]))
def test_chunks_and_blocks_make_no_difference(content: bytes, cuts: list[int], block_bytes: int) -> None:
    whole = digest_of(content)
    assert digest_of(content, cuts=tuple(cuts)) == whole
    assert digest_of(content, block_bytes=block_bytes) == digest_of(content, cuts=tuple(cuts), block_bytes=block_bytes)
    assert digest_of(content, block_bytes=block_bytes).lines == whole.lines


@settings(max_examples=cases(60))
@given(st.binary(max_size=3_000), st.sampled_from([16, 64, 1 << 19]))
def test_any_bytes_can_be_read_a_byte_at_a_time(content: bytes, block_bytes: int) -> None:
    by_bytes = digest_of(content, cuts=tuple(range(len(content))), block_bytes=block_bytes)
    assert by_bytes == digest_of(content, block_bytes=block_bytes)
    assert by_bytes.lines_read == content.count(b"\n") + (not content.endswith(b"\n") and content != b"")


@settings(max_examples=cases(100))
@given(LOGS.filter(lambda content: b"\r" not in content))
def test_a_line_that_a_rule_or_a_marker_matches_is_never_dropped(content: bytes) -> None:
    digest = digest_of(content)
    marker = compiled(ERROR.pattern)
    shown = {line.number: line for line in digest.lines}
    telling = 0
    for number, line in enumerate(content.decode(errors="replace").replace("\x1b[32m", "").splitlines(), 1):
        is_reported = bool(marker.search(line))
        for hit in RULES.hits(line):
            assert shown[number].is_hit
            is_reported |= hit.rule.role == "cause"
        telling += is_reported
        assert number in shown
    assert digest.lines_kept >= telling


def test_lines_that_were_never_the_same_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpulake.diagnose.logs.census.MOST_SHAPES", 500)
    monkeypatch.setattr(selection, "MOST_SHAPES_SELECTED", 50)
    digest = digest_of(b"\n".join(filler(4_000) + [b"ERROR " + line for line in filler(4_000)]), block_bytes=4_096)
    assert digest.lines_read == digest.lines_kept == 8_000


HOSTILE_BYTES = 10 << 20


def _hostile(kind: str, size: int) -> Iterator[bytes]:
    chance = random.Random(7)
    made = 0
    while made < size:
        chunk = {
            "noise": lambda: chance.randbytes(1 << 20),
            "letters": lambda: b"\n".join(b"ERROR %x" % chance.getrandbits(160) for _ in range(20_000)),
            "hits": lambda: b"\n".join(b"CUDA out of memory " * 400 for _ in range(100)),
            "tiny": lambda: bytes(chance.choices(b"abcdefg\n\r", k=1 << 18)) * 4,
            "line": lambda: b"CUDA out of memory " * 50_000,
            "bar": lambda: b"\r 5% of RuntimeError" * 50_000,
            "tracebacks": lambda: b'  File "%x.py", line 3\n' % chance.getrandbits(99) * 30_000,
        }[kind]()
        made += len(chunk)
        yield chunk


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["noise", "letters", "hits", "tiny", "line", "bar", "tracebacks"])
def test_a_hostile_log_is_read_in_bounded_memory(kind: str) -> None:
    import tracemalloc

    tracemalloc.start()
    try:
        digest = scan("log", _hostile(kind, HOSTILE_BYTES), RULES)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert digest.bytes_read >= HOSTILE_BYTES
    assert peak < 8 * HOSTILE_BYTES


@settings(max_examples=cases(50))
@given(LOGS.filter(lambda content: b"\r" not in content), st.lists(st.integers(0, 10_000), max_size=5))
def test_a_scanner_may_be_asked_between_any_two_lines(content: bytes, places: list[int]) -> None:
    scanner = Scanner(RULES, NO_FILTERS)
    ends = sorted(content.rfind(b"\n", 0, place % (len(content) + 1)) + 1 for place in places)
    for begin, end in pairwise([0, *ends, len(content)]):
        scanner.finish()
        scanner.feed(content[begin:end])
    assert scanner.finish() == scan("", [content], RULES, NO_FILTERS)


@pytest.mark.slow
@pytest.mark.real
def test_of_real_logs_of_failures_the_lines_that_prove_it_are_kept(real_data: Path) -> None:
    cases = [json.loads(line) for line in (real_data / "failure_logs" / "cases.jsonl").read_text().splitlines()]
    quiet = b"all is quiet\n" * 1_000
    lost = []
    for case in cases:
        digest = scan(case["id"], [quiet, case["log"].encode(), b"\n", quiet], shipped())
        shown = "\n".join(line.text for line in digest.lines)
        lost += [(case["id"], words) for words in case["evidence"] if readable(words.encode()) not in shown]
    assert lost == []


@pytest.mark.slow
@pytest.mark.real
def test_of_real_logs_that_are_long_few_lines_are_kept(real_data: Path) -> None:
    read = kept = 0
    for file in open_logs(real_data / "mlperf_logs" / "logs").files:
        digest = scan(file.name, file.chunks(), shipped())
        read += digest.lines_read
        kept += digest.lines_kept
    assert read > 100_000
    assert kept / read < 0.1

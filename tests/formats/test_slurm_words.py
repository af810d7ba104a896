"""Slurm's small languages, by example and by property."""

from __future__ import annotations

import base64
import gzip
import json
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulake.formats import slurm as words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("123", words.JobId("123", True, "", "", "", "", "")),
        ("123.batch", words.JobId("123", True, "", "", "", "", "batch")),
        ("123_4", words.JobId("123_4", False, "123", "4", "", "", "")),
        ("123_4.extern", words.JobId("123_4", False, "123", "4", "", "", "extern")),
        ("123_[1-10%2]", words.JobId("123_[1-10%2]", False, "123", "[1-10%2]", "", "", "")),
        ("123+1.0", words.JobId("123+1", False, "", "", "123", "1", "0")),
        ("123.0+1", words.JobId("123", True, "", "", "", "", "0+1")),
    ],
)
def test_job_ids(text: str, expected: words.JobId) -> None:
    assert words.job_id(text) == expected


@pytest.mark.parametrize("text", ["", "batch", "12a", "1_", "1.", "1.2.3", "1+", "١"])
def test_what_is_no_job_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not the id of a job"):
        words.job_id(text)


def test_states_lose_who_cancelled() -> None:
    assert words.state("CANCELLED by 1185300516") == ("CANCELLED", "1185300516")
    assert words.state("OUT_OF_MEMORY") == ("OUT_OF_MEMORY", "")
    with pytest.raises(ValueError, match="is not a state"):
        words.state("2024-05-01T10:00:00")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ("", "")),
        ("cpu=4,mem=16G", ("0", "")),
        ("billing=6144,cpu=2048,gres/gpu=256,node=32", ("256", "")),
        ("cpu=64,gres/gpu:h100=16,gres/gpu=16", ("16", "h100")),
        ("gres/gpu:a100=2,gres/gpu:v100=3", ("5", "a100,v100")),
        ("gres/gpu:1g.10gb=2,gres/gpumem=80G,gres/gpuutil=99", ("2", "1g.10gb")),
    ],
)
def test_gpus_are_counted_once(text: str, expected: tuple[str, str]) -> None:
    assert words.gpus(text) == expected


@pytest.mark.parametrize("text", ["gres/gpu=many", "gres/gpu", "gres/gpu=-1", "gres/gpu=1.5", "cpu=1,,node=1"])
def test_gpus_that_do_not_parse_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"are not resources|not a number"):
        words.gpus(text)


NAME = st.text("abcdefghijklmnopqrstuvwxyz0123456789/:.-_", min_size=1, max_size=12)


@given(st.dictionaries(NAME, st.text("0123456789KMGT.:-", max_size=8), min_size=1))
def test_resources_come_back_as_they_went(held: dict[str, str]) -> None:
    assert words.resources(",".join(f"{name}={value}" for name, value in held.items())) == held


@given(st.dictionaries(st.text("abch0123", min_size=1, max_size=5), st.integers(0, 9999), min_size=1), st.booleans())
def test_the_sum_of_the_types_is_the_count(typed: dict[str, int], has_total: bool) -> None:
    items = [f"gres/gpu:{name}={count}" for name, count in typed.items()]
    items += [f"gres/gpu={sum(typed.values())}"] if has_total else []
    assert words.gpus(",".join(items)) == (str(sum(typed.values())), ",".join(sorted(typed)))


@pytest.mark.parametrize(
    ("asked", "wanted", "expected"),
    [
        ("64Gn", "", 2 * 64 << 30),
        ("4000Mc", "", 16 * 4000 << 20),
        ("62500G", "", 62500 << 30),
        ("1.50T", "", 1536 << 30),
        ("100", "", 100 << 20),
        ("64Gn", "cpu=16,mem=100G", 100 << 30),
        ("0n", "cpu=16,mem=0", None),
        ("", "", None),
        ("?", "", None),
    ],
)
def test_memory_is_that_of_all_of_the_job(asked: str, wanted: str, expected: int | None) -> None:
    assert words.memory_bytes(asked, wanted, nodes="2", cpus="16") == (str(expected) if expected else "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("node047", ["node047"]),
        ("learnnode[1273,1405,1529-1531]", [f"learnnode{n}" for n in (1273, 1405, 1529, 1530, 1531)]),
        ("gpu[01-03]x,login", ["gpu01x", "gpu02x", "gpu03x", "login"]),
        ("r[1-2]n[08-10]", ["r1n08", "r1n09", "r1n10", "r2n08", "r2n09", "r2n10"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
        ("a-b.c[7]", ["a-b.c7"]),
    ],
)
def test_lists_of_hosts(text: str, expected: list[str]) -> None:
    assert words.hosts(text) == expected


@pytest.mark.parametrize(
    "text", ["n[1-", "n[]", "n[3-1]", "n[a-b]", "a,,b", ",a", "a,", "a b", "n[1]]", "n[1[2]]", "n[0x1]"]
)
def test_what_is_no_list_of_hosts_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a list of hosts"):
        words.hosts(text)


@pytest.mark.parametrize("text", ["n[0-999999999]", "n[0-999][0-999]", "n[0-60000],m[0-60000]"])
def test_a_short_list_of_endless_hosts_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a list of more than 100,000 hosts"):
        words.hosts(text)


def compressed(numbers: list[int], prefix: str, width: int) -> str:
    """The abbreviation that Slurm would print, made the plainest way."""
    runs = [[n for _, n in run] for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])]
    items = [f"{run[0]:0{width}d}" + (f"-{run[-1]:0{width}d}" if len(run) > 1 else "") for run in runs]
    return f"{prefix}[{','.join(items)}]"


@given(
    st.lists(
        st.tuples(
            st.sets(st.integers(0, 1200), min_size=1, max_size=40).map(sorted),
            st.text("abcdefg-.", min_size=1, max_size=6),
            st.integers(1, 6),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_a_list_of_hosts_unfolds_into_what_it_was_folded_from(groups: list[tuple[list[int], str, int]]) -> None:
    names = [f"{prefix}{number:0{width}d}" for numbers, prefix, width in groups for number in numbers]
    assert words.hosts(",".join(compressed(*group) for group in groups)) == names


@given(st.text("n0129[],- x", max_size=14))
def test_any_list_of_hosts_unfolds_or_is_refused(text: str) -> None:
    try:
        found = words.hosts(text)
    except ValueError:
        return
    assert found
    assert not any(set(name) & set("[], ") for name in found)


def packed(content: bytes) -> str:
    return "JS1:" + base64.b64encode(gzip.compress(content)).decode()


def test_the_summary_of_jobstats_is_unpacked() -> None:
    summary = {"gpus": 1, "nodes": {"k1": {"gpu_utilization": {"1": 98.6}}}, "total_time": 50944}
    assert json.loads(words.summary(packed(json.dumps(summary).encode()))) == summary


@pytest.mark.parametrize(
    "comment",
    [
        "",
        "hello",
        "JS1:Short",
        "JS1:None",
        "JS1:!!!!",
        "JS1:" + base64.b64encode(b"no gzip").decode(),
        packed(b"no json"),
        packed(b"[1]"),
        packed(b'{"a": NaN}'),
        packed(b'{"a": 1}')[:-8],
        packed(b'{"a": "' + b" " * (1 << 24) + b'"}'),
        packed(b"[" * 100_000),
    ],
    ids=["empty", "words", "short", "none", "base64", "gzip", "json", "list", "nan", "cut", "bomb", "deep"],
)
def test_what_is_no_summary_is_none(comment: str) -> None:
    assert words.summary(comment) == ""


@given(st.text())
def test_no_comment_breaks_the_reader(comment: str) -> None:
    assert words.summary(comment) == words.summary(f"JS1:{comment}") == ""


def test_gpu_use_is_a_ratio() -> None:
    assert words.gpu_ratio("cpu=00:01:39,gres/gpumem=2048M,gres/gpuutil=73,mem=7K") == "0.73"
    assert words.gpu_ratio("gres/gpuutil=0") == "0.0"
    assert words.gpu_ratio("cpu=00:01:39") == ""


@pytest.mark.parametrize(
    ("raw", "shown", "expected"),
    [("3600", "02:00:00", 3600), ("", "1-02:03:04", 93_784), ("", "00:23.779", 23.779), ("0", "", 0)],
)
def test_run_times(raw: str, shown: str, expected: float) -> None:
    assert words.elapsed_seconds(raw, shown) == expected


def test_what_is_no_run_time_is_none() -> None:
    assert words.elapsed_seconds("", "INVALID") is words.elapsed_seconds("Unknown", "") is None
    with pytest.raises(ValueError, match="'INVALID' is not a time span"):
        words.seconds("INVALID")

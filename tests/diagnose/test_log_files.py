from __future__ import annotations

import gzip
import io
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import cases
from gpulake.core.errors import InputError
from gpulake.diagnose.logs.reading import LogFile, open_logs
from gpulake.diagnose.logs.scan import scan
from gpulake.diagnose.rulebook.book import shipped

TEXT = b"".join(b"line %d of %d\n" % (number, number * number) for number in range(100_000))


def zstd(text: bytes) -> bytes:
    packed: bytes = pa.compress(text, codec="zstd", asbytes=True)
    return packed


def written(folder: Path, content: bytes, name: str = "train.log") -> LogFile:
    path = folder / name
    path.write_bytes(content)
    (file,) = open_logs(path).files
    return file


def read(file: LogFile) -> bytes:
    return b"".join(file.chunks())


PACKINGS: dict[str, Callable[[], bytes]] = {
    "plain": lambda: TEXT,
    "gzip": lambda: gzip.compress(TEXT),
    "members": lambda: gzip.compress(TEXT[:1_000]) + gzip.compress(TEXT[1_000:]),
    "padded": lambda: gzip.compress(TEXT) + bytes(512),
    "zstd": lambda: zstd(TEXT),
    "frames": lambda: zstd(TEXT[:70_000]) + zstd(TEXT[70_000:]),
    "skippable": lambda: b"\x50\x2a\x4d\x18\x04\x00\x00\x00note" + zstd(TEXT),
}


@pytest.mark.parametrize("packing", PACKINGS)
def test_a_log_is_read_whatever_it_is_packed_in(packing: str, tmp_path: Path) -> None:
    file = written(tmp_path, PACKINGS[packing]())
    assert (file.name, read(file), file.trouble) == ("train.log", TEXT, "")
    assert scan("log", file.chunks(), shipped()) == scan("log", [TEXT], shipped())


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
@pytest.mark.parametrize("end", [8, 500, -100])
def test_a_packed_log_that_breaks_off_gives_what_it_has(packing: str, end: int, tmp_path: Path) -> None:
    file = written(tmp_path, PACKINGS[packing]()[:end])
    found = read(file)
    assert TEXT.startswith(found)
    assert end > 0 or len(found) > len(TEXT) // 2
    assert file.trouble.startswith(f"train.log breaks off: its {packing} stream is incomplete or damaged")


def test_what_follows_a_packed_log_and_is_none_costs_nothing_of_it(tmp_path: Path) -> None:
    file = written(tmp_path, gzip.compress(TEXT) + b"not packed")
    assert read(file) == TEXT
    assert "breaks off" in file.trouble


@settings(max_examples=cases(60))
@given(st.binary(max_size=400), st.sampled_from([b"", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xff\xfe", b"\xfe\xff"]))
def test_any_file_can_be_read(tmp_path_factory: pytest.TempPathFactory, rest: bytes, start: bytes) -> None:
    read(written(tmp_path_factory.mktemp("any"), start + rest))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-8-sig"])
def test_marked_encodings_are_decoded(encoding: str, tmp_path: Path) -> None:
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    assert read(written(tmp_path, f"{mark}größer\n█ 50%\n".encode(encoding))) == "größer\n█ 50%\n".encode()


def test_a_folder_gives_its_logs_in_natural_order_and_nothing_else(tmp_path: Path) -> None:
    for name in ("rank_10.log", "rank_9.log", "node1/rank_0.err", "node1/rank_0.out", "notes"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text\n")
    (tmp_path / "packed.gz").write_bytes(gzip.compress(b"text\n"))
    (tmp_path / "hole.log").write_bytes(bytes(20_000) + b"text\n")
    (tmp_path / "weights").write_bytes(bytes(range(32)) * 100)
    (tmp_path / "tensors.gz").write_bytes(gzip.compress(bytes(range(32)) * 100))
    (tmp_path / "model.safetensors").write_text("text")
    (tmp_path / "empty.log").touch()
    (tmp_path / ".hidden").write_text("text\n")
    found = open_logs(tmp_path)
    assert [file.name for file in found.files] == [
        "hole.log",
        "node1/rank_0.err",
        "node1/rank_0.out",
        "notes",
        "packed.gz",
        "rank_9.log",
        "rank_10.log",
    ]
    assert found.is_folder


def test_flight_dumps_are_reported_from_logs(tmp_path: Path) -> None:
    for name in (
        "_dump_0.json",
        "_dump_10.json",
        "_dump_2.json",
        "nccl_trace_rank_3",
        "nccl_trace_rank_3.log",
        "a.json",
    ):
        (tmp_path / name).write_text('{"version": "2.5", "entries": []}')
    (tmp_path / "core_dump_7").write_text("it is a log\n")
    found = open_logs(tmp_path)
    assert [path.name for path in found.flight_dumps] == [
        "_dump_0.json",
        "_dump_2.json",
        "_dump_10.json",
        "nccl_trace_rank_3",
    ]
    assert [file.name for file in found.files] == ["a.json", "core_dump_7", "nccl_trace_rank_3.log"]
    assert open_logs(tmp_path / "_dump_2.json").flight_dumps == (tmp_path / "_dump_2.json",)


def test_what_is_piped_in_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "log").write_bytes(gzip.compress(TEXT))
    with (tmp_path / "log").open() as piped:
        monkeypatch.setattr(sys, "stdin", piped)
        (file,) = open_logs("-").files
        assert read(file) == TEXT
        assert file.name == "-"
        assert not piped.closed


def test_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such log"):
        open_logs(tmp_path / "missing.log")
    with pytest.raises(InputError, match="no log in"):
        open_logs(tmp_path)
    file = LogFile("gone.log", tmp_path / "gone.log")
    with pytest.raises(InputError, match=r"cannot read gone\.log: No such file"):
        read(file)


@pytest.mark.real
def test_real_logs_are_read(real_data: Path) -> None:
    found = open_logs(real_data / "mlperf_logs" / "logs")
    assert len(found.files) == 74
    assert all(next(file.chunks()) for file in found.files)
    dumps = open_logs(real_data / "nccl_flight_recorder" / "gpu_error_1st")
    assert [path.name for path in dumps.flight_dumps] == [f"_dump_{rank}.json" for rank in range(16)]


def test_a_stream_without_a_file_number_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"piped\n")))
    assert read(open_logs("-").files[0]) == b"piped\n"

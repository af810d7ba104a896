"""What the user may name: folders, archives, compressed files and parts; and what is refused."""

from __future__ import annotations

import gzip
import io
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from attack.targets import zstd

from conftest import bronze_counts, count_of, rows_of
from gpulake.core.clock import FrozenClock
from gpulake.core.errors import InputError
from gpulake.core.progress import silent
from gpulake.core.types import LandResult
from gpulake.lake import Lake
from gpulake.land import inputs
from gpulake.land.landing import land

ROWS = [f"{number:024x},{number:060x},58540f191766,Terminated,{number}.0,{number + 9}.0" for number in range(3000)]
TEXT = "".join(f"{row}\n" for row in ROWS).encode()
HEADER = b"job_name,inst_id,user,status,start_time,end_time\n"


def tar_of(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def try_landing(lake: Lake, clock: FrozenClock, *paths: Path) -> LandResult:
    with lake.writing():
        return land(lake, paths, clock, silent)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("pai_job_table.csv", TEXT),
        ("pai_job_table.csv", HEADER + TEXT),
        ("pai_job_table.csv", b"\xef\xbb\xbf" + HEADER + TEXT),
        ("renamed.txt", TEXT),
        ("pai_job_table.csv.gz", TEXT),
        ("renamed.txt", HEADER + TEXT),
        ("pai_job_table.csv.gz", gzip.compress(TEXT)),
        ("pai_job_table.csv.zst", zstd(TEXT)),
        ("pai_job_table.tar.gz", tar_of({"pai_job_table.csv": TEXT})),
        ("whatever.tgz", tar_of({"pai_job_table.csv": TEXT})),
    ],
    ids=[
        "plain",
        "header",
        "byte order mark",
        "renamed",
        "plain in spite of its name",
        "renamed with header",
        "gzip",
        "zstd",
        "tar",
        "renamed tar",
    ],
)
def test_a_job_table_is_recognised_in_every_wrapping(
    lake: Lake, clock: FrozenClock, tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    (landing,) = try_landing(lake, clock, tmp_path / name).landings
    assert (landing.table, landing.rows_landed, landing.rows_quarantined) == ("bronze_job_events", 3000, 0)
    assert rows_of(lake, "SELECT sum(end_time - start_time) AS s, min(job_name) AS j FROM bronze_job_events") == [
        {"s": 27_000.0, "j": f"{0:024x}"}
    ]


def test_the_same_table_in_another_wrapping_does_not_land_again(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    (tmp_path / "pai_job_table.csv").write_bytes(TEXT)
    (tmp_path / "pai_job_table.tar.gz").write_bytes(tar_of({"pai_job_table.csv": TEXT}))
    landings = try_landing(lake, clock, tmp_path).landings
    assert [landing.is_new for landing in landings] == [True, False]
    assert count_of(lake, "bronze_job_events") == 3000


def test_columns_in_another_order_find_their_place_by_the_header(
    lake: Lake, clock: FrozenClock, tmp_path: Path
) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("status,user,end_time,start_time,inst_id,job_name\nFailed,u,2.0,1.0,i,j\n")
    try_landing(lake, clock, path)
    row = {"job_name": "j", "inst_id": "i", "user": "u", "status": "Failed", "start_time": 1.0, "end_time": 2.0}
    assert rows_of(lake, "FROM bronze_job_events") == [row]


def test_split_parts_are_joined_in_their_order(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    archive = tar_of({"pai_job_table.csv": TEXT})
    third = len(archive) // 3
    for suffix, piece in (("ac", archive[2 * third :]), ("aa", archive[:third]), ("ab", archive[third : 2 * third])):
        (tmp_path / f"pai_job_table.tar.gz.part{suffix}").write_bytes(piece)
    (landing,) = try_landing(lake, clock, tmp_path).landings
    assert (landing.rows_landed, landing.source) == (3000, f"{tmp_path}/pai_job_table.tar.gz!pai_job_table.csv")


@pytest.mark.parametrize(
    "suffixes", [[str(n) for n in range(1, 12)], [f"{n:02d}" for n in range(11)]], ids=["1-11", "00-10"]
)
def test_numbered_parts_are_joined_in_the_order_of_their_numbers(
    lake: Lake, clock: FrozenClock, tmp_path: Path, suffixes: list[str]
) -> None:
    size = -(-len(TEXT) // len(suffixes))
    for position, suffix in enumerate(suffixes):
        part = tmp_path / f"pai_job_table.csv.part{suffix}"
        part.write_bytes(TEXT[position * size : (position + 1) * size])
    (landing,) = try_landing(lake, clock, tmp_path).landings
    assert (landing.rows_landed, landing.rows_quarantined) == (3000, 0)


def test_a_file_beside_its_own_parts_lands_once(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    (tmp_path / "pai_job_table.csv").write_bytes(TEXT)
    (tmp_path / "pai_job_table.csv.partaa").write_bytes(TEXT[:1000])
    (tmp_path / "pai_job_table.csv.partab").write_bytes(TEXT[1000:])
    (landing,) = try_landing(lake, clock, tmp_path).landings
    assert landing.rows_landed == 3000


def test_a_path_that_is_named_twice_lands_once(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    path = tmp_path / "pai_job_table.csv"
    path.write_bytes(TEXT)
    (landing,) = try_landing(lake, clock, path, path, tmp_path).landings
    assert (landing.rows_landed, count_of(lake, "bronze_job_events")) == (3000, 3000)


def test_a_header_is_known_by_its_names_whatever_their_letters(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    path = tmp_path / "pai_group_tag_table.csv"
    path.write_text("INST_ID, User,GPU_TYPE_SPEC,Group,WORKLOAD\ni,u,T4,g,bert\n")
    try_landing(lake, clock, path)
    row = {"inst_id": "i", "user": "u", "gpu_type_spec": "T4", "group": "g", "workload": "bert"}
    assert rows_of(lake, "FROM bronze_group_tag_table") == [row]


@pytest.mark.parametrize("missing", ["aa", "00"])
def test_the_first_part_may_not_be_missing(lake: Lake, clock: FrozenClock, tmp_path: Path, missing: str) -> None:
    following = {"aa": "ab", "00": "01"}[missing]
    (tmp_path / f"pai_job_table.csv.part{following}").write_bytes(TEXT)
    with pytest.raises(InputError, match="is missing"):
        try_landing(lake, clock, tmp_path)


def test_a_missing_part_is_named(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    for suffix in ("aa", "ac"):
        (tmp_path / f"pai_job_table.tar.gz.part{suffix}").write_bytes(b"x")
    with pytest.raises(InputError, match=r"a part of .*pai_job_table\.tar\.gz is missing"):
        try_landing(lake, clock, tmp_path)


ARCHIVE = tar_of({"pai_job_table.csv": TEXT, "pai_machine_spec.csv": b"m,T4,96,512,2\n"})


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("pai_job_table.csv", b"", "is empty"),
        ("pai_job_table.csv", b"\n\n", "is empty"),
        ("pai_job_table.csv", b"a;b;c;d;1;2\n" * 5, "1 comma-separated columns where 6 are expected"),
        ("pai_job_table.csv", b"job_name,inst_id,user,status,start,end\n", "unknown column 'start' in its header"),
        ("notes.csv", b"hello\n", "no reader recognises"),
        ("pai_job_table.csv.gz", gzip.compress(TEXT)[:-9], "is truncated or damaged"),
        ("pai_job_table.csv.gz", gzip.compress(TEXT)[:-4] + b"\0\0\0\0", "is truncated or damaged"),
        ("pai_job_table.csv.zst", zstd(TEXT)[:-9], "is truncated or damaged"),
        ("pai.tar.gz", ARCHIVE[: len(ARCHIVE) // 2], "is truncated or damaged"),
        ("pai.tar.gz", ARCHIVE[:-9], "is truncated or damaged"),
        ("pai.tar.gz", ARCHIVE[:-4] + b"\0\0\0\0", "is truncated or damaged"),
        ("pai.tar.gz", tar_of({"README": b"hello"}), "holds no .csv, .json, .jsonl, .log, .prom, .txt, .xml file"),
    ],
    ids=[
        "empty",
        "blank lines",
        "wrong delimiter",
        "strange header",
        "unknown",
        "cut gzip",
        "gzip with a wrong sum",
        "cut zstd",
        "half a tar",
        "cut tar",
        "tar with a wrong sum",
        "tar of something else",
    ],
)
def test_a_bad_file_is_a_clear_error_and_nothing_lands(
    lake: Lake, clock: FrozenClock, tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as raised:
        try_landing(lake, clock, tmp_path / name)
    assert message in raised.value.message
    assert raised.value.hint
    assert set(bronze_counts(lake).values()) == {0}


@pytest.mark.parametrize("pack", [gzip.compress, zstd], ids=["gzip", "zstd"])
@pytest.mark.parametrize("is_tar", [False, True])
def test_what_unpacks_out_of_all_proportion_is_refused(
    lake: Lake,
    clock: FrozenClock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pack: Callable[[bytes], bytes],
    is_tar: bool,
) -> None:
    monkeypatch.setattr(inputs, "LEAST_BOMB_BYTES", 1 << 20)
    content = b"a,i,u,Failed,1.0,2.0\n" * 1_000_000
    name = "pai_job_table.csv"
    path = tmp_path / (f"{name}.tar.gz" if is_tar else f"{name}.gz")
    path.write_bytes(pack(gzip.decompress(tar_of({name: content})) if is_tar else content))
    with pytest.raises(InputError, match=r"unpacks to more than \d+ bytes, 300 times its size"):
        try_landing(lake, clock, path)
    assert set(bronze_counts(lake).values()) == {0}


def extended(kind: bytes, body: bytes, size: int | None = None) -> bytes:
    member = tarfile.TarInfo("x")
    member.type, member.size = kind, len(body) if size is None else size
    return member.tobuf(tarfile.USTAR_FORMAT) + body.ljust(-(-len(body) // 512) * 512, b"\0")


@pytest.mark.parametrize(
    "content",
    [
        extended(tarfile.XHDTYPE, b"", 2 << 30),
        extended(tarfile.GNUTYPE_LONGNAME, b"", 2 << 30),
        extended(tarfile.XHDTYPE, b"9 mtime=a\n") * 2_000,
        extended(tarfile.GNUTYPE_SPARSE, b""),
        extended(tarfile.XHDTYPE, b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n")
        + extended(tarfile.REGTYPE, b"99999999\n" + b"0\n" * 100_000),
        extended(tarfile.XHDTYPE, b"24 GNU.sparse.map=a,b,c\n") + extended(tarfile.REGTYPE, b"a"),
    ],
    ids=["notes", "name", "nested", "sparse", "holes", "map"],
)
def test_an_archive_whose_headers_would_fill_memory_is_refused(
    lake: Lake, clock: FrozenClock, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "a.tar.gz"
    path.write_bytes(gzip.compress(gzip.decompress(tar_of({"a.csv": b"a"}))[:1024] + content + b"\0" * 1024))
    with pytest.raises(InputError, match="is truncated or damaged"):
        try_landing(lake, clock, path)


def test_a_path_that_is_not_there_is_an_error(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file or folder at"):
        try_landing(lake, clock, tmp_path / "nothing")


@pytest.mark.skipif(sys.platform != "linux", reason="needs a file that opens and cannot be read")
def test_a_file_that_cannot_be_read_is_an_error(lake: Lake, clock: FrozenClock) -> None:
    with pytest.raises(InputError, match="cannot read /proc/self/mem"):
        try_landing(lake, clock, Path("/proc/self/mem"))


def test_a_strange_file_in_a_folder_is_left_alone_and_named(lake: Lake, clock: FrozenClock, tmp_path: Path) -> None:
    (tmp_path / "pai_job_table.csv").write_bytes(TEXT)
    (tmp_path / "pai_job_table.header").write_bytes(HEADER)
    (tmp_path / "notes.csv").write_text("hello\n")
    result = try_landing(lake, clock, tmp_path)
    assert [landing.table for landing in result.landings] == ["bronze_job_events"]
    assert result.unknown == (str(tmp_path / "notes.csv"),)


def test_quoted_fields_of_the_gpu_table_keep_their_commas_and_lines(
    lake: Lake, clock: FrozenClock, write_csv: Callable[..., Path]
) -> None:
    header = "Product_Name,GPU_Chip,Released,Bus,Memory,GPU_clock,Memory_clock,Shaders_TMUs_ROPs"
    lines = [
        header,
        'Tesla T4,TU104,"Sep 13th, 2018",PCIe 3.0 x16,"16 GB, GDDR6, 256 bit",585 MHz,1250 MHz,2560 / 160 / 64',
        '"Two\nlines",X,,,"say ""hi""",,,',
        "Short,row",
        ",nameless,,,,,,",
    ]
    (landing,) = try_landing(lake, clock, write_csv("tpu_gpus", lines)).landings
    assert (landing.rows_read, landing.rows_landed, landing.rows_quarantined) == (4, 2, 2)
    assert rows_of(lake, 'SELECT "Product_Name", "Memory" FROM bronze_gpu_specs ORDER BY 1') == [
        {"Product_Name": "Tesla T4", "Memory": "16 GB, GDDR6, 256 bit"},
        {"Product_Name": "Two lines", "Memory": 'say "hi"'},
    ]
    assert rows_of(lake, "SELECT line_number, reason FROM quarantine ORDER BY 1") == [
        {"line_number": 5, "reason": "2 columns where 8 are expected"},
        {"line_number": 6, "reason": "Product_Name is empty"},
    ]


@pytest.mark.real
def test_the_real_tables_land_whole_and_give_the_published_counts(
    lake: Lake, clock: FrozenClock, real_data: Path
) -> None:
    pai = real_data / "pai"
    landings = try_landing(lake, clock, pai / "pai_machine_spec.csv", pai / "pai_instance_table_tail.csv.gz").landings
    assert {landing.table: (landing.rows_landed, landing.rows_quarantined) for landing in landings} == {
        "bronze_machine_spec": (1_897, 0),
        "bronze_instance_table": (28_339, 0),
    }
    assert rows_of(lake, "SELECT sum(cap_gpu) AS gpus FROM bronze_machine_spec") == [{"gpus": 6_742.0}]
    statuses = rows_of(lake, "SELECT status, count(*) AS n FROM bronze_instance_table GROUP BY ALL")
    assert {row["status"]: row["n"] for row in statuses} == {
        "Terminated": 19_348,
        "Running": 2_744,
        "Failed": 2_657,
        "Interrupted": 2_528,
        "Waiting": 1_062,
    }

"""The short form of `scripts/attack power`, and of what its images are made."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from attack.forks import Victims, missing
from attack.images import STATES, Call, Disk, read_recording

from attack import power

NONE = Path()


@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason=missing())
def test_whenever_the_power_goes_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    score = power.run(14, 1, tmp_path)
    assert score.faults == []
    assert score.tries == 14


@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason=missing())
def test_a_recording_has_every_byte_that_was_written(tmp_path: Path) -> None:
    with Victims(tmp_path) as victims:
        for name in ("create", "build", "collect"):
            root = victims.fresh(name)
            disk = Disk(root)
            for call in read_recording(victims.record(name)):
                disk.play(call)
            disk.write(tmp_path / "image", "now", random.Random(1))
            assert content(tmp_path / "image") == content(root)


def content(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_what_is_not_synced_may_be_missing_and_what_is_stays(tmp_path: Path) -> None:
    root, image = tmp_path / "root", tmp_path / "image"
    root.mkdir()
    (root / "old").write_bytes(b"old")
    disk = Disk(root)
    for call in (
        Call("C", 1, 0, root / "new", NONE, b""),
        Call("W", 1, 0, NONE, NONE, b"synced"),
        Call("S", 1, 0, NONE, NONE, b""),
        Call("W", 1, 6, NONE, NONE, b" and not"),
        Call("R", 0, 0, root / "new", root / "old", b""),
    ):
        disk.play(call)
    found = {}
    for state in ("now", *STATES[:2]):
        disk.write(image, state, random.Random(1))
        found[state] = content(image)
    assert found == {"now": {"old": b"synced and not"}, "synced": {"old": b"old"}, "names": {"old": b"synced"}}
    disk.play(Call("S", root.stat().st_ino, 0, NONE, NONE, b""))
    disk.write(image, "synced", random.Random(1))
    assert content(image) == {"old": b"synced"}
    chance = random.Random(1)
    for _ in range(50):
        disk.write(image, "chance", chance)
        (left,) = content(image).values()
        assert left.startswith(b"synced")

"""Which checkpoint a job goes back to: whole, finished, and from before it went wrong."""

from __future__ import annotations

import io
import json
import os
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulake.act.checkpoints import Choice, last_good, step_of_name
from gpulake.act.weights import damage
from gpulake.core.errors import InputError

START = datetime(2026, 1, 2, tzinfo=UTC)


def tensors(size: int = 5_000) -> bytes:
    """A file as torch writes it: a zip."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("archive/data/0", b"\7" * size)
    return out.getvalue()


def safetensors(size: int = 5_000) -> bytes:
    header = json.dumps({"__metadata__": {}, "w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(size)


def save(path: Path, hour: float, **files: bytes) -> Path:
    """A checkpoint that was saved at that hour."""
    for name, content in files.items():
        target = path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        at = (START + timedelta(hours=hour)).timestamp()
        os.utime(target, (at, at))
    return path


def named(choice: Choice) -> str:
    return choice.chosen.path.name if choice.chosen else ""


def megatron(folder: Path, *steps: int, tracker: str | None = None) -> None:
    for hour, step in enumerate(steps):
        save(folder / f"iter_{step:07}", hour, **{"mp_rank_00/model_optim_rng.pt": tensors()})
    (folder / "latest_checkpointed_iteration.txt").write_text(tracker or str(steps[-1]))


def test_megatron_counts_what_its_tracker_knows(tmp_path: Path) -> None:
    megatron(tmp_path, 500, 1000, 1500, tracker="1000\n")
    choice = last_good(tmp_path)
    assert named(choice) == "iter_0001000"
    assert choice.chosen is not None
    assert (choice.chosen.step, choice.chosen.saved_at) == (1000, START + timedelta(hours=1))
    assert choice.newest == choice.chosen
    assert choice.passed_over == (("iter_0001500", "is not finished: the last that is was saved at step 1,000"),)


def test_a_tracker_that_tells_no_step_hides_nothing(tmp_path: Path) -> None:
    megatron(tmp_path, 500, 1000, tracker="release")
    assert named(last_good(tmp_path)) == "iter_0001000"


def test_deepspeed_counts_what_its_latest_names(tmp_path: Path) -> None:
    for hour, step in enumerate((900, 1000)):
        files = {"mp_rank_00_model_states.pt": tensors(), "zero_pp_rank_0_mp_rank_00_optim_states.pt": tensors()}
        save(tmp_path / f"global_step{step}", hour, **files)
    (tmp_path / "latest").write_text("global_step900")
    assert named(last_good(tmp_path)) == "global_step900"


def test_hugging_face_needs_its_state_and_all_shards(tmp_path: Path) -> None:
    index = json.dumps({"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}).encode()
    whole = {"trainer_state.json": b"{}", "model.safetensors.index.json": index, "model-1.safetensors": safetensors()}
    save(tmp_path / "checkpoint-100", 0, **whole, **{"model-2.safetensors": safetensors()})
    save(tmp_path / "checkpoint-200", 1, **whole, **{"optimizer.pt": tensors()})
    save(tmp_path / "checkpoint-300", 2, **{"model-1.safetensors": safetensors(), "optimizer.pt": tensors()})
    save(tmp_path / "tmp-checkpoint-400", 3, **whole)
    assert last_good(tmp_path).passed_over == (
        ("checkpoint-300", "has no trainer_state.json that can be read"),
        ("checkpoint-200", "model-2.safetensors is missing"),
    )
    assert named(last_good(tmp_path)) == "checkpoint-100"


def test_lightning_files_tell_of_steps(tmp_path: Path) -> None:
    save(tmp_path, 0, **{"epoch=1-step=900.ckpt": tensors()})
    save(tmp_path, 1, **{"epoch=2-step=1800.ckpt": tensors()[:-30]})
    choice = last_good(tmp_path)
    assert named(choice) == "epoch=1-step=900.ckpt"
    assert choice.passed_over == (("epoch=2-step=1800.ckpt", "epoch=2-step=1800.ckpt is cut off"),)


def test_distributed_checkpoints_end_with_their_metadata(tmp_path: Path) -> None:
    save(tmp_path / "step-10", 0, **{".metadata": b"m", "__0_0.distcp": tensors()})
    save(tmp_path / "step-20", 1, **{"__0_0.distcp": tensors(), "__1_0.distcp": b""})
    save(tmp_path / "step-30", 2, **{".metadata": b"m", "__0_0.distcp": tensors(), "x.distcp.tmp": b"x"})
    choice = last_good(tmp_path)
    assert named(choice) == "step-10"
    assert choice.passed_over == (
        ("step-30", "x.distcp.tmp is still being written"),
        ("step-20", "has no .metadata, which is written last"),
    )


def test_one_that_is_smaller_than_its_siblings_is_passed_over(tmp_path: Path) -> None:
    megatron(tmp_path, 500, 1000, 1500)
    save(tmp_path / "iter_0002000", 3, **{"mp_rank_00/model_optim_rng.pt": tensors(2_000)})
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("2000")
    assert named(last_good(tmp_path)) == "iter_0001500"


def test_the_newest_from_before_the_failure_counts(tmp_path: Path) -> None:
    megatron(tmp_path, 500, 1000, 1500)
    choice = last_good(tmp_path, before=START + timedelta(hours=1, minutes=30))
    assert named(choice) == "iter_0001000"
    assert choice.newest is not None
    assert choice.newest.step == 1500
    assert named(last_good(tmp_path, before=START)) == ""


def test_a_step_says_more_than_a_time(tmp_path: Path) -> None:
    megatron(tmp_path, 500, 1000, 1500)
    assert named(last_good(tmp_path, before=START, before_step=1200)) == "iter_0001000"


def test_one_that_did_not_help_is_not_tried_again(tmp_path: Path) -> None:
    megatron(tmp_path, 500, 1000)
    assert named(last_good(tmp_path, not_again=[str(tmp_path / "iter_0001000")])) == "iter_0000500"


def test_other_things_in_the_folder_are_no_checkpoints(tmp_path: Path) -> None:
    save(tmp_path / "logs", 0, **{"events.pt": tensors()})
    save(tmp_path, 0, **{"notes.txt": b"x"})
    (tmp_path / "iter_0000100").mkdir()
    assert last_good(tmp_path) == Choice(None, None)


def test_a_folder_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"cannot list the checkpoints in {tmp_path / 'none'}"):
        last_good(tmp_path / "none")


def test_nothing_in_the_folder_is_changed(tmp_path: Path) -> None:
    megatron(tmp_path, 500, 1000)
    before = [(path, path.stat().st_mtime_ns) for path in sorted(tmp_path.rglob("*"))]
    last_good(tmp_path)
    assert [(path, path.stat().st_mtime_ns) for path in sorted(tmp_path.rglob("*"))] == before


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("iter_0001000", 1000),
        ("global_step0", 0),
        ("checkpoint-500", 500),
        ("step-20", 20),
        ("epoch=2-step=1800.ckpt", 1800),
        ("epoch=2.ckpt", None),
        ("last.ckpt", None),
    ],
)
def test_the_step_is_in_the_name(name: str, step: int | None) -> None:
    assert step_of_name(name) == step


@given(st.integers(0, 300), st.sampled_from([tensors(200), safetensors(200)]))
def test_a_file_that_is_cut_anywhere_is_damaged(
    tmp_path_factory: pytest.TempPathFactory, cut: int, content: bytes
) -> None:
    name = "w.safetensors" if content == safetensors(200) else "w.pt"
    path = tmp_path_factory.mktemp("cut") / name
    path.write_bytes(content)
    assert damage(path) == ""
    kept = content[: min(cut, len(content) - 1)]
    path.write_bytes(kept)
    # Of three bytes of a zip nobody can tell that it was to be one.
    assert damage(path) or 0 < len(kept) < 4


@given(st.binary(max_size=200))
def test_no_file_breaks_the_check(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    for name in ("w.safetensors", "w.pt"):
        path = tmp_path_factory.mktemp("any") / name
        path.write_bytes(content)
        assert isinstance(damage(path), str)

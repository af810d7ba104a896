"""The collector as one file, on a node that has Python and nothing else."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpulake.cli import collect, root
from gpulake.collect.bundle import write_bundle
from gpulake.collect.segments import read_segments
from gpulake.core.errors import GpulakeError

INTERPRETER = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"


VERBS = [module.name for module in pkgutil.iter_modules(collect.__path__) if not module.name.startswith("_")]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundle") / "collect.pyz"
    write_bundle(path)
    return path


def on_a_bare_node(bundle: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """No environment, no packages, no settings of the user."""
    command = [str(INTERPRETER), "-S", "-I", str(bundle), *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, env={}, cwd=bundle.parent)


def test_the_same_version_makes_the_same_bytes(bundle: Path, tmp_path: Path) -> None:
    answer = CliRunner().invoke(root, ["collect", "bundle", str(tmp_path / "again.pyz")])
    assert answer.exit_code == 0
    assert (tmp_path / "again.pyz").read_bytes() == bundle.read_bytes()
    assert f"{bundle.stat().st_size:,} bytes, with click" in answer.output
    entries = zipfile.ZipFile(bundle).infolist()
    assert {entry.date_time for entry in entries} == {(1980, 1, 1, 0, 0, 0)}
    assert [entry.filename for entry in entries] == sorted(entry.filename for entry in entries)


def test_it_holds_what_a_node_needs_and_no_more(bundle: Path) -> None:
    names = zipfile.ZipFile(bundle).namelist()
    ours = {"/".join(name.split("/")[:2]) for name in names if name.startswith("gpulake/")}
    assert ours == {"gpulake/__init__.py", "gpulake/core", "gpulake/formats", "gpulake/collect", "gpulake/cli"}
    assert {name.split("/")[0] for name in names} <= {
        "__main__.py",
        "gpulake",
        "click",
        "pynvml.py",
        "yaml",
        "licences",
    }
    assert {name.split("/")[1] for name in names if name.startswith("licences/")} >= {"gpulake", "click"}
    assert {Path(name).suffix for name in names if not name.startswith("licences/")} <= {
        ".py",
        ".toml",
        ".json",
        ".service",
    }
    assert "gpulake/core/cctf.toml" in names
    assert bundle.stat().st_mode & 0o111


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_on_a_bare_node(bundle: Path, verb: str) -> None:
    answer = on_a_bare_node(bundle, verb, "--help")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith(f"Usage: collect.pyz {verb}")


@pytest.mark.slow
def test_a_bare_node_is_collected(bundle: Path, tmp_path: Path) -> None:
    place = ("--dir", str(tmp_path), "--run-id", "r1", "--node-id", "n1")
    answer = on_a_bare_node(bundle, "start", *place)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith(f"collecting: {tmp_path / 'r1' / 'n1'} (process ")
    answer = on_a_bare_node(bundle, "stop", *place)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith(f"{tmp_path / 'r1' / 'n1'}: stopped (process ")
    assert sum(len(segment.blocks) for segment in read_segments(tmp_path / "r1" / "n1" / "segments")) > 0


def test_its_errors_look_like_those_of_every_command(bundle: Path) -> None:
    answer = on_a_bare_node(bundle, "run", "--interval", "1ms")
    assert answer.returncode == 2
    assert answer.stderr == "error: the interval is 0.001 s\nhint: the shortest is 100ms\n"


def test_a_bundle_can_make_its_like(bundle: Path, tmp_path: Path) -> None:
    answer = on_a_bare_node(bundle, "bundle", str(tmp_path / "copy.pyz"))
    assert answer.returncode == 0, answer.stderr
    assert (tmp_path / "copy.pyz").read_bytes() == bundle.read_bytes()


def test_a_bundle_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(GpulakeError, match="cannot be written: No such file or directory"):
        write_bundle(tmp_path / "none" / "collect.pyz")
    assert list(tmp_path.iterdir()) == []

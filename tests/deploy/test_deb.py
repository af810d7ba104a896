"""The Debian package of the collector: it is the same each time, and what its unit starts is in it and runs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gpulake

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb"),
]


def said(*words: str | Path) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def built(folder: Path) -> Path:
    return Path(said(ROOT / "scripts/deb", folder).strip())


def test_the_package_has_the_collector_its_unit_and_a_private_environment(tmp_path: Path) -> None:
    package = built(tmp_path / "one")
    assert package.name == f"gpulake-collect_{gpulake.__version__}_all.deb"
    assert package.read_bytes() == built(tmp_path / "other").read_bytes()
    listed = {line.split()[5]: line.split()[:2] for line in said("dpkg-deb", "--contents", package).splitlines()}
    assert {owner for _, owner in listed.values()} == {"root/root"}
    assert listed["./etc/default/gpulake-collect"][0] == "-rw-------"
    root = tmp_path / "root"
    said("dpkg-deb", "--raw-extract", package, root)
    assert (root / "DEBIAN/conffiles").read_text() == "/etc/default/gpulake-collect\n"
    unit = (root / "usr/lib/systemd/system/gpulake-collect.service").read_text()
    (command,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    python, program, verb, *_ = command.split()
    assert (python, verb) == ("/usr/bin/python3", "run")
    assert "EnvironmentFile=-/etc/default/gpulake-collect" in unit
    for place in (root / program.removeprefix("/"), root / "usr/bin/gpulake-collect"):
        assert said(sys.executable, "-I", place, "--help").startswith("Usage: ")

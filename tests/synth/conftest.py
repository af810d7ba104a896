"""One trace of 30,000 jobs, written once and read by most of these tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulake.synth import write_trace
from gpulake.synth.calibration import Readback, opened


@pytest.fixture(scope="session")
def written_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("trace")
    write_trace(directory, jobs=30_000, seed=1)
    return directory


@pytest.fixture(scope="session")
def written(written_in: Path) -> Readback:
    return opened(written_in)

"""Lakes that many tests start from: made once for the content of the code, and copied for each user.

They are kept between runs and shared by workers, in a folder of the user under the system's temporary folder. The
folder of a lake is named after the day and the hash of all code: no lake is of other code or of another day.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

TESTS = Path(__file__).parent
STORE = Path(tempfile.gettempdir()) / f"gpulake-tests-{os.getuid()}"
MOST_VERSIONS = 4


def copied(name: str, make: Callable[[Path], object], folder: Path) -> Path:
    """The folder, with what `make` writes into one. The name says all that `make` depends on beside the code."""
    STORE.mkdir(mode=0o700, exist_ok=True)
    with (STORE / "lock").open("w") as lock:
        _remove_old_versions(lock.fileno())
        fcntl.flock(lock, fcntl.LOCK_SH)
        lake = STORE / _version() / hashlib.sha256(name.encode()).hexdigest()[:16]
        lake.parent.mkdir(exist_ok=True)
        with lake.with_suffix(".lock").open("w") as making:
            fcntl.flock(making, fcntl.LOCK_EX)
            if not lake.exists():
                unfinished = Path(tempfile.mkdtemp(dir=lake.parent))
                make(unfinished)
                unfinished.rename(lake)
        shutil.copytree(lake, folder, dirs_exist_ok=True)
    return folder


@functools.cache
def _version() -> str:
    helpers = (path for path in TESTS.rglob("*.py") if not path.name.startswith("test_"))
    package = (path for path in (TESTS.parent / "src").rglob("*") if path.suffix != ".pyc" and path.is_file())
    digest = hashlib.sha256()
    for path in sorted([*helpers, *package, TESTS.parent / "requirements.lock"]):
        digest.update(f"{path.relative_to(TESTS.parent)} {path.stat().st_size} ".encode() + path.read_bytes())
    return f"{datetime.now(UTC):%Y%m%d}-{digest.hexdigest()[:16]}"


def _remove_old_versions(lock: int) -> None:
    """Only while no run copies from any of them."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    versions = sorted(STORE.glob("*-*"), key=lambda version: version.stat().st_mtime)
    for version in versions[:-MOST_VERSIONS]:
        shutil.rmtree(version, ignore_errors=True)

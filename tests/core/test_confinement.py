"""Rights that a process gave away are gone: it reads what it was left, and writes, connects and starts nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gpulake.core import confinement

# Names what is tried, and what came of it.
PROGRAM = """
import json, os, resource, socket, subprocess, sys, threading
from pathlib import Path
from gpulake.core import confinement

given, parent = json.loads(sys.argv[1]), os.getppid()
confinement.drop_privileges(given["readable"])
confinement.limit_resources(200_000_000, 5, 1)
confinement.restrict_system_calls(1)

def tried(attempt):
    try:
        attempt()
    except (OSError, MemoryError, ValueError) as error:
        return type(error).__name__
    return "done"

def thread():
    one = threading.Thread(target=lambda: None)
    one.start()
    one.join()

attempts = {
    "read what is left": lambda: Path(given["left"]).read_text(),
    "read what is not": lambda: Path(given["secret"]).read_text(),
    "read the parent": lambda: Path(f"/proc/{parent}/environ").read_bytes(),
    "write": lambda: Path(given["left"]).write_text("x"),
    "create": lambda: Path(given["left"] + ".new").touch(),
    "remove": lambda: Path(given["left"]).unlink(),
    "fork": os.fork,
    "run": lambda: os.execv("/bin/true", ["true"]),
    "connect": socket.socket,
    "kill the parent": lambda: os.kill(parent, 0),
    "thread": thread,
    "memory": lambda: bytearray(300_000_000),
    "raise a limit": lambda: resource.setrlimit(resource.RLIMIT_CORE, (1, 1)),
}
os.write(1, json.dumps({name: tried(attempt) for name, attempt in attempts.items()}).encode())
os._exit(0)
"""


@pytest.mark.skipif(not all(confinement.available().values()), reason="this system lacks seccomp or Landlock")
def test_a_confined_process_reads_what_it_was_left_and_does_nothing_else(tmp_path: Path) -> None:
    left, secret = tmp_path / "lake" / "left", tmp_path / "secret"
    left.parent.mkdir()
    left.write_text("rows")
    secret.write_text("token")
    readable = [*filter(None, sys.path), sys.prefix, sys.base_prefix, "/usr", "/lib", "/lib64", "/proc/self"]
    given = {"readable": [*readable, str(left.parent)], "left": str(left), "secret": str(secret)}
    command = [sys.executable, "-c", PROGRAM, json.dumps(given)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=60).stdout)
    assert found == {
        "read what is left": "done",
        "read what is not": "PermissionError",
        "read the parent": "PermissionError",
        "write": "PermissionError",
        "create": "PermissionError",
        "remove": "PermissionError",
        "fork": "PermissionError",
        "run": "PermissionError",
        "connect": "PermissionError",
        "kill the parent": "PermissionError",
        "thread": "done",
        "memory": "MemoryError",
        "raise a limit": "ValueError",
    }
    assert left.read_text() == "rows"

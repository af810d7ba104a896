"""The worker process as seen by its parent: a pipe of JSON lines, and the note of the driver call in progress."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gpulake
from gpulake.collect.gpus.driver import Note

PIPE_BYTES = 1 << 20  # enough that no sample is lost while the parent waits for a slow disk
ROOT = Path(gpulake.__file__).absolute().parent.parent  # a folder, or the zip file of a bundle


class Child:
    """A worker, running or ended."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        descriptor = Note.create()
        self._note = Note(descriptor)
        inherited = os.environ.get("PYTHONPATH", "")
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                # -P: never import from the current folder.
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "gpulake.collect.gpus.worker",
                    json.dumps({**options, "note": descriptor}),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=(descriptor,),
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), inherited)))},
                start_new_session=True,  # ^C goes to the collector alone; the worker exits with it
            )
        finally:
            os.close(descriptor)
        assert self._process.stdout
        self._out = self._process.stdout.fileno()
        os.set_blocking(self._out, False)
        with contextlib.suppress(OSError):
            fcntl.fcntl(self._out, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._half = b""
        self.has_written = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def note(self) -> str:
        """The driver call in progress and its GPU; empty if none is."""
        return self._note.read()

    def lines(self) -> list[dict[str, Any]]:
        """Lines since the last call."""
        parts = [self._half]
        with contextlib.suppress(BlockingIOError):
            while part := os.read(self._out, PIPE_BYTES):
                parts.append(part)
        *whole, self._half = b"".join(parts).split(b"\n")
        self.has_written = self.has_written or bool(whole)
        return [json.loads(line) for line in whole]

    def ending(self) -> str:
        """How it ended, or empty while it runs. Reaps the process."""
        code = self._process.poll()
        if code is None:
            return ""
        if code >= 0:
            return f"it ended with exit code {code}"
        try:
            return f"it was ended by {signal.Signals(-code).name}"
        except ValueError:  # a signal without a name
            return f"it was ended by signal {-code}"

    def kill(self) -> None:
        """A process that waits inside the kernel ends only when the kernel returns."""
        self._process.kill()

    def wait(self) -> None:
        """At most a second after a kill: a process may hang in the kernel."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1.0)

    def close(self) -> None:
        """Closes the pipes; a worker that still runs exits when its standard input is closed."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                stream.close()
        self._note.close()

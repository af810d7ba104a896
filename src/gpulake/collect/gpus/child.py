"""The worker as its parent sees it: a process, a pipe of lines, and the note of the call that it began last."""

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
from gpulake.collect.gpus.note import Note, create

PIPE_BYTES = 1 << 20  # a parent that waits for a slow disk loses no sample
ROOT = Path(gpulake.__file__).absolute().parent.parent  # a folder, or the zip file that the collector was shipped as


class Child:
    """A worker that runs, or ran."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        descriptor = create()
        self._note = Note(descriptor)
        inherited = os.environ.get("PYTHONPATH", "")
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                # -P: what lies in the folder that the collector was started in is not to be imported.
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
                start_new_session=True,  # ^C is for the collector alone; the worker leaves with it
            )
        finally:
            os.close(descriptor)
        assert self._process.stdout
        self._out = self._process.stdout.fileno()
        os.set_blocking(self._out, False)
        with contextlib.suppress(OSError):
            fcntl.fcntl(self._out, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._half = b""
        self.has_spoken = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def note(self) -> str:
        """The call into the driver that is under way, and its GPU; empty if none is."""
        return self._note.read()

    def lines(self) -> list[dict[str, Any]]:
        """What it wrote since the last look."""
        parts = [self._half]
        with contextlib.suppress(BlockingIOError):
            while part := os.read(self._out, PIPE_BYTES):
                parts.append(part)
        *whole, self._half = b"".join(parts).split(b"\n")
        self.has_spoken = self.has_spoken or bool(whole)
        return [json.loads(line) for line in whole]

    def ending(self) -> str:
        """How it ended, or empty while it runs. One that ended is reaped by this."""
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
        """One that waits inside the kernel ends when the kernel lets it."""
        self._process.kill()

    def wait(self) -> None:
        """A moment, for one that was killed: what hangs in the kernel cannot be hurried."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1.0)

    def close(self) -> None:
        """Only for one that has ended, or is left to itself: it leaves when its standard input is closed."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                stream.close()
        self._note.close()

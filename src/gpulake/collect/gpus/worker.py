"""The worker: a process that reads GPUs at the interval and writes a line of JSON for each set of samples.

It is started by the source `gpu` as `python -m gpulake.collect.gpus.worker OPTIONS`, with options as JSON, and exits
when its standard input is closed, which happens when its parent ends for any reason.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpulake.collect.gpus.driver import Driver, Note
from gpulake.collect.gpus.session import CannotOpen, NoGpus, Session
from gpulake.core.clock import SystemClock


def main(options: Mapping[str, Any]) -> int:
    write = _writer()
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    note = Note(options["note"])
    try:
        driver = Driver(importlib.import_module(options["nvml"]), note.write)
    except ImportError:
        write({"none": "nvidia-ml-py is not installed: no module named " + options["nvml"]})
        return 0
    known: dict[str, int] = dict(options["known"])
    while True:
        try:
            session = Session(driver, Path(options["proc"]), SystemClock(), known)
        except NoGpus as absence:
            write({"none": str(absence)})
            return 0
        except CannotOpen as failure:
            write({"failed": str(failure)})
            return 1
        _sample(session, driver, options["interval_seconds"], note, write)
        session.close()


def _sample(
    session: Session, driver: Driver, interval_seconds: float, note: Note, write: Callable[[Mapping[str, Any]], None]
) -> None:
    """Until the session is stale."""
    next_at = time.monotonic()
    while not session.is_stale:
        reading = session.read()
        note.write("")
        write(
            {
                "rows": reading._asdict(),
                "dropped": driver.values_dropped,
                "refused": sorted(driver.refused),
                "cpu_seconds": time.process_time(),
            }
        )
        next_at += interval_seconds
        late = time.monotonic() - next_at
        if late > 0:
            next_at += interval_seconds * (late // interval_seconds + 1)
        time.sleep(max(0.0, next_at - time.monotonic()))


def _writer() -> Callable[[Mapping[str, Any]], None]:
    """Writes lines to the original standard output; what a library prints goes to standard error."""
    descriptor = os.dup(1)
    os.dup2(2, 1)

    def write(line: Mapping[str, Any]) -> None:
        left = memoryview(json.dumps(line, separators=(",", ":")).encode("ascii") + b"\n")
        while left:
            left = left[os.write(descriptor, left) :]

    return write


def _exit_with_parent() -> None:
    """Works even while a driver call hangs: such calls release the interpreter lock."""
    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    try:
        sys.exit(main(json.loads(sys.argv[1])))
    except BrokenPipeError:  # the parent ended while a line was written
        os._exit(0)

"""Warming: the first view of every page is computed once for each new build, before anyone waits for it."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from dataclasses import dataclass, field

from gpulake.core.errors import GpulakeError
from gpulake.show.web.answers import Answers, Asked
from gpulake.show.web.pages import pages
from gpulake.show.web.questions import questions
from gpulake.show.web.viewers import LOCAL

NICENESS = 5  # below requests, but not so far that a request for the same answer waits long


@dataclass
class Warming:
    answers: Answers
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _latest: int = 0
    _is_over: bool = False

    def begin(self) -> None:
        """Stops when a newer build is to be warmed."""
        self.answers.forget()
        self._latest += 1
        mine = self._latest
        with self._turn:
            _lower_priority()
            for page in pages().values():
                if any(option.is_needed for option in page.options):
                    continue
                for panel in page.panels:
                    if self._is_over or mine != self._latest:
                        return
                    # An error is reported to the client that asks.
                    with suppress(GpulakeError):
                        question = questions()[panel.question]
                        self.answers.ask(Asked(question, panel.given, LOCAL, panel.limit))

    def end(self) -> None:
        """Waits until no query runs: the engine must not be closed during one."""
        self._is_over = True
        with self._turn:
            pass


def _lower_priority() -> None:
    """Lowers the priority of this thread, where the system has priorities of threads."""
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)

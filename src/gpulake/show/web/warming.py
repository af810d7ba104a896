"""Warming: what every page shows first is asked once for a new build, before somebody waits for it."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from dataclasses import dataclass, field

from gpulake.core.errors import GpulakeError
from gpulake.show.web.answers import Answers, Asked
from gpulake.show.web.pages import pages
from gpulake.show.web.questions import catalogue
from gpulake.show.web.viewers import LOCAL

NICENESS = 5  # below readers, and not so far that who wants the same waits for long


@dataclass
class Warming:
    answers: Answers
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _latest: int = 0
    _is_over: bool = False

    def begin(self) -> None:
        """Gives up when there is a newer build to warm."""
        self.answers.forget()
        self._latest += 1
        mine = self._latest
        with self._turn:
            _give_way()
            for page in pages().values():
                if any(option.is_needed for option in page.options):
                    continue
                for panel in page.panels:
                    if self._is_over or mine != self._latest:
                        return
                    # What cannot be read now is told to whoever asks.
                    with suppress(GpulakeError):
                        question = catalogue().get(panel.question)
                        self.answers.ask(Asked(question, panel.given, LOCAL, panel.limit))

    def end(self) -> None:
        """Nothing is asked any more when it returns: the engine must not be left in the middle of a question."""
        self._is_over = True
        with self._turn:
            pass


def _give_way() -> None:
    """This thread works when readers do not, where the system can tell threads apart."""
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)

"""Messages of the collector about itself: each once, in its log and as an event of the run."""

from __future__ import annotations

from collections.abc import Callable

MOST_A_SUBJECT = 20  # messages with a changing number must not fill the log


class Notices:
    """May be used from any thread."""

    def __init__(self, echo: Callable[[str], None]) -> None:
        self._echo = echo
        self._seen: dict[str, set[str]] = {}
        self._new: list[tuple[str, str]] = []

    def say(self, subject: str, message: str, *, is_event: bool = True) -> None:
        seen = self._seen.setdefault(subject, set())
        if message in seen or len(seen) >= MOST_A_SUBJECT:
            return
        seen.add(message)
        self._echo(f"{subject}: {one_line(message)}")
        if is_event:
            self._new.append((subject, message))

    def take(self) -> list[tuple[str, str]]:
        """The events since the last call: subject, message."""
        new, self._new = self._new, []
        return new


def one_line(text: str) -> str:
    """Escapes control characters: a message from a file or a driver must not break lines or control a terminal."""
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)

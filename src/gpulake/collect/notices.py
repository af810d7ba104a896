"""What the collector has to say of itself: each thing once, on its log and as an event of the run."""

from __future__ import annotations

from collections.abc import Callable

MOST_A_SUBJECT = 20  # a message that carries a number that changes must not fill the log


class Notices:
    """Told from any thread."""

    def __init__(self, echo: Callable[[str], None]) -> None:
        self._echo = echo
        self._said: dict[str, set[str]] = {}
        self._new: list[tuple[str, str]] = []

    def say(self, subject: str, message: str, *, is_event: bool = True) -> None:
        said = self._said.setdefault(subject, set())
        if message in said or len(said) >= MOST_A_SUBJECT:
            return
        said.add(message)
        self._echo(f"{subject}: {one_line(message)}")
        if is_event:
            self._new.append((subject, message))

    def take(self) -> list[tuple[str, str]]:
        """The events since they were last taken: subject, message."""
        new, self._new = self._new, []
        return new


def one_line(text: str) -> str:
    """A message may come from a file or a driver: nothing in it ends the line or speaks to the terminal."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)

"""Python's tracebacks in a log: whole, cut, interleaved, chained, or of another process."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from gpulake.diagnose.logs.digest import Line
from gpulake.diagnose.story.lines import QUIET, Said

# How an exception came to be: of another one (raise ... from), in the handling of another one, or carried over
# from another process (a DataLoader's worker, a Ray task, a spawned process).
Link = Literal["cause", "context", "origin"]

MOST_LINES = 400  # of one traceback
MOST_MESSAGE_LINES = 8
FARTHEST_STRANGER = 40  # lines of others that may stand within a traceback

# Plain, or as rich draws it, in a box.
_HEADER = re.compile(r"Traceback \(most recent call last\)(?::?\s*| [─-]+[╮+]?\s*)$")
_BOX = re.compile(r"[╭│╰|+┃]")
_BOX_FRAME = re.compile(r"[│┃|] (?P<file>\S.{0,300}\.py):(?P<line>\d{1,9}) in (?P<function>\S+)")
_STACK = re.compile(r"\s*(?:C\+\+ Traceback|Stack \(most recent call last\)|Current thread|Thread 0x)")
_FRAME = re.compile(r'[\s>]*File "(?P<file>[^"]{1,400})", line (?P<line>\d{1,9})(?:, in (?P<function>.{1,120}))?\s*$')
_EXCEPTION = re.compile(
    r"(?P<name>(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Interrupt|Exit|Warning|Empty|Full|Failure|Timeout"
    r"|Iteration|Killed|Aborted|Invalid\w*|NotFound\w*|Expired|Unavailable|Cancelled|Fault|Denied|Refused|Group|Stop"
    r")(?:\(\w+\))?)(?::(?:\s|$)(?P<message>.*)|\s*$)"
)
# A class of any name at all, where a traceback is open and its line looks like nothing else.
_ANY_CLASS = re.compile(r"(?P<name>(?:[A-Za-z_]\w*\.)+[A-Z]\w*|[A-Z][a-z]+(?:[A-Z]\w*)+)(?:: (?P<message>.*)|:?\s*$)")
_LINKS: tuple[tuple[re.Pattern[str], Link], ...] = (
    (re.compile(r"The above exception was the direct cause of the following"), "cause"),
    (re.compile(r"During handling of the above exception, another"), "context"),
)
_CARRIED = re.compile(
    r"Caught (?P<name>\w+) in |Original Traceback|RayTaskError|RayActorError|^-- Process \d+ terminated with|"
    r"RemoteTraceback"
)
_ORIGIN = re.compile(r"Original Traceback|^-- Process \d+ terminated with|^-- Tracebacks? |ray::|^remote_traceback")
# What Python says before it prints a traceback that ends nothing.
_IGNORED = re.compile(
    r"Exception ignored in|Error in atexit\._run_exitfuncs|^--- Logging error ---|Exception in thread|"
    r"Task exception was never retrieved|Future exception was never retrieved|Exception in callback"
)
_THREAD = re.compile(r"Exception in thread")
_LAUNCHER = re.compile(r"site-packages|dist-packages|/bin/|runpy|\\Scripts\\")
_IN_GROUP = re.compile(r"^ {2,}(?:\| ?|\+ )")  # before each line of an exception group
_PLAIN_SOURCE = re.compile(r"\s{2,}\S|\s*[\^~]+\s*$|\s*$")


@dataclass(frozen=True)
class Frame:
    file: str
    line: int
    function: str


@dataclass(frozen=True)
class Raised:
    """An exception at the end of a traceback."""

    name: str  # with its module, as it was printed
    message: str
    line: int  # number of the line that names it
    first_line: int
    frames: tuple[Frame, ...]
    texts: tuple[str, ...]  # the traceback, its last line, and what follows of the message
    chain: int  # exceptions of one chain have one number
    link: Link | None = None  # to the one before it in the chain
    is_uncaught: bool | None = None  # True: it ended its process; None: the log does not tell
    is_ignored: bool = False  # printed by Python in passing: it ended nothing
    raised_at: int | None = None  # number of the line with the `raise` or the failing statement
    script: str = ""  # the program that died, where the traceback begins with it
    following: tuple[str, ...] = ()  # lines that stand right after it

    @property
    def rest(self) -> dict[int, str]:
        """Lines that go on with a message which its first line only begins, by number."""
        is_open = not self.message.strip(" :") or self.message.rstrip().endswith(":") or "root error" in self.message
        if not is_open and not (self.following and self.following[0][:1].isspace()):
            return {}
        numbered = enumerate(self.following, self.line + 1)
        return {number: text for number, text in numbered if text.strip()}

    @property
    def kind(self) -> str:
        """The class alone."""
        return self.name.split("(")[0].rsplit(".", 1)[-1]


@dataclass
class _Open:
    first_line: int
    has_header: bool
    is_logged: bool = False
    is_ignored: bool = False
    link: Link | None = None
    chain: int = 0
    has_rank: bool = False
    frames: list[Frame] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    last_source: int | None = None
    strangers: int = 0


def lines_of_code(lines: Sequence[tuple[Line, Said]]) -> frozenset[int]:
    """Numbers of the lines that show a frame's source: they name classes and files that nobody has met."""
    found = set()
    number = -1  # of the line that may be code
    for line, said in lines:
        if line.number == number and said.body[:4].isspace():
            found.add(number)
        if _FRAME.match(said.body):
            number = line.number + 1
    return frozenset(found)


def read_tracebacks(lines: Sequence[tuple[Line, Said]]) -> list[Raised]:
    """The exceptions of one file, in the order of the lines that name them."""
    reader = _Reader()
    for index, (line, said) in enumerate(lines):
        reader.read(index, line, said, lines)
    return sorted(reader.found, key=lambda raised: raised.line)


class _Reader:
    """Voices are told apart by rank, host and pid, and share one where nobody says who speaks."""

    def __init__(self) -> None:
        self.found: list[Raised] = []
        self._open: dict[object, _Open] = {}
        self._link: dict[object, Link] = {}
        self._chain: dict[object, int] = {}
        self._chains = 0
        self._passing: dict[object, bool] = {}

    def read(self, index: int, line: Line, said: Said, lines: Sequence[tuple[Line, Said]]) -> None:
        if _IN_GROUP.match(said.body):
            said = replace(said, body=_IN_GROUP.sub("", said.body))
        body = said.body
        voice: object = (said.rank, said.name)
        if header := _HEADER.search(body):
            self._begin(voice, line, said, body[: header.start()])
            return
        if voice not in self._open and self._open and _FRAME.match(body) and said.voice == (None, None, None, ""):
            voice = next(reversed(self._open))  # Ray puts its name before the first line alone
        for pattern, link in _LINKS:
            if pattern.search(body):
                self._link[voice] = link
                return
        if _IGNORED.search(body):
            self._passing[voice] = True
        elif body.strip() and voice not in self._open:
            self._passing.pop(voice, None)
        self._go_on(voice, index, line, said, lines)

    def _begin(self, voice: object, line: Line, said: Said, before: str) -> None:
        link: Link | None = self._link.pop(voice, None)
        if _ORIGIN.search(before + " Traceback") or before.strip().startswith("Original"):
            link = "origin"
        previous = self._open.get(voice)
        if previous is not None and previous.frames and link is None and before.strip() == "":
            self._open[(voice, line.number)] = previous  # another of the same voice, whose end is still to come
        told = before.strip(" ╭─+-").rstrip(":").strip()
        is_logged = bool(told) and told != "Original" and not told.endswith(("|", "]", ")"))
        self._open[voice] = _Open(
            line.number,
            has_header=True,
            is_logged=is_logged or said.severity in QUIET,
            is_ignored=self._passing.pop(voice, False),
            link=link,
            chain=self._chain_of(voice, link),
            has_rank=said.rank is not None,
            texts=[line.text],
        )

    def _chain_of(self, voice: object, link: Link | None) -> int:
        if link is None or voice not in self._chain:
            self._chains += 1
            self._chain[voice] = self._chains
        return self._chain[voice]

    def _go_on(self, voice: object, index: int, line: Line, said: Said, lines: Sequence[tuple[Line, Said]]) -> None:
        body = said.body
        current = self._open.get(voice)
        if frame := _FRAME.match(body) or _BOX_FRAME.match(body):
            if current is None:
                link = self._link.pop(voice, None)
                current = _Open(line.number, False, link=link, chain=self._chain_of(voice, link))
                current.has_rank = said.rank is not None
                self._open[voice] = current
            current.frames.append(Frame(frame["file"], int(frame["line"]), frame["function"] or ""))
            self._keep(current, line)
            return
        exception = _exception_in(body, current is not None and bool(current.frames))
        if exception is None or (current is None and said.severity in QUIET):
            if current is not None:
                if _PLAIN_SOURCE.match(body) or _BOX.match(body):
                    current.last_source = line.number if body.strip(" ^~") else current.last_source
                    self._keep(current, line)
                else:
                    current.strangers += 1
                if current.strangers > FARTHEST_STRANGER:
                    del self._open[voice]
            return
        self._end(voice, current, exception, index, line, lines)

    def _end(
        self,
        voice: object,
        current: _Open | None,
        exception: re.Match[str],
        index: int,
        line: Line,
        lines: Sequence[tuple[Line, Said]],
    ) -> None:
        if current is None:
            link = self._link.pop(voice, None)
            current = _Open(line.number, False, link=link, chain=self._chain_of(voice, link))
        self._keep(current, line)
        following = _following(index, lines)
        name, message = exception["name"], exception["message"] or ""
        self.found.append(
            Raised(
                name=name,
                message=message,
                line=line.number,
                first_line=current.first_line,
                frames=tuple(current.frames),
                texts=(*current.texts, *following),
                chain=current.chain,
                link=current.link,
                is_uncaught=_is_uncaught(current),
                is_ignored=current.is_ignored or _is_at_exit(current),
                raised_at=current.last_source,
                script=_script(current),
                following=following,
            )
        )
        self._open.pop(voice, None)
        if _CARRIED.search(f"{name}: {message}") or any("Original Traceback" in text for text in following[:3]):
            self._link[voice] = "origin"

    @staticmethod
    def _keep(current: _Open, line: Line) -> None:
        current.strangers = 0
        if len(current.texts) < MOST_LINES:
            current.texts.append(line.text)


def _exception_in(body: str, is_open: bool) -> re.Match[str] | None:
    if body[:1].isspace():
        return None
    return _EXCEPTION.match(body) or (_ANY_CLASS.match(body) if is_open else None)


def _following(index: int, lines: Sequence[tuple[Line, Said]]) -> tuple[str, ...]:
    """What may go on with the message: a class's own words may fill many lines."""
    voice, found, number = lines[index][1].voice, [], lines[index][0].number
    for line, said in lines[index + 1 : index + 1 + MOST_MESSAGE_LINES]:
        if said.voice != voice or line.number != number + 1 or _HEADER.search(said.body) or said.at is not None:
            break
        number = line.number
        found.append(line.text)
    return tuple(found)


def _is_uncaught(current: _Open) -> bool | None:
    if current.is_ignored or current.is_logged:
        return False
    if not current.has_header or not current.frames:
        return None
    first = current.frames[0]
    if first.function.startswith(("<module>", "_bootstrap")) or "runpy" in first.file or current.has_rank:
        return True
    return None


def _is_at_exit(current: _Open) -> bool:
    """Python cleans up after the program: its result stands, whatever goes wrong now."""
    return bool(current.frames) and current.frames[0].function in (
        "_run_finalizers",
        "_exitfunc",
        "_cleanup",
        "__del__",
    )


def _script(current: _Open) -> str:
    """The file whose body was being run; launchers are passed over."""
    for frame in current.frames[:4]:
        if frame.function == "<module>" and not _LAUNCHER.search(frame.file):
            return re.split(r"[\\/]", frame.file)[-1]
    return ""

"""Python's tracebacks in a log: whole, cut, interleaved, chained, or of another process."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from gpulake.diagnose.logs.digest import Line
from gpulake.diagnose.story.lines import QUIET, ParsedLine

# How an exception is linked to the one before it: raise ... from, raised while handling it, or carried over from
# another process (a DataLoader's worker, a Ray task, a spawned process).
Link = Literal["cause", "context", "origin"]

MOST_LINES = 400  # of one traceback
MOST_MESSAGE_LINES = 8
NEAREST_FRAMES = 4  # those that say what was being done
MOST_INTERLEAVED = 40  # lines of other writers within a traceback

# Plain, or as rich draws it, in a box.
_HEADER = re.compile(r"Traceback \(most recent call last\)(?::?\s*| [─-]+[╮+]?\s*)$")
_BOX = re.compile(r"[╭│╰|+┃]")
_BOX_FRAME = re.compile(r"[│┃|] (?P<file>\S.{0,300}\.py):(?P<line>\d{1,9}) in (?P<function>\S+)")
# As IPython draws it, in notebooks that run as jobs.
_CELL_FRAME = re.compile(
    r"(?:File )?(?P<file>(?:[~/\w][^\s:]*\.py|<ipython-input[^>]{1,60}>|(?:Input |Cell )?In ?\[\d+\]))"
    r"(?:(?::|, line )(?P<line>\d{1,9}))?(?:,? in (?P<function>[^\s(]{1,120}).*)?$"
)
_IN_NOTEBOOK = re.compile(r"^[A-Z]\w+ {2,}$")  # the class, before the header
_FRAME = re.compile(r'[\s>]*File "(?P<file>[^"]{1,400})", line (?P<line>\d{1,9})(?:, in (?P<function>.{1,120}))?\s*$')
_EXCEPTION = re.compile(
    r"(?P<name>(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Interrupt|Exit|Warning|Empty|Full|Failure|Timeout"
    r"|Iteration|Killed|Aborted|Invalid\w*|NotFound\w*|Expired|Unavailable|Cancelled|Fault|Denied|Refused|Group|Stop"
    r")(?:\(\w+\))?)(?::(?:\s|$)(?P<message>.*)|\s*$)"
)
# As Hydra prints it: the call that made it.
_AS_A_CALL = re.compile(r"(?P<name>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception))\((?P<message>.*)\)$")
# A class of any name, at the end of an open traceback.
_ANY_CLASS = re.compile(r"(?P<name>(?:[A-Za-z_]\w*\.)+[A-Z]\w*|[A-Z][a-z]+(?:[A-Z]\w*)+)(?:: (?P<message>.*)|:?\s*$)")
# A class of one word, where the statement above it raises it, or Python's most general one.
_PLAIN_CLASS = re.compile(r"(?P<name>[A-Z]\w*)(?::(?:\s(?P<message>.*))?|\s*)$")
_GENERAL = ("Exception", "BaseException")
NEAR_RAISE = 3  # lines: the statement, and a line of carets below it
_LINKS: tuple[tuple[re.Pattern[str], Link], ...] = (
    (re.compile(r"The above exception was the direct cause of the following"), "cause"),
    (re.compile(r"During handling of the above exception, another"), "context"),
)
_CARRIED = re.compile(
    r"Caught (?P<name>\w+) in |Original Traceback|RayTaskError|RayActorError|^-- Process \d+ terminated with|"
    r"RemoteTraceback"
)
_ORIGIN = re.compile(r"Original Traceback|^-- Process \d+ terminated with|^-- Tracebacks? |ray::|^remote_traceback")
# What Python prints before a traceback that ends nothing.
_IGNORED = re.compile(
    r"Exception ignored in|Error in atexit\._run_exitfuncs|^--- Logging error ---|Exception in thread|"
    r"Task exception was never retrieved|Future exception was never retrieved|Exception in callback"
)
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

    name: str  # with its module, as printed
    message: str
    line: int  # number of the line that names it
    first_line: int
    frames: tuple[Frame, ...]
    texts: tuple[str, ...]  # the traceback, its last line, and the rest of the message
    chain: int  # exceptions of one chain have one number
    link: Link | None = None  # to the one before it in the chain
    is_uncaught: bool | None = None  # True: it ended its process; None: unknown
    is_ignored: bool = False  # printed by Python without ending anything
    raised_at: int | None = None  # number of the line with the `raise` or the failing statement
    script: str = ""  # the program that died, where the traceback begins with it
    following: tuple[str, ...] = ()  # lines right after it

    @property
    def rest(self) -> dict[int, str]:
        """Further lines of a message of several lines, by number."""
        is_open = not self.message.strip(" :") or self.message.rstrip().endswith(":") or "root error" in self.message
        if not is_open and not (self.following and self.following[0][:1].isspace()):
            return {}
        numbered = enumerate(self.following, self.line + 1)
        return {number: text for number, text in numbered if text.strip()}

    @property
    def places(self) -> tuple[str, ...]:
        """The frames next to the raise."""
        return tuple(f"{frame.file}:{frame.function}" for frame in self.frames[-NEAREST_FRAMES:])

    @property
    def kind(self) -> str:
        """The class alone."""
        return self.name.split("(")[0].rsplit(".", 1)[-1]


@dataclass
class _Open:
    first_line: int
    has_header: bool
    is_logged: bool = False
    is_in_notebook: bool = False
    is_ignored: bool = False
    link: Link | None = None
    chain: int = 0
    has_rank: bool = False
    frames: list[Frame] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    last_source: int | None = None
    interleaved: int = 0


def lines_of_code(lines: Sequence[tuple[Line, ParsedLine]]) -> frozenset[int]:
    """Numbers of the lines with a frame's source code, whose classes and files did not necessarily fail."""
    found = set()
    number = -1  # of the line that may be code
    for line, parsed in lines:
        if line.number == number and parsed.body[:4].isspace():
            found.add(number)
        if _FRAME.match(parsed.body):
            number = line.number + 1
    return frozenset(found)


def read_tracebacks(lines: Sequence[tuple[Line, ParsedLine]]) -> list[Raised]:
    """The exceptions of one file, in the order of the lines that name them."""
    reader = _Reader()
    for index, (line, parsed) in enumerate(lines):
        reader.read(index, line, parsed, lines)
    return sorted(reader.found, key=lambda raised: raised.line)


class _Reader:
    """Writers are distinguished by rank and name; lines without either share one."""

    def __init__(self) -> None:
        self.found: list[Raised] = []
        self._open: dict[object, _Open] = {}
        self._link: dict[object, Link] = {}
        self._chain: dict[object, int] = {}
        self._chains = 0
        self._ignored: dict[object, bool] = {}

    def read(self, index: int, line: Line, parsed: ParsedLine, lines: Sequence[tuple[Line, ParsedLine]]) -> None:
        if _IN_GROUP.match(parsed.body):
            parsed = replace(parsed, body=_IN_GROUP.sub("", parsed.body))
        body = parsed.body
        writer: object = (parsed.rank, parsed.name)
        if header := _HEADER.search(body):
            self._begin(writer, line, parsed, body[: header.start()])
            return
        if writer not in self._open and self._open and _FRAME.match(body) and parsed.writer == (None, None, None, ""):
            writer = next(reversed(self._open))  # Ray prefixes only the first line
        for pattern, link in _LINKS:
            if pattern.search(body):
                self._link[writer] = link
                return
        if _IGNORED.search(body):
            self._ignored[writer] = True
        elif body.strip() and writer not in self._open:
            self._ignored.pop(writer, None)
        self._continue(writer, index, line, parsed, lines)

    def _begin(self, writer: object, line: Line, parsed: ParsedLine, before: str) -> None:
        link: Link | None = self._link.pop(writer, None)
        if _ORIGIN.search(before + " Traceback") or before.strip().startswith("Original"):
            link = "origin"
        previous = self._open.get(writer)
        if previous is not None and previous.frames and link is None and before.strip() == "":
            self._open[(writer, line.number)] = previous  # another one of the same writer, still open
        prefix = before.strip(" ╭─+-").rstrip(":").strip()
        is_logged = bool(prefix) and prefix != "Original" and not prefix.endswith(("|", "]", ")"))
        is_in_notebook = _IN_NOTEBOOK.match(before) is not None
        self._open[writer] = _Open(
            line.number,
            has_header=True,
            is_logged=(is_logged and not is_in_notebook) or parsed.severity in QUIET,
            is_in_notebook=is_in_notebook,
            is_ignored=self._ignored.pop(writer, False),
            link=link,
            chain=self._chain_of(writer, link),
            has_rank=parsed.rank is not None,
            texts=[line.text],
        )

    def _chain_of(self, writer: object, link: Link | None) -> int:
        if link is None or writer not in self._chain:
            self._chains += 1
            self._chain[writer] = self._chains
        return self._chain[writer]

    def _continue(
        self, writer: object, index: int, line: Line, parsed: ParsedLine, lines: Sequence[tuple[Line, ParsedLine]]
    ) -> None:
        body = parsed.body
        current = self._open.get(writer)
        if frame := _frame_in(body, current):
            if current is None:
                link = self._link.pop(writer, None)
                current = _Open(line.number, False, link=link, chain=self._chain_of(writer, link))
                current.has_rank = parsed.rank is not None
                self._open[writer] = current
            current.frames.append(Frame(frame["file"], int(frame["line"] or 0), frame["function"] or ""))
            self._keep(current, line)
            return
        exception = _exception_in(body, current if current is not None and current.frames else None)
        if exception is None or (current is None and parsed.severity in QUIET):
            if current is not None:
                if _PLAIN_SOURCE.match(body) or _BOX.match(body):
                    current.last_source = line.number if body.strip(" ^~") else current.last_source
                    self._keep(current, line)
                else:
                    current.interleaved += 1
                if current.interleaved > MOST_INTERLEAVED:
                    del self._open[writer]
            return
        self._end(writer, current, exception, index, line, lines)

    def _end(
        self,
        writer: object,
        current: _Open | None,
        exception: re.Match[str],
        index: int,
        line: Line,
        lines: Sequence[tuple[Line, ParsedLine]],
    ) -> None:
        if current is None:
            link = self._link.pop(writer, None)
            current = _Open(line.number, False, link=link, chain=self._chain_of(writer, link))
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
        self._open.pop(writer, None)
        if waiting := next((key for key in reversed(self._open) if isinstance(key, tuple) and key[0] == writer), None):
            self._open[writer] = self._open.pop(waiting)
        if _CARRIED.search(f"{name}: {message}") or any("Original Traceback" in text for text in following[:3]):
            self._link[writer] = "origin"

    @staticmethod
    def _keep(current: _Open, line: Line) -> None:
        current.interleaved = 0
        if len(current.texts) < MOST_LINES:
            current.texts.append(line.text)


def _frame_in(body: str, current: _Open | None) -> re.Match[str] | None:
    is_in_notebook = current is not None and current.is_in_notebook
    return _FRAME.match(body) or _BOX_FRAME.match(body) or (_CELL_FRAME.match(body) if is_in_notebook else None)


def _exception_in(body: str, current: _Open | None) -> re.Match[str] | None:
    if body[:1].isspace():
        return None
    named = _EXCEPTION.match(body) or _AS_A_CALL.match(body)
    if named is not None or current is None:
        return named
    return _ANY_CLASS.match(body) or _raised_above(body, current)


def _raised_above(body: str, current: _Open) -> re.Match[str] | None:
    found = _PLAIN_CLASS.match(body)
    if found is None or found["name"] in _GENERAL:
        return found
    statement = re.compile(rf"raise (?:\w+\.)*{found['name']}\b")
    return found if any(statement.search(text) for text in current.texts[-NEAR_RAISE:]) else None


def _following(index: int, lines: Sequence[tuple[Line, ParsedLine]]) -> tuple[str, ...]:
    """Lines that may continue the message."""
    writer, found, number = lines[index][1].writer, [], lines[index][0].number
    for line, parsed in lines[index + 1 : index + 1 + MOST_MESSAGE_LINES]:
        if parsed.writer != writer or line.number != number + 1 or _HEADER.search(parsed.body) or parsed.at is not None:
            break
        number = line.number
        found.append(line.text)
    return tuple(found)


def _is_uncaught(current: _Open) -> bool | None:
    if current.is_ignored or current.is_logged:
        return False
    if current.is_in_notebook:
        return True
    if not current.has_header or not current.frames:
        return None
    first = current.frames[0]
    if first.function.startswith(("<module>", "_bootstrap")) or "runpy" in first.file or current.has_rank:
        return True
    return None


def _is_at_exit(current: _Open) -> bool:
    """Python's cleanup after the program, which does not change its result."""
    ends = ("_run_finalizers", "_exitfunc", "_cleanup", "__del__")
    return bool(current.frames) and current.frames[0].function in ends


def _script(current: _Open) -> str:
    """The file that was run; launchers are skipped."""
    for frame in current.frames[:4]:
        if frame.function == "<module>" and not _LAUNCHER.search(frame.file):
            return re.split(r"[\\/]", frame.file)[-1]
    return ""

"""The parts of the service: pulls, landings of folders, builds, alerts, the dashboard, each with its own rhythm.

A part that fails waits longer each time and is tried again; the others go on. Whatever happens to a process, the lake
is as it was or as it should be: that is what the commands hold by themselves.
"""

from __future__ import annotations

import asyncio
import signal
import time
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import ExitStack, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from gpulake.core.clock import Clock
from gpulake.core.config import Config
from gpulake.core.errors import InputError, LakeBusyError
from gpulake.core.service_state import PartState, ServiceState, the_only_one
from gpulake.service.budgets import Budgets
from gpulake.service.children import Ended, document, end, finish, start, tell
from gpulake.service.folders import Folders

LOOK_SECONDS = 1.0  # between two looks at what another process has landed or built
STANDBY_SECONDS = 0.5  # between two looks whether the other one has ended
RATE_SECONDS = 60.0
WEIGH_SECONDS = 2.0  # between two looks at what the parts hold
RETENTION_SECONDS = 3600.0  # a day becomes old enough once a day; the rest of the time it has nothing to do
MOST_WAIT_SECONDS = 900.0  # of a part that keeps failing
MOST_DOUBLINGS = 16  # what fails for weeks would double past what a number holds
NO_FOLDER = "no folder"
CURRENT_BUILD = Path("builds", "CURRENT")
LANDED = "bronze/*/_delta_log"  # a folder changes with each commit
Say = Callable[[str, str], None]  # the part, and what there is to say


class Service:
    def __init__(self, config: Config, common: Sequence[str], clock: Clock, say: Say, role: str = "") -> None:
        """`common` are the words that every command gets: which lake, which settings. Without a role, it has all."""
        self._config, self._settings = config, config.run
        self._common, self._clock, self._say = common, clock, say
        self._role, self._state = role, ServiceState(0, clock.now(), clock.now(), role=role)
        self._budgets = Budgets(config.run)
        self._recent: dict[str, list[tuple[datetime, int]]] = {}  # landings of the last minute, by the part
        self._stopping, self._landed, self._built = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def run(self, pid: int, is_standby: bool = False) -> None:
        """Until it gets SIGTERM or SIGINT; then what is at work may finish. A standby waits for its turn."""
        self._state.pid = pid
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._stopping.set)
        with ExitStack() as turn:
            if not await self._is_our_turn(turn, is_standby):
                return
            async with asyncio.TaskGroup() as parts:
                for part in (*self._parts(), self._weighing()):
                    parts.create_task(part)
                await asyncio.sleep(0)  # each has begun, and is known
                self._note()
            for state in self._state.parts:
                state.state, state.next_at, state.memory_mebibytes = "stopped", None, 0
            self._note()

    async def _is_our_turn(self, turn: ExitStack, is_standby: bool) -> bool:
        """Once no other service works on the lake; false where it is to stop first."""
        is_waiting = False
        while not self._stopping.is_set():
            try:
                turn.enter_context(the_only_one(self._config.lake, self._role))
            except LakeBusyError:
                if not is_standby:
                    raise
                if not is_waiting:
                    self._say("standby", f"{self._others} works on the lake; this one takes over when it ends")
                is_waiting = True
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), STANDBY_SECONDS)
            else:
                return True
        return False

    @property
    def _others(self) -> str:
        return f"another gpulake run {self._role}".rstrip()

    def _parts(self) -> list[Coroutine[Any, Any, None]]:
        if (self._config.lake / CURRENT_BUILD).exists():
            self._built.set()
            self._landed.set()  # perhaps by another command, since that build
        parts = {"ingest": self._ingest, "build": self._build, "serve": self._serve}
        if self._role in ("build", "serve"):
            return [*parts[self._role](), self._looking()]
        return parts["ingest"]() if self._role else [one for found in parts.values() for one in found()]

    def _ingest(self) -> list[Coroutine[Any, Any, None]]:
        settings = self._settings
        parts = [
            self._ingesting(name, source.ingest)
            if source.ingest
            else self._pulling(name, source.pull, source.every_seconds)
            for name, source in settings.sources.items()
        ]
        if settings.folders:
            parts.append(self._landing(Folders([Path(folder) for folder in settings.folders])))
        return parts

    def _build(self) -> list[Coroutine[Any, Any, None]]:
        parts = [self._building()]
        if self._config.retention.ages():
            parts.append(self._repeating("retention", ["retention", "--json"], RETENTION_SECONDS))
        if self._config.alerts.sinks:
            parts.append(self._lasting("alerts", ["alerts", "send", "--watch"]))
        if self._config.recoveries.is_watched:
            parts.append(self._lasting("recover", ["recover", "--watch", "--execute"]))
        return parts

    def _serve(self) -> list[Coroutine[Any, Any, None]]:
        if not self._settings.dashboard:
            return []
        host, port = self._settings.host_and_port
        return [self._lasting("dashboard", ["serve", "--host", host, "--port", port])]

    async def _looking(self) -> None:
        """What other processes, perhaps on other machines, have landed and built."""
        seen = self._commits() if self._built.is_set() else {}
        while not self._stopping.is_set():
            if (now := self._commits()) != seen:
                seen = now
                self._landed.set()
            if (self._config.lake / CURRENT_BUILD).exists():
                self._built.set()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), LOOK_SECONDS)

    def _commits(self) -> dict[str, int]:
        found = {}
        for path in self._config.lake.glob(LANDED):
            with suppress(OSError):  # it went away
                found[str(path)] = path.stat().st_mtime_ns
        return found

    async def _pulling(self, name: str, words: Sequence[str], every: float) -> None:
        state = self._new_part(f"pull {name}")
        while not self._stopping.is_set():
            ended = await self._once(state, ["pull", *words, "--json"])
            pulled = ended.document.get("pulled") or {}
            if spans := pulled.get("spans"):
                state.covered_until = str(spans[-1]["until"])
            self._count(state, int(pulled.get("rows_landed", 0)))
            await self._pause(state, every)

    async def _ingesting(self, name: str, words: Sequence[str]) -> None:
        """A stream says of each batch what it came to. One that ends is started again, and goes on where it was."""
        state = self._new_part(f"ingest {name}")
        while not self._stopping.is_set():
            child = await self._start(state, ["ingest", *words, "--json"], is_read=True)
            following = asyncio.create_task(self._follow(state, child))
            if not await self._either(asyncio.shield(following)):
                tell(child, signal.SIGTERM)
                await asyncio.wait([following], timeout=self._settings.drain_seconds)
            following.cancel()
            await end(child)
            if not self._stopping.is_set():
                self._ended(state, child)
                await self._pause(state, 1.0)

    async def _follow(self, state: PartState, child: Process) -> None:
        assert child.stdout
        is_stumbling = False  # it says when that is over
        async for line in child.stdout:
            said = document(line)
            if "error" in said:
                is_stumbling = bool(said["error"])
                self._stumbled(state, str(said["error"]))
                continue
            rows = int(said.get("rows_landed", 0))
            self._landed_now(state, rows)
            state.lag = said.get("lag")
            state.covered_until = str(said.get("until") or state.covered_until)
            state.succeeded_at = self._clock.now()
            if not is_stumbling:
                state.failures, state.error = 0, ""
            self._note()
            if rows:
                self._landed.set()

    async def _landing(self, folders: Folders) -> None:
        state, seconds = self._new_part("land"), self._settings.folder_seconds
        while not self._stopping.is_set():
            if missing := folders.missing:
                self._failed(state, f"{NO_FOLDER} at {missing[0]}")
            elif files := await asyncio.to_thread(folders.ready):
                ended = await self._once(state, ["land", "--json", "--", *map(str, files)])
                landings = ended.document.get("landings", ())
                self._count(state, sum(int(one["rows_landed"]) for one in landings if one["is_new"]))
                if ended.code in (0, InputError.exit_code):
                    # What cannot be read costs only itself, and is not tried again as it is: its error is kept.
                    folders.take(files)
                    state.failures = 0
            elif state.error.startswith(NO_FOLDER):
                state.failures, state.error = 0, ""
            await self._pause(state, seconds)

    async def _building(self) -> None:
        state = self._new_part("build")
        while await self._either(self._landed):
            self._landed.clear()
            begin = time.monotonic()
            ended = await self._once(state, ["refresh", "--no-report", "--json"], self._settings.niceness)
            if ended.code == 0:
                self._built.set()
            else:
                self._landed.set()
            await self._pause(state, max(0.0, self._settings.build_seconds - (time.monotonic() - begin)))

    async def _repeating(self, name: str, words: Sequence[str], every: float) -> None:
        """Begins with the first build; it yields to builds, as they do to others."""
        state = self._new_part(name)
        while await self._either(self._built):
            await self._once(state, words, self._settings.niceness)
            await self._pause(state, every)

    async def _lasting(self, name: str, words: Sequence[str]) -> None:
        """Starts with the first build, and again whenever it ends."""
        state = self._new_part(name)
        while await self._either(self._built):
            child = await self._start(state, words, is_read=False)
            if not await self._either(child.wait()):
                await end(child)
                return
            self._ended(state, child)
            await self._pause(state, 1.0)

    async def _once(self, state: PartState, words: Sequence[str], niceness: int = 0) -> Ended:
        first = words.index("--") if "--" in words else len(words)
        cores = self._budgets.cores(state.name, niceness > 0)
        child = await start([*words[:first], *self._common, *words[first:]], niceness, cores=cores)
        self._budgets.started(state, child)
        self._change(state, "working")
        ended = await self._drained(child)
        state.runs += 1
        if ended.code == 0:
            state.failures, state.error, state.succeeded_at = 0, "", self._clock.now()
        else:
            self._failed(state, self._budgets.why_ended(state.name) or ended.error)
        return ended

    async def _start(self, state: PartState, words: Sequence[str], is_read: bool) -> Process:
        """One that lasts."""
        cores = self._budgets.cores(state.name, is_last=False)
        child = await start([*words, *self._common], is_lasting=True, is_read=is_read, cores=cores)
        self._budgets.started(state, child)
        self._change(state, "up")
        state.runs += 1
        return child

    def _ended(self, state: PartState, child: Process) -> None:
        words = f"it ended with exit code {child.returncode}; what it said is in the log"
        self._failed(state, self._budgets.why_ended(state.name) or words)

    async def _weighing(self) -> None:
        while not self._stopping.is_set():
            if self._budgets.look():
                self._note()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), WEIGH_SECONDS)

    async def _drained(self, child: Process) -> Ended:
        """What is at work when the service stops gets its time, and no more."""
        work = asyncio.create_task(finish(child, self._settings.most_seconds))
        if not await self._either(asyncio.shield(work)):
            await asyncio.wait([work], timeout=self._settings.drain_seconds)
            tell(child, signal.SIGTERM)
        return await work

    async def _either(self, what: asyncio.Event | Awaitable[object]) -> bool:
        """Waits for it; false where the service is to stop first."""
        waiting = asyncio.ensure_future(what.wait() if isinstance(what, asyncio.Event) else what)
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait([waiting, stopping], return_when=asyncio.FIRST_COMPLETED)
        is_done = waiting.done() and not self._stopping.is_set()
        for one in (waiting, stopping):
            one.cancel()
        return is_done

    async def _pause(self, state: PartState, seconds: float) -> None:
        """The rhythm of a part; each failure in a row doubles the wait."""
        seconds = max(seconds, min(seconds * 2 ** min(state.failures, MOST_DOUBLINGS), MOST_WAIT_SECONDS))
        state.next_at = self._clock.now() + timedelta(seconds=seconds)
        self._change(state, "failing" if state.failures else "waiting")
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    def _count(self, state: PartState, rows: int) -> None:
        self._landed_now(state, rows)
        if rows:
            self._say(state.name, f"{rows:,} rows landed")
            self._landed.set()

    def _landed_now(self, state: PartState, rows: int) -> None:
        now = self._clock.now()
        known = self._recent.get(state.name, [])
        recent = [one for one in known if (now - one[0]).total_seconds() < RATE_SECONDS]
        self._recent[state.name] = recent = [*recent, (now, rows)]
        state.rows_landed += rows
        state.rows_per_second = round(sum(count for _, count in recent) / RATE_SECONDS, 1)

    def _failed(self, state: PartState, error: str) -> None:
        state.failures += 1
        if error != state.error:  # once, not each time
            self._say(state.name, f"failed: {error}")
        state.error = error

    def _stumbled(self, state: PartState, error: str) -> None:
        """A stream that waits for another server, or no longer does; its process is as it was."""
        state.failures = 0
        if error:
            self._failed(state, error)
        state.error = error
        state.state = "failing" if error else "up"
        self._note()

    def _new_part(self, name: str) -> PartState:
        self._state.parts.append(PartState(name))
        return self._state.parts[-1]

    def _change(self, state: PartState, word: str) -> None:
        if state.state != word:
            state.state = word  # type: ignore[assignment]
            self._note()

    def _note(self) -> None:
        self._state.changed_at = self._clock.now()
        self._state.write(self._config.lake)

"""What is seen of an ASGI request as it passes: bytes, status, its end, and the CPU of the steps that it takes."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from gpulake.collect.tracing.trace_context import TraceContext
from gpulake.core.clock import Clock

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Passed = TypeVar("Passed")


@dataclass
class PassingRequest:
    """What is seen of a request as it passes."""

    context: TraceContext
    clock: Clock
    began_ms: float  # by the wall clock
    began: float  # by the one that nobody can set, seconds
    bytes_in: int = 0
    bytes_out: int | None = 0
    status: int | None = None
    is_answered: bool = False
    ended: float | None = None
    cpu_ns: int = 0
    has_waited: bool = False  # for something else than its client
    is_stepping: bool = False  # its own task runs: not another that works for it
    is_with_client: bool = False  # its own task reads from the client or writes to it

    def counting_receive(self, receive: Receive) -> Receive:
        async def counted() -> Message:
            message = await self._with_client(receive())
            self.bytes_in += len(message.get("body", b"")) if message["type"] == "http.request" else 0
            return message

        return counted

    def counting_send(self, send: Send) -> Send:
        async def counted(message: Message) -> None:
            await self._with_client(send(self._seen(message)))

        return counted

    async def _with_client(self, passing: Awaitable[Passed]) -> Passed:
        if not self.is_stepping:
            return await passing
        self.is_with_client = True
        try:
            return await passing
        finally:
            self.is_with_client = False

    def _seen(self, message: Message) -> Message:
        kind = message["type"]
        if kind == "http.response.start":
            self.status = message["status"]
            headers = list(message.get("headers", ()))
            if not any(name.lower() == b"x-trace-id" for name, _ in headers):
                headers.append((b"x-trace-id", self.context.trace_id.encode("ascii", "replace")))
            return {**message, "headers": headers}
        if kind == "http.response.body":
            if self.bytes_out is not None:
                self.bytes_out += len(message.get("body", b""))
            if not message.get("more_body", False):
                self._end()
        elif kind in ("http.response.pathsend", "http.response.zerocopysend"):
            # The server sends a file by itself: how much, it does not say.
            self.bytes_out = None
            if not message.get("more_body", False):
                self._end()
        return message

    def _end(self) -> None:
        """Answered: what a service does after that is not the request's."""
        self.is_answered = True
        self.ended = self.clock.elapsed()


class Metered:
    """Awaits the app step by step: between two steps the thread is others'."""

    def __init__(self, asked: Awaitable[None], request: PassingRequest) -> None:
        self._steps: Any = asked.__await__()
        self._request = request

    def __await__(self) -> Any:
        return self

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        return self._step(self._steps.send, value)

    def throw(self, *error: Any) -> Any:
        return self._step(self._steps.throw, *error)

    def close(self) -> None:
        self._steps.close()

    def _step(self, step: Callable[..., Any], *values: Any) -> Any:
        self._request.is_stepping = True
        began = time.thread_time_ns()
        try:
            waits_for = step(*values)
        finally:
            self._request.cpu_ns += time.thread_time_ns() - began
            self._request.is_stepping = False
        if not self._request.is_with_client:
            self._request.has_waited = True
        return waits_for

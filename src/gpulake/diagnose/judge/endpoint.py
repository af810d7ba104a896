"""An endpoint that speaks OpenAI's chat protocol: llama.cpp, vLLM, Ollama, or a hosted one."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from gpulake.core.judge_settings import KEY_VARIABLE, Judge
from gpulake.diagnose.judge.judging import NoAnswer
from gpulake.diagnose.judge.prompt import Message

MOST_ANSWER_BYTES = 1 << 20
MISSING = "the client is not installed; to have it: pip install 'gpulake[judge]'"
# Status codes of servers that do not support the request, and may support a simpler one.
NOT_UNDERSTOOD = (400, 415, 422, 501)
UNASKED_HEADERS = ("openai-organization", "openai-project")


@dataclass(frozen=True)
class Endpoint:
    settings: Judge
    key: str = field(default="", repr=False)
    monotonic: Callable[[], float] = time.monotonic

    @classmethod
    def of(cls, settings: Judge, environment: Mapping[str, str] | None = None) -> Endpoint:
        return cls(settings, (os.environ if environment is None else environment).get(KEY_VARIABLE, "").strip())

    def ask(self, messages: list[Message], schema: dict[str, Any]) -> str:
        try:
            import openai
        except ImportError as error:
            raise NoAnswer(MISSING) from error
        deadline = self.monotonic() + self.settings.timeout_seconds
        client = self._client(openai, deadline)
        with client:
            for wishes in _wishes(self.settings, schema):
                try:
                    return _text(self._sent(client, messages, wishes, deadline))
                except openai.APIStatusError as error:
                    if error.status_code not in NOT_UNDERSTOOD:
                        raise NoAnswer(_status(error.status_code)) from error
                    refused = error.status_code
                except NoAnswer:
                    raise
                except Exception as error:
                    raise NoAnswer(self._trouble(error, deadline)) from error
        raise NoAnswer(_status(refused))

    def _sent(self, client: Any, messages: list[Message], wishes: dict[str, Any], deadline: float) -> bytes:
        left = max(0.1, deadline - self.monotonic())
        request = {"model": self.settings.model, "messages": messages, "timeout": left, **wishes}
        return bytes(client.chat.completions.with_raw_response.create(**request).content)

    def _client(self, openai: Any, deadline: float) -> Any:
        # The HTTP library below the client differs between versions: take that of its default client.
        http = sys.modules[openai.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0]]
        inner = http.HTTPTransport(proxy=self._proxy())
        transport = _bounded_transport(http, inner, _Bounds(deadline, self.monotonic), bool(self.key))
        return openai.OpenAI(
            api_key=self.key or "none",
            base_url=self.settings.base_url,
            max_retries=self.settings.retries,
            timeout=self.settings.timeout_seconds,
            # Only the proxy above, and no redirects.
            http_client=http.Client(transport=transport, trust_env=False, follow_redirects=False),
        )

    def _proxy(self) -> str | None:
        """Requests to this machine must not go through a proxy."""
        parts = urlsplit(self.settings.base_url)
        if self.settings.is_local or proxy_bypass(parts.hostname or ""):
            return None
        return getproxies().get(parts.scheme)

    def _trouble(self, error: BaseException, deadline: float) -> str:
        """Without the library's message, which may repeat the request."""
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, NoAnswer):
                return str(cause)
            cause = cause.__cause__ or cause.__context__
        if "Timeout" in type(error).__name__ or self.monotonic() >= deadline:
            return f"it took longer than {self.settings.timeout_seconds:g} seconds"
        return f"{urlsplit(self.settings.base_url).netloc} cannot be reached, or breaks off ({type(error).__name__})"


def _wishes(settings: Judge, schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The strictest first. Not every endpoint can enforce a schema; the answer is checked in any case."""
    common = {"temperature": settings.temperature, "max_tokens": settings.most_answer_tokens}
    yield {**common, "response_format": _strict(schema)}
    yield {**common, "response_format": _strict(_without_lengths(schema))}
    # Reasoning models take no temperature, and have another name for the limit.
    yield {
        "max_completion_tokens": settings.most_answer_tokens,
        "response_format": _strict(_without_lengths(schema)),
    }
    yield {**common, "response_format": {"type": "json_object"}}
    yield common


def _strict(schema: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "diagnosis", "strict": True, "schema": schema}}


def _without_lengths(schema: Any) -> Any:
    """Some endpoints refuse a schema that bounds a text."""
    if isinstance(schema, dict):
        return {name: _without_lengths(value) for name, value in schema.items() if name != "maxLength"}
    return [_without_lengths(value) for value in schema] if isinstance(schema, list) else schema


def _text(content: bytes) -> str:
    """The model's answer, from an unchecked body."""
    try:
        body = json.loads(content)
        choice = body["choices"][0]
        text = choice["message"]["content"]
    except (ValueError, RecursionError, LookupError, TypeError) as error:
        raise NoAnswer("what came back is no chat completion") from error
    if isinstance(choice, dict) and choice.get("finish_reason") == "length":
        raise NoAnswer("it was cut off: raise judge.most_answer_tokens")
    if not isinstance(text, str) or not text.strip():
        raise NoAnswer("it is empty")
    return text


def _status(code: int) -> str:
    if code in (401, 403):
        return f"the endpoint refuses the key (status {code}): set {KEY_VARIABLE}"
    if code == 404:
        return "the endpoint knows no such path or model (status 404)"
    if code == 429:
        return "the endpoint is busy (status 429)"
    return f"the endpoint answers with status {code}"


@dataclass(frozen=True)
class _Bounds:
    """Limits of size and time of a response: the library's timeout is for each piece only."""

    deadline: float
    monotonic: Callable[[], float]

    def check(self, read: int) -> None:
        if read > MOST_ANSWER_BYTES:
            raise NoAnswer(f"it is longer than {MOST_ANSWER_BYTES >> 20} MiB")
        if self.monotonic() >= self.deadline:
            raise NoAnswer("it did not come in time")

    def pieces(self, stream: Iterable[bytes]) -> Iterator[bytes]:
        read = 0
        for piece in stream:
            read += len(piece)
            self.check(read)
            yield piece


def _bounded_transport(http: Any, inner: Any, bounds: _Bounds, has_key: bool) -> Any:
    class Stream(http.SyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any) -> None:
            self.stream = stream

        def __iter__(self) -> Iterator[bytes]:
            return bounds.pieces(self.stream)

        def close(self) -> None:
            self.stream.close()

    class Transport(http.BaseTransport):  # type: ignore[misc]
        def handle_request(self, request: Any) -> Any:
            bounds.check(0)
            headers = request.headers.copy()
            _trim(request.headers, has_key)
            response = inner.handle_request(request)
            request.headers = headers  # the client reads its own headers later
            # The server must not set the wait before a retry: there is a deadline.
            for name in ("retry-after", "retry-after-ms"):
                response.headers.pop(name, None)
            response.stream = Stream(response.stream)
            return response

        def close(self) -> None:
            inner.close()

    return Transport()


def _trim(headers: Any, has_key: bool) -> None:
    """Removes headers about this machine and its owner."""
    for name in list(headers):
        if name.startswith("x-stainless-") or name in UNASKED_HEADERS or (name == "authorization" and not has_key):
            headers.pop(name)
    headers["accept-encoding"] = "identity"
    # A kept-alive connection may be closed when the next request uses it.
    headers["connection"] = "close"

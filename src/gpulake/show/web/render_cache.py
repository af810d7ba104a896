"""A cache of rendered panels and answers by the version of their rows, with ETags."""

from __future__ import annotations

import gzip
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from fastapi import Request, Response

from gpulake import __version__
from gpulake.show.web.viewers import Viewer

MOST_CACHED_BYTES = 48 << 20
LEAST_ZIPPED_BYTES = 1_000
ZIP_LEVEL = 5


@dataclass(frozen=True)
class _Body:
    plain: bytes
    zipped: bytes | None

    @property
    def weight(self) -> int:
        return 200 + len(self.plain) + len(self.zipped or b"")


@dataclass
class RenderCache:
    _bodies: OrderedDict[str, _Body] = field(default_factory=OrderedDict)
    _bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def respond(
        self, request: Request, key: tuple[object, ...], viewer: Viewer, kind: str, render: Callable[[], str]
    ) -> Response:
        """The key contains the version of the rows; together with the viewer it determines the content."""
        whole = (request.scope["path"], key, viewer)
        headers = {"ETag": _tag(whole), "Vary": "Accept-Encoding"}
        if headers["ETag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        body = self._body(headers["ETag"], render)
        if body.zipped is not None and "gzip" in request.headers.get("accept-encoding", ""):
            return Response(body.zipped, media_type=kind, headers={**headers, "Content-Encoding": "gzip"})
        return Response(body.plain, media_type=kind, headers=headers)

    def forget(self) -> None:
        with self._lock:
            self._bodies.clear()
            self._bytes = 0

    def _body(self, tag: str, render: Callable[[], str]) -> _Body:
        # Keyed by the tag: a request may be longer than its response.
        with self._lock:
            if tag in self._bodies:
                self._bodies.move_to_end(tag)
                return self._bodies[tag]
        plain = render().encode()
        body = _Body(plain, gzip.compress(plain, ZIP_LEVEL) if len(plain) >= LEAST_ZIPPED_BYTES else None)
        with self._lock:
            if tag not in self._bodies:
                self._bodies[tag] = body
                self._bytes += body.weight
            while self._bytes > MOST_CACHED_BYTES:
                self._bytes -= self._bodies.popitem(last=False)[1].weight
        return body


def _tag(key: tuple[object, ...]) -> str:
    # Weak: the same content, compressed or not.
    return f'W/"{hashlib.sha256(repr((__version__, key)).encode()).hexdigest()[:40]}"'

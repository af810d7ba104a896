"""Bodies of requests, within a limit: one that says that it is larger is not read, another is cut off."""

from __future__ import annotations

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive


def has_body(request: Request) -> bool:
    headers = request.headers
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


def is_large(request: Request, most_bytes: int) -> bool:
    """By its own word; the server holds it to that."""
    length = request.headers.get("content-length", "0")
    return not length.isdecimal() or len(length) > len(str(most_bytes)) or int(length) > most_bytes


def bounded(receive: Receive, most_bytes: int) -> Receive:
    """What a body that comes in pieces may have in all."""
    count = 0

    async def received() -> Message:
        nonlocal count
        message = await receive()
        count += len(message.get("body", b""))
        if count > most_bytes:
            raise HTTPException(413, f"this request has more than {most_bytes} bytes", {"Connection": "close"})
        return message

    return received

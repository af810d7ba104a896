"""A service of a node: answers a request, and before that asks the next node, if there is one.

    python chain_service.py ADDRESS RUN_DIR NODE [NEXT_URL]

It prints its port once it listens, and ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import urllib.request
from typing import Any

import uvicorn

from gpulake.collect.adapters.asgi import TracingMiddleware, outgoing_headers


def serve(address: str, run_dir: str, node: str, next_url: str = "") -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        await receive()
        body = node.encode()
        if next_url:
            request = urllib.request.Request(next_url, headers=outgoing_headers())
            body += b" " + await asyncio.to_thread(_answer, request)
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": body})

    traced = TracingMiddleware(app, run_dir=run_dir, node=node, stage="test", module_id=f"svc-{node}")
    server = uvicorn.Server(uvicorn.Config(traced, log_level="warning", lifespan="off"))
    listening = socket.create_server((address, 0))
    print(listening.getsockname()[1], flush=True)

    async def run() -> None:
        serving = asyncio.create_task(server.serve([listening]))
        await asyncio.to_thread(sys.stdin.read)
        server.should_exit = True
        await serving

    asyncio.run(run())
    traced.close()


def _answer(request: urllib.request.Request) -> bytes:
    with urllib.request.urlopen(request, timeout=60) as response:
        body: bytes = response.read()
        return body


if __name__ == "__main__":
    serve(*sys.argv[1:])

"""Three nodes on one machine: network namespaces on a bridge where that is permitted, else processes on the loopback.

    with three_nodes() as nodes:
        nodes[0].run(["gpulake", ...]); service = nodes[1].start([...])

A command runs in its node's network; `address` is what the other nodes reach it by. Everything that was started or set
up is gone at the end.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

COUNT = 3
LOOPBACK = "127.0.0.1"
SOURCES = Path(__file__).parents[2] / "src"


@dataclass(frozen=True)
class Node:
    name: str
    address: str
    namespace: str = ""  # empty: this machine's own network
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def command(self, arguments: Sequence[str]) -> list[str]:
        inside = [_ip(), "netns", "exec", self.namespace] if self.namespace else []
        return [*inside, *arguments]

    def run(self, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """To its end; raises if it fails."""
        return subprocess.run(
            self.command(arguments), env=_environment(), capture_output=True, text=True, check=True, timeout=120
        )

    def start(self, arguments: Sequence[str]) -> subprocess.Popen[str]:
        """In the background, until it is stopped or the nodes are taken down."""
        process = subprocess.Popen(
            self.command(arguments), env=_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.processes.append(process)
        return process

    def python(self, *arguments: str) -> list[str]:
        """A command of our own: the same interpreter, with the sources of this project."""
        return [sys.executable, *arguments]

    def gpulake(self, *arguments: str) -> list[str]:
        return self.python("-c", "from gpulake.cli import main; main()", *arguments)


@contextmanager
def three_nodes(*, is_isolated: bool = True) -> Iterator[list[Node]]:
    with ExitStack() as stack:
        isolated = _in_namespaces(stack) if is_isolated else []
        nodes = isolated or [Node(f"node{number}", LOOPBACK) for number in range(1, COUNT + 1)]
        try:
            yield nodes
        finally:
            for process in (process for node in nodes for process in node.processes):
                process.kill()
                process.communicate()


def _in_namespaces(stack: ExitStack) -> list[Node]:
    """Namespaces with a cable each to one bridge; none where this user may not."""
    if not shutil.which("ip"):
        return []
    mark = secrets.token_hex(2)  # several may run at the same time
    bridge = f"gl{mark}b"
    with ExitStack() as built:
        try:
            _set_up(built, "link", "add", bridge, "type", "bridge", undo=("link", "del", bridge))
            _call("link", "set", bridge, "up")
            nodes = [_namespace(built, bridge, mark, number) for number in range(1, COUNT + 1)]
        except subprocess.CalledProcessError:
            return []  # and what was set up so far is taken down
        stack.push(built.pop_all())
    return nodes


def _namespace(built: ExitStack, bridge: str, mark: str, number: int) -> Node:
    name, cable, end = f"gl{mark}n{number}", f"gl{mark}c{number}", f"gl{mark}e{number}"
    # Each set of nodes has a subnet of its own, though no packet leaves its bridge.
    address = f"10.{int(mark[:2], 16)}.{int(mark[2:], 16)}.{number}"
    _set_up(built, "netns", "add", name, undo=("netns", "del", name))
    _set_up(built, "link", "add", cable, "type", "veth", "peer", "name", end, undo=("link", "del", cable))
    _call("link", "set", cable, "master", bridge)
    _call("link", "set", cable, "up")
    _call("link", "set", end, "netns", name)
    for words in (
        ("addr", "add", f"{address}/24", "dev", end),
        ("link", "set", end, "up"),
        ("link", "set", "lo", "up"),
    ):
        _call("-n", name, *words)
    return Node(f"node{number}", address, name)


def _set_up(built: ExitStack, *words: str, undo: tuple[str, ...]) -> None:
    _call(*words)
    # A cable goes with its namespace, so that taking it down may find nothing.
    built.callback(subprocess.run, [_ip(), *undo], capture_output=True, check=False)


def _call(*words: str) -> None:
    subprocess.run([_ip(), *words], capture_output=True, check=True)


def _ip() -> str:
    return shutil.which("ip") or "ip"


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(SOURCES)}

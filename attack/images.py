"""What a disk may hold after a power cut, from a recording of what a process did to its files.

As ALICE and CrashMonkey do: what was synced is there. Of a file that was changed since, the old content may be there,
the new one, a part of it, or zeros; of a folder that was changed since, the names as they were after any change.
A rename may therefore be on the disk before the data of its file. Files and folders are independent of each other.
"""

from __future__ import annotations

import random
import shutil
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

HEADER = struct.Struct("=cQqQHH")
STATES = ("synced", "names", "chance")


class Call(NamedTuple):
    """One that changed something, by its initial: C, W, T, R, L, U, D(irectory), S(ync), A(ll synced), M(ark)."""

    kind: str
    inode: int
    offset: int
    one: Path
    two: Path
    data: bytes


def read_recording(path: Path) -> list[Call]:
    content = path.read_bytes()
    calls, at = [], 0
    while at < len(content):
        kind, inode, offset, size, first, second = HEADER.unpack_from(content, at)
        at += HEADER.size
        one, two, data = content[at : at + first], content[at + first : at + first + second], b""
        at += first + second
        data = content[at : at + size]
        at += size
        calls.append(Call(kind.decode(), inode, offset, Path(one.decode()), Path(two.decode()), data))
    return calls


@dataclass
class File:
    synced: bytes = b""
    changes: list[tuple[int, bytes | None]] = field(default_factory=list)  # since then: where and what; None: cut there
    now: bytearray = field(default_factory=bytearray)

    def change(self, offset: int, data: bytes | None) -> None:
        self.changes.append((offset, data))
        _put(self.now, offset, data)

    def sync(self) -> None:
        self.synced, self.changes = bytes(self.now), []

    def chance(self, chance: random.Random) -> bytes:
        """Of each change since the last sync nothing, all or a part; or the new length, and zeros where data is not."""
        content = bytearray(self.synced)
        if self.changes and chance.random() < 0.25:
            content.extend(bytes(max(0, len(self.now) - len(content))))
        for offset, data in self.changes:
            how = chance.choice(("nothing", "all", "a part"))
            if how != "nothing":
                _put(content, offset, data[: chance.randint(0, len(data))] if data and how == "a part" else data)
        return bytes(content)


def _put(content: bytearray, offset: int, data: bytes | None) -> None:
    content.extend(bytes(max(0, offset - len(content))))
    if data is None:
        del content[offset:]
    else:
        content[offset : offset + len(data)] = data


@dataclass
class Folder:
    synced: dict[str, Node] = field(default_factory=dict)
    changes: list[dict[str, Node | None]] = field(default_factory=list)  # since then, each atomic
    now: dict[str, Node] = field(default_factory=dict)

    def change(self, names: dict[str, Node | None]) -> None:
        self.changes.append(names)
        _apply(self.now, names)

    def sync(self) -> None:
        self.synced, self.changes = dict(self.now), []

    def after(self, changes: int) -> dict[str, Node]:
        names = dict(self.synced)
        for change in self.changes[:changes]:
            _apply(names, change)
        return names


Node = File | Folder


def _apply(names: dict[str, Node], change: dict[str, Node | None]) -> None:
    for name, node in change.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


class Disk:
    """The files under a folder, as they are and as they surely are on the disk."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._inodes: dict[int, Node] = {}
        self._top = self._read(root)
        self._sync_all()

    def _read(self, path: Path) -> Node:
        node: Node
        if path.is_dir():
            node = Folder(now={child.name: self._read(child) for child in path.iterdir()})
        else:
            node = File(now=bytearray(path.read_bytes()))
        self._inodes[path.stat().st_ino] = node
        return node

    def _sync_all(self) -> None:
        for node in self._inodes.values():
            node.sync()

    def _parent(self, path: Path) -> Folder:
        node = self._top
        for part in path.parent.relative_to(self._root).parts:
            assert isinstance(node, Folder)
            node = node.now[part]
        assert isinstance(node, Folder)
        return node

    def play(self, call: Call) -> None:
        node = self._inodes.get(call.inode)
        match call.kind:
            case "C" | "D":
                fresh: Node = File() if call.kind == "C" else Folder()
                self._inodes[call.inode] = fresh
                self._parent(call.one).change({call.one.name: fresh})
            case "W":
                assert isinstance(node, File)
                node.change(call.offset, call.data)
            case "T":
                assert isinstance(node, File)
                node.change(call.offset, None)
            case "R":
                moved = self._parent(call.one).now[call.one.name]
                source, target = self._parent(call.one), self._parent(call.two)
                if source is target:
                    source.change({call.one.name: None, call.two.name: moved})
                else:
                    source.change({call.one.name: None})
                    target.change({call.two.name: moved})
            case "L":
                self._parent(call.two).change({call.two.name: self._parent(call.one).now[call.one.name]})
            case "U":
                self._parent(call.one).change({call.one.name: None})
            case "S" if node is not None:
                node.sync()
            case "A":
                self._sync_all()

    def write(self, target: Path, state: str, chance: random.Random) -> None:
        """One of the images that a cut may leave now: what is synced, all names with the data that is synced, all that
        was written, or what chance chooses."""
        shutil.rmtree(target, ignore_errors=True)
        self._lay(self._top, target, state, chance)

    def _lay(self, node: Node, path: Path, state: str, chance: random.Random) -> None:
        if isinstance(node, File):
            content = {"synced": node.synced, "names": node.synced, "now": bytes(node.now)}
            path.write_bytes(content[state] if state in content else node.chance(chance))
            return
        path.mkdir()
        most = len(node.changes)
        applied = {"synced": 0, "names": most, "now": most}
        names = node.after(applied[state] if state in applied else chance.randint(0, most))
        for name, child in names.items():
            self._lay(child, path / name, state, chance)

"""A file that is still being downloaded: `<name>.part`, and `<name>.part.json` that says where its bytes come from.

Its final name appears only once all bytes are on disk and verified, so that a cut, a crash or a kill costs no more than
the bytes of the moment.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

from gpulake.core.disk import sync

BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class Origin:
    """Where the newest bytes of a part come from: a URL, the server's mark of that version, the URL's first byte."""

    url: str = ""
    validator: str | None = None
    start: int = 0


class Part:
    def __init__(self, final: Path) -> None:
        self.final = final
        self.path = final.with_name(f"{final.name}.part")
        self._note = final.with_name(f"{final.name}.part.json")
        # Unbuffered: what was counted is in the file, even if the process is killed.
        self._file = os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644), "r+b", buffering=0)
        self._hash_up_to(self._file.seek(0, os.SEEK_END))
        self.origin = self._remembered_origin()

    def __enter__(self) -> Part:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    @property
    def sha256(self) -> str:
        return self._hasher.hexdigest()

    def write(self, block: bytes) -> None:
        rest = memoryview(block)
        while rest:
            rest = rest[self._file.write(rest) :]
        self._hasher.update(block)
        self.size += len(block)

    def cut_to(self, size: int) -> None:
        """Forgets what comes after the first bytes."""
        if size != self.size:
            self._file.truncate(size)
            self._hash_up_to(size)

    def remember(self, origin: Origin) -> None:
        self.origin = origin
        self._note.write_text(json.dumps(asdict(origin)), encoding="utf-8")

    def publish(self) -> None:
        """Gives the file its final name, once its bytes are on disk."""
        os.fsync(self._file.fileno())
        # The note goes first: a kill in between leaves a part that is whole, which needs no note.
        self._note.unlink(missing_ok=True)
        self.path.replace(self.final)
        sync(self.final.parent)

    def discard(self) -> None:
        self._note.unlink(missing_ok=True)
        self.path.unlink()

    def _hash_up_to(self, size: int) -> None:
        self._hasher = hashlib.sha256()
        self._file.seek(0)
        self.size = 0
        while self.size < size:
            block = self._file.read(min(BLOCK_BYTES, size - self.size))
            if not block:
                break
            self._hasher.update(block)
            self.size += len(block)

    def _remembered_origin(self) -> Origin:
        try:
            origin = Origin(**json.loads(self._note.read_text(encoding="utf-8")))
            return origin if 0 <= origin.start <= self.size else Origin()
        except (OSError, ValueError, TypeError):
            return Origin()  # no note, or one cut short: the checksum will tell whether the bytes are any good

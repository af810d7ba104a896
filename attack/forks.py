"""Asks attack.victims to act, to be killed and to check; builds the library that stands before the C library."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

HERE = Path(__file__).parent
TESTS = HERE.parent / "tests"


def missing() -> str:
    """Why crash points cannot be tried here; empty: they can."""
    if not sys.platform.startswith("linux"):
        return "it needs Linux: calls are intercepted with LD_PRELOAD"
    return "" if shutil.which("cc") else "it needs a C compiler (cc) to build what intercepts calls"


class Victims:
    """Give each try a folder of its own below `folder`: `root` there is the disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        library = folder / "shim.so"
        source = str(HERE / "shim.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), source, "-ldl", "-lpthread"], check=True)
        paths = os.pathsep.join([str(HERE.parent), str(TESTS), os.environ.get("PYTHONPATH", "")])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "attack.victims", str(library)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "LD_PRELOAD": str(library), "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"},
        )

        assert self._process.stdout
        self.scenarios: list[str] = json.loads(self._process.stdout.readline())

    def __enter__(self) -> Victims:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.communicate()

    def fresh(self, scenario: str) -> Path:
        """The disk on which a scenario begins, always at the same path: sources are known by theirs."""
        root, begin = self.root(scenario), self._folder / scenario / "begin"
        if not begin.exists():
            root.mkdir(parents=True)
            self._must(self._ask("prepare", scenario))
            shutil.copytree(root, begin)
        shutil.rmtree(root)
        shutil.copytree(begin, root)
        return root

    def root(self, scenario: str) -> Path:
        return self._folder / scenario / "root"

    def record(self, scenario: str) -> Path:
        """What a scenario does to its files, up to its end."""
        recording = self._folder / scenario / "recording"
        self._must(self._act(scenario, recording=recording))
        return recording

    def killed(self, scenario: str, at: int) -> list[str]:
        """Kills it before its so-and-so-manieth call, and returns what it had acknowledged."""
        status = self._act(scenario, kill_at=at)
        if status != -signal.SIGKILL:
            self._must(status)
        return (self._folder / "acknowledged").read_text(encoding="utf-8").splitlines()

    def check(self, scenario: str, acknowledged: list[str]) -> list[str]:
        """What is lost, doubled or otherwise wrong after the next command."""
        answer = self._folder / "answer"
        answer.unlink(missing_ok=True)
        status = self._ask("check", scenario, acknowledged=acknowledged, answer=str(answer))
        if status:
            return [f"the next command failed: {self._last_words()}"]
        faults: list[str] = json.loads(answer.read_text(encoding="utf-8"))
        return faults

    def _act(self, scenario: str, recording: Path | None = None, kill_at: int = 0) -> int:
        words = str(self._folder / "acknowledged")
        named = str(recording) if recording else ""
        return self._ask("act", scenario, acknowledged=words, recording=named, kill_at=kill_at)

    def _ask(self, do: str, scenario: str, **more: object) -> int:
        assert self._process.stdin
        assert self._process.stdout
        places = {"root": str(self.root(scenario)), "errors": str(self._folder / "errors")}
        request = {"do": do, "scenario": scenario, **places, **more}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def _must(self, status: int) -> None:
        if status:
            raise AssertionError(f"{status}: {self._last_words()}")

    def _last_words(self) -> str:
        return (self._folder / "errors").read_text(encoding="utf-8")[-2000:]

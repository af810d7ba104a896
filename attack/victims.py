"""A process that acts in forks of itself, to be killed at a call or recorded: python -m attack.victims SHIM.

It imports once; each line of its input is a request, each line of its output the answer. `act` does what a scenario
does, and writes down what it acknowledged; `check` is what comes next: the same again, undisturbed, and a look at it.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import pyarrow as pa

from attack.scenarios import SCENARIOS


def act(shim: ctypes.CDLL, request: dict[str, Any]) -> None:
    root = Path(request["root"])
    acknowledged = os.open(request["acknowledged"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    recording = os.open(request["recording"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC) if request["recording"] else -1

    def tell(words: str) -> None:
        os.write(acknowledged, words.encode() + b"\n")
        shim.shim_mark(words.encode())

    shim.shim_arm(str(root).encode(), recording, request["kill_at"])
    SCENARIOS[request["scenario"]].act(root, tell)


def check(request: dict[str, Any]) -> None:
    scenario = SCENARIOS[request["scenario"]]
    root, words = Path(request["root"]), request["acknowledged"]
    faults = scenario.lost(root, words)
    again: list[str] = []
    scenario.act(root, again.append)
    faults += scenario.wrong(root)
    faults += [
        f"{word} again" for word in words if word.startswith("sent ") and word.replace("sent", "delivered") in again
    ]
    Path(request["answer"]).write_text(json.dumps(faults), encoding="utf-8")


def main(shim: ctypes.CDLL) -> None:
    # With its first table pyarrow loads much that forks would load again and again.
    pa.Table.from_pylist([{"number": 1}])
    print(json.dumps(list(SCENARIOS)), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if not child:
            os.dup2(os.open(request["errors"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
            try:
                if request["do"] == "prepare":
                    SCENARIOS[request["scenario"]].prepare(Path(request["root"]))
                elif request["do"] == "act":
                    act(shim, request)
                else:
                    check(request)
            except BaseException:  # noqa: BLE001 - whatever it is, it is the answer
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main(ctypes.CDLL(sys.argv[1]))

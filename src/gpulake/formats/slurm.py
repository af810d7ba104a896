"""Slurm's small languages: job ids, states, trackable resources, sizes, lists of hosts, and the summaries of jobstats.

What cannot be read is a ValueError that says so, unless its word is kept beside what was made of it.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from math import prod

JOB_ID = re.compile(r"(?P<job>\d+)(_(?P<task>\d+|\[[^\]]+\]))?(\+(?P<het>\d+))?(\.(?P<step>[\w+]+))?", re.ASCII)
STATE = re.compile(r"(?P<word>[A-Z][A-Z_]*)\+?( by (?P<by>\S+))?")
SIZE = re.compile(r"(?P<count>\d+(\.\d+)?)(?P<unit>[KMGTPE]?)(?P<per>[cn]?)", re.ASCII)
BYTES = {unit: 1024**power for power, unit in enumerate(["B", "K", "M", "G", "T", "P", "E"])}
HOST = r"(?:[^\s,\[\]]|\[[^\s\[\]]*\])+"
PART = re.compile(r"[^\[\]]+|\[[^\]]*\]")
RANGE = re.compile(r"(?P<first>\d+)(-(?P<last>\d+))?", re.ASCII)
GPU_PERCENT = re.compile(r"(^|,)gres/gpuutil=(?P<percent>\d{1,9})(,|$)", re.ASCII)
SPAN = re.compile(r"(?:(?P<d>\d{1,6})-)?(?:(?P<h>\d{1,3}):)?(?P<m>\d{1,3}):(?P<s>\d\d(?:\.\d{1,9})?)", re.ASCII)
# `gpu:a100:2(IDX:0,2-3)`; a shard of a GPU, which several jobs may hold, has other words in the brackets.
GPU_INDEXES = re.compile(r"(?:^|,)gpu(?::[^:,()]+)*\(IDX:(?P<numbers>[0-9,-]+)\)", re.ASCII)
MOST_HOSTS = 100_000
SUMMARY = "JS1:"
# The longest that slurmctld would write, and no more: a few bytes of gzip can unpack into any number.
MOST_SUMMARY_BYTES = 512 * 1024


@dataclass(frozen=True)
class JobId:
    job_id: str  # without the step
    is_plain: bool  # neither a task of an array nor a part of a heterogeneous job
    array_job_id: str
    array_task_id: str
    het_job_id: str
    het_offset: str
    step: str


def job_id(text: str) -> JobId:
    found = JOB_ID.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is not the id of a job or a step")
    job, task, het, step = (found[name] or "" for name in ("job", "task", "het", "step"))
    return JobId(
        job_id=text.removesuffix(f".{step}") if step else text,
        is_plain=not task and not het,
        array_job_id=job if task else "",
        array_task_id=task,
        het_job_id=job if het else "",
        het_offset=het,
        step=step,
    )


def state(text: str) -> tuple[str, str]:
    """The word, and who cancelled."""
    found = STATE.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is not a state")
    return found["word"], found["by"] or ""


def resources(text: str) -> dict[str, str]:
    """`cpu=2,gres/gpu:h100=8` by name."""
    pairs = [item.partition("=") for item in text.split(",")] if text else []
    if any(not name or not equals for name, equals, _ in pairs):
        raise ValueError(f"{text!r} are not resources")
    return {name: value for name, _, value in pairs}


def gpus(text: str) -> tuple[str, str]:
    """How many, and their types. `gres/gpu` counts all of them; those with a type are among them."""
    if not text:
        return "", ""
    held = resources(text)
    typed = {name.removeprefix("gres/gpu:"): count for name, count in held.items() if name.startswith("gres/gpu:")}
    counts = [held["gres/gpu"]] if "gres/gpu" in held else list(typed.values())
    if not all(count.isascii() and count.isdigit() for count in counts):
        raise ValueError(f"{text!r} has GPUs that are not a number")
    return str(sum(int(count) for count in counts)), ",".join(sorted(typed))


def gpu_ratio(text: str) -> str:
    """`gres/gpuutil` of a step, in percent, as a ratio."""
    found = GPU_PERCENT.search(text)
    return str(int(found["percent"]) / 100) if found else ""


def seconds(text: str) -> float:
    """`[days-][hours:]minutes:seconds`."""
    found = SPAN.fullmatch(text)
    if not found:
        raise ValueError(f"{text[:64]!r} is not a time span")
    minutes = int(found["d"] or 0) * 1440 + int(found["h"] or 0) * 60 + int(found["m"])
    return minutes * 60 + float(found["s"])


def elapsed_seconds(raw: str, shown: str) -> float | None:
    """ElapsedRaw, or else Elapsed; None where neither is a time."""
    if raw.isascii() and raw.isdigit():
        return float(raw)
    return seconds(shown) if SPAN.fullmatch(shown) else None


def memory_bytes(asked: str, wanted: str, nodes: str, cpus: str) -> str:
    """Of all of the job: from ReqTRES, or from ReqMem, which older versions give per node (4Gn) or per CPU (4Gc)."""
    whole = size_bytes(resources(wanted).get("mem", "")) if wanted else None
    if whole is None:
        found = SIZE.fullmatch(asked)
        size = size_bytes(asked[:-1] if found and found["per"] else asked)
        times = {"n": nodes, "c": cpus, "": "1"}[found["per"]] if found else ""
        whole = size * int(times) if size is not None and times.isascii() and times.isdigit() else None
    # 0 stands for all the memory that a node has, however much that is.
    return str(whole) if whole else ""


def size_bytes(text: str) -> int | None:
    """`4G`; in MiB without a unit."""
    found = SIZE.fullmatch(text)
    return int(float(found["count"]) * BYTES[found["unit"] or "M"]) if found and not found["per"] else None


def hosts(text: str) -> list[str]:
    """`gpu[01-03]x,login` → gpu01x, gpu02x, gpu03x, login."""
    if not re.fullmatch(f"{HOST}(,{HOST})*", text):
        raise ValueError(f"{text!r} is not a list of hosts")
    found: list[str] = []
    for host in re.findall(HOST, text):
        parts = [_numbers(part[1:-1], text) if part[0] == "[" else [part] for part in PART.findall(host)]
        if len(found) + prod(len(part) for part in parts) > MOST_HOSTS:
            raise ValueError(f"a list of more than {MOST_HOSTS:,} hosts")
        found.extend("".join(names) for names in product(*parts))
    return found


def gpu_indexes(by_nodes: Iterable[tuple[str, str]]) -> str:
    """Of lists of nodes and the GRES that a job has on each of them: `g1/0,g1/1`."""
    return ",".join(
        f"{node}/{int(number)}"
        for nodes, gres in by_nodes
        for node in hosts(nodes)
        for found in GPU_INDEXES.finditer(gres)
        for number in _numbers(found["numbers"], gres)
    )


def _numbers(text: str, whole: str) -> list[str]:
    """`01-03,7` → 01, 02, 03, 7: as wide as the first of a range is."""
    numbers: list[str] = []
    for item in text.split(","):
        found = RANGE.fullmatch(item)
        first = int(found["first"]) if found else 0
        last = int(found["last"] or found["first"]) if found else 0
        if not found or last < first:
            raise ValueError(f"{whole!r} is not a list of hosts")
        if last - first + len(numbers) > MOST_HOSTS:
            raise ValueError(f"a list of more than {MOST_HOSTS:,} hosts")
        width = len(found["first"])
        numbers.extend(f"{number:0{width}d}" for number in range(first, last + 1))
    return numbers


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def summary(comment: str) -> str:
    """What jobstats left in AdminComment, base64 of gzip of JSON; `JS1:Short` and `JS1:None` hold nothing."""
    if not comment.startswith(SUMMARY):
        return ""
    try:
        packed = base64.b64decode(comment.removeprefix(SUMMARY), validate=True)
        unpack = zlib.decompressobj(zlib.MAX_WBITS | 16)
        text = unpack.decompress(packed, MOST_SUMMARY_BYTES)
        found = json.loads(text, parse_constant=_refuse) if unpack.eof else None
    except (binascii.Error, zlib.error, ValueError, RecursionError):
        return ""
    return json.dumps(found, separators=(",", ":")) if isinstance(found, dict) else ""

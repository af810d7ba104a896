"""Collectors of many nodes over ssh, without root: the bundle is pushed once a version; a node answers for itself."""

from __future__ import annotations

import hashlib
import re
import shlex
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from gpulake.collect.bundle import write_bundle
from gpulake.core.errors import GpulakeError, UsageError

AT_ONCE = 10  # a gateway refuses more that begin at once (MaxStartups of sshd)
MOST_SECONDS = 120.0
SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
MISSING = 90  # the exit code where the bundle is not there yet
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:%\[\]-]*", re.ASCII)


@dataclass(frozen=True)
class Host:
    name: str  # as ssh takes it
    words: tuple[str, ...] = ()  # further options of its collector


@dataclass(frozen=True)
class Answer:
    host: Host
    code: int
    output: str
    error: str


def read_hosts(text: str) -> list[Host]:
    """A host a line, with options of its collector behind it; # begins a comment."""
    hosts = {}
    for line in text.splitlines():
        if words := shlex.split(line, comments=True):
            if not _HOST.fullmatch(words[0]) or words[0] in hosts:
                raise UsageError(f"{words[0]!r} is no host, or is there twice", "write a host a line, as ssh takes it")
            hosts[words[0]] = Host(words[0], tuple(words[1:]))
    if not hosts:
        raise UsageError("there is no host in it", "write a host a line, as ssh takes it")
    return list(hosts.values())


class Fleet:
    def __init__(self, hosts: Sequence[Host], ssh: str = "", python: str = "python3") -> None:
        self._hosts, self._ssh, self._python = hosts, [*(shlex.split(ssh) or SSH)], python

    def ask(self, *words: str, is_start: bool = False) -> Iterator[Answer]:
        """The command of the collector on every host, in the order of the hosts; what fails costs only its host."""
        with tempfile.TemporaryDirectory() as folder:
            write_bundle(bundle := Path(folder, "collect.pyz"))
            content = bundle.read_bytes()
        yield from self._each(lambda host: self._collect(host, content, [*words, *(host.words if is_start else ())]))

    def fetch(self, run_id: str, out: Path) -> Iterator[Answer]:
        """Folders of the run, as OUT/HOST/RUN_ID/NODE. What hosts see of a home that they share comes once."""
        listed = list(self._each(lambda host: self._run(host, f"cd runs && stat -c '%i %n' {shlex.quote(run_id)}/*")))
        seen: set[str] = set()
        chosen: dict[Host, list[str]] = {}
        for one in listed:
            new = [line for line in one.output.splitlines() if line not in seen]
            seen.update(new)
            chosen[one.host] = [line.partition(" ")[2] for line in new]

        def answer(one: Answer) -> Answer:
            nodes = chosen[one.host]
            return self._fetch(one.host, nodes, out) if nodes and not one.code else one

        with ThreadPoolExecutor(AT_ONCE) as pool:
            yield from pool.map(answer, listed)

    def _each(self, act: Callable[[Host], Answer]) -> Iterator[Answer]:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            yield from pool.map(act, self._hosts)

    def _collect(self, host: Host, content: bytes, words: Sequence[str]) -> Answer:
        file = f".cache/gpulake/collect-{hashlib.sha256(content).hexdigest()[:16]}.pyz"
        there = f"test -s {file} || exit {MISSING}; exec {shlex.join([self._python, file, *words])}"
        answer = self._run(host, there)
        if answer.code != MISSING:
            return answer
        # Homes may be shared by the hosts: each writes under a name of its own.
        new = f'"{file}.$(hostname).$$"'
        pushed = self._run(host, f"umask 077; mkdir -p .cache/gpulake && cat > {new} && mv {new} {file}", content)
        return self._run(host, there) if pushed.code == 0 else pushed

    def _run(self, host: Host, script: str, given: bytes = b"") -> Answer:
        command = [*self._ssh, "--", host.name, f"cd && {{ {script}; }}"]
        try:
            done = subprocess.run(command, input=given, capture_output=True, timeout=MOST_SECONDS, check=False)  # noqa: S603
        except subprocess.TimeoutExpired:
            return Answer(host, 1, "", f"no answer within {MOST_SECONDS:.0f} seconds")
        except OSError as error:
            raise GpulakeError(
                f"{self._ssh[0]} cannot be run: {error.strerror}", "install it, or give --ssh"
            ) from error
        return Answer(host, done.returncode, *(_text(one) for one in (done.stdout, done.stderr)))

    def _fetch(self, host: Host, nodes: Sequence[str], out: Path) -> Answer:
        words = [*self._ssh, "--", host.name, f"cd && cd runs && tar -cf - -- {shlex.join(nodes)}"]
        pipe = subprocess.PIPE
        with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe) as process:  # noqa: S603
            assert process.stdout
            assert process.stderr
            try:
                with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
                    archive.extractall(out / host.name, filter="data")
            except (tarfile.TarError, OSError) as error:
                process.kill()
                return Answer(host, 1, "", _text(process.stderr.read()) or str(error))
            error_text = _text(process.stderr.read())
        return Answer(host, process.returncode, "", error_text)


def _text(output: bytes) -> str:
    return output.decode("utf-8", "replace").strip()

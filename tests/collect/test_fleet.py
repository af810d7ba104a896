"""Collectors over ssh: several hosts of a real sshd on loopback, which share a home as clusters' nodes do."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from bench.scoring.servers import free_port
from click.testing import CliRunner

from gpulake.cli.collect.deploy import command
from gpulake.collect.fleet import Host, read_hosts
from gpulake.core.errors import GpulakeError, UsageError

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
needs_sshd = pytest.mark.skipif(
    SSHD is None or shutil.which("ssh") is None, reason="needs the Debian packages openssh-server and openssh-client"
)


def test_a_line_is_a_host_and_options_of_its_collector() -> None:
    found = read_hosts("# the rack\nann@n1  --stage=edge --match 'a b'\n\nn2 # spare\n")
    assert found == [Host("ann@n1", ("--stage=edge", "--match", "a b")), Host("n2")]


@pytest.mark.parametrize("text", ["", "# none\n", "n1\nn1\n", "-oProxyCommand=touch\n", "n1;true\n"])
def test_what_is_no_host_is_refused_before_anything_runs(text: str) -> None:
    with pytest.raises(UsageError):
        read_hosts(text)


@contextmanager
def sshd(folder: Path) -> Iterator[str]:
    """The command of a client that knows any name as a host of it."""
    assert SSHD
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    (folder / "home").mkdir()
    port = free_port()
    lines = [f"Port {port}", "ListenAddress 127.0.0.1", f"HostKey {folder}/host", "StrictModes no", "PidFile none"]
    lines += [f"AuthorizedKeysFile {folder}/user.pub", "PasswordAuthentication no", f"SetEnv HOME={folder}/home"]
    (folder / "sshd_config").write_text("\n".join(lines) + "\n")
    lines = ["Host node*", "HostName 127.0.0.1", f"Port {port}", f"User {getpass.getuser()}", "BatchMode yes"]
    lines += [f"IdentityFile {folder}/user", "StrictHostKeyChecking no", f"UserKnownHostsFile {folder}/known"]
    (folder / "config").write_text("\n".join(lines) + "\n")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # as its service does
    process = subprocess.Popen([SSHD, "-D", "-e", "-f", folder / "sshd_config"], stderr=subprocess.PIPE)
    try:
        assert process.stderr
        assert b"listening" in process.stderr.readline()
        yield f"ssh -F {folder}/config"
    finally:
        process.terminate()
        process.communicate()


def deploy(hosts: Path, ssh: str, *words: str) -> str:
    done = CliRunner().invoke(command, ["--hosts", str(hosts), "--ssh", ssh, "--run-id", "r1", *words])
    if done.exception:
        raise done.exception
    return done.stdout


@needs_sshd
@pytest.mark.slow
def test_collectors_of_several_hosts_start_stop_and_become_one_run(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("".join(f"node{n} --node-id=n{n}\n" for n in range(5)))
    with sshd(tmp_path) as ssh:
        try:
            started = deploy(hosts, ssh, "start", "--interval=200ms", "--sources=host").splitlines()
            assert [line.partition(" (")[0] for line in started] == [
                f"node{n}: collecting: runs/r1/n{n}" for n in range(5)
            ]
            assert deploy(hosts, ssh, "status").count("node0: r1   n") == 5
        finally:
            stopped = deploy(hosts, ssh, "stop")
        assert stopped.count(": stopped (process") >= 5
        assert len(list((tmp_path / "home/.cache/gpulake").iterdir())) == 1
        assert deploy(hosts, ssh, "--out", str(tmp_path / "merged"), "fetch").strip() == str(tmp_path / "merged")
        # Each folder came once, though every host sees all of them.
        assert len(list((tmp_path / "merged.nodes").glob("*/r1/*"))) == 5
        rows = (tmp_path / "merged" / "host_metrics.jsonl").read_text()
        assert all(f'"n{n}"' in rows for n in range(5))
        hosts.write_text(hosts.read_text() + "other.invalid\n")
        with pytest.raises(GpulakeError, match="1 of 6 hosts failed"):
            deploy(hosts, ssh, "status")


@pytest.mark.skipif(shutil.which("ssh") is None, reason="needs the Debian package openssh-client")
def test_a_host_that_cannot_be_reached_fails_alone_and_says_why(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        hosts = tmp_path / "hosts"
        hosts.write_text("127.0.0.1\n")
        with pytest.raises(GpulakeError, match="1 of 1 hosts failed"):
            deploy(hosts, f"ssh -o BatchMode=yes -p {closed.getsockname()[1]}", "status")

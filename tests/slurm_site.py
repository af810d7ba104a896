"""A real Slurm on loopback: munged, MariaDB, slurmdbd, slurmctld and slurmd; terminals stand for GPUs."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = {
    "slurmctld": "slurm-wlm",
    "slurmd": "slurm-wlm",
    "sacct": "slurm-wlm",
    "munged": "munge",
    "slurmdbd": "slurmdbd",
    "mariadbd": "mariadb-server",
}
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
STARTS_SECONDS = 60
GPUS = {"g1": ("a100", 4, 10), "g2": ("a100", 4, 14), "g3": ("h100", 2, 18)}  # type, GPUs, first terminal


def reason_to_skip() -> str:
    """Empty if it can run here."""
    missing = sorted({package for name, package in PROGRAMS.items() if not shutil.which(name, path=PATH)})
    if missing:
        return f"Slurm is not installed: apt-get install {' '.join(missing)}"
    if os.geteuid() != 0:
        return "slurmd starts jobs of users: run as root"
    return "" if Path("/dev/tty19").exists() else "there is no /dev/tty19 to stand for a GPU"


@dataclass(frozen=True)
class SlurmSite:
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": PATH, "SLURM_CONF": str(self.folder / "slurm.conf"), "TZ": "UTC"}

    def run(self, *arguments: str) -> str:
        answer = subprocess.run(
            arguments, env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=60, check=False
        )
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    def submit(self, script: str, *options: str) -> str:
        return self.run("sbatch", "--parsable", "--output=/dev/null", *options, f"--wrap={script}").strip()

    def wait_until(self, question: tuple[str, ...], is_answered: str) -> str:
        """Slurm does nothing at once, so it is asked until it has."""
        deadline = time.monotonic() + STARTS_SECONDS
        while True:
            answer = self.run(*question)
            if is_answered in answer:
                return answer
            assert time.monotonic() < deadline, f"{question} still says: {answer}"
            time.sleep(0.2)


def _ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _configure(folder: Path) -> None:
    munge = folder / "munge" / "socket"
    ctld, dbd, *nodes = _ports(2 + len(GPUS))
    (folder / "slurmdbd.conf").write_text(
        f"AuthType=auth/munge\nAuthInfo=socket={munge}\nDbdHost=localhost\nDbdPort={dbd}\nSlurmUser=root\n"
        "StorageType=accounting_storage/mysql\nStorageHost=localhost\nStorageUser=root\nStorageLoc=acct\n"
        f"LogFile={folder}/dbd.log\nPidFile={folder}/dbd.pid\n"
    )
    (folder / "slurmdbd.conf").chmod(0o600)
    listed = "".join(
        f"NodeName={name} NodeHostname=localhost Port={port} CPUs=8 RealMemory=1000 Gres=gpu:{kind}:{count} "
        f"Feature={kind}\n"
        for (name, (kind, count, _)), port in zip(GPUS.items(), nodes, strict=True)
    )
    (folder / "slurm.conf").write_text(
        f"ClusterName=tiger\nSlurmctldHost=localhost\nSlurmctldPort={ctld}\nSlurmUser=root\nSlurmdUser=root\n"
        # A job that is requeued waits until the credential of its first run is no longer valid.
        f"AuthType=auth/munge\nAuthInfo=socket={munge},cred_expire=5\nStateSaveLocation={folder}/state\n"
        f"SlurmdSpoolDir={folder}/spool-%n\nSlurmctldPidFile={folder}/ctld.pid\nSlurmdPidFile={folder}/%n.pid\n"
        f"SlurmctldLogFile={folder}/ctld.log\nSlurmdLogFile={folder}/%n.log\nProctrackType=proctrack/linuxproc\n"
        "TaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/linux\nSelectType=select/cons_tres\n"
        "SelectTypeParameters=CR_CPU\nReturnToService=1\nMpiDefault=none\nGresTypes=gpu\n"
        "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=localhost\n"
        f"AccountingStoragePort={dbd}\nAccountingStoragePass={munge}\nAccountingStorageTRES=gres/gpu\n"
        "SlurmdParameters=config_overrides\nSlurmctldParameters=idle_on_node_suspend\nSchedulerParameters=sched_interval=1\n"
        f"{listed}PartitionName=gpu Nodes={','.join(GPUS)} Default=YES State=UP\n"
    )
    (folder / "gres.conf").write_text(
        "AutoDetect=off\n"
        + "".join(
            f"NodeName={name} Name=gpu Type={kind} File=/dev/tty[{first}-{first + count - 1}]\n"
            for name, (kind, count, first) in GPUS.items()
        )
    )


@contextmanager
def slurm_site(folder: Path) -> Iterator[SlurmSite]:
    for name in ("munge", "db", "state"):
        (folder / name).mkdir(parents=True)
    folder.chmod(0o755)
    _configure(folder)
    site = SlurmSite(folder)
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str, **environment: str) -> None:
        with (folder / "output.log").open("ab") as log:
            started.append(
                subprocess.Popen(arguments, env=site.environment | environment, cwd=folder, stdout=log, stderr=log)
            )

    munge, database = folder / "munge", folder / "db"
    (munge / "key").write_bytes(os.urandom(1024))
    (munge / "key").chmod(0o400)
    site.run(
        *("mariadb-install-db", "--no-defaults", f"--datadir={database}", "--user=root", "--skip-test-db"),
        "--auth-root-authentication-method=socket",
    )
    try:
        files = [f"--{name}-file={munge / name}" for name in ("key", "pid", "log", "seed")]
        start("munged", "--foreground", "--force", f"--socket={munge / 'socket'}", *files)
        start(
            *("mariadbd", "--no-defaults", f"--datadir={database}", f"--socket={database}/socket", "--user=root"),
            *("--skip-networking", "--innodb-buffer-pool-size=64M", f"--pid-file={database}/pid"),
        )
        asked = ("mariadb", "--no-defaults", f"--socket={database}/socket")
        _patiently(lambda: site.run(*asked, "-e", "create database acct"))
        start("slurmdbd", "-D", MYSQL_UNIX_PORT=f"{database}/socket")
        _patiently(lambda: site.run("sacctmgr", "-i", "add", "cluster", "tiger"))
        site.run("sacctmgr", "-i", "add", "account", "physics", "bio")
        site.run("sacctmgr", "-i", "add", "user", "root", "account=physics,bio")
        start("slurmctld", "-D", "-i")
        _patiently(lambda: site.run("sinfo"))
        for node in GPUS:
            start("slurmd", "-D", "-N", node)
        site.wait_until(("sinfo", "-h", "-o", "%D %T"), "3 idle")
        yield site
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _patiently(act: object) -> None:
    deadline = time.monotonic() + STARTS_SECONDS
    while True:
        try:
            act()  # type: ignore[operator]
            return
        except (AssertionError, subprocess.TimeoutExpired):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)

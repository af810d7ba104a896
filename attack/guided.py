"""Files that are led by what of a parser they reach: by atheris (pip install atheris), where it is installed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[1]
# The parsers that are Python: a compiled one tells nothing of what it reached.
LED = (
    *("sacct.txt", "page.prom", "host_metrics.jsonl", "node.xml", "node.csv", "node.json", "n1.dmesg.log"),
    *("cluster_job_log", "machines.csv", "nginx", "envoy", "sacct", "otlp", "dump_0.json", "steps.jsonl"),
)
INSTRUMENTED = ["gpulake.land", "gpulake.core", "gpulake.collect", "gpulake.diagnose"]
HANG_SECONDS = 30


def attack(runs: int, seed: int, folder: Path, fault: Callable[[str], None]) -> str:
    """How many there were; what goes wrong is told."""
    if importlib.util.find_spec("atheris") is None:
        return "none: atheris is not installed"
    each = max(runs // len(LED), 1)
    for name in LED:
        ended = _run(name, each, seed, folder / "guided")
        if ended:
            fault(f"coverage-guided, {name}, seed {seed}: {ended}")
    return f"{each * len(LED):,}"


def _run(name: str, runs: int, seed: int, folder: Path) -> str:
    place = folder / name
    (place / "corpus").mkdir(parents=True, exist_ok=True)
    options = [f"-runs={runs}", f"-seed={seed}", f"-timeout={HANG_SECONDS}", "-rss_limit_mb=2048", "-max_len=65536"]
    command = [sys.executable, "-m", "attack.guided", name, str(place), *options, f"-artifact_prefix={place}/"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    ran = subprocess.run(
        [*command, str(place / "corpus")], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    lines = [line for line in (ran.stdout + ran.stderr).splitlines() if "Error" in line or "ALARM" in line]
    return f"exits {ran.returncode}: {' | '.join(lines[-3:])}" if ran.returncode else ""


def main() -> None:
    import atheris  # type: ignore[import-not-found]

    with atheris.instrument_imports(include=INSTRUMENTED):
        from attack.targets import targets
        from gpulake.core.errors import GpulakeError
    name, place = sys.argv[1], Path(sys.argv[2])
    target, content = next((one, content) for one in targets(place) for known, content in one.seeds if known == name)
    (place / "corpus" / "seed").write_bytes(content)
    path = place / "try" / name
    path.parent.mkdir(exist_ok=True)

    def read(data: bytes) -> None:
        path.write_bytes(data)
        with suppress(GpulakeError):
            target.read(path)

    atheris.Setup([sys.argv[0], *sys.argv[3:]], read)
    atheris.Fuzz()


if __name__ == "__main__":
    main()

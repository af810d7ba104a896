"""Whether this machine can build with Spark, and what to do if it cannot."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from gpulake.core.errors import UsageError

INSTALL = "install it with: pip install 'gpulake[spark]'"
LEAST_JAVA = 17
JAVA = (
    "install a Java runtime, version 17 or 21, such as openjdk-17-jre-headless, and set JAVA_HOME if it is not on PATH"
)
MAJOR = {"pyspark": "4", "sqlglot": "30"}


def spark_parts() -> Iterator[tuple[str, str, str]]:
    """Name, what was found, and what to do where that does not suffice."""
    for package, major in MAJOR.items():
        try:
            found = version(package)
        except PackageNotFoundError:
            yield package, "missing", INSTALL
        else:
            yield package, found, "" if found.split(".")[0] == major else f"{INSTALL} (it needs version {major})"
    found = _java()
    known = re.search(r'version "(\d+)', found)
    yield "java", found or "missing", "" if known and int(known[1]) >= LEAST_JAVA else JAVA


def need_spark() -> None:
    for part, found, hint in spark_parts():
        if hint:
            raise UsageError(f"Spark cannot run here: {part}: {found}", hint)


def _java() -> str:
    """What it says of itself, as Spark would start it."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not command:
        return ""
    try:
        answer = subprocess.run([command, "-version"], check=False, capture_output=True, text=True, timeout=60)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command}: {error}"
    return (answer.stderr or answer.stdout).partition("\n")[0].strip()

"""Dashboards for Grafana over the metrics of `gpulake serve` and of the collectors."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from gpulake.core.errors import UsageError


def dashboards() -> dict[str, str]:
    """Their files by name, as text."""
    entries = (file for file in files(__name__).iterdir() if file.name.endswith(".json"))
    return {file.name: file.read_text(encoding="utf-8") for file in sorted(entries, key=lambda file: file.name)}


def write_dashboards(folder: Path) -> list[Path]:
    """Writes them into the folder. Changed files there are not overwritten."""
    paths = {folder / f"gpulake-{name}": text for name, text in dashboards().items()}
    for path, text in paths.items():
        if path.exists() and path.read_text(encoding="utf-8", errors="replace") != text:
            raise UsageError(f"{path} exists and differs", "choose another folder, or remove it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in paths.items():
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot write to {folder}: {error.strerror}", "name a folder that can be written to"
        ) from error
    return list(paths)

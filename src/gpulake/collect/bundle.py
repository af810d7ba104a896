"""The collector as one file: a zipapp that needs Python on a node, and nothing else."""

from __future__ import annotations

import shutil
import stat
import zipfile
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import gpulake
from gpulake.core.errors import GpulakeError

SHEBANG = b"#!/usr/bin/env python3\n"
EPOCH = (1980, 1, 1, 0, 0, 0)  # reproducible: the same files give the same bytes
# The parts of our package that a node needs.
OURS = (
    "__init__.py",
    *("core/**/*", "formats/**/*", "collect/**/*", "cli/collect/**/*"),
    *("cli/__init__.py", "cli/_options.py", "cli/_verbs.py"),
)
# Distribution: its module, and whether it is required.
OTHERS = {"click": ("click", True), "nvidia-ml-py": ("pynvml", False), "PyYAML": ("yaml", False)}
ENDINGS = (".py", ".toml", ".json", ".service", ".typed")
MAIN = """\
import sys

if sys.version_info < (3, 11):
    sys.exit("error: Python %d.%d is too old\\nhint: run this file with Python 3.11 or newer" % sys.version_info[:2])

import runpy

runpy.run_module("gpulake.cli.collect", run_name="__main__")
"""


def write_bundle(out: Path) -> list[str]:
    """Writes the file atomically; returns the bundled distributions."""
    root = Path(gpulake.__file__).parent.parent
    new = out.with_name(f"{out.name}.new")
    try:
        if root.is_file():  # this is a bundle itself: copy it
            shutil.copyfile(root, new)
        else:
            _write(new, dict(_files()))
        new.chmod(0o755)
        new.replace(out)
    except OSError as error:
        raise GpulakeError(
            f"{out} cannot be written: {error.strerror}", "name a file in a folder that is there"
        ) from error
    return [name for name, (module, _) in OTHERS.items() if find_spec(module)]


def _files() -> Iterator[tuple[str, bytes]]:
    """Names in the bundle, and contents."""
    yield "__main__.py", MAIN.encode()
    package = Path(gpulake.__file__).parent
    for pattern in OURS:
        for path in package.glob(pattern):
            if path.suffix in ENDINGS and path.is_file():
                yield f"gpulake/{path.relative_to(package).as_posix()}", path.read_bytes()
    yield from _licences("gpulake")
    for distribution, (module, is_needed) in OTHERS.items():
        spec = find_spec(module)
        if spec is None or spec.origin is None:
            if is_needed:
                raise GpulakeError(f"no module {module} to bundle", f"install it: pip install {distribution}")
            continue
        origin = Path(spec.origin)
        # A module, or all Python files of a package, without compiled parts: those depend on the machine.
        paths = origin.parent.rglob("*.py") if spec.submodule_search_locations else [origin]
        for path in paths:
            start = origin.parent.parent if spec.submodule_search_locations else origin.parent
            yield path.relative_to(start).as_posix(), path.read_bytes()
        yield from _licences(distribution)


def _licences(distribution: str) -> Iterator[tuple[str, bytes]]:
    """The licence files; without any, the metadata."""
    try:
        files = metadata.distribution(distribution).files or []
    except metadata.PackageNotFoundError:
        return
    named = [file for file in files if "licen" in file.name.lower() or "copying" in file.name.lower()]
    for file in named or [file for file in files if file.name == "METADATA"]:
        path = Path(str(file.locate()))
        if path.is_file():
            yield f"licences/{distribution}/{file.name}", path.read_bytes()


def _write(path: Path, files: dict[str, bytes]) -> None:
    with path.open("wb") as out:
        out.write(SHEBANG)
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for name in sorted(files):
                entry = zipfile.ZipInfo(name, EPOCH)
                entry.external_attr = (stat.S_IFREG | 0o644) << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, files[name])

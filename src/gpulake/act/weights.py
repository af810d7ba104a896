"""Files of weights: whether they were written completely, as far as their format shows. Nothing is loaded."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

SUFFIXES = (".pt", ".pth", ".bin", ".ckpt", ".safetensors", ".distcp")
_ZIP = b"PK\x03\x04"
_MOST_HEADER_BYTES = 100 << 20  # safetensors allows no more


def damage(path: Path) -> str:
    """What is wrong with the file; empty: it is whole, or its format does not show it."""
    try:
        size = path.stat().st_size
        if not size:
            return "is empty"
        if path.suffix == ".safetensors":
            return _safetensors_damage(path, size)
        with path.open("rb") as file:
            is_zip = file.read(4) == _ZIP
        # The directory of a zip is written last; a tensor file of torch is a zip.
        return "is cut off" if is_zip and not zipfile.is_zipfile(path) else ""
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _safetensors_damage(path: Path, size: int) -> str:
    """The header has the offsets of all tensors, counted from its own end."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, _MOST_HEADER_BYTES):
            return "is cut off"
        header = file.read(length)
    try:
        tensors = [entry for name, entry in json.loads(header).items() if name != "__metadata__"]
        end = max((int(entry["data_offsets"][1]) for entry in tensors), default=0)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        return "has a header that is none"
    return "is cut off" if 8 + length + end > size else ""


def missing_shards(folder: Path) -> str:
    """An index of Hugging Face names the files over which the weights are spread."""
    for index in sorted(folder.glob("*.index.json")):
        try:
            named = set(json.loads(index.read_bytes())["weight_map"].values())
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return f"{index.name} cannot be read"
        for name in sorted(map(str, named)):
            if not (folder / Path(name).name).is_file():
                return f"{Path(name).name} is missing"
    return ""

"""The words of Prometheus' text format that everybody who writes a page of metrics needs."""

from __future__ import annotations

import re

Labels = tuple[tuple[str, str], ...]

TEXT = "text/plain; version=0.0.4; charset=utf-8"
NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_]")
SURROGATE = re.compile("[\ud800-\udfff]")  # what stands for bytes that were no UTF-8


def labels_text(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{NOT_IN_NAMES.sub("_", name)}="{escaped(value)}"' for name, value in labels) + "}"


def escaped(value: str) -> str:
    text = SURROGATE.sub("\ufffd", value)
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def help_text(words: str) -> str:
    return words.replace("\\", r"\\").replace("\n", r"\n")

"""The pages by role: this version takes the commands that they show. scripts/site checks their links."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import pytest

from deploy.test_chart import parsed

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = ("index", "for-slurm", "for-kubernetes", "for-on-call", "for-researchers", "mcp")


def commands(page: str) -> list[list[str]]:
    lines = (DOCS / f"{page}.md").read_text(encoding="utf-8").splitlines()
    shown = [shlex.split(line.removeprefix("$ "), comments=True) for line in lines if line.startswith("$ gpulake ")]
    named = [shlex.split(part) for line in lines for part in line.split("`") if part.startswith("gpulake ")]
    return [words[1 : words.index(">") if ">" in words else None] for words in (*shown, *named)]


@pytest.mark.parametrize("page", PAGES)
def test_commands_of_a_page_are_those_of_this_version(page: str) -> None:
    found = commands(page)
    assert found
    for words in found:
        try:
            parsed(words)
        except (click.MissingParameter, click.exceptions.NoArgsIsHelpError):
            pass  # a command that is only named
        except click.BadParameter as error:
            if "does not exist" not in error.message:  # a file of the reader's
                raise

"""A verb on a lake, as its user types it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from click.testing import CliRunner, Result

from gpulake.cli import root
from gpulake.lake import Lake


@dataclass(frozen=True)
class Verb:
    name: str

    def __call__(self, lake: Lake, *arguments: str, pipe: str | None = None) -> Result:
        return CliRunner().invoke(root, [self.name, *arguments, "--lake", str(lake.root)], input=pipe)

    def document(self, lake: Lake, *arguments: str, pipe: str | None = None) -> Any:
        answer = self(lake, *arguments, "--json", pipe=pipe)
        assert answer.exit_code == 0, (answer.output, answer.exception)
        return json.loads(answer.stdout)

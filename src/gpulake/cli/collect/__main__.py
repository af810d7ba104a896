"""The collector's commands by themselves: `python -m gpulake.cli.collect`, and what a bundle runs."""

from __future__ import annotations

import sys
from pathlib import Path

from gpulake.cli import main
from gpulake.cli.collect import command

NAME = Path(sys.argv[0]).name
main(command, "gpulake collect" if NAME == "__main__.py" else NAME)

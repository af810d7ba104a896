"""Writes the generated files; with --check, says which are out of date and exits 1."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from gpulake.core.config import Config
from gpulake.model.dbt import compile_plan
from gpulake.model.plan import to_json
from gpulake.model.sources import sources_yaml

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / "src" / "gpulake" / "model"


def main() -> int:
    is_check = "--check" in sys.argv[1:]
    stale = [path for path, content in generated() if not keep(path, content, is_check)]
    for path in stale:
        print(f"out of date: {path.relative_to(ROOT)}; run scripts/docs", file=sys.stderr)
    return 1 if stale else 0


def generated() -> list[tuple[Path, str]]:
    with tempfile.TemporaryDirectory() as folder:
        plan = compile_plan(Path(folder), Config(lake=Path(folder) / "lake"))
    return [
        (MODEL / "project" / "models" / "sources.yml", sources_yaml()),
        (MODEL / "plan.json", to_json(plan)),
    ]


def keep(path: Path, content: str, is_check: bool) -> bool:
    if path.exists() and path.read_text(encoding="utf-8") == content:
        return True
    if not is_check:
        path.write_text(content, encoding="utf-8")
        return True
    return False


if __name__ == "__main__":
    sys.exit(main())

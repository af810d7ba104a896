"""Writes docs/notebook.ipynb: runs its cells on the lake of a demo and keeps what they show: notebook.py LAKE"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parent.parent / "docs" / "notebook.ipynb"
# In order; a cell that begins with # is text.
CELLS = [
    """# From the demo to three findings

Make the lake with `gpulake demo`. The data are generated: no cluster is real.""",
    """import gpulake

lake = gpulake.open("demo/lake")
lake.sql("SELECT rank, severity, headline FROM findings ORDER BY rank")""",
    """## 1. Who holds GPUs without using them?

Idle is a bucket of the ledger: held, with no work.""",
    '''idle = lake.sql("""
    SELECT user_id, sum(idle_gpu_hours) AS idle, sum(used_gpu_hours) AS used
    FROM gold_ledger_daily WHERE user_id IS NOT NULL GROUP BY user_id ORDER BY idle DESC, user_id LIMIT 5
""")
idle''',
    """worst = idle.to_pylist()[0]["user_id"]
lake.card(user=worst)""",
    "## 2. Which of their jobs should change, and how?",
    '''query = """
    SELECT job_id, cluster_id FROM gold_job_efficiency_daily WHERE user_id = getvariable('user')
    GROUP BY ALL ORDER BY sum(idle_gpu_hours) DESC, job_id LIMIT 1
"""
job = lake.sql(query, user=worst).to_pylist()[0]
lake.card(job=job["job_id"], cluster=job["cluster_id"])''',
    "## 3. Which machines fail their jobs?",
    '''lake.sql("""
    SELECT machine_id, failed_jobs, jobs, expected_failed_jobs FROM gold_lemon_machines ORDER BY rank LIMIT 5
""")''',
    """lake.plot("ledger")""",
]


def main(lake: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "demo").mkdir()
        (Path(folder) / "demo" / "lake").symlink_to(lake.resolve())
        os.chdir(folder)
        names: dict[str, Any] = {}
        cells = [_cell(text, names) for text in CELLS]
    count = 0
    for cell in cells:
        if cell["cell_type"] == "code":
            count += 1
            cell["execution_count"] = count
            for output in cell["outputs"]:
                output["execution_count"] = count
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    document = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    TARGET.write_text(json.dumps(document, indent=1, ensure_ascii=False, default=str) + "\n", encoding="utf-8")


def _cell(text: str, names: dict[str, Any]) -> dict[str, Any]:
    source = text.splitlines(keepends=True)
    cell = {"id": f"cell-{CELLS.index(text)}", "metadata": {}, "source": source}
    if text.startswith("#"):
        return {"cell_type": "markdown", **cell}
    shown = _run(text, names)
    result = {"output_type": "execute_result", "metadata": {}, "data": shown}
    return {"cell_type": "code", **cell, "outputs": [result] if shown else []}


def _run(text: str, names: dict[str, Any]) -> dict[str, Any]:
    """What a notebook shows of the cell's last expression."""
    tree = ast.parse(text)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(tree, "notebook", "exec"), names)  # noqa: S102 - our own cells
    if not isinstance(last, ast.Expr):
        return {}
    value = eval(compile(ast.Expression(last.value), "notebook", "eval"), names)  # noqa: S307 - our own cells
    if hasattr(value, "_repr_mimebundle_"):
        bundle: dict[str, Any] = value._repr_mimebundle_()
        return bundle
    shown = {"text/plain": repr(value)}
    return shown | ({"text/html": value._repr_html_()} if hasattr(value, "_repr_html_") else {})


if __name__ == "__main__":
    main(Path(sys.argv[1]))

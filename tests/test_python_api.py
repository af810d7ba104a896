"""The lake in Python: the page's examples and the notebook run, and nothing heavy is loaded before it is needed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gpulake
from gpulake.api import PLOTLY
from gpulake.core.config import Config
from gpulake.core.errors import UsageError

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture
def demo(shared_lake: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The shared lake where the page has the demo's."""
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "lake").symlink_to(shared_lake.lake)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_examples_of_the_page_run(demo: Path) -> None:
    page = (DOCS / "python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)
    assert len(blocks) == 6
    assert (demo / "ledger.html").stat().st_size > 100_000


@pytest.mark.usefixtures("demo")
def test_the_notebook_runs_and_is_small() -> None:
    file = DOCS / "notebook.ipynb"
    notebook = json.loads(file.read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    names: dict[str, object] = {}
    for cell in cells:
        exec(compile("".join(cell["source"]), file.name, "exec"), names)
    assert file.stat().st_size < 200_000
    # It was run when it was written.
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert sum(bool(cell["outputs"]) for cell in cells) >= 4


@pytest.mark.usefixtures("demo")
def test_rows_are_arrow_and_a_notebook_shows_them_escaped() -> None:
    lake = gpulake.open("demo/lake")
    rows = lake.sql("SELECT '<b>' AS name, NULL AS nothing, 0 AS zero")
    assert rows.to_pylist() == [{"name": "<b>", "nothing": None, "zero": 0}]
    assert rows._repr_html_() == (
        "<table><thead><tr><th>name</th><th>nothing</th><th>zero</th></tr></thead>"
        "<tbody><tr><td>&lt;b&gt;</td><td>–</td><td>0</td></tr></tbody></table>"
    )
    assert len(rows.to_pandas()) == 1
    assert set(lake.plot("jobs")._repr_mimebundle_()) == {PLOTLY, "text/plain"}


@pytest.mark.usefixtures("demo")
def test_a_mistake_is_an_error_that_names_the_way_out() -> None:
    lake = gpulake.open("demo/lake")
    with pytest.raises(UsageError, match="no table named 'silver_job'"):
        lake.table("silver_job")
    with pytest.raises(UsageError, match="only queries are allowed"):
        lake.sql("DROP TABLE silver_jobs")


def test_importing_the_package_loads_nothing_of_it() -> None:
    code = "import sys, gpulake; print(sorted(name for name in sys.modules if name.startswith(('gpulake', 'duckdb'))))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "['gpulake']\n"

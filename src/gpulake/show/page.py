"""Pages that work offline: one HTML file with everything inside, all data escaped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpulake import __version__
from gpulake.core.errors import LakeError
from gpulake.core.packaged import packaged_text
from gpulake.lake import replace_text


def write_page(path: Path, template: str, drawn: Mapping[str, Any], option: str, **content: Any) -> None:
    """Writes the file in one step. The option is the one that names the file."""
    from jinja2 import Environment, PackageLoader

    environment = Environment(loader=PackageLoader("gpulake.show"), autoescape=True)
    page = environment.get_template(template).render(
        **content,
        version=__version__,
        style=packaged_text("gpulake.show", "templates/report.css"),
        plotly=packaged_text("gpulake.show", "web/static/plotly.js"),
        # A label in the data must not be able to close the script element.
        drawn=json.dumps(drawn, default=str).replace("<", "\\u003c"),
    )
    try:
        if path.exists() and not path.is_file():
            raise LakeError(f"{path} is not a file", "name another place for the report")
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, page)
    except OSError as error:
        raise LakeError(f"cannot write the report {path}: {error}", f"name another file with {option}") from error


def write_figure(path: Path, title: str, figure: Mapping[str, Any]) -> Path:
    """A page of one figure."""
    write_page(path, "figure.html", {"figure": figure}, "another path", title=title)
    return path

"""The API, asked at random by what its own document says: it never fails, and answers as the document says."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from examples import cases
from gpulake.core.config import Config
from gpulake.core.serve_settings import Serve
from gpulake.flow.serving import application
from gpulake.lake import Lake
from gpulake.show.web.api import PREFIX
from gpulake.show.web.questions import questions

DOCUMENT = f"{PREFIX}/openapi.json"
CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
EXAMPLES = 3  # of each kind, of each operation


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """On a lake without tables: what is asked is judged before it is answered, and answers come at once."""
    config = Config(lake=tmp_path_factory.mktemp("fuzz") / "lake", threads=1, serve=Serve(sql=True, sql_seconds=0.2))
    return schemathesis.openapi.from_asgi(DOCUMENT, application(Lake(config).create()))


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_no_request_makes_it_fail(api: Any, mode: GenerationMode) -> None:
    asked = 0
    for operation in (found.ok() for found in api.get_all_operations()):
        raw = api.raw_schema["paths"][operation.path][operation.method.lower()]
        takes_nothing = not raw.get("parameters") and "requestBody" not in raw
        if operation.path == f"{PREFIX}/events" or (mode is GenerationMode.NEGATIVE and takes_nothing):
            continue  # news have no end, and nothing cannot be wrong

        @settings(
            max_examples=EXAMPLES,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(operation.as_strategy(generation_mode=mode))
        def ask(case: Any) -> None:
            nonlocal asked
            asked += 1
            case.call_and_validate(checks=CHECKS)

        ask()
    assert asked >= len(questions())


@pytest.mark.slow
@given(st.data())
@settings(max_examples=cases(20), suppress_health_check=list(HealthCheck))
def test_no_body_makes_a_query_fail(api: Any, data: st.DataObject) -> None:
    """Whatever is sent as a query is answered, or told why not."""
    operation = api["/api/v1/sql"]["POST"]
    data.draw(operation.as_strategy()).call_and_validate(checks=CHECKS)


def test_the_document_is_one(api: Any) -> None:
    api.validate()
    assert api.raw_schema["openapi"].startswith("3.")
    described = set(api.raw_schema["paths"])
    assert {"/api/v1", "/api/v1/sql", *(f"/api/v1/{name}.csv" for name in questions())} <= described
    names = [operation["operationId"] for path in api.raw_schema["paths"].values() for operation in path.values()]
    assert len(names) == len(set(names))

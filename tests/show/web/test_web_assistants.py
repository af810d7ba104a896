"""gpulake mcp: an assistant asks the API's questions over standard input and output, and changes nothing."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from typing import Any

import pytest
from fastapi.testclient import TestClient

from gpulake.core.config import Config
from gpulake.flow import Flow
from gpulake.flow.serving import assist
from gpulake.show.web.questions import questions

HELLO = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def said(config: Config, *lines: bytes) -> list[dict[str, Any]]:
    written = io.BytesIO()
    assist(Flow(config).lake, io.BytesIO(b"".join(line + b"\n" for line in lines)), written)
    return [json.loads(line) for line in written.getvalue().splitlines()]


def message(method: str, number: int | None = 1, **params: Any) -> bytes:
    named = {} if number is None else {"id": number}
    return json.dumps({"jsonrpc": "2.0", **named, "method": method, "params": params}).encode()


def call(config: Config, tool: str, **arguments: Any) -> tuple[bool, str]:
    (answer,) = said(config, message("tools/call", name=tool, arguments=arguments))
    (content,) = answer["result"]["content"]
    return answer["result"]["isError"], content["text"]


def test_it_agrees_on_a_version_lists_its_tools_and_leaves_notifications_unanswered(rich: Config) -> None:
    hello, later, tools, ping = said(
        rich,
        message("initialize", 1, **HELLO),
        message("notifications/initialized", None),
        message("initialize", 2, **{**HELLO, "protocolVersion": "2099-01-01"}),
        message("tools/list", 3),
        message("ping", 4),
    )
    assert hello["result"]["protocolVersion"] == "2025-03-26"
    assert later["result"]["protocolVersion"] == "2025-06-18"
    assert [one["name"] for one in tools["result"]["tools"]] == ["list_questions", "ask"]
    assert all(one["annotations"]["readOnlyHint"] for one in tools["result"]["tools"])
    assert ping == {"jsonrpc": "2.0", "id": 4, "result": {}}


def test_every_question_is_listed_and_few_are_described_in_full(rich: Config) -> None:
    every = json.loads(call(rich, "list_questions")[1])
    assert [one["question"] for one in every] == list(questions())
    few = json.loads(call(rich, "list_questions", about="cost user")[1])
    (cost,) = (one for one in few if one["question"] == "cost_by_user")
    assert cost["about"] == questions()["cost_by_user"].about
    assert cost["parameters"]["from"] == {"about": "the first day, in the cluster's time zone", "type": "date"}


def test_an_answer_is_that_of_the_api(rich: Config, client: TestClient) -> None:
    is_error, text = call(rich, "ask", question="leaders", parameters={"by": "held", "limit": 2, "sort": "-name"})
    of_api = client.get("/api/v1/leaders", params={"by": "held", "limit": 2, "sort": "-name"}).json()
    assert not is_error
    assert json.loads(text) == {name: value for name, value in of_api.items() if name != "version"}
    assert of_api["rows"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"question": "leaderz"}, "no question named 'leaderz'. did you mean 'leaders'?"),
        ({"question": "leaders", "parameters": {"bye": "x"}}, "leaders has no parameter 'bye'"),
        ({"question": "leaders", "parameters": {"range": "2d"}}, "range: '2d' is none of "),
        ({"question": "leaders", "parameters": {"limit": 1001}}, "limit: Input should be less than or equal to 1000"),
        ({"question": "leaders", "parameters": [1]}, "parameters is an object"),
        ({"question": "leaders", "sql": "drop table x"}, "ask takes question and parameters, and nothing else"),
        ({"question": ["leaders"]}, "no question named ['leaders']"),
    ],
)
def test_what_an_assistant_gets_wrong_it_is_told_with_the_way_out(
    rich: Config, arguments: dict[str, Any], words: str
) -> None:
    is_error, text = call(rich, "ask", **arguments)
    assert is_error
    assert text.startswith(words)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", -32700),
        (b"\xff", -32700),
        (b"[" * 100_000, -32700),
        (b"[1]", -32600),
        (b'{"id": 1}', -32600),
        (message("resources/list"), -32601),
        (b'{"id": 1, "method": "tools/list", "params": [1]}', -32602),
        (message("tools/call", name="drop"), -32602),
    ],
)
def test_what_is_no_request_is_an_error_and_the_next_one_is_answered(rich: Config, line: bytes, code: int) -> None:
    first, second = said(rich, line, message("ping", 2))
    assert first["error"]["code"] == code
    assert second == {"jsonrpc": "2.0", "id": 2, "result": {}}


@pytest.mark.slow
def test_the_command_says_nothing_else_on_its_output(rich: Config) -> None:
    command = [sys.executable, "-P", "-m", "gpulake", "mcp", "--lake", str(rich.lake)]
    done = subprocess.run(command, input=message("ping"), capture_output=True, timeout=120, check=True)
    assert json.loads(done.stdout) == {"jsonrpc": "2.0", "id": 1, "result": {}}

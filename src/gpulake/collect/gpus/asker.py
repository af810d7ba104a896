"""Asks one GPU, and stops asking what it cannot answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from gpulake.collect.gpus.driver import Driver, Unanswered, Unsupported
from gpulake.collect.gpus.questions import Question

Values = dict[str, Any]  # fields of GpuSample


class Asker:
    """The questions that one GPU answers, of those that it was given."""

    def __init__(self, driver: Driver, handle: Any, subject: str, questions: Iterable[tuple[Question, ...]]) -> None:
        self._driver = driver
        self._handle = handle
        self._subject = subject
        self._left = [[known for question in choice if (known := self._known(question))] for choice in questions]

    def ask(self) -> Values:
        """What it says now. What it does not say now is None, what it never says is missing."""
        found: Values = {}
        for choice in self._left:
            self._ask_first_of(choice, found)
        self._left = [choice for choice in self._left if choice]
        return found

    def _ask_first_of(self, choice: list[tuple[Question, tuple[Any, ...]]], found: Values) -> None:
        while choice:
            question, arguments = choice[0]
            try:
                answer = self._driver.call(question.call, self._subject, self._handle, *arguments)
            except Unsupported:
                choice.pop(0)
                continue
            except Unanswered:
                found.update((name, None) for name, _ in question.fields)
                return
            for (name, unit), raw in zip(question.fields, question.take(answer), strict=True):
                found[name] = self._driver.clean(name, raw, unit)
            return

    def _known(self, question: Question) -> tuple[Question, tuple[Any, ...]] | None:
        arguments = tuple(self._driver.constant(name) for name in question.arguments)
        return None if None in arguments else (question, arguments)


class FieldValue(NamedTuple):
    raw: float
    at_us: int  # the driver's wall clock


class FieldAsker:
    """Many values in one call, by NVML's field numbers. Those that a GPU does not have are asked once."""

    def __init__(self, driver: Driver, handle: Any, subject: str, wanted: Mapping[Any, tuple[str, int]]) -> None:
        """Wanted are fields by our own key: the name of NVML's number, and the scope, such as a link."""
        self._driver = driver
        self._handle = handle
        self._subject = subject
        self._left = {
            key: (number, scope)
            for key, (name, scope) in wanted.items()
            if (number := driver.constant(name)) is not None
        }

    def ask(self) -> dict[Any, FieldValue]:
        if not self._left:
            return {}
        try:
            answers = self._driver.call(
                "nvmlDeviceGetFieldValues", self._subject, self._handle, list(self._left.values())
            )
        except Unsupported:
            self._left = {}
            return {}
        except Unanswered:
            return {}
        found = {}
        for key, answer in zip(list(self._left), answers, strict=True):
            if answer.nvmlReturn == 0:
                found[key] = FieldValue(self._number(answer), answer.timestamp)
            elif self._driver.is_unsupported(answer.nvmlReturn):
                del self._left[key]
        return found

    def _number(self, answer: Any) -> float:
        value: float = getattr(answer.value, VALUE_OF_TYPE.get(answer.valueType, "ullVal"))
        return value


# NVML's value types, in its order.
VALUE_OF_TYPE = dict(enumerate(("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")))

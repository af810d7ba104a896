"""Examples: a table of them run inside one test, and how many of them Hypothesis draws."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from hypothesis import settings

IS_QUICK = settings.get_current_profile_name() == "quick"


def cases(count: int) -> int:
    """All of them, or a fifth in the quick profile."""
    return max(5, count // 5) if IS_QUICK else count


def each(names: str, examples: Iterable[Any], name: Callable[[Any], object] = repr) -> Callable[..., Any]:
    """Like `pytest.mark.parametrize`, as one test. Fixtures are shared by the examples: use none that is written to."""
    words = [word.strip() for word in names.split(",")]
    table = list(examples)
    assert table, "a table without examples tests nothing"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failures = []
            for example in table:
                values = example if len(words) > 1 else (example,)
                try:
                    test(**fixtures, **dict(zip(words, values, strict=True)))
                except Exception as error:  # noqa: BLE001 (raised below, with the others)
                    error.add_note(f"example: {name(example)}")
                    failures.append(error)
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(table)} examples failed", failures)

        signature = inspect.signature(test)
        kept = [parameter for parameter in signature.parameters.values() if parameter.name not in words]
        run.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        del run.__wrapped__
        return run

    return decorate

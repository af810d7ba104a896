"""Stands in for dbt's adapter when SQL is linted: a dispatched macro reads as a plain function call."""

from __future__ import annotations

from collections.abc import Callable


def dispatch(name: str, package: str) -> Callable[..., str]:  # noqa: ARG001 - dbt's signature
    return lambda first, *others: f"{name}({first})"  # noqa: ARG005 - patterns would not parse as SQL

"""Which machine a name stands for."""

from __future__ import annotations

import pytest

from gpulake.lake.machines import named


@pytest.mark.parametrize(
    ("node", "machines", "expected"),
    [
        ("gpu01", {"gpu01", "gpu02"}, "gpu01"),
        ("GPU01.example.org", {"gpu01", "gpu02"}, "gpu01"),
        ("gpu01", {"gpu01.example.org"}, "gpu01.example.org"),
        ("gpu01", {"gpu01.a", "gpu01.b"}, None),
        ("gpu01.example.net", {"gpu01.example.org"}, None),
        ("10.0.0.9", {"10.0.0.1"}, None),
        ("10.0.0.1", {"10.0.0.1"}, "10.0.0.1"),
        ("gpu1", {"gpu01"}, None),
        ("g\u0440u01", {"gpu01"}, None),
        ("", {"gpu01"}, None),
        ("gpu01", set(), None),
    ],
)
def test_a_name_stands_for_one_machine_or_none(node: str, machines: set[str], expected: str | None) -> None:
    assert named(node, machines) == expected

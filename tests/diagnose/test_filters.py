from __future__ import annotations

import pytest

from gpulake.core.errors import ConfigError
from gpulake.diagnose.logs.filters import Filters, read_filters
from gpulake.diagnose.logs.scan import scan
from gpulake.diagnose.rulebook.book import shipped
from gpulake.diagnose.rulebook.rule import Rule

ENTRY = """[[filter]]
name = "beat"
pattern = '^beat'
source = "a loop"
matches = ["beat 1"]
"""


def test_filters_are_read() -> None:
    assert read_filters(ENTRY) == [Rule("beat", "^beat", "noise", ("beat 1",), source="a loop", family="filters")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[filter", "filters are not valid TOML"),
        (ENTRY + "patern = 'x'", "filter beat: unknown key 'patern'"),
        (ENTRY.replace("source = ", "ignores = [] #"), "filter beat: no source"),
        (ENTRY.replace("'^beat'", "'('"), "filter beat: pattern '(' does not compile"),
    ],
)
def test_what_is_wrong_with_a_filter_is_said(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=r".") as raised:
        read_filters(text)
    assert message in raised.value.message


def test_a_filter_drops_a_line_that_came_once_and_never_an_error() -> None:
    filters = Filters([Rule("all", ".", "noise", ())])
    digest = scan("log", [b"calm\nERROR: not calm\ncalm too\nCUDA out of memory\n"], shipped(), filters)
    assert digest.lines_kept == 2
    assert {template.text: template.is_routine for template in digest.templates} == {
        "calm": True,
        "ERROR: not calm": False,
        "calm too": True,
        "CUDA out of memory": False,
    }

"""One reader takes large JSON documents an element at a time, wherever a chunk of the file ends."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulake.core.errors import InputError
from gpulake.formats import json_items
from gpulake.formats.json_items import elements_behind, items
from gpulake.formats.json_text import Part

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(
    before=st.dictionaries(st.text(min_size=1, max_size=3), values, max_size=2),
    listed=st.lists(values, max_size=5),
    after=values,
    chunk=st.integers(1, 40),
    indent=st.sampled_from([None, 1]),
)
def test_elements_and_members_do_not_depend_on_where_a_chunk_ends(
    tmp_path_factory: pytest.TempPathFactory,
    before: dict[str, Any],
    listed: list[Any],
    after: Any,
    chunk: int,
    indent: int,
) -> None:
    path = tmp_path_factory.mktemp("items") / "document.json"
    path.write_text(json.dumps(before | {"items": listed, "after": after}, indent=indent))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_items, "CHUNK_CHARACTERS", chunk)
        found = list(items(path, "items"))
        path.write_text(json.dumps(listed, indent=indent))
        alone = list(items(path))
    assert [part.value for part in found if not part.key] == listed
    assert {part.key: part.value for part in found if part.key} == before | {"after": after}
    assert [part.value for part in alone] == [json.loads(part.text) for part in alone] == listed


def test_each_part_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "document.json"
    path.write_text('{"kind": "List",\n "items": [\n  1,\n  [2,\n   3]\n ],\n "last": 4}')
    assert list(items(path, "items")) == [
        Part(1, "kind", "List", '"List"'),
        Part(3, "", 1, "1"),
        Part(4, "", [2, 3], "[2,\n   3]"),
        Part(7, "last", 4, "4"),
    ]
    head = re.compile(r'\{"kind": "List",\s*"items": \[')
    assert [part.line_number for part in elements_behind(path, head, "numbers")] == [3, 4]


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ("[1, {}", "", "line 1: the file is cut short"),
        ("[1,\n {", "", "value 2 is cut short or no JSON, in line 2: "),
        ('{"items": ', "items", "line 1: the file is cut short"),
        ('{"kind": oops}', "items", "a value is cut short or no JSON, in line 1: "),
        ("[]", "items", "no JSON object"),
        ("{}", "", "no JSON list"),
        ("", "", "line 1: the file is cut short"),
        ("[" * 100_000, "", "value 1 is cut short or no JSON, in line 1: "),
    ],
)
def test_what_is_cut_short_or_no_json_says_where(tmp_path: Path, text: str, key: str, message: str) -> None:
    path = tmp_path / "document.json"
    path.write_text(text)
    with pytest.raises(InputError, match=re.escape(message)):
        list(items(path, *filter(None, [key])))

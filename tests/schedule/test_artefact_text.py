"""What outsiders wrote stays text in what Prefect renders as Markdown."""

from __future__ import annotations

import pytest
from markdown_it import MarkdownIt

from gpulake.core.types import Finding
from gpulake.schedule.markdown import MOST_FINDINGS, escape, findings_page, plain

RENDERER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[go](javascript:alert(1))",
    "![see](http://127.0.0.1/pixel.png)",
    "<http://127.0.0.1>",
    "**loud** _quiet_ `code` ~~gone~~",
    "a|b|c",
    "&lt;b&gt; &amp; &#60;",
    "back\\slash \\[x](y)",
]


def finding(headline: str, detail: str = "why") -> Finding:
    return Finding("idle_gpus", "u1", headline, detail, 1.0, "GPU-hours")


def shown(markdown: str) -> list[tuple[str, str]]:
    """The tags and the text that a reader would get."""
    return [(token.type, token.content) for token in RENDERER.parseInline(markdown)[0].children or ()]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_renders_as_itself(text: str) -> None:
    tokens = shown(escape(text))
    assert {kind for kind, _ in tokens} <= {"text", "text_special"}
    assert "".join(content for _, content in tokens) == text


def test_a_line_break_cannot_begin_a_heading_or_a_list() -> None:
    page = findings_page([finding("one\n# two\n- three\r\n\n<b>four")])
    assert page.splitlines() == [
        "# What was found",
        "",
        r"1. **one \# two - three   &lt;b&gt;four**<br>why",
    ]


def test_addresses_are_not_made_into_links() -> None:
    assert escape("http://a.example www.b.example c@d.example") == (r"http\://a.example www\.b.example c\@d.example")


@pytest.mark.parametrize("character", ["\x1b", "\x00", "\u202e", "\u2028", "\udcff", "\u200b"])
def test_what_cannot_be_printed_becomes_a_space(character: str) -> None:
    assert plain(f"a{character}b") == "a b"


def test_findings_come_in_order_and_the_rest_is_counted() -> None:
    page = findings_page([finding(f"finding {number}") for number in range(MOST_FINDINGS + 3)])
    assert page.splitlines()[2] == "1. **finding 0**<br>why"
    assert page.count("1. ") == MOST_FINDINGS
    assert page.endswith("And 3 more: `gpulake sql 'from findings'`\n")


def test_no_finding_is_said_too() -> None:
    assert findings_page([]) == "# What was found\n\nNothing stands out.\n"

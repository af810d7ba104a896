"""Texts that somebody may send, or name a job, to see what breaks; and what must not come of them in a page."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

# What starts a formula in a spreadsheet.
FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "\t", "\r", "\n")
HOSTILE = {
    "element": "<script>alert(1)</script>",
    "image": "\"><img src=x onerror=alert('x')>",
    "attribute": "' onmouseover='alert(1)' x='",
    "double_attribute": '" autofocus onfocus="alert(1)',
    "comment": "--><svg/onload=alert(1)><!--",
    "closing": "</script></title></textarea></style></table><hr>",
    "script_url": "javascript:alert(1)//",
    "data_url": "data:text/html,<script>alert(1)</script>",
    "other_host": "//evil.example/x",
    "template": "{{ 7 * 7 }}{% raw %}${7*7}",
    "format": "{0}{x}%s%n%(x)s",
    "quote": "' OR '1'='1' --",
    "double_quote": '"; DROP TABLE silver_jobs; --',
    "like": "%_\\%",
    "formula": '=HYPERLINK("http://evil.example","x")',
    "formula_at": "@SUM(1+1)*cmd|' /C calc'!A0",
    "formula_tab": "\t=1+1",
    "newline": "a\r\nSet-Cookie: x=y\r\n\r\nb",
    "control": "\x1b[31m\x07\x08\x7f\x9b",
    "right_to_left": "\u202etxt.exe\u202c\u2066\u200b\ufeff",
    "null": "a\x00b",
    "entity": "&lt;b&gt;&amp;&#60;",
    "path": "../../../../etc/passwd",
    "number": "1e999",
    "negative": "-9223372036854775809",
    "date": "9999-99-99",
    "huge_date": "99999-01-01",
    "emoji": "👩‍👩‍👧‍👦\U0010ffff",
    "long": "x" * 5_000,
    "empty": "",
    "blank": " ",
}
# What must never stand in a page as it was sent.
RAW = (
    "<script>alert",
    "<img src=x",
    "<svg/onload",
    "onerror=alert('x')>",
    *(f"<b>{word}" for word in ("train", "shard", "looking", "yesterday")),
    "</textarea></style>",
    "\x00",
)
TEMPLATES = [path.read_text() for path in sorted(Path(str(files("gpulake.show.web"))).rglob("templates/**/*.html"))]
# Elements and attributes that templates of ours have. What else stands in a page was put there by a text.
ELEMENTS = frozenset(name for text in TEMPLATES for name in re.findall(r"<([a-z][a-z0-9]*)", text))
ATTRIBUTES = frozenset(name for text in TEMPLATES for name in re.findall(r"[\s{}%]([a-z][a-z-]*)(?==\"|[\s>{])", text))
LINKS = ("/", "?", "#", "data:,")


class Page(HTMLParser):
    """What a browser would make of it: where it leads, and what is wrong with its elements."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.wrong = [f"raw {raw!r}" for raw in RAW if raw in text]
        self.links: set[str] = set()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ELEMENTS:
            self.wrong.append(f"<{tag}>")
        for name, value in attrs:
            is_link = name in ("href", "src", "action", "data-source", "data-leads-to") and bool(value)
            if is_link:
                self.links.add(str(value))
            if name not in ATTRIBUTES or name.startswith("on") or (is_link and not is_local(str(value))):
                self.wrong.append(f"<{tag} {name}={value!r}>")
        kinds = dict(attrs)
        is_data = kinds.get("type") == "application/json"
        if tag == "script" and not is_data and not str(kinds.get("src")).startswith("/static/"):
            self.wrong.append(f"<script {kinds}>")


def is_local(link: str) -> bool:
    return link.startswith(LINKS) and not link.startswith(("//", "/\\")) and not any(ord(one) < 32 for one in link)

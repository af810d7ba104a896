"""docs/performance.md is read back as it was written, so that a run can say what changed."""

from __future__ import annotations

from pathlib import Path

from bench.lines import Line, cpu_ratio
from bench.page import PAGE, changes, figures, read_sections, section, write

LINES = [
    Line("1%: ours", 1.46, "s"),
    Line("memory", 1276.4, "MiB", 2048),
    Line("none", 0.0, ""),
    Line("reference", 10.1, "s", kind="peer"),
    cpu_ratio("times less CPU", 6.0, 2.0, 8.0),
]


def test_a_section_is_read_back_as_it_was_written() -> None:
    assert figures(section(LINES, "Some words, 7 of them | or so.")) == {
        "1%: ours": 1.46,
        "memory": 1276.0,
        "none": 0.0,
        "reference": 10.1,
        "times less CPU": 3.0,
    }


def test_writing_one_section_keeps_the_others_and_the_order(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Head\n\n## Log\n\nold\n\n## Gone\n\nx\n\n## Marts\n\nm | 2\n", encoding="utf-8")
    write({"Log": section(LINES)}, ["Refresh", "Marts", "Log"], page)
    sections = read_sections(page.read_text(encoding="utf-8"))
    assert list(sections) == ["Marts", "Log"]
    assert sections["Marts"] == "m | 2"
    assert figures(sections["Log"])["1%: ours"] == 1.46


def test_changes_beyond_a_tenth_are_better_or_worse_by_the_side_of_the_bar() -> None:
    before = {"1%: ours": 1.30, "memory": 1200.0, "none": 0.0, "reference": 99.0, "times less CPU": 2.0, "old": 1.0}
    assert changes(before, LINES) == [
        "worse: 1%: ours: 1.30 -> 1.46 s",
        "better: times less CPU: 2.00 -> 3.00",
        "not measured any more: old",
    ]


def test_what_is_within_a_tenth_is_no_change() -> None:
    before = {"1%: ours": 1.40, "memory": 1300.0, "none": 0.0, "reference": 10.1, "times less CPU": 2.8}
    assert changes(before, LINES) == []


def test_every_section_of_the_page_names_machine_date_and_commit() -> None:
    for title, text in read_sections(PAGE.read_text(encoding="utf-8")).items():
        assert figures(text), title
        assert " cores, " in text, title
        assert ", commit " in text, title

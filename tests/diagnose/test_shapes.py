from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpulake.diagnose.logs.shapes import HEX_DIGITS, cleaned, readable, shape_of, shapes_of, template_of


def test_lines_that_differ_in_digits_have_one_shape() -> None:
    assert shapes_of(b"step 1 of 20\nstep 12 of 20\rstep 3") == [b"step  of ", b"step  of ", b"step "]
    assert shape_of(b"at 0x7f3a: face", HEX_DIGITS) == b"t x: "


def test_what_a_terminal_would_not_show_is_gone() -> None:
    text = b"\x1b[1;31mERROR\x1b[0m \x1b]0;title\x07here\x1b[K\0\0 and\r\nthere\x1b(B"
    assert cleaned(text) == b"ERROR here and\nthereB"


@given(st.binary())
def test_cleaning_leaves_line_feeds(text: bytes) -> None:
    assert cleaned(text).count(b"\n") == text.count(b"\n")
    assert b"\x1b" not in cleaned(b"a\x1b[31mb")


def test_a_template_has_neither_digits_nor_random_words() -> None:
    line = b"  comm 0x55d0c8a0 id 8e2f00a7bb1c  job 123e4567-e89b-12d3-a456-426614174000 took   12 s, added"
    assert template_of(line) == b"comm * id * job * took s, added"


def test_text_can_be_printed() -> None:
    assert readable(b"a\tb\x07\x7f\xff\xc2\x85 \xe2\x96\x88") == "a\tb� █"

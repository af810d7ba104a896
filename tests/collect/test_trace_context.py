"""W3C's traceparent, strictly, and plain ids beside it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulake.collect.tracing.invocation import TraceParent, context_from, parse_traceparent, plain_id, w3c_trace_id

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize(
    "text",
    [
        f"00-{TRACE}-{SPAN}-01",
        f"01-{TRACE}-{SPAN}-01",
        f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like",
        f"fe-{TRACE}-{SPAN}-01-",
    ],
)
def test_what_is_valid_is_taken(text: str) -> None:
    assert parse_traceparent(text) == TraceParent(TRACE, SPAN, 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-01-",
        f"cc-{TRACE}-{SPAN}-01.more",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN.upper()}-01",
        f"0-{TRACE}-{SPAN}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-1",
        f" 00-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\n",
        f"00-{TRACE}-{SPAN}-01,00-{TRACE}-{SPAN}-01",
    ],
)
def test_what_is_not_begins_a_new_trace(text: str) -> None:
    assert parse_traceparent(text) is None
    made = context_from({"traceparent": text})
    assert made.trace_id != TRACE
    assert made.parent_id is None


def test_flags_are_handed_on_and_only_the_known_one() -> None:
    assert context_from({"traceparent": f"00-{TRACE}-{SPAN}-00"}).traceparent.endswith("-00")
    assert context_from({"traceparent": f"00-{TRACE}-{SPAN}-ff"}).traceparent.endswith("-01")


def test_a_plain_id_travels_beside_the_one_that_is_made_from_it() -> None:
    first = context_from({"x-trace-id": "night <7>", "x-span-id": "cause"})
    assert (first.trace_id, first.parent_id) == ("night <7>", "cause")
    handed_on = {name.lower(): value for name, value in first.headers().items()}
    second = context_from(handed_on)
    assert (second.trace_id, second.parent_id) == ("night <7>", first.span_id)
    # One that knows only W3C's way hands on only that; the id is another then, but the same for all after it.
    assert context_from({"traceparent": handed_on["traceparent"]}).trace_id == w3c_trace_id("night <7>")


def test_a_uuid_is_a_trace_id_without_its_dashes() -> None:
    assert w3c_trace_id("0AF76519-16CD-43DD-8448-EB211C80319C") == TRACE


def test_traceparent_goes_before_a_plain_id_of_another_trace() -> None:
    assert context_from({"traceparent": f"00-{TRACE}-{SPAN}-01", "x-trace-id": "other"}).trace_id == TRACE


def test_tracestate_is_handed_on_with_its_trace() -> None:
    given_too = {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "a=1,b=2"}
    assert context_from(given_too).headers()["tracestate"] == "a=1,b=2"
    assert "tracestate" not in context_from({"tracestate": "a=1"}).headers()


@pytest.mark.parametrize("text", ["-", "", " ", "a\r\nX-Evil: 1", "é", "x" * 129, "a\x00b", " a"])
def test_what_no_header_can_carry_is_no_id(text: str) -> None:
    assert plain_id(text) is None


@given(st.dictionaries(st.sampled_from(["traceparent", "x-trace-id", "x-span-id", "tracestate"]), st.text()))
def test_whatever_comes_in_what_goes_out_is_valid(headers: dict[str, str]) -> None:
    context = context_from(headers)
    parent = parse_traceparent(context.traceparent)
    assert parent is not None
    assert parent.parent_id == context.span_id
    assert all(value.isascii() and value.isprintable() for value in context.headers().values())

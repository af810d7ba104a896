"""Slurm's words for the state of a node, its GPUs and its reasons."""

from __future__ import annotations

import pytest

from gpulake.formats.scontrol import Note, fields, note_of
from gpulake.formats.slurm_nodes import condition, gpus, listed, number, reason


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("IDLE", "up"),
        ("ALLOCATED", "up"),
        ("mix-", "up"),
        ("IDLE+CLOUD", "up"),
        ("IDLE+PLANNED", "up"),
        ("COMPLETING", "up"),
        ("IDLE+RESERVED", "reserved"),
        ("resv", "reserved"),
        ("IDLE+CLOUD+POWERED_DOWN", "powered_down"),
        ("idle~", "powered_down"),
        ("alloc#", "powered_down"),
        ("IDLE+DRAIN", "drained"),
        ("drained*", "drained"),
        ("drain", "drained"),
        ("MIXED+DRAIN", "draining"),
        ("ALLOCATED+DRAIN", "draining"),
        ("draining", "draining"),
        ("drng", "draining"),
        ("maint", "maintenance"),
        ("IDLE+MAINTENANCE", "maintenance"),
        ("idle$", "maintenance"),
        ("FAIL", "failed"),
        ("DOWN*", "down"),
        ("DOWN+DRAIN", "down"),
        ("down", "down"),
        ("IDLE+INVALID_REG", "down"),
        ("inval", "down"),
        ("idle*", "not_responding"),
        ("IDLE+NOT_RESPONDING", "not_responding"),
        ("UNKNOWN", "unknown"),
        ("FUTURE", "future"),
    ],
)
def test_a_state_is_one_word(state: str, expected: str) -> None:
    assert condition(state) == expected


@pytest.mark.parametrize("text", ["", "3 GPUs", "idle drain", "=IDLE"])
def test_what_is_no_state_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not the state of a node"):
        condition(text)


@pytest.mark.parametrize(
    ("gres", "resources", "expected"),
    [
        ("gpu:a100:4(S:0-1)", "", ("4", "a100")),
        ("gpu:8", "", ("8", "")),
        ("gpu:h100:2,gpu:a100:4", "cpu=8,gres/gpu=6", ("6", "a100,h100")),
        ("gpu:tesla:no_consume:2", "", ("2", "tesla")),
        ("gpu:a100:0(IDX:N/A)", "", ("0", "")),
        ("(null)", "cpu=8,mem=1000M,gres/gpu=4,gres/gpu:h100=4", ("4", "h100")),
        ("(null)", "cpu=8", ("0", "")),
        ("", "", ("", "")),
        ("shard:32", "", ("", "")),
    ],
)
def test_gpus_of_a_node_come_from_its_gres_else_from_its_resources(
    gres: str, resources: str, expected: tuple[str, str]
) -> None:
    assert gpus(gres, resources) == expected


def test_a_reason_says_what_who_and_when() -> None:
    assert reason("bad fan: [x] needs a look [root@2026-11-18T05:13:10]") == (
        "bad fan: [x] needs a look",
        "root",
        "2026-11-18T05:13:10",
    )
    assert reason("none") == ("", "", "")
    assert reason("plain") == ("plain", "", "")


def test_numbers_and_lists_of_every_version_are_read() -> None:
    assert [number(value) for value in (0, 5, {"set": True, "infinite": False, "number": 7})] == [0, 5, 7]
    assert [number(value) for value in (None, {"set": False, "number": 7}, {"infinite": True, "number": 7})] == [
        None
    ] * 3
    assert listed("a,b") == listed(["a", "b"]) == ["a", "b"]
    assert listed(None) == []


def test_a_text_may_hold_what_looks_like_a_key() -> None:
    text = "NodeName=g1 OS=Linux #1 SMP A=b  RealMemory=5 State=DOWN Reason=see TICKET=7 DIMM=3 [root@t] Comment=x Y=1"
    assert fields(text) == {
        "NodeName": "g1",
        "OS": "Linux #1 SMP A=b",
        "RealMemory": "5",
        "State": "DOWN",
        "Reason": "see TICKET=7 DIMM=3 [root@t]",
        "Comment": "x Y=1",
    }


def test_a_note_is_read_as_it_was_written() -> None:
    note = Note("tiger", "2026-11-18T05:00:00Z", "UTC", "2026-11-17T05:00:00Z")
    assert note_of(note.line()) == note
    assert note_of("# slurm {}") is None
    assert note_of("NodeName=g1") is None

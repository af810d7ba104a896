"""What differs between versions of PyTorch, and between its two ways of writing a dump."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from diagnose.dumped_worlds import config, entry, write
from gpulake.diagnose.hang.blockage import explain_hang, find_hang
from gpulake.diagnose.hang.flight_recorder import read_dumps

PAIR = {"0": (0, 1)}


def _world(folder: Path, groups: Mapping[str, tuple[int, ...]], *ranks: list[Any], **others: Any) -> Path:
    own = [{name: members for name, members in groups.items() if rank in members} for rank in range(len(ranks))]
    return write(
        folder,
        {
            rank: {"version": "2.9", "pg_config": config(own[rank]), "entries": entries, **others}
            for rank, entries in enumerate(ranks)
        },
    )


def _batch(number: int, own: int, peer: int, state: str, is_marked: bool = True) -> list[dict[str, Any]]:
    """A send and a receive that were entered at once: PyTorch notes the end of the batch, and of it alone."""
    places: dict[str, Any] = {"collective_seq_id": 0, "p2p_seq_id": number, "time_created_ns": number}
    return [
        entry("0", 0, **places | {"is_p2p": True, "profiling_name": f"nccl:send {own}->{peer}"}),
        entry("0", 0, **places | {"is_p2p": True, "profiling_name": f"nccl:recv {own}<-{peer}"}),
        entry("0", 0, state, **places | {"is_p2p": is_marked, "profiling_name": "nccl:coalesced", "input_sizes": []}),
    ]


@pytest.mark.parametrize("is_marked", [True, False])
def test_members_of_a_batch_that_is_over_are_over(tmp_path: Path, is_marked: bool) -> None:
    """The ring of rank 1 begins later: by members alone it would seem to have sent less."""
    first = [one for number in (1, 2, 3) for one in _batch(number, 0, 1, "completed", is_marked)]
    second = [one for number in (2, 3) for one in _batch(number, 1, 0, "completed", is_marked)]
    found = explain_hang(read_dumps([_world(tmp_path, PAIR, first, second)]))
    assert (found.verdict, found.missing_ranks, found.cause) == ("unknown", (), "No rank waits in a collective.")


@pytest.mark.parametrize("is_marked", [True, False])
def test_a_batch_that_the_other_side_never_entered_names_it(tmp_path: Path, is_marked: bool) -> None:
    over = [_batch(1, 0, 1, "completed", is_marked), _batch(1, 1, 0, "completed", is_marked)]
    open_end = _batch(2, 0, 1, "scheduled", is_marked)
    found = explain_hang(read_dumps([_world(tmp_path, PAIR, [*over[0], *open_end], over[1])]))
    assert found.missing_ranks == (1,)


def test_a_batch_of_sends_is_no_collective_of_its_whole_group(tmp_path: Path) -> None:
    """Of a pipeline of three only two exchange something: the third is not missing."""
    pipeline = {"0": (0, 1, 2)}
    ranks = [_batch(2, 0, 1, "scheduled", False), _batch(2, 1, 0, "scheduled", False), []]
    found = find_hang(read_dumps([_world(tmp_path, pipeline, *ranks)]))
    assert (found.missing, found.blockages) == ((), ())


def test_counters_may_be_text_as_the_recorders_own_json_has_them(tmp_path: Path) -> None:
    """Rank 1 remembers nothing of the group, and has long passed the collective by its counter."""
    status = {"0": {"last_enqueued_collective": "9", "last_started_collective": "9", "last_completed_collective": "8"}}
    hang = find_hang(read_dumps([_world(tmp_path, PAIR, [entry("0", 7)], [], pg_status=status)]))
    assert hang.missing == (0,)
    assert hang.stuck == (0,)


def test_a_rank_that_waits_in_nothing_may_write_no_entries(tmp_path: Path) -> None:
    folder = _world(tmp_path, PAIR, [entry("0", 7)], [])
    write(folder, {1: {"version": "2.9", "pg_config": config(PAIR)}})
    dumps = read_dumps([folder])
    assert dumps.notes == ()
    hang = find_hang(dumps)
    assert (hang.missing, hang.without_dump) == ((1,), ())


def test_groups_that_share_a_name_are_reported_apart_by_their_ranks(tmp_path: Path) -> None:
    """As split_group names them: each half of the world calls its own half by the same name."""
    halves = {0: (0, 1), 1: (0, 1), 2: (2, 3), 3: (2, 3)}
    entries = {0: [entry("5", 4)], 1: [entry("5", 4)], 2: [entry("5", 9)], 3: [entry("5", 8, "completed")]}
    write(tmp_path, {r: {"pg_config": config({"5": halves[r]}), "entries": entries[r]} for r in halves})
    hang = find_hang(read_dumps([tmp_path]))
    assert hang.missing == (3,)
    assert [(head.group.name, head.group.ranks, head.waiting) for head in hang.heads] == [("5#2", (2, 3), (2,))]


def test_a_ring_that_was_overwritten_does_not_prove_an_absence(tmp_path: Path) -> None:
    """Rank 1 has gone round its ring with another group since: whether it entered, nobody knows."""
    groups = {"0": (0, 1), "1": (1, 2)}
    waiting = [entry("0", 7, record_id=3)]
    going_on = [entry("1", number, "completed", record_id=5_000 + number) for number in (1, 2)]
    hang = find_hang(read_dumps([_world(tmp_path, groups, waiting, going_on, going_on)]))
    assert hang.missing == ()


def test_the_oldest_versions_have_one_number_for_all(tmp_path: Path) -> None:
    old = {
        key: value for key, value in entry("0", 7, seq_id=7).items() if key not in ("collective_seq_id", "p2p_seq_id")
    }
    hang = find_hang(read_dumps([_world(tmp_path, PAIR, [old], [])]))
    assert hang.missing == (1,)
    assert hang.heads[0].operation.sequence == 7

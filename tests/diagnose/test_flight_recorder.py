from __future__ import annotations

import json
import pickle
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnose.dumped_worlds import World, config, entry, write
from examples import cases
from gpulake.core.diagnosis import Diagnosis, Quote, Recovery
from gpulake.core.errors import InputError
from gpulake.diagnose.hang.blockage import explain_hang, find_hang
from gpulake.diagnose.hang.flight_recorder import read_dumps

PAIR = {"0": (0, 1)}


def _pair(folder: Path, first: list[Any], second: list[Any]) -> Path:
    return write(
        folder,
        {
            rank: {"version": "2.9", "pg_config": config(PAIR), "entries": entries}
            for rank, entries in enumerate((first, second))
        },
    )


def test_ranks_as_a_text_without_end_are_no_ranks(tmp_path: Path) -> None:
    group = {"0": {"name": "0", "desc": "", "ranks": "[" * 100_000}}
    dumps = {rank: {"version": "2.9", "pg_config": group, "entries": [entry("0", 1)]} for rank in (0, 1)}
    assert all(not dump.groups for dump in read_dumps([write(tmp_path, dumps)]).dumps)


@pytest.mark.real
@pytest.mark.parametrize("case", ["gpu_error_1st", "lock_gil_2nd"])
def test_the_missing_ranks_of_real_dumps_are_those_of_the_reference(real_data: Path, case: str) -> None:
    folder = real_data / "nccl_flight_recorder"
    rows = (folder / f"{case}_reference.txt").read_text().splitlines()[1:]
    expected = [[field.strip() for field in row.split("|")] for row in rows]

    hang = find_hang(read_dumps([folder / case]))

    assert [
        [
            head.group.name,
            f"{head.group.description},0",
            f"nccl:{head.operation.name}",
            head.operation.input_sizes,
            head.operation.dtype,
            ",".join(map(str, head.missing)),
        ]
        for head in hang.heads
    ] == expected
    assert hang.missing == tuple(int(row[-1]) for row in expected)


@pytest.mark.real
def test_the_ranks_whose_gpu_failed_are_reported_though_one_of_them_went_on_entering(real_data: Path) -> None:
    hang = find_hang(read_dumps([real_data / "nccl_flight_recorder" / "gpu_error_1st"]))
    assert hang.stuck == (12, 14)  # as its fault_injection.log says


@st.composite
def _worlds(draw: st.DrawFn) -> World:
    across, along = draw(st.integers(1, 4)), draw(st.integers(2, 4))
    ranks = across * along
    groups: dict[str, tuple[int, ...]] = {"0": tuple(range(ranks))}
    for row in range(along):
        groups[str(len(groups))] = tuple(range(row * across, (row + 1) * across))
    for column in range(across):
        groups[str(len(groups))] = tuple(range(column, ranks, across))
    program = draw(st.lists(st.sampled_from(sorted(groups)), min_size=1, max_size=30))
    hanging = draw(st.sets(st.integers(0, ranks - 1), min_size=1, max_size=max(1, ranks // 2)))
    stops = {rank: draw(st.integers(0, 6)) for rank in hanging}
    return World(groups, program, stops).run()


@pytest.mark.slow
@settings(max_examples=cases(150))
@given(world=_worlds(), is_active_only=st.booleans(), has_status=st.booleans(), has_died=st.booleans())
def test_exactly_the_ranks_that_hang_by_themselves_are_missing(
    world: World, is_active_only: bool, has_status: bool, has_died: bool
) -> None:
    ranks = set(world.entered)
    # Those that died leave no dump; with too few dumps nobody can tell.
    silent = set(world.missing) if has_died and 2 * len(world.missing) < len(ranks) else set()
    with tempfile.TemporaryDirectory() as folder:
        dumps = {rank: world.dump(rank, is_active_only, has_status) for rank in ranks - silent}
        hang = find_hang(read_dumps([write(Path(folder), dumps)]))
    assert (hang.missing, hang.is_circular, hang.mismatches) == (world.missing, False, ())


def test_a_hang_names_who_is_missing_and_who_waits(tmp_path: Path) -> None:
    folder = _pair(tmp_path, [entry("0", 6, "completed"), entry("0", 7)], [entry("0", 6, "completed")])
    assert explain_hang(read_dumps([folder])) == Diagnosis(
        verdict="failed",
        category="infrastructure",
        reason="HangStraggler",
        cause="Rank 1 did not enter collective 7 (all_reduce, 4x2 Float) of group 0 group_0; rank 0 waits in it.",
        remedy="Look at rank 1: stack, node, GPU. If its node hangs again, drain it.",
        evidence=(
            Quote(
                1,
                "nccl:all_reduce process_group 0 collective_seq_id 7 input_sizes 4x2 Float state scheduled",
                "_dump_0.json",
            ),
        ),
        rank=1,
        recovery=Recovery("auto_restart", "The ranks that are missing hang or are gone."),
        confidence=0.9,
        method="telemetry",
        missing_ranks=(1,),
    )


def test_a_log_that_says_timeout_keeps_its_reason_and_learns_who_was_missing(tmp_path: Path) -> None:
    said = Diagnosis(
        verdict="failed",
        category="infrastructure",
        reason="NCCLTimeoutError",
        cause="A collective timed out.",
        evidence=(Quote(12, "Watchdog caught collective operation timeout"),),
        rank=0,
        recovery=Recovery("auto_restart", "a straggler"),
        confidence=0.8,
        rule="nccl_timeout",
    )
    dumps = read_dumps([_pair(tmp_path, [entry("0", 7)], [entry("0", 6, "completed")])])
    found = explain_hang(dumps, said)
    assert (found.reason, found.method, found.rule, found.recovery) == (
        "NCCLTimeoutError",
        "rule",
        "nccl_timeout",
        said.recovery,
    )
    assert (found.rank, found.missing_ranks) == (1, (1,))
    assert found.evidence[0] == said.evidence[0]
    assert found.cause == (
        "A collective timed out. Rank 1 did not enter collective 7 (all_reduce, 4x2 Float) of group 0 group_0;"
        " rank 0 waits in it."
    )


def test_a_log_that_says_nothing_is_decided_and_one_that_knows_better_is_kept(tmp_path: Path) -> None:
    dumps = read_dumps([_pair(tmp_path, [entry("0", 7)], [])])
    silent = Diagnosis("unknown", "unknown", "unknown", "The log stops.", lines_read=9)
    decided = explain_hang(dumps, silent)
    assert (decided.reason, decided.missing_ranks, decided.lines_read) == ("HangStraggler", (1,), 9)
    known = Diagnosis("failed", "framework", "OutOfMemoryError", "Rank 1 is out of memory.", rank=1)
    kept = explain_hang(dumps, known)
    assert (kept.reason, kept.cause, kept.missing_ranks) == ("OutOfMemoryError", known.cause, ())
    assert kept.telemetry[0].startswith("Rank 1 did not enter collective 7")


def test_ranks_that_wait_for_each_other_are_a_deadlock(tmp_path: Path) -> None:
    groups = {"0": (0, 1), "1": (0, 1)}
    documents = {
        rank: {"pg_config": config(groups), "entries": [entry(str(rank), 1)]} for rank in (0, 1)
    }  # each entered a collective of another group first
    found = explain_hang(read_dumps([write(tmp_path, documents)]))
    assert (found.reason, found.missing_ranks, found.recovery.action) == ("HangStraggler", (0, 1), "needs_code_fix")


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ({"profiling_name": "nccl:broadcast"}, "the operation of collective 3"),
        ({"input_dtypes": ["Half"]}, "the type of collective 3"),
        ({"input_sizes": [[4, 3]]}, "the size of collective 3"),
    ],
)
def test_ranks_that_disagree_are_a_fault_of_the_code(tmp_path: Path, others: dict[str, Any], words: str) -> None:
    groups = {"0": (0, 1, 2)}
    documents = {
        rank: {"pg_config": config(groups), "entries": [entry("0", 3, **(others if rank == 2 else {}))]}
        for rank in groups["0"]
    }
    found = explain_hang(read_dumps([write(tmp_path, documents)]))
    assert (found.reason, found.rank, found.recovery.action) == ("RuntimeError", 2, "needs_code_fix")
    assert words in found.cause
    assert "ranks 0, 1: " in found.cause


def test_uneven_all_to_all_is_no_disagreement(tmp_path: Path) -> None:
    uneven = [entry("0", 3, profiling_name="nccl:all_to_all", input_sizes=[[rows, 8]]) for rows in (5, 6)]
    hang = find_hang(read_dumps([_pair(tmp_path, [uneven[0]], [uneven[1]])]))
    assert (hang.mismatches, hang.missing) == ((), ())


def test_a_receive_that_nobody_sends_to_names_the_sender(tmp_path: Path) -> None:
    waiting = entry("0", 0, is_p2p=True, p2p_seq_id=5, profiling_name="nccl:recv 1<-0")
    found = explain_hang(read_dumps([_pair(tmp_path, [], [waiting])]))
    assert found.missing_ranks == (0,)
    assert "did not enter 5 (recv, 4x2 Float) of group 0 group_0; rank 1 waits in it" in found.cause


def test_when_all_entered_and_none_finished_nobody_is_missing(tmp_path: Path) -> None:
    found = explain_hang(read_dumps([_pair(tmp_path, [entry("0", 3)], [entry("0", 3)])]))
    assert (found.reason, found.missing_ranks, found.rank) == ("HangStraggler", (), None)
    assert (
        found.cause
        == "All ranks entered collective 3 (all_reduce, 4x2 Float) of group 0 group_0, and none finished it."
    )


def test_when_all_is_over_nothing_is_known(tmp_path: Path) -> None:
    over = [entry("0", 3, "completed")]
    found = explain_hang(read_dumps([_pair(tmp_path, over, over)]))
    assert (found.verdict, found.reason) == ("unknown", "unknown")


def test_one_dump_of_many_does_not_accuse_the_others(tmp_path: Path) -> None:
    alone = {0: {"pg_config": config({"0": tuple(range(16))}), "entries": [entry("0", 3)]}}
    found = explain_hang(read_dumps([write(tmp_path, alone)]))
    assert (found.verdict, found.missing_ranks, found.cause) == (
        "unknown",
        (),
        "Too few ranks' dumps are given to tell.",
    )


def test_a_dump_that_was_cut_short_is_left_out_and_said(tmp_path: Path) -> None:
    folder = _pair(tmp_path, [entry("0", 7)], [entry("0", 7)])
    cut = folder / "_dump_1.json"
    cut.write_text(cut.read_text()[:100])
    dumps = read_dumps([folder])
    assert [dump.rank for dump in dumps.dumps] == [0]
    assert dumps.notes == ("_dump_1.json could not be read: it is no JSON, or was cut short.",)


def test_a_pickle_is_refused_and_never_opened(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path.mkdir, (tmp_path / "opened",))  # type: ignore[return-value]

    (tmp_path / "nccl_trace_rank_0").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(InputError, match="is a pickle") as raised:
        read_dumps([tmp_path])
    assert "never opened" in raised.value.hint
    assert not (tmp_path / "opened").exists()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"entries": 3}', "nonsense", "[" * 100_000])
def test_what_is_no_dump_is_an_input_error_with_a_hint(tmp_path: Path, content: str) -> None:
    path = tmp_path / "dump_0.json"
    path.write_text(content)
    with pytest.raises(InputError) as raised:
        read_dumps([path])
    assert raised.value.hint


@pytest.mark.slow
@settings(max_examples=cases(60))
@given(
    entries=st.lists(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=8),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["pg_id", "process_group", "collective_seq_id", "is_p2p", "input_sizes", "state"])
                    | st.text(max_size=4),
                    inner,
                    max_size=5,
                )
            ),
            max_leaves=8,
        ),
        max_size=5,
    ),
    config_of=st.dictionaries(st.text(max_size=3), st.none() | st.dictionaries(st.just("ranks"), st.text(max_size=5))),
)
def test_dumps_with_anything_in_them_never_crash(entries: list[object], config_of: dict[str, object]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "_dump_0.json"
        path.write_text(json.dumps({"entries": entries, "pg_config": config_of, "pg_status": config_of}))
        explain_hang(read_dumps([path]))

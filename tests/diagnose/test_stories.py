"""Runs of a log, and who said what when."""

from __future__ import annotations

import textwrap
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from examples import cases
from gpulake.diagnose.cause.explaining import explain, explain_last
from gpulake.diagnose.logs.scan import scan
from gpulake.diagnose.rulebook.book import shipped
from gpulake.diagnose.story.events import Story
from gpulake.diagnose.story.stories import read_stories


def stories(*logs: str) -> list[Story]:
    digests = [
        scan(f"rank{index}.log" if len(logs) > 1 else "", [textwrap.dedent(log).lstrip("\n").encode()], shipped())
        for index, log in enumerate(logs)
    ]
    return read_stories(digests, shipped())


DEATH = """
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    f()
{what}
"""


def test_launches_of_one_file_are_runs_of_their_own() -> None:
    log = "nohup: ignoring input" + DEATH.format(what="KeyError: 1")
    found = stories(log + log)
    assert [(story.run, story.runs, explain(story).reason) for story in found] == [
        (1, 2, "KeyError"),
        (2, 2, "KeyError"),
    ]


def test_a_program_that_was_dead_already_dies_in_another_run() -> None:
    log = DEATH.format(what="KeyError: 1") + "loading rows\n" * 30 + DEATH.format(what="IndexError: 2")
    assert [explain(story).reason for story in stories(log)] == ["KeyError", "IndexError"]


def test_ranks_that_die_together_are_one_run() -> None:
    log = DEATH.format(what="KeyError: 1") + DEATH.format(what="IndexError: 2")
    assert [explain(story).reason for story in stories(log)] == ["KeyError"]


def test_files_of_a_folder_are_reported_in_the_order_of_their_times() -> None:
    first = """
        2024-05-01 10:00:09 x
        Traceback (most recent call last):
          File "t.py", line 3, in <module>
        RuntimeError: Connection reset by peer
    """
    second = """
        2024-05-01 10:00:05 x
        Traceback (most recent call last):
          File "t.py", line 3, in <module>
        KeyError: 'y'
    """
    (story,) = stories(first, second)
    causes = [event.quote.text for event in story.events if event.hit.rule.role in ("cause", "cascade")]
    assert causes == ["KeyError: 'y'", "RuntimeError: Connection reset by peer"]
    found = explain(story)
    assert (found.reason, found.evidence[0].file) == ("KeyError", "rank1.log")


def test_a_story_tells_its_times_world_and_job() -> None:
    (story,) = stories("""
        SLURM_JOB_ID=4711
        2024-05-01 10:00:00 INFO world size 8
        2024-05-01 10:00:05 iteration 3/ 100 | loss 2
        2024-05-01 10:00:06 successfully saved checkpoint at iteration 3
        node9:1:2 [0] NCCL INFO x
        2024-05-01 10:00:07 INFO sleeping
    """)
    times = [datetime(2024, 5, 1, 10, 0, second, tzinfo=UTC) for second in (0, 7, 6, 6)]
    assert [story.began_at, story.ended_at, story.checkpoint_at, story.last_progress_at] == times
    assert (story.job_id, story.ranks, story.hosts, story.is_whole) == ("4711", 8, ("node9",), False)


def test_an_empty_log_is_a_story_of_nothing() -> None:
    (story,) = stories("")
    assert (story.events, story.lines_read, explain(story).verdict) == ((), 0, "unknown")


@settings(max_examples=cases(60))
@given(st.lists(st.text(max_size=60), max_size=30))
def test_any_log_is_explained(lines: list[str]) -> None:
    log = "\n".join(lines)
    digest = scan("x", [log.encode(errors="replace")], shipped())
    _, found = explain_last(read_stories([digest], shipped()))
    assert found.verdict in ("failed", "healthy", "unknown")


def test_a_step_that_counts_no_nan_is_a_step() -> None:
    [story] = stories("iteration 3/ 10 | lm loss: 1.0 | number of nan iterations: 0 |\n")
    assert [event.hit.rule.role for event in story.events] == ["progress"]

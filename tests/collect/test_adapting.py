"""Logs into a run: read once, on as they grow, whatever happens to the file; and the command that does it."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from collect.waiting import until
from gpulake.cli.collect.adapt import command
from gpulake.collect.adapters import AdapterOptions
from gpulake.collect.rundir import RunDir
from gpulake.collect.tracing.adapting import CHUNK_BYTES, Lines, LogImport
from gpulake.collect.tracing.appending import append_synced
from gpulake.core.errors import GpulakeError, InputError, UsageError


def line(number: int) -> str:
    return f'10.0.0.1 - - [15/Nov/2025:15:28:01 +0100] "GET /{number} HTTP/1.1" 200 5 "-" "curl" 312 0.250 t-{number}\n'


def paths(run: Path) -> list[str]:
    rows = [json.loads(text) for path in sorted(run.glob("events.nginx.*")) for text in path.read_text().splitlines()]
    return [row["path"] for row in rows]


def adapting(run: Path, **asked: Any) -> LogImport:
    return LogImport("nginx", RunDir(run), AdapterOptions(node="n1", **asked))


def steps(*actions: Callable[[], object]) -> Callable[[], bool]:
    """What happens, one after another, each time there is nothing to read; then the end."""
    left: Iterator[Callable[[], object]] = iter(actions)

    def wait() -> bool:
        action = next(left, None)
        if action is None:
            return False
        action()
        return True

    return wait


def append(path: Path, text: str) -> Callable[[], object]:
    def act() -> None:
        with path.open("a") as file:
            file.write(text)

    return act


def test_a_log_that_grew_is_read_on_from_where_it_was(tmp_path: Path) -> None:
    log, run = tmp_path / "access.log", tmp_path / "run"
    log.write_text(line(1) + line(2)[:20])
    assert adapting(run).read(log).left_out == {"the last line has no end yet": 1}
    append(log, line(2)[20:] + line(3))()
    assert adapting(run).read(log).invocations == 2
    assert paths(run) == ["/1", "/2", "/3"]


def test_read_in_another_way_it_is_read_again(tmp_path: Path) -> None:
    log, run = tmp_path / "access.log", tmp_path / "run"
    log.write_text(line(1))
    assert adapting(run, format="[$time_local] $msec").read(log).rejected == 1
    assert adapting(run).read(log).invocations == 1


def test_a_log_is_followed_over_a_rename_and_what_is_still_written_to_the_old_file_counts(tmp_path: Path) -> None:
    log, run = tmp_path / "access.log", tmp_path / "run"
    log.write_text(line(1))
    old = tmp_path / "access.log.1"
    wait = steps(
        append(log, line(2)),
        lambda: log.rename(old),
        append(old, line(3)),  # the writer has not heard of it yet
        append(log, line(4)),
        append(old, line(5)),
        append(log, line(6)),
    )
    tallies = list(adapting(run).follow(log, wait))
    assert [tally.invocations for tally in tallies] == [4, 2]
    assert paths(run) == ["/1", "/2", "/3", "/5", "/4", "/6"]


def test_a_log_is_followed_over_being_emptied_even_when_it_grew_past_where_it_was(tmp_path: Path) -> None:
    log, run = tmp_path / "access.log", tmp_path / "run"
    log.write_text(line(1) + line(2))
    wait = steps(
        lambda: os.truncate(log, 0),
        append(log, line(3)),
        lambda: log.write_text(line(4) + line(5) + line(6) + line(7)),  # emptied and written, between two looks
    )
    list(adapting(run).follow(log, wait))
    assert paths(run) == ["/1", "/2", "/3", "/4", "/5", "/6", "/7"]


def test_a_log_that_was_emptied_and_begins_with_the_same_line_is_read_anew(tmp_path: Path) -> None:
    log, run = tmp_path / "access.log", tmp_path / "run"
    log.write_text("begin\n" + line(1) + line(2))
    assert adapting(run).read(log).invocations == 2
    log.write_text("begin\n" + line(3))
    assert adapting(run).read(log).invocations == 1
    assert paths(run) == ["/1", "/2", "/3"]


def test_half_a_line_waits_for_its_other_half(tmp_path: Path) -> None:
    log, run = tmp_path / "access.log", tmp_path / "run"
    log.write_text("")
    wait = steps(append(log, line(1)[:30]), append(log, line(1)[30:] + line(2)[:9]), append(log, line(2)[9:]))
    (tally,) = adapting(run).follow(log, wait)
    assert (tally.invocations, tally.rejected) == (2, 0)


def test_a_first_line_of_any_length_is_followed(tmp_path: Path) -> None:
    log, run = tmp_path / "access.log", tmp_path / "run"
    log.write_text("x" * CHUNK_BYTES + "\n" + line(1))
    (tally,) = adapting(run).follow(log, steps(append(log, line(2))))
    assert (tally.rejected, paths(run)) == (1, ["/1", "/2"])


def test_a_follower_that_starts_again_goes_on_where_it_was(tmp_path: Path) -> None:
    log, run = tmp_path / "access.log", tmp_path / "run"
    log.write_text(line(1))
    list(adapting(run).follow(log, steps()))
    append(log, line(2))()
    list(adapting(run).follow(log, steps(append(log, line(3)))))
    assert paths(run) == ["/1", "/2", "/3"]


def test_a_missing_file_is_reported_at_once(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(InputError, match="cannot read"):
            list(adapting(tmp_path / "run").follow(path, steps()))


def test_what_means_something_only_as_a_whole_is_not_followed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="sacct cannot follow a file"):
        list(LogImport("sacct", RunDir(tmp_path), AdapterOptions(node="n1")).follow(tmp_path / "x", steps()))


def test_bytes_that_are_no_text_are_kept_as_they_are_shown(tmp_path: Path) -> None:
    log, run = tmp_path / "access.log", tmp_path / "run"
    log.write_bytes(b"\xff\xfe\x00 broken\r\n" + line(1).encode())
    adapting(run).read(log)
    (kept,) = (json.loads(text) for text in (run / "rejected.nginx.jsonl").read_text().splitlines())
    assert kept["text"] == "\\xff\\xfe\x00 broken"


@given(st.lists(st.binary(max_size=12), max_size=20))
def test_lines_are_the_same_however_they_are_cut(chunks: list[bytes]) -> None:
    cut = Lines()
    found = [one.text for chunk in chunks for one in cut.feed(chunk)] + [one.text for one in cut.last(is_ended=True)]
    whole = b"".join(chunks).split(b"\n")
    expected = whole if whole[-1] else whole[:-1]
    assert found == [text.removesuffix(b"\r").decode("utf-8", "backslashreplace") for text in expected]
    assert (cut.number, cut.offset) == (len(expected), len(b"".join(chunks)))


def test_a_torn_line_of_one_who_was_killed_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"a":1}\n{"a":')
    append_synced(path, [{"a": 2}])
    assert path.read_text() == '{"a":1}\n{"a":\n{"a":2}\n'


def test_a_line_that_a_full_disk_cut_spoils_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "events.jsonl"
    write = os.write

    def full(descriptor: int, content: bytes) -> int:
        if len(content) < 5:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, content[:5])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        append_synced(path, [{"a": 1}])
    monkeypatch.undo()
    append_synced(path, [{"a": 2}])
    assert path.read_text() == '{"a":\n{"a":2}\n'


def test_text_that_is_no_unicode_is_written_so_that_everyone_can_read_it(tmp_path: Path) -> None:
    append_synced(tmp_path / "x", [{"a": "\ud800é\n"}])
    assert (tmp_path / "x").read_bytes() == '{"a":"?é\\n"}\n'.encode()


def test_a_run_that_cannot_be_written_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    log = tmp_path / "access.log"
    log.write_text(line(1))
    with pytest.raises(GpulakeError, match="cannot write"):
        adapting(tmp_path / "run").read(log)


def test_the_command_says_what_came_of_each_file(tmp_path: Path) -> None:
    log, run = tmp_path / "access.log", tmp_path / "r1" / "web1"
    log.write_text(line(1) + "nonsense\n\n")
    result = CliRunner().invoke(command, ["nginx", str(log), "--run-dir", str(run), "--stage", "edge"])
    assert result.exit_code == 0
    assert result.stdout == f"{log}: 1 invocations, 1 rejected, skipped: 1 empty lines\n"
    assert result.stderr == f"What was rejected is kept in {run / 'rejected.nginx.jsonl'}\n"
    (row,) = (json.loads(text) for path in run.glob("events.*") for text in path.read_text().splitlines())
    assert (row["node"], row["stage"], len(row["host_id"])) == ("web1", "edge", 12)


def test_the_command_takes_node_and_stage_from_the_collectors_own_words(tmp_path: Path) -> None:
    log, run = tmp_path / "access.log", tmp_path / "r1" / "folder"
    run.mkdir(parents=True)
    (run / "node_meta.json").write_text('{"node": "web9", "stage": "cloud", "host_id": "abc"}')
    log.write_text(line(1))
    CliRunner().invoke(command, ["nginx", str(log), "--run-dir", str(run)], catch_exceptions=False)
    (row,) = (json.loads(text) for path in run.glob("events.*") for text in path.read_text().splitlines())
    assert (row["node"], row["stage"], row["host_id"]) == ("web9", "cloud", "abc")


def test_a_log_of_another_node_is_not_of_this_host(tmp_path: Path) -> None:
    log, run = tmp_path / "access.log", tmp_path / "r1" / "web1"
    log.write_text(line(1))
    CliRunner().invoke(command, ["nginx", str(log), "--run-dir", str(run), "--node-id", "web2"], catch_exceptions=False)
    (row,) = (json.loads(text) for path in run.glob("events.*") for text in path.read_text().splitlines())
    assert (row["node"], row["host_id"]) == ("web2", None)


def test_a_file_of_which_nothing_could_be_read_is_an_error(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_text("nonsense\n")
    result = CliRunner().invoke(command, ["envoy", str(log), "--run-dir", str(tmp_path / "run")])
    assert isinstance(result.exception, InputError)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["apache", "x"], "no adapter named 'apache'"),
        (["nginx", "x", "--tz", "Mars/Base"], "no time zone named 'Mars/Base'"),
        (["nginx", "x", "y", "--follow"], "2 files to follow"),
        (["sacct", "x", "--format", "%i"], "sacct has neither a --format nor a --trace-header"),
        (["otlp", "x", "--trace-header", "X-Id"], "otlp has neither a --format nor a --trace-header"),
        (["nginx", "x", "--node-id", "../up"], "the node id is '../up'"),
    ],
)
def test_what_does_not_exist_is_refused(tmp_path: Path, arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(command, [*arguments, "--run-dir", str(tmp_path / "run")])
    assert isinstance(result.exception, UsageError)
    assert message in result.exception.message


def test_a_pipe_that_is_given_as_a_file_is_refused_with_a_way_out(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(writer)
    with os.fdopen(reader), pytest.raises(InputError) as caught:
        adapting(tmp_path / "run").read(Path(f"/dev/fd/{reader}"))
    assert caught.value.hint == "pipe it in, and write - for it"


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    arguments = ["collect", "adapt", "nginx", "-", "--run-dir", str(tmp_path / "run"), "--json"]
    done = subprocess.run(
        [sys.executable, "-c", "from gpulake.cli import main; main()", *arguments],
        input=line(1) + line(2) + line(3).rstrip("\n"),
        capture_output=True,
        text=True,
        check=True,
    )
    (tally,) = json.loads(done.stdout)
    assert (tally["file"], tally["invocations"], done.stderr) == ("-", 3, "")


def test_a_follower_ends_on_a_signal_with_everything_written(tmp_path: Path) -> None:
    log, run = tmp_path / "access.log", tmp_path / "run"
    log.write_text(line(1))
    arguments = ["collect", "adapt", "nginx", str(log), "--follow", "--run-dir", str(run), "--json"]
    follower = subprocess.Popen(
        [sys.executable, "-c", "from gpulake.cli import main; main()", *arguments], stdout=subprocess.PIPE, text=True
    )
    try:
        until(lambda: paths(run) == ["/1"])
        append(log, line(2))()
        until(lambda: paths(run) == ["/1", "/2"])
        follower.send_signal(signal.SIGTERM)
        reported, _ = follower.communicate(timeout=60)
    finally:
        follower.kill()
    assert (json.loads(reported)[0]["invocations"], follower.returncode) == (2, 0)

"""Exceptions and their tracebacks, however a log garbles them."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnosing import diagnose
from gpulake.diagnose.logs.digest import Line
from gpulake.diagnose.story.lines import parse_line
from gpulake.diagnose.story.tracebacks import Frame, Raised, read_tracebacks
from gpulake.formats.kernel import read_line


def raised(log: str) -> list[Raised]:
    texts = textwrap.dedent(log).lstrip("\n").split("\n")
    return read_tracebacks([(Line(number, text), parse_line(text)) for number, text in enumerate(texts, 1)])


def test_a_plain_traceback() -> None:
    (one,) = raised("""
        Traceback (most recent call last):
          File "/job/train.py", line 9, in <module>
            main()
          File "/job/train.py", line 4, in main
            raise ValueError("no")
        ValueError: no
    """)
    assert one.frames == (Frame("/job/train.py", 9, "<module>"), Frame("/job/train.py", 4, "main"))
    assert (one.name, one.kind, one.message, one.line, one.first_line) == ("ValueError", "ValueError", "no", 6, 1)
    assert (one.is_uncaught, one.script, one.raised_at, one.link) == (True, "train.py", 5, None)


def test_ranks_that_interleave_are_reported_apart() -> None:
    found = raised("""
        [rank0]: Traceback (most recent call last):
        [rank1]: Traceback (most recent call last):
        [rank0]:   File "a.py", line 1, in <module>
        [rank1]:   File "b.py", line 2, in <module>
        [rank0]: KeyError: 'x'
        [rank1]: IndexError: y
    """)
    assert [(one.kind, [frame.file for frame in one.frames]) for one in found] == [
        ("KeyError", ["a.py"]),
        ("IndexError", ["b.py"]),
    ]


def test_a_chain_is_one_and_its_links_are_known() -> None:
    found = raised("""
        Traceback (most recent call last):
          File "a.py", line 1, in f
        KeyError: 'x'

        During handling of the above exception, another exception occurred:

        Traceback (most recent call last):
          File "a.py", line 3, in <module>
        ValueError: y

        The above exception was the direct cause of the following exception:

        Traceback (most recent call last):
          File "a.py", line 5, in <module>
        RuntimeError: z
    """)
    assert [(one.kind, one.link) for one in found] == [
        ("KeyError", None),
        ("ValueError", "context"),
        ("RuntimeError", "cause"),
    ]
    assert len({one.chain for one in found}) == 1


def test_the_original_of_a_loaders_worker_belongs_to_what_it_was_raised_as() -> None:
    first, second = raised("""
        Traceback (most recent call last):
          File "t.py", line 1, in <module>
        ValueError: Caught ValueError in DataLoader worker process 3.
        Original Traceback (most recent call last):
          File "worker.py", line 1, in _worker_loop
        ValueError: bad row
    """)
    assert (first.chain, second.link, second.message) == (second.chain, "origin", "bad row")


def test_a_traceback_whose_head_was_cut_is_still_one() -> None:
    (one,) = raised("""
          File "/job/train.py", line 4, in main
            f()
        mylib.PlanRejected: no slot
    """)
    assert (one.name, one.is_uncaught, len(one.frames)) == ("mylib.PlanRejected", None, 1)


def test_an_exception_that_python_ignores_ended_nothing() -> None:
    (one,) = raised("""
        Exception ignored in: <function C.__del__ at 0x7f>
        Traceback (most recent call last):
          File "c.py", line 1, in __del__
        AttributeError: gone
    """)
    assert (one.is_ignored, one.is_uncaught) == (True, False)


def test_an_exception_in_a_loggers_message_was_caught() -> None:
    (one,) = raised("""
        WARNING:probe:import failed with: Traceback (most recent call last):
          File "c.py", line 1, in <module>
        ImportError: no
    """)
    assert one.is_uncaught is False


def test_a_syntax_error_has_its_own_layout() -> None:
    (one,) = raised("""
          File "/job/train.py", line 14
            if x = 3:
                 ^
        SyntaxError: invalid syntax
    """)
    assert (one.kind, one.frames) == ("SyntaxError", (Frame("/job/train.py", 14, ""),))


def test_frames_that_rich_draws_are_read() -> None:
    (one,) = raised("""
        ╭───────────────────── Traceback (most recent call last) ──────────────────────╮
        │ /job/train.py:97 in <module>                                                 │
        │ ❱ 97 │   train(args)                                                         │
        ╰──────────────────────────────────────────────────────────────────────────────╯
        KeyError: 'alpha'
    """)
    assert (one.frames, one.is_uncaught, one.message) == ((Frame("/job/train.py", 97, "<module>"),), True, "'alpha'")


def test_a_message_of_many_lines_is_kept() -> None:
    (one,) = raised("""
        Traceback (most recent call last):
          File "a.py", line 1, in <module>
        RuntimeError: Error(s) in loading state_dict for Net:
            Missing key(s) in state_dict: "a".
    """)
    assert 'Missing key(s) in state_dict: "a".' in one.texts[-2]


_PIECES = st.sampled_from(
    [
        "Traceback (most recent call last):",
        '  File "a.py", line 3, in <module>',
        "    x = 1",
        "ValueError: x",
        "KeyError",
        "",
        "During handling of the above exception, another exception occurred:",
        "Original Traceback (most recent call last):",
        "Exception ignored in: <x>",
        "  | ",
        "│ /job/a.py:3 in f",
        "step 3",
    ]
)


@given(st.lists(st.tuples(st.sampled_from(["", "[rank1]: ", "3: ", "(W pid=1) "]), _PIECES), max_size=40))
def test_however_pieces_are_shuffled_every_exception_names_its_line(pieces: list[tuple[str, str]]) -> None:
    texts = [prefix + piece for prefix, piece in pieces]
    for one in raised("\n".join(texts)) if texts and texts[0].strip() else []:
        assert 1 <= one.first_line <= one.line <= len(texts)


@pytest.mark.parametrize(
    "line",
    [
        'File "/job/train.py", line {}, in main',
        "│ /job/train.py:{} in main",
        "[rank{}]: ValueError: no",
        "(train pid={}) ValueError: no",
        "host1:{}:77 [0] NCCL INFO hello",
        "  rank      : {} (local_rank: 3)\n  exitcode  : {} (pid: {})",
        "send {}<-{}",
        "6,{},{},-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1, lost",
    ],
)
def test_a_number_without_end_is_no_number(line: str) -> None:
    """Python refuses to read one of more than 4,300 digits."""
    log = "Root Cause (first observed failure):\nTraceback (most recent call last):\n" + line.replace("{}", "9" * 5_000)
    assert diagnose(f"{log}\nValueError: no\n") is not None
    assert read_line(line.replace("{}", "9" * 5_000)).elapsed_ms is None


def test_a_traceback_of_a_notebook_ended_it() -> None:
    (one,) = raised("""
        RuntimeError                              Traceback (most recent call last)
        Cell In[5], line 3
              1 for batch in loader:
        ----> 3     step(batch)

        File /opt/py/torch/nn/modules/module.py:1511, in Module._wrapped_call_impl(self, *args)
        -> 1511     return self._call_impl(*args)

        RuntimeError: mat1 and mat2 shapes cannot be multiplied
    """)
    assert [(frame.file, frame.function) for frame in one.frames] == [
        ("Cell In[5]", ""),
        ("/opt/py/torch/nn/modules/module.py", "Module._wrapped_call_impl"),
    ]
    assert (one.kind, one.is_uncaught) == ("RuntimeError", True)


def test_an_exception_that_hydra_prints_as_a_call_is_the_cause() -> None:
    found = diagnose("""
        Error executing job with overrides: []
        Error in call to target 'model.Diffusion':
        FileNotFoundError(2, 'No such file or directory')
        full_key: model

        Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.
    """)
    assert (found.verdict, found.reason, found.evidence[0].line) == ("failed", "FileNotFoundError", 3)


def test_of_two_open_tracebacks_the_outer_one_goes_on_after_the_inner_one() -> None:
    found = raised("""
        Traceback (most recent call last):
          File "a.py", line 1, in <module>
        Traceback (most recent call last):
          File "b.py", line 1, in <module>
        KeyError: 'b'
          File "a.py", line 2, in load
        ValueError: a
    """)
    assert [(one.kind, [frame.function for frame in one.frames]) for one in found] == [
        ("KeyError", ["<module>"]),
        ("ValueError", ["<module>", "load"]),
    ]


def test_any_of_the_nearest_frames_may_tell_what_was_being_done() -> None:
    found = diagnose("""
        Traceback (most recent call last):
          File "/job/train.py", line 9, in <module>
            resume(engine)
          File "/opt/py/deepspeed/runtime/engine.py", line 2756, in _load_zero_checkpoint
            check(tag)
          File "/opt/py/deepspeed/runtime/layout.py", line 12, in check
            raise ValueError(tag)
        ValueError: step_500 was written by 9 ranks
    """)
    assert (found.reason, found.rule) == ("ModelLoadingError", "raised_by_a_reader_of_checkpoints")


@pytest.mark.parametrize(
    ("frame", "message", "reason"),
    [
        ("torch/serialization.py", "File out/step_1.pt cannot be opened.", "OSError"),
        ("torch/nn/functional.py", "File out/step_1.pt cannot be opened.", "RuntimeError"),
    ],
)
def test_an_error_of_a_writer_of_checkpoints_is_of_the_file_system(frame: str, message: str, reason: str) -> None:
    found = diagnose(f"""
        Traceback (most recent call last):
          File "/job/train.py", line 9, in <module>
            torch.save(state, path)
          File "/opt/py/{frame}", line 423, in save
            write(state)
        RuntimeError: {message}
    """)
    assert found.reason == reason

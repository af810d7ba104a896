"""A log as a string, diagnosed by the shipped rules."""

from __future__ import annotations

import textwrap

from gpulake.core.diagnosis import Diagnosis
from gpulake.diagnose.cause.explaining import explain_last
from gpulake.diagnose.logs.scan import scan
from gpulake.diagnose.rulebook.book import shipped
from gpulake.diagnose.story.stories import read_stories


def diagnose(log: str) -> Diagnosis:
    rulebook = shipped()
    digest = scan("job.log", [textwrap.dedent(log).lstrip("\n").encode()], rulebook)
    return explain_last(read_stories([digest], rulebook))[1]

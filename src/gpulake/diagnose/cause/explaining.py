"""The diagnosis of a story: its root cause, not its last symptom."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpulake.core.diagnosis import CATEGORY_OF, NOT_A_FAILURE, UNKNOWN, Diagnosis, Quote, Recovery, Symptom, Verdict
from gpulake.diagnose.cause.cascade import root_of
from gpulake.diagnose.cause.outcome import ABORTED, Silence, failed_launcher, success
from gpulake.diagnose.cause.suspects import Handled, is_incidental, suspects
from gpulake.diagnose.rulebook.rule import EXPLAINING, Rule
from gpulake.diagnose.story.events import Ending, Event, Story

MOST_EVIDENCE = 5
MOST_SYMPTOMS = 8
JUST_BEGUN = 200  # a run with fewer lines has only begun
LONGEST_CAUSE = 400
# Words of failure; a count or a metric of errors is none.
_TROUBLE = re.compile(
    r"(?i)(?<!\bno )(?<!\b0 )\b(?:errors?|\w+error|\w*exception|fatal|fail(?:ed|ure|ures)?|panic(?:ked)?"
    r"|abort(?:ed|ing)?|killed|halted|crash(?:ed)?|terminated|denied|cannot|can't|could not|couldn't|unable to"
    r"|no such|not found)\b"
    r"(?!\W{0,3}(?:rate\b|[=:]?\s*\d))"
)
_IN_THREAD = re.compile(r"Exception in thread ")
_COMMAND = re.compile(r"\bCalledProcessError: ")
_DIGITS = re.compile(r"0x[0-9a-f]+|\d+")
# Rules of launchers that kill the remaining processes.
_SWEEPING = {"sigterm_of_peer", "torchrun_closes_peers", "deepspeed_kills", "srun_tears_down"}
# Reasons of a program that misses the output of the one before it.
_LEFT_WITHOUT = {"FileNotFoundError", "PermissionError", "OSError", "ModelLoadingError"}
_PLACE = re.compile(r"\{(\w+)\}")


def explain(story: Story) -> Diagnosis:
    """By rules alone; without a matching rule the reason is unknown."""
    suspected = suspects(story.events)
    well = success(story, suspected)
    if well is not None:
        return _healthy(story, well, suspected)
    is_handled = Handled(story.events)
    left = [event for event in suspected if not is_handled(event)]
    root = root_of(left)
    has_failed = _has_failed_launcher(story) or any(not is_incidental(event) for event in left)
    if root is None and suspected and has_failed:
        root = suspected[-1]
    if not has_failed and (root is None or Silence(story).is_only_incidental(root)):
        thread = _dead_thread(story) if Silence(story).is_midway else None
        return _silent(story) if thread is None else _failed(story, thread, ())
    if root is None:
        return _unknown(story)
    return _failed(story, root, suspected)


def explain_last(stories: Sequence[Story]) -> tuple[Story, Diagnosis]:
    """Of the last run with a known end; a run that has just begun does not hide the one before it."""
    last = stories[-1], explain(stories[-1])
    if _is_left_without(stories, last[1]):
        before = stories[-2], explain(stories[-2])
        return before if before[1].verdict == "failed" else last
    if last[1].rule or stories[-1].lines_read > JUST_BEGUN or _has_worked(stories[-1]):
        return last
    earlier = ((story, explain(story)) for story in reversed(stories[:-1]))
    return next((suspected for suspected in earlier if suspected[1].rule or suspected[1].verdict == "failed"), last)


def _is_left_without(stories: Sequence[Story], last: Diagnosis) -> bool:
    """Whether a script continued with its next program, which misses the output of the failed one."""
    if len(stories) == 1 or last.reason not in _LEFT_WITHOUT or _has_worked(stories[-1]):
        return False
    before, after = ({event.script for event in story.events if event.script} for story in stories[-2:])
    begins_anew = stories[-1].events[0].hit.rule.role == "start"
    return bool(before and after) and before.isdisjoint(after) and not begins_anew


def _has_worked(story: Story) -> bool:
    return any(event.hit.rule.role == "progress" for event in story.events)


def _has_failed_launcher(story: Story) -> bool:
    return any(failed_launcher(event) for event in story.events)


def _healthy(story: Story, success: Event, suspected: Sequence[Event]) -> Diagnosis:
    """Errors that ended nothing are quoted as evidence, too."""
    noise = [event.quote for event in suspected if not is_incidental(event)]
    return _diagnosis(
        story,
        "healthy",
        NOT_A_FAILURE,
        "The run ended well",
        evidence=(success.quote, *noise[:2]),
        recovery=Recovery("none", "Nothing failed."),
        confidence=round(0.5 + success.hit.rule.strength / 200, 2),
        rule=success.hit.rule.name,
    )


def _silent(story: Story) -> Diagnosis:
    """Without an error: by what it had announced."""
    aborted = next((event for event in story.events if event.hit.rule.name == ABORTED), None)
    if aborted is not None:
        cause = "The run ended in order without reaching its target"
        return _diagnosis(story, "unknown", UNKNOWN, cause, evidence=(aborted.quote,), confidence=0.6, rule=ABORTED)
    last = story.last_lines[-1:]
    swept = [event.quote for event in story.events if event.hit.rule.name in _SWEEPING]
    if swept:
        cause = "The job was torn down from outside, and nothing in the log says why"
        restart = Recovery("auto_restart", "The log shows no fault of the job before it.")
        evidence = tuple(swept[:MOST_EVIDENCE])
        return _diagnosis(story, "failed", "JobCancelled", cause, evidence=evidence, recovery=restart, confidence=0.3)
    if Silence(story).is_midway:
        cause = "The log stops in the midst of work, with neither an end nor an error"
        return _diagnosis(story, "unknown", UNKNOWN, cause, evidence=last, confidence=0.3)
    known = {event.quote.line for event in story.events if event.hit.rule.role != "wrapper"}
    worked = max((event.quote.line for event in story.events if event.hit.rule.role == "progress"), default=0)
    since = [quote for quote in story.last_lines if quote.line > worked and quote.line not in known]
    trouble = [quote for quote in since if _TROUBLE.search(quote.text)]
    if trouble:
        cause = "The log ends with an error that no rule knows"
        return _diagnosis(story, "unknown", UNKNOWN, cause, evidence=tuple(trouble), confidence=0.3)
    if not story.is_log:
        cause = "This does not look like the log of a job: no line is of a program, a launcher or a framework"
        return _diagnosis(story, "unknown", UNKNOWN, cause, evidence=last, confidence=0.2)
    nothing = Recovery("none", "Nothing failed, as far as the log tells.")
    cause = "Nothing in the log tells of a failure, nor of work that was left undone"
    return _diagnosis(story, "healthy", NOT_A_FAILURE, cause, evidence=last, recovery=nothing, confidence=0.4)


def _dead_thread(story: Story) -> Event | None:
    """The exception that ended a thread, if nothing happened after it: the program waits for the thread."""
    heads = {event.quote.line for event in story.events if _IN_THREAD.match(event.quote.text)}
    last = next((event for event in reversed(story.events) if event.hit.rule.role in (*EXPLAINING, "progress")), None)
    is_of_thread = last is not None and last.is_ignored and (last.first_line or 0) - 1 in heads
    return last if is_of_thread else None


def _unknown(story: Story) -> Diagnosis:
    """A launcher reports a failure, and no line its cause."""
    failed = [event.quote for event in story.events if event.hit.rule.role == "wrapper"]
    command = next((quote for quote in failed if _COMMAND.search(quote.text)), None)
    if command is not None:
        cause = "A command that the program ran failed, and nothing in the log says why"
        return _diagnosis(story, "failed", "CalledProcessError", cause, evidence=(command,), confidence=0.4)
    cause = "A launcher says that a process failed, and nothing in the log says why"
    return _diagnosis(story, "failed", UNKNOWN, cause, evidence=tuple(failed[:MOST_EVIDENCE]), confidence=0.3)


def _failed(story: Story, root: Event, suspected: Sequence[Event]) -> Diagnosis:
    rule = root.hit.rule
    ending = _ending(story, root)
    return _diagnosis(
        story,
        "failed",
        rule.reason,
        _filled(rule.cause, root),
        remedy=_filled(rule.remedy, root),
        evidence=_evidence(root, story.events, ending),
        symptoms=_symptoms(root, story.events),
        rank=root.rank if root.rank is not None or ending is None else ending.rank,
        node=root.host or root.hit.words.get("host") or (ending.host if ending is not None else None),
        recovery=Recovery(rule.recovery, rule.why),
        confidence=_confidence(root, suspected),
        rule=rule.name,
    )


def _diagnosis(story: Story, verdict: Verdict, reason: str, cause: str, **rest: object) -> Diagnosis:
    return Diagnosis(
        verdict=verdict,
        category=CATEGORY_OF.get(reason, "unknown"),
        reason=reason,
        cause=cause[:LONGEST_CAUSE],
        lines_read=story.lines_read,
        lines_kept=story.lines_kept,
        began_at=story.began_at,
        ended_at=story.ended_at,
        run=story.run,
        runs=story.runs,
        claimed_job_id=story.job_id,
        **rest,  # type: ignore[arg-type]
    )


def _ending(story: Story, root: Event) -> Ending | None:
    """What a launcher says of the first to fail, unless the root is known to be of another process."""
    pid = root.hit.words.get("pid")
    fitting = [end for end in story.endings if pid is None or pid == str(end.pid)]
    return fitting[0] if fitting else None


def _filled(sentence: str, event: Event) -> str:
    """The sentence with the groups of the rule's pattern filled in; log text is never used as a format."""
    words = event.hit.words
    filled = _PLACE.sub(lambda place: words.get(place[1], "").strip(), sentence)
    return filled.strip().removesuffix(":").strip()


def _evidence(root: Event, events: Sequence[Event], ending: Ending | None) -> tuple[Quote, ...]:
    """The root's line, the statement that raised it, and other lines of the same reason with other words."""
    quotes = [root.quote, *root.rest[:2]]
    quotes += [event.quote for event in events if event.chain is not None and event.chain == root.chain][-1:]
    if root.raised_by is not None and root.raised_by.text.startswith(("raise", "assert")):
        quotes.append(root.raised_by)
    seen = {_DIGITS.sub("#", root.quote.text.strip())}
    for event in events:
        words = _DIGITS.sub("#", event.quote.text.strip())
        if event.hit.rule.reason == root.hit.rule.reason and words not in seen:
            seen.add(words)
            quotes.append(event.quote)
    if ending is not None and ending.exit_code is not None and ending.exit_code < 0:
        quotes.insert(2, ending.quote)
    return tuple(dict.fromkeys(quotes))[:MOST_EVIDENCE]


def _symptoms(root: Event, events: Sequence[Event]) -> tuple[Symptom, ...]:
    """Each kind once: a launcher reports in many lines that it kills the remaining processes."""
    found: dict[str, Symptom] = {}
    for event in events:
        rule: Rule = event.hit.rule
        is_other = event.order > root.order and rule.role in ("cause", "cascade", "wrapper", "teardown")
        kind = rule.reason or f"{rule.role} {rule.family}"
        if is_other and kind not in found and (rule.reason != root.hit.rule.reason or not rule.reason):
            quote = event.quote
            found[kind] = Symptom(quote.line, quote.text, quote.file, rule.reason or rule.name)
    return tuple(found.values())[:MOST_SYMPTOMS]


def _confidence(root: Event, suspected: Sequence[Event]) -> float:
    """Higher for a stronger rule and an uncaught exception, lower where there are other causes."""
    rule = root.hit.rule
    value = 0.5 + 0.4 * rule.strength / 100
    value += 0.08 if root.is_uncaught else 0.0
    value -= 0.15 if rule.role == "cascade" else 0.0
    value -= 0.2 if is_incidental(root) else 0.0
    rivals = {e.hit.rule.reason for e in suspected if e.hit.rule.role == "cause"} - {rule.reason}
    value -= 0.04 * min(len(rivals), 4)
    return round(min(max(value, 0.1), 0.97), 2)

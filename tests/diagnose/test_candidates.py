"""What may become a candidate, and what is refused."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnose.learning import GROUND, LINK, QUOTA, candidate
from examples import cases
from gpulake.diagnose.learn.candidates import Candidate, Ground, Kind, Proof, agreed_recovery
from gpulake.diagnose.learn.pattern_checks import backtracking, fixed_characters
from gpulake.diagnose.learn.proposals import generalised, masked, message, whole_line
from gpulake.diagnose.learn.trials import examined, failures, healthy_lines, marker, random_lines
from gpulake.diagnose.rulebook.book import shipped, shipped_rules
from gpulake.diagnose.rulebook.rule import EXPLAINING, Role, Rule

# Lines of any sort, without what ends one.
LINES = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n")),
    st.from_regex(r"[a-z '\"/.:0-9=\[\]()xe@-]{0,120}", fullmatch=True),
)
DIGITS = re.compile("[0-9]+(?![0-9xX])")  # what makes a number hexadecimal stays


def wrong(one: Candidate, ground: Ground = GROUND) -> list[str]:
    return [check.check for check in examined(one, ground) if not check.passed]


@pytest.mark.slow
@settings(max_examples=cases(400))
@given(line=LINES, other=st.integers(0, 10**12))
def test_a_pattern_matches_its_own_line_and_any_with_other_numbers(line: str, other: int) -> None:
    with_others = DIGITS.sub(str(other), line)
    for pattern in (generalised(line), whole_line(line)):
        assert re2.search(pattern, line) is not None
        assert re2.search(pattern, with_others) is not None
    assert backtracking(generalised(line)) == ""


@settings(max_examples=cases(200))
@given(line=LINES)
def test_an_example_to_share_is_matched_by_the_pattern_of_its_line(line: str) -> None:
    assert re2.search(generalised(line), masked(line)) is not None


@pytest.mark.parametrize(
    ("line", "pattern"),
    [
        ("[rank3]: quota of volume 7 is 512.5 GiB", r"quota of volume [\d.,]+ is [\d.,]+ GiB"),
        ("2026-01-02 03:04:05,678 - ERROR - cannot open '/a/b c'", r"cannot open '[^']*'"),
        ("lost /mnt/data/x_1.bin (0x7fff) of node gpu-17", r"lost [\w./@%+=~-]+ \(0[xX][0-9a-fA-F]+\) of node [\w.-]+"),
        ("can't reach db.example.com at 10.0.0.1:443", r"can't reach [\w.-]+ at \d+(?:\.\d+){3}:[\d.,]+"),
        ("loss 1.5e-07  is odd", r"loss [\d.eE+-]+\s+is odd"),
    ],
)
def test_what_differs_from_job_to_job_becomes_a_class(line: str, pattern: str) -> None:
    assert generalised(line) == pattern


def test_what_is_to_be_kept_stays_as_it_is() -> None:
    assert generalised("bus 12 says Xid 79 now", keep=["Xid 79"]) == r"bus [\d.,]+ says Xid 79 now"


def test_a_line_of_nothing_but_a_prefix_is_its_own_message() -> None:
    assert message("[2026-01-02 03:04:05] [INFO] ") == "[2026-01-02 03:04:05] [INFO] "


@pytest.mark.parametrize("piece", ["1", "'", "/a", "a.", "a-", "x@", "[a]", "a.com", "node a1", "1.1.1.1.", " "])
def test_a_hostile_line_takes_no_time(piece: str) -> None:
    begin = time.process_time()
    generalised(piece * 500_000)
    assert time.process_time() - begin < 2


@pytest.mark.slow
@settings(max_examples=cases(300))
@given(pattern=st.from_regex(r"[a-c.(|)*+?\[\]{},0-9\\dQE:^$-]{0,25}", fullmatch=True))
def test_any_pattern_that_compiles_can_be_judged(pattern: str) -> None:
    try:
        re2.compile(pattern)
    except re2.error:
        return
    assert fixed_characters(pattern) >= 0
    assert isinstance(backtracking(pattern), str)


@pytest.mark.parametrize(
    ("pattern", "is_refused"),
    [
        ("(a+)+$", True),
        ("(?:x*)*y", True),
        ("(a|a)*b", True),
        ("(?:ab|ac)+d", True),
        (r"(\d+,){20}x", False),
        (r"(?:\w+\.)*Error", False),
        (r"(?:[\w.]+\.)*Error", True),
        (r"(?:, *\d+)*", False),
        (r"(?:x\w*)+", True),
        (".*a|.*b|.*c|.*d", False),
        (".*a.*b.*c.*d", True),
        ("(?:ab)+", False),
        ("(?:a|b)*c", False),
        (r"(?:x\d){3}", False),
        (".*a.*b.*c", False),
        (r"[a\]+*]+b", False),
        (r"\Q(a+)+\E", False),
    ],
)
def test_a_pattern_that_could_hang_another_engine_is_reported(pattern: str, is_refused: bool) -> None:
    assert bool(backtracking(pattern)) == is_refused


@pytest.mark.parametrize(
    ("pattern", "fixed"),
    [("abc 12", 5), ("a|bcd", 1), ("(?:abc)?d", 1), ("a{3}[xyz]+", 3), (r"\QXid 7\E\d", 4), (r"\bab\.c$", 3), ("", 0)],
)
def test_what_is_fixed_of_a_pattern_is_counted(pattern: str, fixed: int) -> None:
    assert fixed_characters(pattern) == fixed


def test_a_rule_from_a_line_passes_every_check() -> None:
    checks = examined(candidate(generalised(QUOTA), QUOTA), GROUND)
    assert [check.check for check in checks if check.passed] == [
        "is_well_formed",
        "compiles",
        "cannot_hang_other_engines",
        "fills_in_its_words",
        "names_a_failure",
        "is_modest",
        "matches_its_own_lines",
        "is_specific",
        "spares_healthy_logs",
        "steals_from_no_rule",
        "hides_nothing",
        "is_new",
    ]


@pytest.mark.parametrize(
    ("pattern", "line", "check"),
    [
        (".*", QUOTA, "is_specific"),
        ("(?i)error", "Error: boom", "is_specific"),
        ("a|", QUOTA, "is_specific"),
        ("", QUOTA, "compiles"),
        (r"\w+ \w+ \w+", QUOTA, "is_specific"),
        ("quota", QUOTA, "is_specific"),
        ("quota.*(?s:.)up", "quota\nused up", "is_well_formed"),
        ("quota of volume\nscratch", QUOTA, "matches_its_own_lines"),
        ("q" * 10_000, QUOTA, "is_well_formed"),
        (r"(?:\pL{50}){10}", QUOTA, "compiles"),
        ("(?=quota)quota of volume", QUOTA, "compiles"),
        (r"(quota) of \1", QUOTA, "compiles"),
        ("((?:vol)+)+ume scratch", QUOTA, "cannot_hang_other_engines"),
        ("volume is full beyond repair", QUOTA, "matches_its_own_lines"),
        ("Connected all rings", "Connected all rings", "spares_healthy_logs"),
        ("fabric link [0-9]+ went", "fabric link 9 went away", "steals_from_no_rule"),
        ("fabric link [0-9]+ went up", "fabric link 9 went up", "steals_from_no_rule"),
        ("step [0-9]+ of [0-9]+(?: crashed)?", "step 1 of 100 crashed", "steals_from_no_rule"),
    ],
)
def test_a_poisoned_pattern_is_refused(pattern: str, line: str, check: str) -> None:
    assert check in wrong(candidate(pattern, line))


@pytest.mark.parametrize(
    ("more", "check"),
    [
        ({"reason": "NotAFailure"}, "names_a_failure"),
        ({"reason": "unknown"}, "names_a_failure"),
        ({"cause": "the {volume} is full"}, "fills_in_its_words"),
        ({"cause": "{0.__class__}"}, "fills_in_its_words"),
        ({"remedy": "delete {"}, "fills_in_its_words"),
        ({"name": "Bad name; rm"}, "is_well_formed"),
        ({"cause": "c" * 10_000}, "is_well_formed"),
        ({"matches": ()}, "is_well_formed"),
        ({"matches": (QUOTA,) * 30}, "is_well_formed"),
        ({"ignores": (QUOTA,)}, "matches_its_own_lines"),
        ({"unless": "volume"}, "matches_its_own_lines"),
        ({"unless": "(a+)+"}, "cannot_hang_other_engines"),
        ({"traceback": "("}, "compiles"),
        ({"name": "link_is_down"}, "is_new"),
    ],
)
def test_a_rule_with_odd_words_is_refused(more: dict[str, Any], check: str) -> None:
    one = candidate(generalised(QUOTA), **{"matches": (QUOTA,), **more})
    assert check in wrong(one)


def test_a_named_group_fills_in_the_cause() -> None:
    one = candidate("quota of volume (?P<volume>[a-z0-9]+) is", QUOTA, cause="{volume} is full")
    assert wrong(one) == []


def test_what_a_rule_of_the_same_reason_finds_already_is_nothing_new() -> None:
    line = "fabric link 9 went down"
    assert wrong(candidate("link [0-9]+ went down", line, reason="NetworkError")) == ["is_new"]
    assert wrong(candidate("link [0-9]+ went down at last", f"{line} at last", reason="NetworkError")) == ["is_new"]


def test_a_rule_that_knows_better_what_to_do_than_a_wide_one_is_new() -> None:
    line = "fabric link 9 went down at last"
    wide = candidate("link [0-9]+ went down at last", line, reason="NetworkError", strength=75)
    assert wrong(wide) == []
    assert wrong(Candidate(replace(wide.rule, remedy=LINK.remedy))) == ["is_new"]
    assert wrong(Candidate(replace(wide.rule, strength=LINK.strength))) == ["is_new"]


def test_a_near_miss_of_another_rule_may_be_a_line_of_ones_own_reason() -> None:
    up = Rule(**{**vars(LINK), "name": "up", "reason": "DiskFull", "pattern": "link [0-9]+ went up", "matches": ("x",)})
    one = candidate("fabric link [0-9]+ went up", "fabric link 9 went up there", "fabric link 9 went up")
    assert wrong(one, Ground((LINK, up))) == ["is_new"]


def test_healthy_logs_of_the_lake_count_too() -> None:
    ground = Ground((), healthy=((QUOTA, "/logs/fine.log"),))
    checks = examined(candidate(generalised(QUOTA), QUOTA), ground)
    assert failures(checks) == [f"matches a line of a healthy log (/logs/fine.log): {QUOTA}"]


def test_half_a_character_of_the_past_is_no_trouble() -> None:
    one = candidate(generalised(QUOTA), QUOTA)
    assert wrong(one, Ground((), healthy=(("\ud800 fine", "x"),))) == []
    assert wrong(one, Ground((), healthy=((QUOTA + "\ud800", "x"),))) == ["spares_healthy_logs"]


def test_what_proved_a_confirmed_incident_is_not_stolen() -> None:
    one = candidate(generalised(QUOTA), QUOTA)
    assert wrong(one, Ground((), proofs=(Proof(QUOTA, "OSError", "i1", True),))) == ["steals_from_no_rule"]
    assert wrong(one, Ground((), proofs=(Proof(QUOTA, "OSError", "i1", False),))) == []
    assert wrong(one, Ground((), proofs=(Proof(QUOTA, "DiskFull", "i1", True),))) == []


@pytest.mark.parametrize("role", ["success", "noise", "teardown", "start", "progress"])
def test_a_rule_that_can_hide_a_failure_is_known_for_it_and_may_not_match_a_cause(role: Role) -> None:
    line = "all shards are written, good bye"
    assert candidate(line, line, role=role).is_silencing
    assert wrong(candidate(line, line, role=role)) == []
    assert "steals_from_no_rule" in wrong(candidate("fabric link", "fabric link 3 went down", role=role))
    past = Ground((), proofs=(Proof(line, "OSError", "i1", False),))
    assert wrong(candidate(line, line, role=role), past) == ["hides_nothing"]


def test_a_success_that_speaks_of_trouble_is_refused() -> None:
    assert wrong(candidate("training failed nicely", "training failed nicely", role="success")) == ["hides_nothing"]


def test_a_model_is_trusted_less_than_a_person() -> None:
    def proposed(**more: Any) -> list[str]:
        return wrong(candidate(generalised(QUOTA), QUOTA, is_by_model=True, **more))

    assert proposed() == []
    assert proposed(strength=51) == ["is_modest"]
    assert proposed(recovery="auto_restart") == ["is_modest"]
    assert proposed(role="success") == ["is_modest"]
    assert proposed(reason="NetworkError", recovery="cordon_node_and_restart") == []


def test_an_action_is_what_all_rules_of_a_reason_agree_on() -> None:
    other = Rule(**{**vars(LINK), "name": "other", "recovery": "auto_restart"})
    assert agreed_recovery("NetworkError", [LINK]) == "cordon_node_and_restart"
    assert agreed_recovery("NetworkError", [LINK, other]) == "unknown"
    assert agreed_recovery("DiskFull", [LINK]) == "unknown"


ROUTINE = "loaded shard 17 of 512 from /data/shards/17.bin"


def dropped(pattern: str, line: str, ground: Ground = GROUND) -> list[str]:
    kind: Kind = "filter"
    return wrong(candidate(pattern, line, role="noise", kind=kind), ground)


def test_a_filter_from_a_line_passes_every_check() -> None:
    assert dropped(whole_line(ROUTINE), ROUTINE) == []


def test_a_filter_may_not_drop_what_tells_something() -> None:
    assert dropped(generalised(ROUTINE), ROUTINE) == ["hides_nothing"]  # not from end to end
    assert dropped("^fabric link.*$", "fabric link is fine") == ["steals_from_no_rule", "hides_nothing"]
    assert dropped("^step [0-9]+ of [0-9]+0$", "step 1 of 20") == ["is_specific", "steals_from_no_rule"]
    failed = "loading shard failed for now"
    assert dropped(whole_line(failed), failed) == ["hides_nothing"]
    proof = Ground((), proofs=(Proof(ROUTINE, "DiskFull", "i1", False),))
    assert dropped(whole_line(ROUTINE), ROUTINE, proof) == ["hides_nothing"]


def test_a_filter_that_is_there_already_is_nothing_new() -> None:
    known = Rule("other", whole_line(ROUTINE), "noise", (ROUTINE,))
    assert dropped(whole_line(ROUTINE) + "x*", ROUTINE, Ground((), (known,))) == ["is_new"]


def test_the_probes_are_what_they_say() -> None:
    assert len(random_lines()) == len(set(random_lines()))
    assert marker("RuntimeError: x") == "Error"
    assert marker("loss: nan") == "nan"
    assert marker("a banana of an island") == ""
    assert all(line.strip() for line, _ in healthy_lines())


def test_no_shipped_rule_of_a_cause_matches_a_healthy_line() -> None:
    for rule in shipped_rules():
        one = Candidate(rule)
        if rule.role == "cause":
            found = [line for line, _ in healthy_lines() if one.matches(line)]
            assert (rule.name, found) == (rule.name, [])


@pytest.mark.real
def test_rules_drawn_from_the_labs_failures_spare_its_healthy_logs(real_data: Path) -> None:
    folder = real_data / "lab" / "logs"
    healthy = tuple(
        (line, "lab") for name in ("healthy_ddp", "healthy_single", "starved_loader") for line in _lines(folder, name)
    )
    ground = Ground((), healthy=healthy)
    drawn = 0
    for name in ("bad_token", "ckpt_mismatch", "index_error", "shape_mismatch", "rank1_valueerror", "import_error"):
        errors = [line for line in _lines(folder, name) if re.match(r"(?:\[rank\d\]: )?[\w.]+Error: ..........", line)]
        line = errors[0]
        assert wrong(candidate(generalised(line), line[:4000]), ground) == []
        drawn += 1
    assert drawn == 6
    common = "[2026-11-15 07:06:47,065] [INFO] [rank 0] [train:127]   backend ...... gloo"
    assert wrong(candidate(generalised(common), common), ground) == ["spares_healthy_logs"]


def _lines(folder: Path, name: str) -> list[str]:
    return (folder / f"{name}.log").read_text(errors="replace").splitlines()


def test_shipped_rules_spare_the_healthy_lines_that_learned_ones_are_held_to() -> None:
    book = shipped()
    alarms = [
        (hit.rule.name, line) for line, _ in healthy_lines() for hit in book.hits(line) if hit.rule.role in EXPLAINING
    ]
    assert alarms == []

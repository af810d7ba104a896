from __future__ import annotations

import pytest

from gpulake.core.errors import ConfigError
from gpulake.diagnose.rulebook.book import Rulebook, compiled, read_rules, shipped, with_learned
from gpulake.diagnose.rulebook.rule import Hit, Rule

BUS = Rule("bus", r"Xid \((?P<bus>[0-9a-f:]+)\): (?P<code>\d+)(?P<rest>, .*)?", "clue", ("Xid (3b:00): 79",))
QUIET = Rule("quiet", "memory", "clue", ("memory",), unless="free")
ENTRY = """[[rule]]
name = "memory"
pattern = 'out of memory'
role = "clue"
matches = ["out of memory"]
"""


def test_hits_come_in_the_order_of_the_book_with_their_words() -> None:
    book = Rulebook([QUIET, BUS])
    assert book.hits("Xid (3b:00): 79 memory", 7) == [Hit(QUIET, 7), Hit(BUS, 7, (("bus", "3b:00"), ("code", "79")))]
    assert book.hits("free memory") == []
    assert [book.is_matched(QUIET, line) for line in ("memory", "free memory", "")] == [True, False, False]


@pytest.mark.slow
def test_many_patterns_with_long_repeats_are_still_found() -> None:
    """With too little memory a set finds nothing and does not say so."""
    rules = [
        Rule(f"rule{n}", rf"begin{n}\b.{{0,200}}(?i:middle|centre).{{0,200}}end{n}\b", "clue", ()) for n in range(500)
    ]
    book = Rulebook(rules)
    for number in range(0, 500, 7):
        line = f"begin{number} {'x' * 150} Middle {'begin3 ' * 20} end{number}"
        assert rules[number] in [hit.rule for hit in book.hits(line)]


def test_two_rules_of_one_name_are_an_error() -> None:
    with pytest.raises(ConfigError, match="two rules are named 'bus'"):
        Rulebook([BUS, BUS])


def test_learned_rules_follow_the_shipped() -> None:
    assert with_learned(()) is shipped()
    assert with_learned([BUS]).rules == (*shipped().rules, BUS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[rule", "rules mine are not valid TOML"),
        (ENTRY + "patern = 'x'", "rule memory of mine: unknown key 'patern'; did you mean 'pattern'?"),
        (ENTRY.replace('"clue"', '"clou"'), "rule memory of mine: role is 'clou'; did you mean 'clue'?"),
        (ENTRY.replace('"clue"', '"cause"'), "a rule of role cause needs reason, cause, remedy and source"),
        (ENTRY + "strength = 101", "strength is 101; use 0 to 100"),
        (ENTRY.replace("matches", "ignores"), "rule memory of mine: no matches"),
        (ENTRY + "reason = 'Oom'", "rule memory of mine: reason is 'Oom'"),
    ],
)
def test_what_is_wrong_with_a_rule_is_said(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=r".") as raised:
        read_rules(text, "mine")
    assert message in raised.value.message


def test_a_pattern_that_does_not_compile_is_an_error() -> None:
    with pytest.raises(ValueError, match="does not compile"):
        compiled("(a")
    with pytest.raises(ValueError, match="does not compile"):
        compiled(r"(a)\1")

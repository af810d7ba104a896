"""Rules of what jobs say of themselves: exceptions, loading, numbers, arguments, and how runs begin and end."""

from __future__ import annotations

import pytest

from examples import each
from gpulake.diagnose.rulebook.book import shipped, shipped_rules
from gpulake.diagnose.rulebook.rule import EXPLAINING, Rule

FAMILIES = ("python", "classes", "loading", "gpu_memory", "training", "arguments", "outcomes", "noise")
RULES = [rule for rule in shipped_rules() if rule.family in FAMILIES]
CAUSES = [rule for rule in RULES if rule.role in EXPLAINING]


@each("rule", RULES, name=lambda rule: rule.name)
def test_a_rule_matches_what_it_must_and_nothing_that_it_must_not(rule: Rule) -> None:
    assert [line for line in rule.matches if rule not in [hit.rule for hit in shipped().hits(line)]] == []
    assert [line for line in rule.ignores if rule in [hit.rule for hit in shipped().hits(line)]] == []


@each("rule", CAUSES, name=lambda rule: rule.name)
def test_of_its_own_lines_a_cause_is_the_strongest(rule: Rule) -> None:
    # What needs a traceback as well says nothing of a line alone.
    hits = [
        [hit for hit in shipped().hits(line) if hit.rule == rule or not hit.rule.needs_frames] for line in rule.matches
    ]
    best = [max(found, key=lambda hit: hit.rule.strength).rule for found in hits]
    assert {one.reason for one in best} == {rule.reason}
    assert rule in best


@each("rule", CAUSES, name=lambda rule: rule.name)
def test_a_cause_says_why_its_recovery_helps(rule: Rule) -> None:
    assert rule.why.endswith(".")
    assert rule.ignores


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("tensorflow.python.framework.errors_impl.NotFoundError: data/a.tfrecord; No such file", "FileNotFoundError"),
        ("omegaconf.errors.ConfigAttributeError: Key 'lr' is not in struct", "ArgumentError"),
        ("omegaconf.errors.MissingMandatoryValue: Missing mandatory value: data.path", "ValueError"),
        ("lightning.pytorch.utilities.exceptions.MisconfigurationException: 3 GPUs asked, 1 there", "ValueError"),
        ("jax.errors.ConcretizationTypeError: Abstract tracer value encountered", "TypeError"),
        ("UnicodeDecodeError: 'utf-8' codec can't decode byte 0x80 in position 1", "ValueError"),
        ("IOError: [Errno 2] No such file or directory: 'vocab.txt'", "FileNotFoundError"),
        ("pkg_resources.DistributionNotFound: The 'x' distribution was not found", "ImportError"),
        ("torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:", "RuntimeError"),
        ("OverflowError: Python int too large to convert to C long", "ValueError"),
        ("RecursionError: maximum recursion depth exceeded", "RuntimeError"),
        ("FloatingPointError: Minimum loss scale reached (0.0001).", "LossNaN"),
        ("_pickle.UnpicklingError: pickle data was truncated", "ModelLoadingError"),
        ("h5py: OSError: Unable to open file (file signature not found)", "DatasetLoadingError"),
        ("train.py: error: argument --lr: invalid float value: 'x'", "ArgumentError"),
    ],
)
def test_classes_of_libraries_are_known_by_what_they_are(line: str, reason: str) -> None:
    rules = [hit.rule for hit in shipped().hits(line) if not hit.rule.needs_frames]
    assert max(rules, key=lambda rule: rule.strength).reason == reason

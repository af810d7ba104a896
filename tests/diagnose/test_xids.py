"""The catalogues of Xids and SXids as rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import each
from gpulake.diagnose.rulebook.book import shipped
from gpulake.diagnose.rulebook.rule import Hit
from gpulake.diagnose.rulebook.xids import FAMILIES, catalogue_of, catalogued_rules
from gpulake.formats.kernel import event_in, kernel_faults

XIDS, SXIDS = map(catalogue_of, FAMILIES)


def hits(line: str) -> list[Hit]:
    return [hit for hit in shipped().hits(line) if hit.rule.family in ("xid", "sxid")]


@pytest.mark.parametrize(
    ("code", "role", "reason", "recovery"),
    [
        (13, "cause", "XidError", "needs_code_fix"),
        (31, "cause", "XidError", "needs_code_fix"),
        (43, "cause", "XidError", "needs_code_fix"),
        (45, "clue", "XidError", "auto_restart"),
        (48, "cause", "ECCError", "cordon_node_and_restart"),
        (63, "cascade", "ECCError", "auto_restart"),
        (64, "cause", "ECCError", "cordon_node_and_restart"),
        (74, "cause", "NVLinkError", "cordon_node_and_restart"),
        (79, "cause", "XidError", "cordon_node_and_restart"),
        (92, "cascade", "ECCError", "auto_restart"),
        (94, "cause", "ECCError", "auto_restart"),
        (95, "cause", "ECCError", "cordon_node_and_restart"),
        (119, "cause", "XidError", "cordon_node_and_restart"),
        (140, "cause", "ECCError", "cordon_node_and_restart"),
        (149, "cause", "NVLinkError", "cordon_node_and_restart"),
        (154, "clue", "XidError", "auto_restart"),
        (999, "cause", "XidError", "cordon_node_and_restart"),
    ],
)
def test_an_xid_means_what_nvidia_says(code: int, role: str, reason: str, recovery: str) -> None:
    rules = [hit.rule for hit in hits(f"NVRM: Xid (PCI:0000:3b:00): {code}, pid=1234, name=python")]
    assert [(rule.role, rule.reason, rule.recovery) for rule in rules] == [(role, reason, recovery)]


@pytest.mark.parametrize(
    ("code", "role", "recovery"),
    [
        (12028, "cause", "cordon_node_and_restart"),
        (20034, "cause", "cordon_node_and_restart"),
        (23004, "cause", "cordon_node_and_restart"),
        (20001, "cascade", "auto_restart"),
        (19049, "clue", "auto_restart"),
        (99999, "cause", "cordon_node_and_restart"),
    ],
)
def test_an_sxid_is_of_the_nvlink_fabric(code: int, role: str, recovery: str) -> None:
    rules = [hit.rule for hit in hits(f"nvidia-nvswitch2: SXid (PCI:0000:c4:00.0): {code}, Link 3 has a fault")]
    assert [(rule.role, rule.reason, rule.recovery) for rule in rules] == [(role, "NVLinkError", recovery)]


def test_every_documented_xid_is_in_exactly_one_rule() -> None:
    counts = {
        code: [hit.rule.name for hit in hits(f"NVRM: Xid (PCI:0000:3b:00): {code}, pid=1234")] for code in range(1, 173)
    }
    assert {code: names for code, names in counts.items() if len(names) != 1} == {}
    assert "xid_undocumented" not in {name for names in counts.values() for name in names}


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus.",
        "NVRM: Xid (0000:3b:00): 79, GPU has fallen off the bus.",
        "[ 8123.456789] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>",
        "<4>[ 8123.456789] NVRM: Xid (PCI:0000:3b:00): 79, pid=1234",
        "kern  :warn  : 2025-01-02T03:04:05,678901+00:00 NVRM: Xid (PCI:0000:3b:00): 79, pid=1234",
        "4,1234,8123456789,-;NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 79, pid=1234",
        "Jan  2 03:04:05 gpu-17 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1234",
        "GPU 3 reported XID 79 (GPU has fallen off the bus)",
        "Warning  GPUUnhealthy  gpu-17  Xid error: 79 on GPU-5f2a",
        "XidCriticalError: Xid=79 on Device=GPU-5f2a, the device will go unhealthy.",
        'DCGM_FI_DEV_XID_ERRORS{gpu="3",UUID="GPU-5f2a"} 79',
    ],
)
def test_an_xid_is_known_in_every_spelling(line: str) -> None:
    assert [(hit.rule.name, hit.words["code"]) for hit in hits(line)] == [("xid_79", "79")]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("NVRM: Xid (PCI:0000:3b:00): 179, pid=1234", ["xid_undocumented"]),
        ("NVRM: Xid (PCI:0000:3b:00): 144, SAW_MVB Nonfatal XC0 i0 Link 0", ["xid_144_nonfatal"]),
        ("NVRM: Xid (PCI:0000:3b:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 00", ["xid_144"]),
        ("NVRM: Xid (PCI:0000:3b:00): 45, pid=1, Ch 00000001 caused by previous Xid 149", ["xid_45", "xid_144"]),
        ("nvidia-nvswitch2: SXid (PCI:0000:c4:00.0): 12028, Non-fatal, Link 44", ["sxid_12028"]),
        ("detected NVSwitch non-fatal error 12028 on fid 0 on NVSwitch pci bus id 0:c4:00.0 port 61", ["sxid_12028"]),
        ('DCGM_FI_DEV_XID_ERRORS{gpu="3"} 0', []),
        ("0 Xid errors were found", []),
        ("transaction xid 79 committed", []),
        ("oxid 79, maxid: 79", []),
    ],
)
def test_other_words_and_codes_are_not_taken_for_it(line: str, names: list[str]) -> None:
    assert [hit.rule.name for hit in hits(line)] == names


@given(st.integers(1, 172), st.integers(0, 255), st.integers(0, 31))
def test_the_rules_read_the_same_code_as_the_kernel_log(code: int, bus: int, device: int) -> None:
    line = f"NVRM: Xid (PCI:0000:{bus:02x}:{device:02x}): {code}, pid=1234, name=python"
    event = event_in(line)
    assert event is not None
    assert [(hit.words["code"], hit.words["gpu"]) for hit in hits(line)] == [(str(event.code), event.subject)]


@each("rule", catalogued_rules(), name=lambda rule: rule.name)
def test_a_catalogued_rule_names_its_code_and_says_what_to_do(rule: object) -> None:
    assert "{code}" in rule.cause  # type: ignore[attr-defined]
    assert all((rule.remedy, rule.why, rule.source))  # type: ignore[attr-defined]


def test_a_diagnosis_cordons_the_node_of_every_critical_fault() -> None:
    """What a watch reports at its first event is no reason to restart a job on the same node."""
    examples = [message for one in kernel_faults().values() if one.severity == "critical" for message in one.examples]
    strongest = {message: max(shipped().hits(message), key=lambda hit: hit.rule.strength).rule for message in examples}
    others = {message: rule.name for message, rule in strongest.items() if rule.recovery != "cordon_node_and_restart"}
    assert len(examples) > 10
    assert others == {}

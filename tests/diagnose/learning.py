"""A small past for tests of learning: rules, diagnoses and incidents as the journal has them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from gpulake.diagnose.learn.candidates import Candidate, Ground, Kind
from gpulake.diagnose.rulebook.rule import Role, Rule
from gpulake.lake import Lake

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
QUOTA = "quota of volume scratch7 is used up after 512 GiB"
LINK = Rule(
    name="link_is_down",
    pattern="fabric link [0-9]+ went down",
    role="cause",
    matches=("fabric link 3 went down",),
    ignores=("fabric link 3 went up",),
    reason="NetworkError",
    cause="A link went down",
    remedy="Reseat the cable.",
    recovery="cordon_node_and_restart",
    source="test",
    strength=70,
)
BAR = Rule(name="bar", pattern="^step [0-9]+ of [0-9]+$", role="progress", matches=("step 1 of 100",))
GROUND = Ground((LINK, BAR))


def candidate(pattern: str, *lines: str, role: Role = "cause", kind: Kind = "rule", **more: Any) -> Candidate:
    words = {"reason": "DiskFull", "cause": "c", "remedy": "r", "source": "s"} if role in ("cause", "cascade") else {}
    is_by_model = more.pop("is_by_model", False)
    rule = Rule(**{"name": "learned_x", "pattern": pattern, "role": role, "matches": lines, **words, **more})
    return Candidate(rule, kind, is_by_model)


def record(
    lake: Lake,
    incident_id: str,
    verdict: str = "failed",
    reason: str = "RuntimeError",
    evidence: tuple[str, ...] = (),
    templates: tuple[str, ...] = (),
    method: str = "rule",
) -> None:
    """A log that was diagnosed; one that failed opened an incident."""
    diagnosis_id = f"d-{incident_id}"
    lake.append(
        "diagnoses",
        [
            {
                "diagnosis_id": diagnosis_id,
                "incident_id": incident_id,
                "diagnosed_at": AT,
                "log": f"/logs/{incident_id}.log",
                "verdict": verdict,
                "reason": reason,
                "method": method,
                "rule": "some_rule",
                "evidence": [{"line": number, "text": text} for number, text in enumerate(evidence, 10)],
                "symptoms": [],
                "similar": [
                    {"incident_id": "older", "score": 0.9, "reason": "DiskFull", "cause": "full", "is_confirmed": True}
                ],
            }
        ],
    )
    lake.append(
        "log_templates",
        [
            {"diagnosis_id": diagnosis_id, "template": text, "lines": 7, "example": text, "is_routine": False}
            for text in templates
        ],
    )
    if verdict == "failed":
        lake.append(
            "incident_events",
            [
                {
                    "incident_id": incident_id,
                    "changed_at": AT,
                    "event": "opened",
                    "changed_by": "gpulake",
                    "kind": "failure",
                    "state": "open",
                    "severity": "critical",
                    "subject": f"/logs/{incident_id}.log",
                    "opened_at": AT,
                    "diagnosis_id": diagnosis_id,
                    "category": "framework",
                    "reason": reason,
                    "cause": "it broke",
                    "remedy": "mend it",
                    "is_confirmed": False,
                    "words": "it broke",
                }
            ],
        )

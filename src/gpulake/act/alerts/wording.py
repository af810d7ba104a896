"""The texts of alerts. Text of logs and labels is inserted in one pass, without control characters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from gpulake.act.alerts.alert import SUMMARY, Alert, summary_id
from gpulake.core.alert_settings import Alerts, SinkSettings
from gpulake.core.incidents import FAILURE, Incident
from gpulake.core.kinds import SEVERITIES, rank
from gpulake.core.placeholders import filled, placeholders
from gpulake.core.words import count, label

MOST_TITLE = 200
MOST_BODY = 4_000
MOST_VALUE = 600
MOST_EVIDENCE = 5
MOST_LISTED = 40
REPEAT = "This may be a repeat: the sender was stopped before it was known to have arrived."


def words(incident: Incident, event: str, evidence: Sequence[str], settings: Alerts) -> dict[str, str]:
    """The values of a template's placeholders; empty where unknown."""
    times = f"{incident.opened_at or incident.changed_at:%Y-%m-%d %H:%M} UTC"
    link = filled([settings.link], {"incident_id": label(incident.incident_id, 60)})[0]
    shown = {
        "what": _what(incident, event),
        "event": event,
        "severity": incident.severity,
        "kind": incident.kind,
        "headline": _headline(incident),
        "cause": incident.cause,
        "reason": incident.reason if incident.kind == FAILURE else "",
        "remedy": incident.remedy,
        "subject": incident.subject,
        "cluster_id": incident.cluster_id,
        "node": incident.node,
        "job_id": incident.job_id,
        "incident_id": incident.incident_id,
        "state": incident.state,
        "opened_at": times,
        "first_cause": incident.first_cause if incident.times_seen > 1 or incident.kind == FAILURE else "",
        "times_seen": str(incident.times_seen),
        "note": incident.note,
        "command": f"gpulake incidents show {incident.incident_id}",
        "link": link,
    }
    plain = {name: label(value, MOST_VALUE) if value else "" for name, value in shown.items()}
    lines = [label(line, MOST_VALUE) for line in evidence[:MOST_EVIDENCE] if line]
    return {**plain, "evidence": "".join(f"\n  {line}" for line in lines) if len(lines) > 1 else "".join(lines)}


def _what(incident: Incident, event: str) -> str:
    if event == "resolved":
        return "resolved"
    prefix = {"worsened": "worse: ", "reopened": "again: ", "outlasted": "still: "}.get(event, "")
    return f"{prefix}{incident.severity}{', over' if incident.state == 'resolved' else ''}"


def _headline(incident: Incident) -> str:
    if incident.kind != FAILURE:
        return incident.cause or f"{incident.kind}: {incident.subject}"
    of = f"job {incident.job_id}" if incident.job_id is not None else incident.subject
    return f"{of} failed: {incident.cause or incident.reason}"


def title_and_body(sink: SinkSettings, settings: Alerts, values: Mapping[str, str]) -> tuple[str, str]:
    title = _rendered(sink.title or settings.title, values).replace("\n", " ")
    body = _rendered(sink.body or settings.body, values)
    return label(title, MOST_TITLE), _cut(body)


def _rendered(template: str, values: Mapping[str, str]) -> str:
    """A line whose placeholders are all empty is omitted."""
    lines = []
    for line in template.splitlines():
        names = placeholders([line])
        if not names or any(values[name] for name in names):
            lines += [part.rstrip() for part in filled([line], values)[0].split("\n")]
    return "\n".join(lines)


def summary(alerts: Sequence[Alert]) -> Alert:
    """One alert that stands for many: what they are, the worst first, and where to read the rest."""
    first = alerts[0]
    name = first.summary_id or summary_id(alerts)
    by_word = Counter("resolved" if alert.event == "resolved" else alert.severity for alert in alerts)
    counts = ", ".join(f"{by_word[word]} {word}" for word in (*SEVERITIES, "resolved") if by_word[word])
    ordered = sorted(alerts, key=lambda alert: (alert.event == "resolved", -rank(alert.severity)))
    lines = [f"{alert.title} ({alert.incident_id})" for alert in ordered[:MOST_LISTED]]
    if len(alerts) > MOST_LISTED:
        lines.append(f"and {len(alerts) - MOST_LISTED} more")
    lines.append(f"All of them: gpulake alerts list --summary {name}")
    worst = max(alerts, key=lambda alert: rank(alert.severity))
    return Alert(
        alert_id=name,
        changed_at=first.changed_at,
        state="sending",
        sink=first.sink,
        event=SUMMARY,
        severity=worst.severity,
        kind=SUMMARY,
        title=f"[{count(len(alerts), 'alert')}] {counts}",
        body=_cut("\n".join(lines), MOST_LISTED * (MOST_TITLE + 40)),
        happened_at=first.happened_at,
        tries=first.tries,
    )


def _cut(text: str, most: int = MOST_BODY) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"

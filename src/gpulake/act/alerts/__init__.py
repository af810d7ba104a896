"""Alerts: people are notified of incidents, at least once and in order.

The journal `alert_events` is the outbox: an alert is on the disk before it is sent. Its id follows from the incident,
the event and the sink, so that queueing is idempotent; and each change of an alert has a later time than the one before
it, so that a row that is written twice, or late, changes nothing.

A row is written before an alert is sent, and another after it. After a crash between the two it is sent again under the
same id. A receiver that deduplicates, by id (a webhook) or by labels (Alertmanager), has it once; for others the text
says that it may be a repeat. Alerts of a sink are sent in order: one that fails blocks those behind it.
"""

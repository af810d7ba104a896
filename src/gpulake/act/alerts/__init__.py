"""People are told of incidents. What is to be told is on the disk before anybody is told.

The journal `alert_events` is the outbox. An alert's id follows from its incident, the event and the sink, so that
whoever looks at the same incidents queues the same alerts; and each change of an alert has a later time than the one
before it, so that a row that is written twice, or late, is not taken for news.

Before an alert is sent a row says so, and after it another. A crash between the two leaves it in doubt: it is sent
again under the same id. A receiver that looks at ids, such as a webhook, or at labels, such as Alertmanager, therefore
has it once; to one that cannot tell, the alert says that it may be a repeat. Nothing is lost either way. Alerts of a
sink are sent in the order in which they were queued, and the first one that fails holds up those behind it.
"""

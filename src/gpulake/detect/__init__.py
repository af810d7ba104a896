"""Tables → what is abnormal, and why."""

"""What applications did, and when: invocations, the traces that they belong to, and the logs that tell of them."""

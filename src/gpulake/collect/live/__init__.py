"""The live side of the collector: what the last tick saw, as a Prometheus page and as OTLP pushed to a receiver.

The sampler passes each tick to `State.observe`. Everything else happens on a request, or in a thread.
"""

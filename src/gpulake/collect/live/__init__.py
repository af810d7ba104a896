"""The live side of the collector: what the last tick saw, as a Prometheus page and as OTLP pushed to a receiver.

The sampler hands each tick to `State.observe`. Everything else happens when somebody asks, or in a thread of its own.
"""

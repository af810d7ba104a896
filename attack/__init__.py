"""Attacks on our own software, kept as suites that anyone can run: `scripts/attack`, and in short form `make test`."""

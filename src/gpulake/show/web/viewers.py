"""Viewers: who is looking, and what they may do."""

from __future__ import annotations

from dataclasses import dataclass

from gpulake.core.serve_settings import Role, Serve

SESSION = "gpulake_session"  # the name of the cookie


@dataclass(frozen=True)
class Viewer:
    name: str
    role: Role = "viewer"
    groups: frozenset[str] | None = None  # whose rows they may see; None: all

    @property
    def is_operator(self) -> bool:
        return self.role == "operator"

    @property
    def is_limited(self) -> bool:
        return self.groups is not None


NOBODY = Viewer("nobody")
# At the machine itself, without logins.
LOCAL = Viewer("local", "operator")


def viewer_named(name: str, settings: Serve, proxied: frozenset[str] | None = None) -> Viewer:
    """The groups come from the user's table in [serve.users]; without one, from the proxy."""
    groups = settings.groups_of(name) if name in settings.users else proxied
    return Viewer(name, settings.role_of(name), groups)

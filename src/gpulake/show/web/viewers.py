"""Who looks, and what they may do."""

from __future__ import annotations

from dataclasses import dataclass

from gpulake.core.serve_settings import Role, Serve

SESSION = "gpulake_session"  # the cookie of who logged in


@dataclass(frozen=True)
class Viewer:
    name: str
    role: Role = "viewer"
    groups: frozenset[str] | None = None  # whose rows they may see; None: everybody's

    @property
    def is_operator(self) -> bool:
        return self.role == "operator"

    @property
    def is_limited(self) -> bool:
        return self.groups is not None


NOBODY = Viewer("nobody")
# Who sits at the machine itself and set up no logins.
LOCAL = Viewer("local", "operator")


def viewer_named(name: str, settings: Serve, told: frozenset[str] | None = None) -> Viewer:
    """Somebody by their name. Their table says whose rows they see; without one, what the proxy told does."""
    groups = settings.groups_of(name) if name in settings.users else told
    return Viewer(name, settings.role_of(name), groups)

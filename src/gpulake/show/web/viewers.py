"""Who looks, and what they may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["viewer", "operator"]


@dataclass(frozen=True)
class Viewer:
    name: str
    role: Role = "viewer"
    groups: frozenset[str] | None = None  # whose rows they may see; None: everybody's

    @property
    def is_operator(self) -> bool:
        return self.role == "operator"


# Who sits at the machine itself and set up no logins.
LOCAL = Viewer("local", "operator")

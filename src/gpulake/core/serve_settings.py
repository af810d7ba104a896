"""Who may look at the dashboard, and from where: `[serve]` in gpulake.toml. Tokens come only from the environment."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, cast

from gpulake.core.addresses import network
from gpulake.core.errors import choice_hint, require

TOKENS_VARIABLE = "GPULAKE_SERVE_TOKENS"  # name:token, separated by commas
PROXY_VARIABLE = (
    "GPULAKE_SERVE_PROXY_SECRET"  # the proxy sends it in X-Proxy-Secret, if others may reach the server too
)
LEAST_TOKEN = 16  # characters
EVERYBODY = "*"
Role = Literal["viewer", "operator"]
ROLES: tuple[Role, ...] = ("viewer", "operator")
_HEADER = re.compile(r"[A-Za-z0-9-]+", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9._-]+|\[?[0-9A-Fa-f:]+\]?", re.ASCII)
_MEMORY = re.compile(r"[1-9]\d*(\.\d+)? ?[KMGT]i?B")
_LIMITS = (
    ("most_connections", 1, 100_000),
    ("most_connections_per_address", 1, 100_000),
    ("request_seconds", 0.1, 3600),
    ("idle_seconds", 0.1, 3600),
    ("most_header_bytes", 1024, 1 << 20),
    ("most_body_bytes", 1024, 1 << 26),
    ("most_wrong_tokens", 1, 1_000_000),
    ("lockout_seconds", 0.1, 86_400),
    ("most_streams", 1, 100_000),
    ("most_streams_per_viewer", 1, 100_000),
)


@dataclass(frozen=True)
class ServeUser:
    """What a user may do and see: `[serve.users.<name>]` in gpulake.toml."""

    role: str = "viewer"  # or operator
    groups: tuple[str, ...] = (EVERYBODY,)  # whose rows: groups, accounts or users; "*": all, []: none

    def __post_init__(self) -> None:
        require(self.role in ROLES, f"a role is {self.role!r}", choice_hint(self.role, ROLES))
        is_mixed = EVERYBODY in self.groups and len(self.groups) > 1
        require(not is_mixed, f"groups are {list(self.groups)}", 'give "*" alone, or the groups alone')


@dataclass(frozen=True)
class Serve:
    """How the dashboard is served: `[serve]` in gpulake.toml."""

    allowed_hosts: tuple[str, ...] = ()  # names by which browsers reach it, besides the address that it listens on
    proxy_header: str = ""  # in which a reverse proxy names the user, such as X-Forwarded-User
    groups_header: str = ""  # in which it names the user's groups, separated by commas
    trusted_proxies: tuple[str, ...] = ("127.0.0.1", "::1")  # addresses or networks whose headers are trusted
    default_role: str = "viewer"  # of users without a table in [serve.users]
    users: Mapping[str, ServeUser] = field(
        default_factory=dict, metadata={"of": ServeUser, "example": "role = 'operator'"}
    )
    session_hours: float = 12.0  # after which a user must log in again
    sql: bool = False  # whether POST /api/v1/sql accepts queries
    sql_seconds: float = 10.0  # per query
    sql_memory: str = "512MB"  # that a query may take
    sql_rows: int = 10_000  # that an answer may have
    most_connections: int = 500  # at once
    most_connections_per_address: int = 100  # a trusted proxy is exempt
    request_seconds: float = 20.0  # within which a whole request must arrive
    idle_seconds: float = 75.0  # after which an idle connection is closed
    most_header_bytes: int = 32_768  # of a request
    most_body_bytes: int = 262_144  # of a request
    most_wrong_tokens: int = 10  # per address
    lockout_seconds: float = 300.0  # over which they are counted
    most_streams: int = 200  # of events, at once
    most_streams_per_viewer: int = 20  # of these, for one user

    def __post_init__(self) -> None:
        for name in ("proxy_header", "groups_header"):
            value = getattr(self, name)
            require(not value or bool(_HEADER.fullmatch(value)), f"serve.{name} is {value!r}", "name a header")
        is_alone = bool(self.groups_header) and not self.proxy_header
        require(not is_alone, "serve.groups_header is given without proxy_header", "name the header of the user, too")
        for host in self.allowed_hosts:
            require(bool(_HOST.fullmatch(host)), f"serve.allowed_hosts has {host!r}", "write a host without its port")
        for proxy in self.trusted_proxies:
            require(network(proxy) is not None, f"serve.trusted_proxies has {proxy!r}", "write it like 10.0.0.0/8")
        require(self.default_role in ROLES, f"serve.default_role is {self.default_role!r}", f"use {ROLES[0]}")
        for name, most in (("session_hours", 8760), ("sql_seconds", 600), ("sql_rows", 1_000_000)):
            value = getattr(self, name)
            require(0 < value <= most, f"serve.{name} is {value}", f"use a number above 0, up to {most}")
        for name, least, most_number in _LIMITS:
            value = getattr(self, name)
            require(least <= value <= most_number, f"serve.{name} is {value}", f"use {least} to {most_number}")
        is_size = _MEMORY.fullmatch(self.sql_memory) is not None
        require(is_size, f"serve.sql_memory is {self.sql_memory!r}", "write it like 400MB or 2GB")

    def role_of(self, name: str) -> Role:
        return cast("Role", self.users[name].role if name in self.users else self.default_role)

    def groups_of(self, name: str) -> frozenset[str] | None:
        """Whose rows a user may see; None: all."""
        groups = self.users[name].groups if name in self.users else (EVERYBODY,)
        return None if EVERYBODY in groups else frozenset(groups)

    def trusts(self, address: str) -> bool:
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped:
            found = found.ipv4_mapped
        return any(found in known for known in map(network, self.trusted_proxies) if known is not None)


def tokens(text: str) -> dict[str, str]:
    """Users by their token. Messages never show a token."""
    found: dict[str, str] = {}
    for number, entry in enumerate(filter(None, map(str.strip, text.split(","))), 1):
        where, hint = f"entry {number} of {TOKENS_VARIABLE}", "write name:token, separated by commas"
        user, colon, token = entry.partition(":")
        require(bool(colon and user and user.isprintable() and ":" not in token), f"{where} is no name:token", hint)
        is_long = len(token) >= LEAST_TOKEN and token.isascii() and token.isprintable() and " " not in token
        words = f"give {LEAST_TOKEN} characters or more, such as those of: openssl rand -hex 24"
        require(is_long, f"the token of {user} is too short or has odd characters", words)
        require(token not in found, f"{user} has the token of another user", "give each user a different token")
        found[token] = user
    return found

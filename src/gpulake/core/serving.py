"""Who may look at the dashboard, and from where: `[serve]` in gpulake.toml. Tokens come from the environment alone."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, cast

from gpulake.core.errors import ConfigError, choice_hint

TOKENS_VARIABLE = "GPULAKE_SERVE_TOKENS"  # name:token, with commas between them
PROXY_VARIABLE = (
    "GPULAKE_SERVE_PROXY_SECRET"  # what the proxy sends in X-Proxy-Secret, where others reach us as it does
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
    """What somebody may do and see: `[serve.users.<name>]` in gpulake.toml."""

    role: str = "viewer"  # or operator
    groups: tuple[str, ...] = (EVERYBODY,)  # whose rows: groups, accounts or users; "*" is everybody, [] nobody

    def __post_init__(self) -> None:
        _check(self.role in ROLES, f"a role is {self.role!r}", choice_hint(self.role, ROLES))
        is_mixed = EVERYBODY in self.groups and len(self.groups) > 1
        _check(not is_mixed, f"groups are {list(self.groups)}", 'give "*" alone, or the groups alone')


@dataclass(frozen=True)
class Serve:
    """How the dashboard is served: `[serve]` in gpulake.toml."""

    allowed_hosts: tuple[str, ...] = ()  # names by which browsers reach it, beside the address that it listens on
    proxy_header: str = ""  # in which a reverse proxy names who it let in, such as X-Forwarded-User
    groups_header: str = ""  # in which it names their groups, with commas between them
    trusted_proxies: tuple[str, ...] = (
        "127.0.0.1",
        "::1",
    )  # addresses or networks that these headers are believed from
    default_role: str = "viewer"  # of those who have no table of their own
    users: Mapping[str, ServeUser] = field(
        default_factory=dict, metadata={"of": ServeUser, "example": "role = 'operator'"}
    )
    session_hours: float = 12.0  # after which one logs in again
    sql: bool = False  # whether POST /api/v1/sql takes queries
    sql_seconds: float = 10.0  # that one may take
    sql_memory: str = "512MB"
    sql_rows: int = 10_000
    most_connections: int = 500  # at once
    most_connections_per_address: int = 100  # of which a trusted proxy may have all
    request_seconds: float = 20.0  # in which a request arrives whole, head and body
    idle_seconds: float = 75.0  # without a request, or without taking any of an answer: then a connection is closed
    most_header_bytes: int = 32_768
    most_body_bytes: int = 262_144
    most_wrong_tokens: int = 10  # of one address
    lockout_seconds: float = 300.0  # in which they are counted
    most_streams: int = 200  # of events, at once
    most_streams_per_viewer: int = 20

    def __post_init__(self) -> None:
        for name in ("proxy_header", "groups_header"):
            value = getattr(self, name)
            _check(not value or bool(_HEADER.fullmatch(value)), f"serve.{name} is {value!r}", "name a header")
        is_alone = bool(self.groups_header) and not self.proxy_header
        _check(not is_alone, "serve.groups_header is given without proxy_header", "name the header of the user, too")
        for host in self.allowed_hosts:
            _check(bool(_HOST.fullmatch(host)), f"serve.allowed_hosts has {host!r}", "write a host without its port")
        for proxy in self.trusted_proxies:
            _check(network(proxy) is not None, f"serve.trusted_proxies has {proxy!r}", "write it like 10.0.0.0/8")
        _check(self.default_role in ROLES, f"serve.default_role is {self.default_role!r}", f"use {ROLES[0]}")
        for name, most in (("session_hours", 8760), ("sql_seconds", 600), ("sql_rows", 1_000_000)):
            value = getattr(self, name)
            _check(0 < value <= most, f"serve.{name} is {value}", f"use a number above 0, up to {most}")
        for name, least, most_number in _LIMITS:
            value = getattr(self, name)
            _check(least <= value <= most_number, f"serve.{name} is {value}", f"use {least} to {most_number}")
        is_size = _MEMORY.fullmatch(self.sql_memory) is not None
        _check(is_size, f"serve.sql_memory is {self.sql_memory!r}", "write it like 400MB or 2GB")

    def role_of(self, name: str) -> Role:
        return cast("Role", self.users[name].role if name in self.users else self.default_role)

    def groups_of(self, name: str) -> frozenset[str] | None:
        """Whose rows somebody may see, as their table has it; None: everybody's."""
        groups = self.users[name].groups if name in self.users else (EVERYBODY,)
        return None if EVERYBODY in groups else frozenset(groups)

    def trusts(self, address: str) -> bool:
        try:
            own = ipaddress.ip_address(address)
        except ValueError:
            return False
        if isinstance(own, ipaddress.IPv6Address) and own.ipv4_mapped:
            own = own.ipv4_mapped
        return any(own in known for known in map(network, self.trusted_proxies) if known is not None)


def network(words: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(words)
    except ValueError:
        return None


def address_group(address: str) -> str:
    """Whom limits by address count as one: of IPv6, somebody has a network of 64 bits or more to ask from."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    return str(found.ipv4_mapped or ipaddress.ip_network((int(found) >> 64 << 64, 64)))


def tokens(text: str) -> dict[str, str]:
    """Users by their token. What is wrong is said without showing a token."""
    found: dict[str, str] = {}
    for number, entry in enumerate(filter(None, map(str.strip, text.split(","))), 1):
        where, hint = f"entry {number} of {TOKENS_VARIABLE}", "write name:token, with commas between them"
        user, colon, token = entry.partition(":")
        _check(bool(colon and user and user.isprintable() and ":" not in token), f"{where} is no name:token", hint)
        is_long = len(token) >= LEAST_TOKEN and token.isascii() and token.isprintable() and " " not in token
        words = f"give {LEAST_TOKEN} characters or more, such as those of: openssl rand -hex 24"
        _check(is_long, f"the token of {user} is too short or has odd characters", words)
        _check(token not in found, f"{user} has the token of somebody else", "give each user a token of their own")
        found[token] = user
    return found


def _check(is_right: bool, message: str, hint: str) -> None:
    if not is_right:
        raise ConfigError(message, hint)

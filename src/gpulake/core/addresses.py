"""Addresses in the settings, and of clients."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from gpulake.core.errors import require


def is_address(host: str) -> bool:
    try:
        return bool(ipaddress.ip_address(host))
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def network(words: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(words)
    except ValueError:
        return None


def address_group(address: str) -> str:
    """The unit that limits by address count: of IPv6, a network of 64 bits."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    return str(found.ipv4_mapped or ipaddress.ip_network((int(found) >> 64 << 64, 64)))


def check_url(name: str, url: str, example: str, secret_hint: str) -> None:
    """An address without a secret. The message does not show it: it may hold one."""
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_address = False
    require(is_address and url.isprintable() and " " not in url, f"{name} is no address", f"write it like {example}")
    has_more = parts.username is not None or parts.password is not None or parts.query or parts.fragment
    require(not has_more, f"{name} holds more than a host and a path", secret_hint)


def check_scheme(name: str, url: str, what: str, is_plain_allowed: bool) -> None:
    parts = urlsplit(url)
    is_safe = parts.scheme != "http" or is_plain_allowed or is_loopback(parts.hostname or "")
    hint = "use https, or set allow_plain_http = true for a network that you trust"
    require(is_safe, f"{name} would send {what} in the clear", hint)

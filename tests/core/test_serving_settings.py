"""[serve] of gpulake.toml, and the tokens of the environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpulake.core.config import load
from gpulake.core.errors import ConfigError
from gpulake.core.serve_settings import Serve, ServeUser, tokens

TOKEN = "0123456789abcdef"


def loaded(folder: Path, text: str, **environment: str) -> Any:
    path = folder / "gpulake.toml"
    path.write_text(text)
    return load({}, {"GPULAKE_CONFIG": str(path), **environment})


def test_users_are_tables_of_serve(tmp_path: Path) -> None:
    text = """
        [serve]
        allowed_hosts = ["lake.example.org"]
        proxy_header = "X-Forwarded-User"
        sql = true
        [serve.users.ann]
        role = "operator"
        [serve.users.bob]
        groups = ["math", "cv"]
        [serve.users.eve]
        groups = []
    """
    serve = loaded(tmp_path, text, GPULAKE_SERVE_TOKENS=f"ann:{TOKEN}", GPULAKE_SERVE_PROXY_SECRET="x").serve
    users = {"ann": ServeUser("operator"), "bob": ServeUser(groups=("math", "cv")), "eve": ServeUser(groups=())}
    assert serve == Serve(allowed_hosts=("lake.example.org",), proxy_header="X-Forwarded-User", sql=True, users=users)
    names = ("ann", "bob", "eve", "who")
    assert [serve.role_of(name) for name in names] == ["operator", "viewer", "viewer", "viewer"]
    assert [serve.groups_of(name) for name in names] == [None, frozenset({"math", "cv"}), frozenset(), None]


def test_nothing_is_open_unless_it_is_said(tmp_path: Path) -> None:
    serve = loaded(tmp_path, "").serve
    assert (serve.sql, serve.proxy_header, serve.default_role, serve.allowed_hosts) == (False, "", "viewer", ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("default_role = 'admin'", "serve.default_role is 'admin'"),
        ("proxy_header = 'X User'", "serve.proxy_header is 'X User'"),
        ("groups_header = 'X-Groups'", "serve.groups_header is given without proxy_header"),
        ("trusted_proxies = ['proxy.example.org']", "serve.trusted_proxies has 'proxy.example.org'"),
        ("trusted_proxies = ['10.0.0.1/8']", "serve.trusted_proxies has '10.0.0.1/8'"),
        ("allowed_hosts = ['https://lake.example.org/']", "serve.allowed_hosts has 'https"),
        ("allowed_hosts = ['*']", "serve.allowed_hosts has '*'"),
        ("sql_seconds = 0", "serve.sql_seconds is 0.0"),
        ("sql_rows = 0", "serve.sql_rows is 0"),
        ("most_connections = 0", "serve.most_connections is 0"),
        ("request_seconds = inf", "serve.request_seconds is inf"),
        ("idle_seconds = nan", "serve.idle_seconds is nan"),
        ("most_body_bytes = -1", "serve.most_body_bytes is -1"),
        ("session_hours = -1", "serve.session_hours is -1.0"),
        ("sql_memory = 'lots'", "serve.sql_memory is 'lots'"),
        ("tokens = ['x']", "unknown setting 'tokens' in serve"),
        ("[serve.users.ann]\nrole = 'admin'", "a role is 'admin'"),
        ("[serve.users.ann]\ngroups = ['*', 'math']", "groups are"),
        ("[serve.users.ann]\ngroups = 'math'", "serve.users.ann.groups is 'math'"),
    ],
)
def test_an_invalid_setting_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as reported:
        loaded(tmp_path, f"[serve]\n{text}")
    assert reported.value.message.startswith(message)
    assert reported.value.hint


def test_tokens_belong_to_users() -> None:
    assert tokens("") == {}
    assert tokens(f" ann:{TOKEN} , bob:{TOKEN}2,") == {TOKEN: "ann", f"{TOKEN}2": "bob"}
    assert tokens(f"ann:{TOKEN},ann:{TOKEN}2") == {TOKEN: "ann", f"{TOKEN}2": "ann"}


@pytest.mark.parametrize(
    "text", ["hunter2hunter2hunter2", "ann:hunter2", "ann:hunter2 hunter2 hunter2", ":hunter2hunter2hunter2",
             "ann:operator:hunter2hunter2hunter2", "ann:hunter2hunter2hunter2,bob:hunter2hunter2hunter2",
             "ann:hunter2hunter2hünter2"]
)  # fmt: skip
def test_an_invalid_token_is_an_error_that_does_not_show_it(text: str) -> None:
    with pytest.raises(ConfigError) as reported:
        tokens(text)
    assert "hunter2" not in reported.value.message + reported.value.hint


def test_networks_that_are_trusted() -> None:
    serve = Serve(trusted_proxies=("10.0.0.0/8", "::1"))
    addresses = ("10.255.0.1", "::ffff:10.0.0.1", "::1", "11.0.0.1", "::2", "", "10.0.0.1.evil", "localhost")
    assert [serve.trusts(address) for address in addresses] == [True, True, True, *[False] * 5]

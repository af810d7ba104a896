"""Who gets in, as whom, and what every answer says to browsers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import example, given
from hypothesis import strategies as st

from gpulake.core.config import Config
from gpulake.core.serve_settings import Serve, ServeUser
from gpulake.flow.serving import application
from gpulake.lake import Lake
from gpulake.show.web.errors import HEADERS
from gpulake.show.web.guard import Guard
from gpulake.show.web.login import local
from gpulake.show.web.server import guard_of
from gpulake.show.web.sessions import MOST_SESSIONS, Sessions
from gpulake.show.web.viewers import SESSION, Viewer
from show.web.boards import all_routes

ANN, BOB = "ann-has-this-token", "bob-has-that-token"
TOKENS = {ANN: "ann", BOB: "bob"}
USERS = {"ann": ServeUser("operator"), "bob": ServeUser(groups=("math",))}
PAGE = {"Accept": "text/html"}
PROXY = Serve(proxy_header="X-Forwarded-User", groups_header="X-Groups", users=USERS, trusted_proxies=("10.0.0.0/8",))


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


SHARED = Guard()
APPS: list[FastAPI] = []


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return Lake(Config(lake=tmp_path_factory.mktemp("guarded") / "lake", threads=1)).create()


@pytest.fixture(scope="module", autouse=True)
def app(lake: Lake) -> FastAPI:
    """One for all: it takes a while to make."""
    result = application(lake, SHARED)

    @result.get("/broken")
    def broken() -> None:
        raise RuntimeError("what nobody outside needs to know")

    APPS.append(result)
    return result


def client_of(guard: Guard, **more: Any) -> TestClient:
    vars(SHARED).update(vars(guard))
    return TestClient(APPS[-1], follow_redirects=False, **more)


@pytest.fixture
def ticking() -> Clock:
    return Clock()


@pytest.fixture
def guarded(ticking: Clock) -> TestClient:
    return client_of(Guard(Serve(users=USERS, session_hours=1), TOKENS, now=ticking))


def seen(guard: Guard, client: str = "127.0.0.1", **headers: str) -> Viewer | None:
    """As whom a request comes in."""
    from fastapi import Request

    raw = [(name.lower().replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return guard.viewer(Request({"type": "http", "headers": raw, "client": (client, 1), "method": "GET", "path": "/"}))


def test_without_logins_who_sits_at_the_machine_is_an_operator() -> None:
    assert seen(Guard()) == Viewer("local", "operator")


def test_a_token_says_who_one_is() -> None:
    guard = Guard(Serve(users=USERS), {**TOKENS, "eve-has-none-of-them": "eve"})
    assert seen(guard, authorization=f"Bearer {ANN}") == Viewer("ann", "operator")
    assert seen(guard, authorization=f"bearer  {BOB}") == Viewer("bob", "viewer", frozenset({"math"}))
    assert seen(guard, authorization="Bearer eve-has-none-of-them") == Viewer("eve", "viewer")


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer ", f"Bearer {ANN[:-1]}", f"Bearer {ANN}x", f"Basic {ANN}", ANN]
)
def test_anything_else_is_not_logged_in(guarded: TestClient, given: str) -> None:
    response = guarded.get("/api/v1", headers={"Authorization": given} if given else {})
    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"] == 'Bearer realm="gpulake"'
    assert response.json() == {
        "error": "not logged in",
        "hint": "send a token as Authorization: Bearer, or log in at /login",
    }


@pytest.mark.slow
def test_without_a_login_nothing_of_the_lake_is_shown(guarded: TestClient, app: FastAPI) -> None:
    paths = {"/api/v1/openapi.json", "/nowhere", *(route.path for route in all_routes(app.routes))}
    assert {"/explore", "/api/v1/sql", "/api/v1/ledger_by_day.csv"} <= paths
    for path in sorted(paths - {"/login", "/static/{digest}/{name}"}):
        for method in ("GET", "POST", "HEAD"):
            status = guarded.request(method, path, headers=PAGE if method == "GET" else {}).status_code
            assert status in (401, 303), (method, path)


def test_a_browser_is_led_to_the_login_and_back(guarded: TestClient) -> None:
    asked = guarded.get("/explore?cluster=pai&from=2026-01-01", headers=PAGE)
    assert (asked.status_code, asked.headers["location"]) == (
        303,
        "/login?next=%2Fexplore%3Fcluster%3Dpai%26from%3D2026-01-01",
    )
    form = guarded.get(asked.headers["location"])
    assert 'name="next" value="/explore?cluster=pai&amp;from=2026-01-01"' in form.text
    entered = guarded.post("/login", data={"token": f" {ANN} ", "next": "/explore?cluster=pai"})
    assert (entered.status_code, entered.headers["location"]) == (303, "/explore?cluster=pai")
    page = guarded.get("/explore", headers=PAGE)
    assert page.status_code == 200
    assert '<span class="who" title="operator">ann</span>' in page.text


def test_the_cookie_is_no_token_and_out_of_reach_of_scripts_and_other_sites(guarded: TestClient) -> None:
    cookie = guarded.post("/login", data={"token": ANN}).headers["set-cookie"]
    parts = {part.strip().partition("=")[0].lower(): part.strip().partition("=")[2] for part in cookie.split(";")}
    assert ANN not in cookie
    assert len(parts.pop(SESSION)) >= 32
    assert parts == {"httponly": "", "max-age": "3600", "path": "/", "samesite": "strict"}


def test_over_https_the_cookie_stays_there() -> None:
    secure = client_of(Guard(Serve(), TOKENS), base_url="https://testserver")
    assert "; Secure" in secure.post("/login", data={"token": ANN}).headers["set-cookie"]
    behind = client_of(Guard(PROXY, TOKENS), client=("10.1.1.1", 5))
    asked = behind.post("/login", data={"token": ANN}, headers={"X-Forwarded-Proto": "https"})
    assert "; Secure" in asked.headers["set-cookie"]


def test_a_session_ends_with_the_logout_and_with_its_time(guarded: TestClient, ticking: Clock) -> None:
    guarded.post("/login", data={"token": ANN})
    kept = guarded.cookies[SESSION]
    assert guarded.get("/api/v1").status_code == 200
    left = guarded.post("/logout")
    assert (left.status_code, left.headers["location"], guarded.cookies.get(SESSION)) == (303, "/login", None)
    guarded.cookies.set(SESSION, kept)
    assert guarded.get("/api/v1").status_code == 401
    guarded.cookies.clear()
    guarded.post("/login", data={"token": ANN})
    ticking.seconds += 3599
    assert guarded.get("/api/v1").status_code == 200
    ticking.seconds += 2
    assert guarded.get("/api/v1").status_code == 401


def test_sessions_do_not_pile_up() -> None:
    sessions = Sessions(10.0)
    first = sessions.begin("ann", 0.0)
    for _ in range(MOST_SESSIONS):
        last = sessions.begin("bob", 0.0)
    assert (sessions.user(first, 1.0), sessions.user(last, 1.0)) == (None, "bob")


def test_wrong_tokens_are_soon_too_many(guarded: TestClient, ticking: Clock) -> None:
    for _ in range(Serve().most_wrong_tokens):
        wrong = guarded.post("/login", data={"token": "no-token-of-anybody"})
        assert (wrong.status_code, "not known" in wrong.text) == (401, True)
    ticking.seconds += 100
    refused = guarded.post("/login", data={"token": ANN})
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "200")
    assert SESSION not in guarded.cookies
    ticking.seconds += Serve().lockout_seconds - 100
    assert guarded.post("/login", data={"token": ANN}).status_code == 303


@pytest.mark.parametrize("path", ["/api/v1", "/metrics", "/explore", "/nowhere"])
def test_wrong_tokens_of_programs_are_soon_too_many(guarded: TestClient, ticking: Clock, path: str) -> None:
    """The right one, too, waits: whoever guesses must not learn that it was."""
    wrong, right = {"Authorization": "Bearer no-token-of-anybody"}, {"Authorization": f"Bearer {ANN}"}
    for _ in range(Serve().most_wrong_tokens):
        assert guarded.get(path, headers=wrong).status_code == 401
    ticking.seconds += 100
    for headers in (wrong, right):
        refused = guarded.get(path, headers=headers)
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "200")
    assert guarded.post("/login", data={"token": ANN}).status_code == 429
    ticking.seconds += Serve().lockout_seconds - 100
    assert guarded.get("/api/v1", headers=right).status_code == 200


def test_who_is_logged_in_does_not_wait_for_who_guesses(guarded: TestClient) -> None:
    guarded.post("/login", data={"token": ANN})
    for _ in range(Serve().most_wrong_tokens + 1):
        guarded.get("/api/v1", headers={"Authorization": "Bearer no-token-of-anybody"})
    assert guarded.get("/api/v1").status_code == 200


def test_a_whole_network_of_ipv6_guesses_as_one() -> None:
    guard = Guard(Serve(), TOKENS)
    for number in range(Serve().most_wrong_tokens):
        asker = client_of(guard, client=(f"2001:db8::{number:x}:1", 5))
        assert asker.get("/api/v1", headers={"Authorization": "Bearer wrong"}).status_code == 401
    right = {"Authorization": f"Bearer {ANN}"}
    assert client_of(guard, client=("2001:db8::ffff", 5)).get("/api/v1", headers=right).status_code == 429
    assert client_of(guard, client=("2001:db8:0:1::1", 5)).get("/api/v1", headers=right).status_code == 200


def test_a_form_that_is_none_is_refused(guarded: TestClient) -> None:
    assert guarded.post("/login", content=b"token=" + b"x" * 20_000).status_code == 413
    assert guarded.post("/login", content=b"\xff\xfe").status_code == 400
    assert guarded.post("/login", content="&".join(f"a{n}=1" for n in range(50))).status_code == 400
    assert guarded.post("/login").status_code == 401


@given(st.text() | st.from_regex(r"[/\\]{0,3}[a-z.:@/\\\t\n]*", fullmatch=True))
@example("//evil.example")
@example("/\\evil.example")
@example("https://evil.example")
@example("/%2f/evil.example")
@example("/\t/evil.example")
@example("///evil.example")
@example("javascript:alert(1)")
def test_a_login_leads_nowhere_else(path: str) -> None:
    result = local(path)
    assert result.startswith("/")
    assert not result.startswith("//")
    assert not set(result) & {"\\", "\t", "\n", "\r"}


def test_who_needs_no_login_finds_none() -> None:
    client = client_of(Guard())
    assert client.get("/login").status_code == 404
    assert client.post("/login", data={"token": "x"}).status_code == 404


def test_a_proxy_names_who_it_let_in_and_their_groups() -> None:
    guard = Guard(PROXY)
    assert seen(guard, "10.1.1.1", x_forwarded_user="eve", x_groups="cv, nlp,") == Viewer(
        "eve", "viewer", frozenset({"cv", "nlp"})
    )
    # Their own table says more than the proxy does.
    assert seen(guard, "10.1.1.1", x_forwarded_user="ann", x_groups="cv") == Viewer("ann", "operator")
    assert seen(guard, "::ffff:10.1.1.1", x_forwarded_user="bob") == Viewer("bob", "viewer", frozenset({"math"}))
    assert seen(guard, "10.1.1.1", x_forwarded_user="eve") == Viewer("eve", "viewer", frozenset())
    free = Guard(replace(PROXY, groups_header=""))
    assert seen(free, "10.1.1.1", x_forwarded_user="eve", x_groups="cv") == Viewer("eve")


def test_only_the_proxy_is_trusted_as_the_proxy() -> None:
    guard = Guard(PROXY)
    for client in ("127.0.0.1", "11.0.0.1", "testclient", ""):
        assert seen(guard, client, x_forwarded_user="ann") is None
    assert seen(guard, "11.0.0.1", x_forwarded_user="ann", x_forwarded_for="10.1.1.1") is None
    assert seen(guard, "10.1.1.1") is None
    assert seen(guard, "10.1.1.1", x_forwarded_user=" ") is None
    secret = Guard(PROXY, proxy_secret="between the two of us")
    assert seen(secret, "10.1.1.1", x_forwarded_user="ann") is None
    assert seen(secret, "10.1.1.1", x_forwarded_user="ann", x_proxy_secret="wrong") is None
    assert seen(secret, "10.1.1.1", x_forwarded_user="ann", x_proxy_secret="between the two of us") is not None


def test_a_header_that_comes_twice_is_ignored() -> None:
    client = client_of(Guard(PROXY), client=("10.1.1.1", 5))
    assert client.get("/api/v1", headers=[("X-Forwarded-User", "eve")]).status_code == 200
    twice = [("X-Forwarded-User", "eve"), ("X-Forwarded-User", "ann")]
    assert client.get("/api/v1", headers=twice).status_code == 401


def test_behind_a_proxy_clients_are_distinguished() -> None:
    client = client_of(Guard(PROXY, TOKENS), client=("10.1.1.1", 5))
    for _ in range(Serve().most_wrong_tokens):
        client.post("/login", data={"token": "x"}, headers={"X-Forwarded-For": "1.2.3.4, 66.6.6.6"})
    assert client.post("/login", data={"token": ANN}, headers={"X-Forwarded-For": "66.6.6.6"}).status_code == 429
    assert (
        client.post("/login", data={"token": ANN}, headers={"X-Forwarded-For": "66.6.6.6, 7.7.7.7"}).status_code == 303
    )


def test_a_name_that_others_pointed_at_us_is_not_ours(lake: Lake) -> None:
    client = client_of(guard_of(lake, "127.0.0.1", "127.0.0.1", {}))
    for host in ("localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:8080", "localhost."):
        assert client.get("/api/v1", headers={"Host": host}).status_code == 200, host
    for host in ("evil.example", "localhost.evil.example", "evil.example:8080", "10.0.0.1", "a@localhost@b", "[", ""):
        response = client.get("/api/v1", headers={"Host": host})
        assert response.status_code == 421, host
        assert response.headers["Content-Security-Policy"] == HEADERS["Content-Security-Policy"]


def test_names_of_the_host_can_be_added(config: Config) -> None:
    lake = Lake(replace(config, serve=Serve(allowed_hosts=("Lake.example.org", "[fd00::1]")))).create()
    every = guard_of(lake, "0.0.0.0", "0.0.0.0", {"GPULAKE_SERVE_TOKENS": f"ann:{ANN}"})
    selected = guard_of(lake, "10.0.0.1", "10.0.0.1", {"GPULAKE_SERVE_TOKENS": f"ann:{ANN}"})
    names = ("lake.example.org:80", "[fd00::1]", "10.0.0.1:8080", "192.168.1.1", "evil.example")
    assert [every.is_host(name) for name in names] == [True, True, True, True, False]
    assert [selected.is_host(name) for name in names] == [True, True, True, False, False]


def test_another_site_cannot_send_in_our_name(guarded: TestClient) -> None:
    selected, other = {"Origin": "http://testserver"}, {"Origin": "http://evil.example"}
    assert guarded.post("/login", data={"token": ANN}, headers=other).status_code == 403
    for origin in ("null", "//testserver", "file://testserver", "http://testserver.evil.example", "http://["):
        assert guarded.post("/login", data={"token": ANN}, headers={"Origin": origin}).status_code == 403
    assert guarded.post("/login", data={"token": ANN}, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert (
        guarded.post("/login", data={"token": ANN}, headers={**selected, "Sec-Fetch-Site": "same-origin"}).status_code
        == 303
    )


def test_every_answer_tells_browsers_to_be_careful() -> None:
    client = client_of(Guard(Serve(users=USERS), TOKENS), raise_server_exceptions=False)
    selected = {"Authorization": f"Bearer {ANN}"}
    from gpulake.show.web.html import asset

    asked = [("GET", path, selected) for path in ("/", "/explore", "/nowhere", "/api/v1", "/api/v1/nowhere", "/broken")]
    asked += [("GET", "/api/v1/ledger_by_day.csv", selected), ("GET", "/api/v1/ledger_by_day?limit=0", selected)]
    asked += [("GET", asset("app.css"), {}), ("GET", "/login", {}), ("GET", "/explore", PAGE), ("GET", "/api/v1", {})]
    asked += [
        ("POST", "/explore", selected),
        ("GET", "/panels/explore/ledger", selected),
        ("HEAD", "/api/v1", selected),
    ]
    for method, path, headers in asked:
        response = client.request(method, path, headers=headers)
        shown = {name: response.headers.get(name) for name in HEADERS}
        assert shown == HEADERS, (method, path, response.status_code)
        assert "nobody outside" not in response.text
        expected = "public, max-age=31536000, immutable" if path.startswith("/static/") else "no-store"
        assert response.headers["Cache-Control"] == expected, path
    assert "default-src 'none'" in HEADERS["Content-Security-Policy"]
    assert "http" not in HEADERS["Content-Security-Policy"]

"""Requests that somebody would send to get in, to look further, to act in another's name, or to stop the server."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass
from urllib.parse import quote

from gpulake.core.config import Config
from gpulake.lake import Lake

ANN, BOB, EVE = "operator-token-of-ann", "viewer-token-of-bob-", "limited-token-of-eve"
REFUSED = frozenset({301, 303, 307, 400, 401, 403, 404, 405, 408, 413, 414, 415, 421, 422, 429, 431, 501, 503, 505})
FROM_PROTOCOL = (400, 408, 431, 503)  # said before there is an application to say it
NEEDED = (b"content-security-policy: default-src 'none'", b"x-content-type-options: nosniff", b"x-frame-options: deny")
SECRETS = (b"gpu01", b"silver_", b"gold_", b"math", b"alert('user')")  # of the lake: nobody is told them
METHODS = (
    "GET",
    "GET",
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "get",
    "X" * 30,
)
PATHS = (
    *("/", "/explore", "/jobs", "/incidents", "/machines", "/metrics", "/api/v1", "/api/v1/jobs", "/api/v1/incidents"),
    *("/api/v1/openapi.json", "/api/v1/events", "/api/v1/ledger_by_day.csv", "/api/v1/sql", "/rows/jobs"),
)
TRICKS: tuple[Callable[[str], str], ...] = (
    lambda path: "/" + path,
    lambda path: "/." + path,
    lambda path: "/login/.." + path,
    lambda path: "/login" + path,
    lambda path: "/login/..%2f" + path.lstrip("/"),
    lambda path: "/static/x/../.." + path,
    lambda path: "/static/%2e%2e/%2e%2e" + path,
    lambda path: "/static/..;" + path,
    lambda path: path.replace("/", "//"),
    lambda path: path.replace("/", "%2f"),
    lambda path: path.replace("/", "\\"),
    lambda path: path + "/",
    lambda path: path + "%00.css",
    lambda path: path + ";/static/",
    lambda path: path + "?/static/",
    lambda path: path + "#/login",
    lambda path: path.upper(),
    lambda path: path + "%2500",
    lambda path: f"http://localhost{path}",
    lambda path: f"http://evil.example{path}",
    lambda path: f"//evil.example{path}",
    lambda path: "/static/x/../../../../../../etc/passwd" + path,
    lambda path: "/static/x/..%c0%af..%c0%afetc/passwd" + path,
    lambda path: path + "%ff%fe",
    lambda path: path + "/" + "a" * 3_000,
)
Check = Callable[[bytes], str]


@dataclass(frozen=True)
class Asked:
    raw: bytes
    allowed: Collection[int] = REFUSED
    check: Check = lambda _: ""
    is_left_open: bool = False
    may_be_cut_off: bool = False  # closed without a word


@dataclass(frozen=True)
class Tools:
    """What of the lake is asked for."""

    incident: str
    questions: tuple[str, ...]
    hostile: tuple[str, ...]
    wrong_in: Callable[[str], list[str]]  # what has become of text in a page

    @classmethod
    def of(cls, config: Config) -> Tools:
        from gpulake.show.web.questions import questions
        from hostile import HOSTILE, Page

        with Lake(config).open().reading() as reader:
            (row,) = reader.query("SELECT incident_id FROM incidents ORDER BY incident_id LIMIT 1").to_pylist()
        names = tuple(questions())
        return cls(str(row["incident_id"]), names, tuple(HOSTILE.values()), lambda text: Page(text).wrong)


def request(method: str, path: str, headers: Collection[tuple[str, str]] = (), body: bytes = b"") -> bytes:
    lines = [f"{method} {path} HTTP/1.1"]
    if not any(name.lower() == "host" for name, _ in headers):
        lines.append("Host: localhost")
    lines += [f"{name}: {value}" for name, value in headers]
    if body or method in ("POST", "PUT", "PATCH"):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode("utf-8", "replace") + body


def body_of(answer: bytes) -> bytes:
    head, _, body = answer.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" not in head.lower():
        return body
    whole = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        count = int(size.partition(b";")[0] or b"0", 16)
        whole, body = whole + rest[:count], rest[count + 2 :] if count else b""
    return whole


def safe_headers(answer: bytes) -> str:
    head = answer.partition(b"\r\n\r\n")[0].lower()
    if int(answer.split(b" ", 2)[1]) in FROM_PROTOCOL:
        return ""
    missing = [one.decode() for one in NEEDED if one not in head]
    return f"without {missing[0]}" if missing else ""


def says_nothing(answer: bytes) -> str:
    reported = [word.decode() for word in SECRETS if word in body_of(answer)]
    return f"no alert is sent for {reported[0]}" if reported else ""


def _near(token: str) -> tuple[str, ...]:
    """What a check might take for the token."""
    changed = (token[:-1], token + "x", token.upper(), token[::-1], f"{token},{token}", f"{token}\t{token}")
    wrapped = (f"{token[:5]}%00{token[5:]}", f'"{token}"', "\ufeff" + token)
    return (*changed, *wrapped, "", " ", "*", "%", "null", "undefined", "ann", "a" * 9_000, "' OR '1'='1")


def authentication(rng: random.Random, _: Tools) -> Asked:
    """As nobody, with something that looks like a token."""
    token = rng.choice((ANN, BOB, EVE))
    near = rng.choice(_near(token))
    headers = rng.choice(
        (
            [("Authorization", f"Bearer {near}")],
            [("Authorization", f"Basic {token}")],
            [("Authorization", f"bearer{token}")],
            [("Authorization", "Bearer x"), ("Authorization", f"Bearer {token}")],
            [("X-Authorization", f"Bearer {token}")],
            [("Proxy-Authorization", f"Bearer {token}")],
            [("Cookie", f"gpulake_session={near or token}")],
            [("Cookie", f"gpulake_session={token}; token={token}")],
            [("X-Forwarded-User", "ann")],
            [("X-Forwarded-User", "ann"), ("X-Forwarded-For", "127.0.0.1"), ("X-Proxy-Secret", "")],
            [("Forwarded", "for=127.0.0.1;user=ann"), ("X-Real-IP", "127.0.0.1")],
            [("X-Original-URL", "/login"), ("X-Rewrite-URL", "/static/")],
            [("X-HTTP-Method-Override", "GET")],
            [("Host", "127.0.0.1"), ("X-Forwarded-Host", "localhost")],
            [("Host", "evil.example"), ("Authorization", f"Bearer {token}")],
            [],
        )
    )
    path = rng.choice(PATHS) + rng.choice(("", "", f"?token={token}", f"?access_token={token}"))
    return Asked(request(rng.choice(METHODS), path, headers), REFUSED, says_nothing)


def paths(rng: random.Random, _: Tools) -> Asked:
    """As nobody, around the guard. The form of the login and its files may be seen by all."""
    path = rng.choice(TRICKS)(rng.choice(PATHS))
    if rng.random() < 0.3:
        path = rng.choice(TRICKS)(path)
    accept = [("Accept", "text/html")] if rng.random() < 0.5 else []
    return Asked(request(rng.choice(METHODS[:5]), path, accept), REFUSED | {200}, says_nothing)


def other_sites(rng: random.Random, tools: Tools) -> Asked:
    """In the name of an operator whose browser has a page of another site open."""
    own = ("Authorization", f"Bearer {ANN}")
    foreign = rng.choice(
        (
            *(
                ("Origin", origin)
                for origin in ("http://evil.example", "null", "http://localhost.evil.example", "file://")
            ),
            *(
                ("Origin", origin)
                for origin in ("https://localhost:1", "http://localhost:99999", "http://[", "//localhost")
            ),
            *(("Sec-Fetch-Site", site) for site in ("cross-site", "same-site", "SAME-ORIGIN ", "x")),
        )
    )
    verb = rng.choice(("acknowledge", "mute", "unmute", "resolve"))
    kind = rng.choice(("application/json", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"))
    path = rng.choice(
        (f"/api/v1/incidents/{quote(tools.incident, safe='')}/{verb}", "/logout", "/login", "/api/v1/sql")
    )
    raw = request(
        rng.choice(("POST", "POST", "PUT", "DELETE")), path, [own, foreign, ("Content-Type", kind)], b'{"note": "x"}'
    )
    return Asked(raw, {403})


def roles(rng: random.Random, tools: Tools) -> Asked:
    """A viewer who would act, and one who sees nothing and would ask for all."""
    token = rng.choice((BOB, EVE))
    own = [("Authorization", f"Bearer {token}"), ("Content-Type", "application/json")]
    if token == EVE and rng.random() < 0.5:
        given = rng.choice(("user=ann", "group=math", "job=80", "search=%25", "limit=1000", "sort=user_id"))
        raw = request("GET", f"/api/v1/{rng.choice(('jobs', 'incidents', 'quarantine'))}?{given}", own)
        return Asked(
            raw, REFUSED | {200}, lambda answer: "shows rows of others" if b'"job_id":"' in body_of(answer) else ""
        )
    verb = rng.choice(("acknowledge", "mute", "unmute", "resolve"))
    path = rng.choice((f"/api/v1/incidents/{quote(tools.incident, safe='')}/{verb}", "/api/v1/sql"))
    body = rng.choice(
        (b'{"note": "x"}', b"{}", b"[]", b"{", b'{"query": "select 1"}', b"[" * 50_000, b'{"note": 1e999}')
    )
    return Asked(request("POST", path, own, body), REFUSED)


def scripts(rng: random.Random, tools: Tools) -> Asked:
    """Hostile text in what is asked for, and hostile names that are in the lake."""
    question, text = rng.choice(tools.questions), quote(rng.choice(tools.hostile)[:3_000], safe="")
    name = rng.choice(
        ("user", "group", "job", "machine", "node", "cluster", "search", "sort", "from", "to", "limit", "x")
    )
    path = rng.choice(
        (
            *(f"/rows/{question}", f"/api/v1/{question}", f"/api/v1/{question}.csv", f"/rows/{question}?{name}={text}"),
            *(f"/api/v1/{question}?{name}={text}", f"/api/v1/{question}.csv?{name}={text}", f"/explore?{name}={text}"),
            *(f"/jobs?{name}={text}", f"/incidents?{name}={text}", f"/{text}", f"/rows/{text}", f"/login?next={text}"),
        )
    )
    raw = request("GET", path, [("Authorization", f"Bearer {ANN}"), ("Accept", "text/html")])
    return Asked(raw, REFUSED | {200}, lambda answer: _harmless(answer, tools))


def _harmless(answer: bytes, tools: Tools) -> str:
    head, body = answer.partition(b"\r\n\r\n")[0].lower(), body_of(answer).decode("utf-8", "replace")
    if b"content-type: text/html" in head:
        wrong = tools.wrong_in(body)
        return f"a page with {wrong[0]}" if wrong else ""
    if b"content-type: application/json" in head:
        json.loads(body)
    if b"content-type: text/csv" in head:
        cells = [cell for row in csv.reader(io.StringIO(body, newline="")) for cell in row]
        formulas = [
            cell for cell in cells if cell[:1] in ("=", "@", "\t", "\r") or (cell[:1] in "+-" and not _number(cell))
        ]
        return f"a formula {formulas[0]!r}" if any(formulas) else ""
    return ""


def _number(cell: str) -> bool:
    try:
        return bool(float(cell)) or True
    except ValueError:
        return not cell


def limits(rng: random.Random, _: Tools) -> Asked:
    """Too large, nonsense, or two requests in one."""
    own, head = f"Authorization: Bearer {BOB}\r\n", "Host: localhost\r\nContent-Type: application/json\r\n"
    post = f"POST /api/v1/incidents/x/mute HTTP/1.1\r\n{head}{own}"
    second = "GET /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\n\r\n"
    raw = rng.choice(
        (
            f"GET / HTTP/1.1\r\n{head}X: {'x' * 40_000}\r\n\r\n",
            f"GET /{'x' * 40_000} HTTP/1.1\r\n{head}\r\n",
            f"GET / HTTP/1.1\r\n{head}{'X: y' * 1}\r\n"
            + "".join(f"X{number}: y\r\n" for number in range(5_000))
            + "\r\n",
            f"{post}Content-Length: 600000000\r\n\r\n{'x' * 100_000}",
            f"{post}Content-Length: -1\r\n\r\n",
            f"{post}Content-Length: {'9' * 30}\r\n\r\n",
            f"{post}Content-Length: 5\r\nContent-Length: 6\r\n\r\n{{}}   ",
            f"{post}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{second}",
            f"{post}Transfer-Encoding: chunked\r\n\r\n{'ffff' * 5}\r\n",
            f"{post}Transfer-Encoding: chunked\r\n\r\n" + "1\r\nx\r\n" * 1_000 + "zz\r\n",
            f"{post}Transfer-Encoding: chunked\r\n\r\n" + f"40000\r\n{'x' * 0x40000}\r\n" * 2 + "0\r\n\r\n",
            f"{post}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            f"{post}Content-Encoding: gzip\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc",
            f"{post}Expect: 100-continue\r\nContent-Length: 600000000\r\n\r\n",
            "GET / HTTP/9.9\r\n\r\n",
            "GET  /  HTTP/1.1\r\n\r\n",
            "\r\n\r\n\r\n",
            "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + "x" * 50 + "\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
            "GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
            "GET / HTTP/1.1\r\n Host: localhost\r\n\r\n",
            "GET / HTTP/1.1\nHost: localhost\n\n",
            "GET /api/v1 HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
            "GET /api/v1 HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n",
        )
    )
    return Asked(raw.encode("latin-1"), REFUSED | {100, 200}, says_nothing, may_be_cut_off=True)


def half_open(rng: random.Random, _: Tools) -> Asked:
    post = "POST /login HTTP/1.1\r\nHost: localhost\r\n"
    begins = (
        "",
        "G",
        "GET / HTTP/1.1\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: ",
        f"{post}Content-Length: 99\r\n\r\ntok",
    )
    more = (
        f"{post}Transfer-Encoding: chunked\r\n\r\n5\r\nab",
        "GET /login HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HT",
    )
    return Asked(rng.choice((*begins, *more)).encode(), is_left_open=True)


KINDS: dict[str, Callable[[random.Random, Tools], Asked]] = {
    "authentication": authentication,
    "paths": paths,
    "other sites": other_sites,
    "roles": roles,
    "scripts": scripts,
    "limits": limits,
    "half-open": half_open,
}

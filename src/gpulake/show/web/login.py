"""Log in with a token, and log out."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import parse_qs, urlsplit

from fastapi import APIRouter, HTTPException, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.requests import ClientDisconnect

from gpulake.show.web.guard import LOGIN, Guard, too_many
from gpulake.show.web.html import environment
from gpulake.show.web.viewers import SESSION

MOST_FORM = 10_000  # bytes
MOST_NEXT = 2_000  # characters: fits into the form however it is encoded


def router(guard: Guard) -> APIRouter:
    routes = APIRouter(include_in_schema=False)

    @routes.get(LOGIN)
    def form(next_path: Annotated[str, Query(alias="next")] = "/") -> Response:
        _check(guard)
        return _page(local(next_path))

    @routes.post(LOGIN)
    async def login(request: Request) -> Response:
        _check(guard)
        values = await _form(request)
        if seconds := guard.wait_seconds(request):
            return too_many(request, seconds)
        next_path = local(values.get("next", "/"))
        user = guard.user_of(request, values.get("token", "").strip())
        if user is None:
            return _page(next_path, "This token is not known.", 401)
        response = RedirectResponse(next_path, 303)
        session = guard.sessions.begin(user, guard.now())
        seconds = int(guard.sessions.seconds)
        response.set_cookie(
            SESSION, session, max_age=seconds, httponly=True, samesite="strict", secure=guard.is_https(request)
        )
        return response

    @routes.post("/logout")
    def logout(request: Request) -> Response:
        guard.sessions.end(request.cookies.get(SESSION, ""))
        response = RedirectResponse(LOGIN if guard.has_logins else "/", 303)
        response.delete_cookie(SESSION, httponly=True, samesite="strict", secure=guard.is_https(request))
        return response

    return routes


def local(path: str) -> str:
    """The path if it is on this site, else /: a login must not redirect to another site."""
    if len(path) > MOST_NEXT or not path.startswith("/") or "\\" in path or not path.isprintable():
        return "/"
    parts = urlsplit(path)
    return path if not parts.scheme and not parts.netloc and not path.startswith("//") else "/"


def _check(guard: Guard) -> None:
    if not guard.has_logins:
        raise HTTPException(404, "no login is needed here")


def _page(next_path: str, message: str = "", status: int = 200) -> Response:
    text = environment().get_template("login.html").render(next_path=next_path, message=message)
    return HTMLResponse(text, status)


async def _form(request: Request) -> dict[str, str]:
    """The fields of a small form, without the dependency python-multipart."""
    body = b""
    try:
        async for part in request.stream():
            body += part
            if len(body) > MOST_FORM:
                raise HTTPException(413, "this form is too large", {"Connection": "close"})
    except ClientDisconnect:
        raise HTTPException(400, "this form was cut short") from None
    try:
        fields = parse_qs(body.decode(), max_num_fields=10)
    except ValueError:
        raise HTTPException(400, "this is no form") from None
    return {name: values[0] for name, values in fields.items()}

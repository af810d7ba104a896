"""One published file over HTTP: resumed where it was cut, joined where a mirror split it, verified before it is named.

A mirror that has no `<name>` is asked for `<name>.partaa`, `<name>.partab`, ... until the published size is reached.
"""

from __future__ import annotations

import http.client
import itertools
import re
import ssl
import string
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from email.message import Message
from http import HTTPStatus
from pathlib import Path
from typing import IO, cast
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from gpulake import __version__
from gpulake.core.errors import FetchError, UsageError
from gpulake.land.part import Origin, Part

CHUNK_BYTES = 1 << 16
LONGEST_WAIT_SECONDS = 60.0
NETWORK_ERRORS = (OSError, http.client.HTTPException)
PASSING_STATUSES = {408, 429, 500, 502, 503, 504}
PIECES = ["".join(letters) for letters in itertools.product(string.ascii_lowercase, repeat=2)]


@dataclass(frozen=True)
class Patience:
    """How long to bear with a server. Tests pass a wait that does not wait."""

    wait: Callable[[float], object]
    is_stopped: Callable[[], bool] = lambda: False
    timeout_seconds: float = 30.0
    tries: int = 5  # in a row that bring no byte


@dataclass(frozen=True)
class Download:
    """What to download, from where to where; moved(bytes) reports the progress."""

    base: str
    final: Path
    size_bytes: int
    sha256: str
    patience: Patience
    moved: Callable[[int], None]

    @property
    def url(self) -> str:
        return f"{self.base}/{self.final.name}"


class StoppedError(Exception):
    """Someone asked us to stop; what is there stays for the next time."""


class _MissingError(Exception):
    """The server has no such file."""


class _CutError(Exception):
    """This try did not reach the end; another may."""

    def __init__(self, reason: str, wait_seconds: float = 0.0) -> None:
        super().__init__(reason)
        self.wait_seconds = wait_seconds


def check_url(url: str) -> str:
    """The base URL without its last slash."""
    try:
        parts = urlsplit(url)
        is_plain = url.isascii() and url.isprintable() and " " not in url and parts.port != 0
    except ValueError:  # a port that is no number, a bracket that is not closed
        is_plain = False
    if not is_plain or parts.scheme not in {"http", "https"} or not parts.hostname:
        raise UsageError(f"cannot fetch from {url!r}", "give the http:// or https:// URL of a folder")
    if parts.username is not None or parts.query or parts.fragment:
        raise UsageError(
            f"the URL of {parts.hostname} carries a password, a query or a fragment", "give the plain URL of a folder"
        )
    return url.rstrip("/")


def download(job: Download) -> None:
    """Leaves the published file at job.final, or leaves nothing there."""
    for is_last in (False, True):
        with Part(job.final) as part:
            _fill(part, job)
            if part.sha256 == job.sha256:
                part.publish()
                return
            part.discard()
            job.moved(0)
        if is_last:
            raise FetchError(
                f"{job.final.name} has the wrong SHA-256: expected {job.sha256}, got {part.sha256}"
                f" ({part.size:,} bytes where {job.size_bytes:,} were published)",
                f"{job.base} does not serve the published file; try a mirror with --url",
            )


def _fill(part: Part, job: Download) -> None:
    if part.size >= job.size_bytes:
        return  # the checksum tells whether these are the published bytes
    left = part.origin
    try:
        # The same bytes lie at every mirror, so a part from another URL is resumed too, only not with its validator.
        part.origin = Origin(job.url, left.validator if left.url == job.url else None)
        _pull(part, job)
    except _MissingError:
        part.origin = left
        _fill_from_pieces(part, job)


def _fill_from_pieces(part: Part, job: Download) -> None:
    urls = [f"{job.url}.part{piece}" for piece in PIECES]
    if part.origin.url in urls:
        urls = urls[urls.index(part.origin.url) :]
    else:
        part.cut_to(0)
    for url in urls:
        if part.origin.url != url:
            part.origin = Origin(url, None, start=part.size)
        try:
            _pull(part, job)
        except _MissingError:
            raise _missing_error(part, job) from None
        if part.size >= job.size_bytes:
            return


def _missing_error(part: Part, job: Download) -> FetchError:
    if part.size == 0:
        return FetchError(
            f"404: nothing at {job.url}", "nor in pieces (.partaa, ...); --url names the folder that holds the files"
        )
    return FetchError(
        f"404: nothing at {part.origin.url}, the next piece after {part.size:,} of {job.size_bytes:,} bytes",
        "this mirror is not complete; try another with --url",
    )


def _pull(part: Part, job: Download) -> None:
    """Brings part.origin.url to its end, through cuts."""
    patience = job.patience
    failures = 0
    while True:
        before = part.size
        try:
            _try_once(part, job)
            return
        except _CutError as cut:
            failures = 1 if part.size > before else failures + 1
            if failures == patience.tries:
                raise FetchError(
                    f"cannot fetch {part.origin.url}: {cut} ({patience.tries} tries)",
                    "check the network or try a mirror with --url; the same command resumes where this one stopped",
                ) from cut
            patience.wait(min(max(2.0 ** (failures - 1), cut.wait_seconds), LONGEST_WAIT_SECONDS))


def _try_once(part: Part, job: Download) -> None:
    response = _open(part, job.patience)
    if response is None:
        return
    with closing(response):
        _align(part, response)
        job.moved(part.size)
        # A server that gives no length is believed at its end if the published size is reached; a piece has none.
        end = job.size_bytes if part.origin.url == job.url else None
        if response.length is not None:
            end = part.size + response.length
        for chunk in _chunks(response, job.patience):
            part.write(chunk)
            job.moved(part.size)
            if part.size == end or part.size > job.size_bytes:
                break
    if end is not None and part.size < min(end, job.size_bytes):
        raise _CutError(f"the connection was cut after {part.size:,} bytes")


def _open(part: Part, patience: Patience) -> http.client.HTTPResponse | None:
    """The answer to a request for the bytes that are not there yet; None where all are."""
    if patience.is_stopped():
        raise StoppedError
    url, have = part.origin.url, part.size - part.origin.start
    headers = {"User-Agent": f"gpulake/{__version__}"}
    if have > 0:
        headers["Range"] = f"bytes={have}-"
        if part.origin.validator is not None:
            headers["If-Range"] = part.origin.validator
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - check_url allowed http and https only
    try:
        answer = _opener().open(request, timeout=patience.timeout_seconds)
    except HTTPError as error:
        with error:
            _refused(part, error, have)
            return None
    except NETWORK_ERRORS as error:
        reason = error.reason if isinstance(error, URLError) else error
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise FetchError(
                f"{url} has a certificate that does not verify: {reason.verify_message}",
                "install the certificate authority of your network, or try a mirror with --url",
            ) from error
        raise _CutError(str(reason) or type(reason).__name__) from error
    return cast("http.client.HTTPResponse", answer)


def _refused(part: Part, error: HTTPError, have: int) -> None:
    """Returns only where the server refuses a range because there is nothing left to send."""
    answer = f"the server answered {error.code} {error.reason}"
    if error.code in {HTTPStatus.NOT_FOUND, HTTPStatus.GONE}:
        raise _MissingError from error
    if error.code in PASSING_STATUSES:
        asked = error.headers.get("Retry-After", "")
        raise _CutError(answer, float(asked) if asked.isdecimal() else 0.0) from error
    if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and have > 0:
        if error.headers.get("Content-Range") == f"bytes */{have}":
            return
        part.cut_to(part.origin.start)
        raise _CutError(answer) from error
    raise FetchError(f"cannot fetch {part.origin.url}: {answer}", "check --url, or try a mirror") from error


def _align(part: Part, response: http.client.HTTPResponse) -> None:
    """Makes the part end where the answer begins."""
    origin = part.origin
    validator = _validator(response.headers)
    if response.status == HTTPStatus.PARTIAL_CONTENT:
        begins = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
        is_next = begins is not None and int(begins[1]) == part.size - origin.start
        is_same = None in (validator, origin.validator) or validator == origin.validator
        if not (is_next and is_same):
            part.cut_to(origin.start)
            raise _CutError("the server sent other bytes than those asked for")
    else:
        # The server knows no ranges, or has another version by now: from the start.
        part.cut_to(origin.start)
    part.remember(replace(origin, validator=validator))


def _validator(headers: Message) -> str | None:
    """What If-Range may carry: a strong ETag, else the date (RFC 9110, 13.1.5)."""
    etag = headers.get("ETag")
    return etag if etag is not None and not etag.startswith("W/") else headers.get("Last-Modified")


def _chunks(response: http.client.HTTPResponse, patience: Patience) -> Iterator[bytes]:
    while True:
        try:
            chunk = response.read1(CHUNK_BYTES)
        except NETWORK_ERRORS as error:
            raise _CutError(str(error) or type(error).__name__) from error
        if not chunk:
            return
        if patience.is_stopped():
            raise StoppedError
        yield chunk


class _HttpRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        # urllib itself would follow to ftp as well.
        if urlsplit(newurl).scheme not in {"http", "https"}:
            raise HTTPError(req.full_url, code, f"{msg} - Redirection to url '{newurl}' is not allowed", headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> urllib.request.OpenerDirector:
    """HTTP and HTTPS and nothing else: urllib's own opener reads file: and ftp: too."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _HttpRedirects(),
    ):
        opener.add_handler(handler)
    return opener

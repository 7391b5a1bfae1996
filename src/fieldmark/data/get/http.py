"""Range requests: asks a server for a file, or the rest of one, and reads what its answer says.

Only http and https, with the proxies of the environment; limits and redirects are those of
`http_reader`. Answers other than the file become `Refused`, which says whether asking again helps.
"""

from __future__ import annotations

import asyncio
import http.client
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import quote, urlsplit

import aiohttp
from yarl import URL

from fieldmark.http_reader import (
    SCHEMES,
    HttpLimits,
    RedirectRefused,
    error_text,
    open_response,
    retry_after_s,
)

AGENT = "fieldmark (Python; dataset download)"
TRANSIENT = {408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529}
MAX_REDIRECTS = 10
LOST = (OSError, aiohttp.ClientError, EOFError)
"""what a broken connection raises; a disk's errors are told apart where files are written"""
SIZES_AT_ONCE = 8
SIZE_S = 10.0


class Refused(Exception):
    """This request brought no file. `helps`: the same again may."""

    def __init__(self, text: str, helps: bool, wait_s: float | None = None) -> None:
        super().__init__(text)
        self.helps, self.wait_s = helps, wait_s


class RangePastEnd(Refused):
    """We asked for bytes after the end; `total` is where the end is, if that was stated."""

    def __init__(self, total: int | None) -> None:
        super().__init__("has no more bytes", helps=True)
        self.total = total


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """An open response: the whole file (`start` 0) or the rest of it."""

    body: aiohttp.ClientResponse
    start: int
    total: int | None
    """size of the whole file, as far as the server says"""

    @property
    def validator(self) -> str:
        """What a later request can prove the same file with; weak tags prove nothing."""
        headers = self.body.headers
        etag = headers.get("ETag", "")
        return etag if etag.startswith('"') else headers.get("Last-Modified", "")


def clean_url(text: str) -> str:
    """The address as it may be sent: spaces and other characters quoted, what is quoted kept.

    >>> clean_url(" https://a.org/Camera Trap/100%/é%20#1.jpg?x=a b ")
    'https://a.org/Camera%20Trap/100%25/%C3%A9%20%231.jpg?x=a%20b'
    """
    text = re.sub(r"%(?![0-9A-Fa-f]{2})", "%25", text.strip()).replace("#", "%23")
    parts = urlsplit(text)
    host = parts.netloc if parts.netloc.isascii() else parts.netloc.encode("idna").decode()
    keep = "/%:@!$&'()*+,;=~-._"
    query = f"?{quote(parts.query, safe=keep + '?')}" if parts.query else ""
    return f"{parts.scheme.lower()}://{host}{quote(parts.path, safe=keep)}{query}"


def url_fault(text: str) -> str:
    """Why this is no address that can be fetched; "" = it is one.

    >>> url_fault("file:///etc/passwd"), url_fault("https://a.org/b"), url_fault("http://[::1")
    ('not an http or https address', '', 'an address that cannot be read')
    """
    if not text.strip():
        return "no address"
    try:
        parts = urlsplit(text.strip())
        has_host = bool(parts.hostname) and (parts.port or 1) > 0
        if parts.scheme.lower() in SCHEMES and has_host:
            URL(clean_url(text), encoded=True)
            str(parts.hostname).encode("idna")
    except (ValueError, UnicodeError):
        return "an address that cannot be read"
    return "" if parts.scheme.lower() in SCHEMES and has_host else "not an http or https address"


def host_of(url: str) -> str:
    return urlsplit(url).netloc.lower()


def open_session() -> aiohttp.ClientSession:
    """Nothing is unpacked on the way: a .csv.gz stays one, whatever its Content-Encoding."""
    return aiohttp.ClientSession(
        headers={"User-Agent": AGENT, "Accept": "*/*", "Accept-Encoding": "identity"},
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=None),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=True,
        read_bufsize=1 << 18,
    )


@asynccontextmanager
async def ask(
    session: aiohttp.ClientSession, url: str, start: int, validator: str, limits: HttpLimits
) -> AsyncIterator[HttpResponse]:
    """Asks for the file from byte `start` on; `validator` makes sure that it is still the same."""
    headers = {}
    if start:
        headers["Range"] = f"bytes={start}-"
        if validator:
            headers["If-Range"] = validator
    address = URL(clean_url(url), encoded=True)
    try:
        async with open_response(session, "GET", address, limits, headers=headers) as body:
            if body.status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
                raise _refusal(body)
            is_part = body.status == HTTPStatus.PARTIAL_CONTENT
            offset, total = _range(body.headers.get("Content-Range", "")) if is_part else (0, None)
            if total is None:
                length = body.content_length
                total = None if length is None else offset + length
            yield HttpResponse(body, offset, total)
    except RedirectRefused as error:
        raise Refused(error_text(error), helps=False) from error
    except aiohttp.ClientConnectorCertificateError as error:
        fault = error.certificate_error
        reason = getattr(fault, "verify_message", "") or error_text(fault)
        raise Refused(f"has no valid certificate ({reason})", helps=False) from error
    except aiohttp.ClientConnectorSSLError as error:
        raise Refused(f"has no safe connection ({error_text(error)})", helps=False) from error
    except aiohttp.ClientResponseError as error:
        raise Refused(_nonsense(error_text(error)), helps=False) from error


def _nonsense(text: str) -> str:
    """What aiohttp says of bytes that are no HTTP; what follows a whole body is told here, too."""
    is_more = "Data after" in text
    return "sends more than it stated" if is_more else f"does not answer as HTTP does ({text})"


def _refusal(response: aiohttp.ClientResponse) -> Refused:
    status, headers = response.status, response.headers
    if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
        return RangePastEnd(_range(headers.get("Content-Range", ""))[1])
    if 300 <= status < 400:
        return Refused("redirects to no address", helps=False)
    meaning = http.client.responses.get(status, "")
    text = f"answered {status} {meaning}".strip()
    return Refused(text, helps=status in TRANSIENT, wait_s=retry_after_s(headers))


def ask_sizes(urls: Sequence[str]) -> list[int | None]:
    """The sizes that servers state, a few asked at a time; None where one states none."""
    limits = HttpLimits(headers_s=SIZE_S, max_redirects=MAX_REDIRECTS)
    turn = asyncio.Semaphore(SIZES_AT_ONCE)

    async def ask_one(session: aiohttp.ClientSession, url: str) -> int | None:
        address = URL(clean_url(url), encoded=True)
        try:
            async with turn, open_response(session, "HEAD", address, limits) as response:
                return response.content_length if response.status == HTTPStatus.OK else None
        except LOST:
            return None

    async def ask_all() -> list[int | None]:
        async with open_session() as session:
            return await asyncio.gather(*(ask_one(session, url) for url in urls))

    return asyncio.run(ask_all()) if urls else []


def _range(text: str) -> tuple[int, int | None]:
    """First byte and total size of `bytes 5-9/10` or `bytes */10`; (-1, …) where it says none."""
    match = re.fullmatch(r"bytes\s+(?:(\d{1,18})-\d+|\*)/(\d{1,18}|\*)", text.strip(), re.I)
    if not match:
        return -1, None
    return int(match[1] or -1), None if match[2] == "*" else int(match[2])

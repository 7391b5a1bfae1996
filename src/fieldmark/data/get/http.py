"""HTTP client: asks a server for a file, or the rest of one (range requests), reads its answer.

Only http and https, with the proxies of the environment. Redirects are followed, but never from
https to http. Answers other than the file become `Refused`, which says whether asking again helps.
"""

from __future__ import annotations

import email.utils
import http.client
import re
import ssl
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import IO, Any
from urllib.parse import quote, urlsplit

AGENT = "fieldmark (Python; dataset download)"
SCHEMES = ("http", "https")
TRANSIENT = {408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524}
UNSATISFIABLE = 416
LOST = (OSError, http.client.HTTPException, EOFError)
"""what a broken connection raises; a disk's errors are told apart where files are written"""


class Refused(Exception):
    """This request brought no file. `helps`: the same again may."""

    def __init__(self, text: str, helps: bool, wait_s: float | None = None) -> None:
        super().__init__(text)
        self.helps, self.wait_s = helps, wait_s


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """An open response: the whole file (`start` 0) or the rest of it."""

    body: Any
    start: int
    total: int | None
    """size of the whole file, as far as the server says"""
    etag: str
    modified: str

    @property
    def validator(self) -> str:
        """What a later request can prove the same file with; weak tags prove nothing."""
        return self.etag if self.etag.startswith('"') else self.modified


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

    >>> url_fault("file:///etc/passwd"), url_fault("https://a.org/b")
    ('no http or https address', '')
    """
    if not text.strip():
        return "no address"
    try:
        parts = urlsplit(text.strip())
        has_host = bool(parts.hostname) and (parts.port or 1) > 0
        clean_url(text)
    except (ValueError, UnicodeError):
        return "no address that can be read"
    return "" if parts.scheme.lower() in SCHEMES and has_host else "no http or https address"


def host_of(url: str) -> str:
    return urlsplit(url).netloc.lower()


def ask(url: str, start: int, validator: str, timeout_s: float) -> HttpResponse:
    """Asks for the file from byte `start` on; `validator` makes sure that it is still the same."""
    headers = {"User-Agent": AGENT, "Accept": "*/*", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
        if validator:
            headers["If-Range"] = validator
    body = _open(urllib.request.Request(clean_url(url), headers=headers), timeout_s)
    headers = body.headers
    first, total = _range(headers.get("Content-Range", "")) if body.status == 206 else (0, None)
    if total is None:
        length = _whole(headers.get("Content-Length"))
        total = None if length is None else first + length
    return HttpResponse(
        body, first, total, headers.get("ETag", ""), headers.get("Last-Modified", "")
    )


def ask_size(url: str) -> int | None:
    """The size a server states for a file; None where it states none, or does not answer."""
    request = urllib.request.Request(
        clean_url(url), method="HEAD", headers={"User-Agent": AGENT, "Accept-Encoding": "identity"}
    )
    try:
        with _open(request, timeout_s=10.0) as answer:
            return _whole(answer.headers.get("Content-Length"))
    except (Refused, *LOST):
        return None


def _open(request: urllib.request.Request, timeout_s: float) -> Any:
    try:
        return _opener().open(request, timeout=timeout_s)
    except urllib.error.HTTPError as error:
        with error:
            raise _refusal(error) from None
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            text = f"has no valid certificate ({error.reason.verify_message})"
            raise Refused(text, helps=False) from None
        raise ConnectionError(str(error.reason)) from None


def _refusal(error: urllib.error.HTTPError) -> Refused:
    headers = error.headers
    if error.code == UNSATISFIABLE:
        return RangePastEnd(_range(headers.get("Content-Range", ""))[1])
    if 300 <= error.code < 400:
        reason = str(error.reason).splitlines()[0] if error.reason else ""
        text = reason if reason.startswith("redirects") else "redirects without end"
        return Refused(text, helps=False)
    words = http.client.responses.get(error.code, "")
    text = f"answered {error.code} {words}".strip()
    wait_s = _retry_after(headers.get("Retry-After", ""))
    return Refused(text, helps=error.code in TRANSIENT, wait_s=wait_s)


class RangePastEnd(Refused):
    """We asked for bytes after the end; `total` is where the end is, if that was stated."""

    def __init__(self, total: int | None) -> None:
        super().__init__("has no more bytes", helps=True)
        self.total = total


class _Redirects(urllib.request.HTTPRedirectHandler):
    max_redirections = 10
    max_repeats = 2

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        scheme = urlsplit(newurl).scheme.lower()
        if scheme not in SCHEMES or (req.type == "https" and scheme == "http"):
            text = f"redirects from {req.type} to {scheme}, which is not followed"
            raise urllib.error.HTTPError(newurl, code, text, headers, fp)
        made = super().redirect_request(req, fp, code, msg, headers, clean_url(newurl))
        if made is not None and req.get_method() == "HEAD":
            made.method = "HEAD"
        return made


def _opener() -> urllib.request.OpenerDirector:
    """Without the handlers of files, ftp and data addresses."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _Redirects(),
    ):
        opener.add_handler(handler)
    return opener


def _range(text: str) -> tuple[int, int | None]:
    """First byte and total size of `bytes 5-9/10` or `bytes */10`; (-1, …) where it says none."""
    match = re.fullmatch(r"bytes\s+(?:(\d+)-\d+|\*)/(\d+|\*)", text.strip(), re.IGNORECASE)
    if not match:
        return -1, None
    return int(match[1] or -1), None if match[2] == "*" else int(match[2])


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.strip().isdecimal() else None


def _retry_after(text: str) -> float | None:
    if text.strip().isdecimal():
        return float(text)
    try:
        date = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, date.timestamp() - time.time())

"""Who may look?

On the loopback address: whoever is on this machine, by a page that was opened under this
machine's own name (another site that points its name here is refused). Beyond it: whoever has the
token.
"""

from __future__ import annotations

import ipaddress
import secrets
from dataclasses import dataclass
from http.cookies import SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

COOKIE = "fieldmark-token"
HEADERS = {
    "content-security-policy": (
        "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; "
        "script-src 'self' 'unsafe-eval'; frame-ancestors 'none'; base-uri 'none'; "
        "form-action 'none'"
    ),  # vega compiles its expressions by eval
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
}


def is_loopback(host: str) -> bool:
    """
    >>> [is_loopback(each) for each in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Guard:
    """Lets requests through to the app, or answers 403."""

    app: ASGIApp
    host: str
    """the address that is listened on"""
    token: str = ""
    """"" on the loopback address"""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if not self._is_our_name(headers.get("host", "")):
            text = "This name is not the server's: open the address that `fieldmark serve` printed."
            await PlainTextResponse(text, 403)(scope, receive, send)
            return
        asked = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if self.token and asked and secrets.compare_digest(asked.encode(), self.token.encode()):
            answer = RedirectResponse(scope["path"] or "/", 303)
            answer.set_cookie(COOKIE, self.token, httponly=True, samesite="strict")
            await answer(scope, receive, send)
            return
        if self.token and not self._has_token(headers):
            text = "A token is needed: open the whole address that `fieldmark serve` printed."
            await PlainTextResponse(text, 403)(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _is_our_name(self, given: str) -> bool:
        """By whatever name, where a token is asked for; else only names of this machine itself."""
        if self.token:
            return True
        name = given.rpartition(":")[0] if not given.endswith("]") and ":" in given else given
        return is_loopback(name.strip("[]"))

    def _has_token(self, headers: Headers) -> bool:
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        return any(
            secrets.compare_digest(each.encode(), self.token.encode())
            for each in (cookie.value if cookie else "", bearer)
        )

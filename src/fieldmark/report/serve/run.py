"""Where does the server listen, and until when?"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass

from fieldmark.errors import UsageError
from fieldmark.report.serve.app import make_app
from fieldmark.report.serve.guard import is_loopback
from fieldmark.report.serve.live import LiveResults

TOKEN = "FIELDMARK_TOKEN"


@dataclass(frozen=True, slots=True)
class Place:
    """An address, and the token that it asks for; "" on the loopback address."""

    host: str = "127.0.0.1"
    port: int = 0
    """0: any that is free"""
    token: str = ""

    @classmethod
    def for_host(cls, host: str, port: int) -> Place:
        """Beyond this machine a token is needed: FIELDMARK_TOKEN, or a new one."""
        if is_loopback(host):
            return cls(host, port)
        return cls(host, port, os.environ.get(TOKEN) or secrets.token_urlsafe(24))


def serve(results: LiveResults, place: Place, on_ready: Callable[[str], None]) -> None:
    """Answers until interrupted; `on_ready` gets the address to open."""
    import uvicorn

    listening = _listen(place)
    port = listening.getsockname()[1]
    app = make_app(results, place.host, place.token)
    settings = uvicorn.Config(
        app, log_level="warning", access_log=False, timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(settings)
    name = f"[{place.host}]" if ":" in place.host else place.host
    if name in ("0.0.0.0", "[::]"):
        name = socket.gethostname()
    ending = f"?token={place.token}" if place.token else ""
    on_ready(f"http://{name}:{port}/{ending}")
    server.run(sockets=[listening])


def _listen(place: Place) -> socket.socket:
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((place.host, place.port))
        listening.listen()  # from here on a browser waits, and is not refused
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"cannot listen on {place.host} port {place.port} ({reason}): choose another "
            "--port, or leave it out for a free one."
        ) from error
    return listening

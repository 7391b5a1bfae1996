"""A file server on loopback that misbehaves as told."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest


@dataclass
class Served:
    """One file. `script` holds what to do wrong, a request each; `always` for all after that."""

    body: bytes
    etag: str = ""
    modified: str = ""
    has_ranges: bool = True
    content_type: str = "application/octet-stream"
    script: list[dict[str, Any]] = field(default_factory=list)
    always: dict[str, Any] = field(default_factory=dict)


class Site:
    def __init__(self) -> None:
        self.files: dict[str, Served] = {}
        self.n_sent: Counter[str] = Counter()
        self.requests: list[tuple[str, str, dict[str, str], float]] = []
        self.open_now = self.open_most = 0
        self.lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def add(self, path: str, body: bytes, **how: Any) -> str:
        self.files[path] = Served(body, **how)
        return self.url(path)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server.server_port}{path}"

    def asked(self, path: str, method: str = "GET") -> list[dict[str, str]]:
        """The headers of each request for a path."""
        return [headers for how, at, headers, _ in self.requests if (how, at) == (method, path)]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def _handler(site) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - two selves below
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self) -> None:
                self._serve(with_body=False)

            def do_GET(self) -> None:
                with site.lock:
                    site.open_now += 1
                    site.open_most = max(site.open_most, site.open_now)
                try:
                    self._serve(with_body=True)
                except OSError:
                    pass
                finally:
                    with site.lock:
                        site.open_now -= 1

            def _serve(self, with_body: bool) -> None:
                with site.lock:
                    request = (self.command, self.path, dict(self.headers), time.monotonic())
                    site.requests.append(request)
                    file = site.files.get(self.path)
                    how = {}
                    if file is not None:
                        takes = file.script and with_body
                        how = file.script.pop(0) if takes else file.always
                self.close_connection = True
                if file is None:
                    return self._plain(404)
                if "status" in how:
                    return self._plain(how["status"], how.get("headers", {}))
                return self._file(file, how, with_body)

            def _plain(self, status: int, headers: dict[str, str] | None = None) -> None:
                self.send_response(status)
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.send_header("Connection", "close")
                self.end_headers()

            def _file(self, file: Served, how: dict[str, Any], with_body: bool) -> None:
                body = how.get("body", file.body)
                start = self._start(file)
                if start is not None and start >= len(body):
                    return self._plain(416, {"Content-Range": f"bytes */{len(body)}"})
                self.send_response(200 if start is None else 206)
                if start is not None:
                    first = how.get("range_start", start)
                    end = f"{first}-{len(body) - 1}/{len(body)}"
                    self.send_header("Content-Range", f"bytes {end}")
                rest = body[start or 0 :]
                if how.get("chunked"):
                    self.send_header("Transfer-Encoding", "chunked")
                elif not how.get("no_length"):
                    self.send_header("Content-Length", str(how.get("claim", len(rest))))
                for name, value in (("ETag", file.etag), ("Last-Modified", file.modified)):
                    if value:
                        self.send_header(name, value)
                self.send_header("Content-Type", file.content_type)
                self.send_header("Connection", "close")
                self.end_headers()
                if with_body:
                    self._send(rest[: how.get("drop_after")], how)
                if "drop_after" in how and how.get("hard"):
                    self.connection.setsockopt(
                        socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0"
                    )
                return None

            def _start(self, file: Served) -> int | None:
                asked = self.headers.get("Range")
                proof = self.headers.get("If-Range")
                if not asked or not file.has_ranges:
                    return None
                if proof and proof not in (file.etag, file.modified):
                    return None
                return int(asked.removeprefix("bytes=").removesuffix("-"))

            def _send(self, data: bytes, how: dict[str, Any]) -> None:
                step, pause_s = how.get("drip", (1 << 16, 0.0))
                for at in range(0, len(data), step):
                    time.sleep(pause_s if at else 0)
                    block = data[at : at + step]
                    if how.get("chunked"):
                        self.wfile.write(f"{len(block):x}\r\n".encode() + block + b"\r\n")
                    else:
                        self.wfile.write(block)
                    self.wfile.flush()
                    with site.lock:
                        site.n_sent[self.path] += len(block)
                if how.get("chunked") and "drop_after" not in how:
                    self.wfile.write(b"0\r\n\r\n")

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


def no_proxies(patch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        patch.delenv(name, raising=False)
        patch.delenv(name.upper(), raising=False)


@contextmanager
def dripping(patch: pytest.MonkeyPatch, files: dict[str, bytes]) -> Iterator[Site]:
    """A site whose files come slowly."""
    no_proxies(patch)
    site = Site()
    for path, data in files.items():
        site.add(path, data, etag=f'"{path}"', always={"drip": (1 << 13, 0.01)})
    yield site
    site.close()


def goes_on(site: Site, paths: dict[str, str]) -> tuple[Callable[[Path], None], Callable[[], None]]:
    """After a kill a whole file is not asked for, and another from the byte where it stood."""
    left, n_asked = dict[str, int](), dict[str, int]()

    def look(out: Path) -> None:
        for file, path in paths.items():
            here = [each for each in (out / file, out / f"{file}.part") if each.exists()]
            left[path] = here[0].stat().st_size if here else 0
            n_asked[path] = len(site.asked(path))

    def check() -> None:
        for path, size in left.items():
            asked = site.asked(path)
            if size == len(site.files[path].body):
                assert len(asked) == n_asked[path]
            elif size:
                assert asked[-1]["Range"] == f"bytes={size}-"

    return look, check

"""For tests of keys: an endpoint on loopback that notes every request and the key it came with."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class KeyLog:
    """What was sent to the endpoint."""

    def __init__(self, host: str) -> None:
        self.host, self.url = host, f"http://{host}/v1"
        self.keys: list[str] = []
        self.bodies: list[dict[str, Any]] = []


@contextmanager
def logging_endpoint(answer: Callable[[dict[str, Any]], str] = lambda _: "A") -> Iterator[KeyLog]:
    """Answers every request with what `answer` makes of its body."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            log.keys.append(self.headers.get("Authorization", ""))
            log.bodies.append(body)
            message = {"role": "assistant", "content": answer(body)}
            usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            reply = json.dumps({"choices": [choice], "usage": usage, "model": "m"}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    log = KeyLog(f"127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield log
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

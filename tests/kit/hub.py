"""A hub with one dataset on loopback: as much of it as the `datasets` library asks for."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "c0ffee00" * 5


class FakeHub:
    """Serves `files` as the dataset `name` until it is closed; `asked` lists the requests."""

    def __init__(self, name: str, files: Mapping[str, bytes]) -> None:
        self.name, self.files = name, files
        self.asked: list[str] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = unquote(urlsplit(self.path).path)
                hub.asked.append(f"{self.command} {path}")
                status, body, headers = hub.answer(path)
                self.send_response(status)
                for key, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(key, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_HEAD = do_GET  # noqa: N815

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def answer(self, path: str) -> tuple[int, bytes, dict[str, str]]:
        about = f"/api/datasets/{self.name}"
        if path.startswith(f"/datasets/{self.name}/resolve/"):
            return self._file(path.split("/resolve/")[1].partition("/")[2])
        if path.startswith(f"{about}/tree/"):
            return _json(self._listed(path.removeprefix(f"{about}/tree/").partition("/")[2]))
        if path == about or path.startswith(f"{about}/revision/"):
            return _json({"id": self.name, "sha": COMMIT, "siblings": []})
        return 404, b"", {}

    def _file(self, name: str) -> tuple[int, bytes, dict[str, str]]:
        if name not in self.files:
            return 404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT}
        data = self.files[name]
        return 200, data, {"ETag": f'"{_hash(data)}"', "X-Repo-Commit": COMMIT}

    def _listed(self, folder: str) -> list[dict[str, Any]]:
        start = f"{folder}/" if folder else ""
        inside = [name.removeprefix(start) for name in self.files if name.startswith(start)]
        folders = {each.partition("/")[0] for each in inside if "/" in each}
        return [
            {"type": "file", "path": start + each, "oid": _hash(each.encode()),
             "size": len(self.files[start + each])}
            for each in inside if "/" not in each
        ] + [
            {"type": "directory", "path": start + each, "oid": _hash(each.encode()), "size": 0}
            for each in sorted(folders)
        ]  # fmt: skip

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _hash(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()


def _json(value: Any) -> tuple[int, bytes, dict[str, str]]:
    return 200, json.dumps(value).encode(), {"Content-Type": "application/json"}

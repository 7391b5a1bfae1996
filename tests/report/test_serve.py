"""Is the live page the site's page, read-only, for those who may look?"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from queue import Queue

import numpy as np
import pytest

pytest.importorskip("starlette")

from starlette.testclient import TestClient

from fieldmark.report.serve import LiveResults, ServeAddress, make_app, server
from fieldmark.settings import load_settings
from fieldmark.store import RunFilter, RunSpec, Store


def right(n: int, n_right: int) -> np.ndarray:
    return np.arange(n) < n_right


@pytest.fixture
def place(tmp_path, filled, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Store.open(tmp_path / "results" / "fieldmark.db") as store:
        filled(store, RunSpec("a/good", "foxes", "probe/x"), {"": right(100, 90)})
        filled(store, RunSpec("a/poor", "foxes", "probe/x"), {"": right(100, 50)})
    return tmp_path


@pytest.fixture
def results(place) -> LiveResults:
    return LiveResults(load_settings(), RunFilter())


@pytest.fixture
def client(results) -> TestClient:
    return TestClient(make_app(results), base_url="http://127.0.0.1:8000")


def received(script: str) -> object:
    return json.loads(re.fullmatch(r'fieldmark\.receive\("\w+",(.*)\);\n', script, re.S)[1])


def test_the_page_and_all_it_loads_are_there(client):
    page = client.get("/")
    assert page.status_code == 200 and "live.js" in page.text and "a/good" in page.text
    for path in ("app.js", "style.css", "live.js", "data/summary.js", "vega.js"):
        found = client.get(f"/{path}")
        assert found.status_code == 200 and found.content, path
        assert found.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'self'" in found.headers["content-security-policy"]
    column = received(client.get("/data/summary.js").text)["columns"][0]["name"]
    assert client.get(f"/data/{column}.js").text.startswith(f'fieldmark.receive("{column}"')


def test_new_scores_are_shown_without_a_restart(client, place, filled):
    assert len(received(client.get("/data/summary.js").text)["rows"]) == 2
    with Store.open(place / "results" / "fieldmark.db") as store:
        filled(store, RunSpec("a/new", "foxes", "probe/x"), {"": right(100, 70)})
    assert len(received(client.get("/data/summary.js").text)["rows"]) == 3


def test_progress_counts_what_goes_on(results, place):
    with Store.open(place / "results" / "fieldmark.db") as store:
        store.begin_run(RunSpec("a/new", "foxes", "probe/x", {"parts": ["p", "q"]}))
    found = results.progress()
    assert found["done"] == 2
    assert found["running"] == [
        {"model": "a/new", "task": "foxes", "parts_done": 0, "parts": 2, "usd": 0}
    ]


def test_an_empty_store_still_has_a_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    app = make_app(LiveResults(load_settings(), RunFilter()))
    assert TestClient(app, base_url="http://localhost").get("/").status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/data/../results/fieldmark.db",
        "/data/..%2f..%2fresults%2ffieldmark.js",
        "/thumbs/ab/..%2f..%2fresults%2ffieldmark.webp",
        "/thumbs/ab/000000000000.webp",
        "/results/fieldmark.db",
        "/etc/passwd",
        "/data/nothing.js",
    ],
)
def test_no_address_names_a_file(client, path):
    assert client.get(path).status_code == 404


@pytest.mark.parametrize("way", ["post", "put", "delete", "patch"])
def test_nothing_can_be_changed_from_here(client, way):
    assert getattr(client, way)("/data/summary.js").status_code == 405


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", ""]
)
def test_a_page_under_another_name_is_refused(results, host):
    client = TestClient(make_app(results), base_url="http://127.0.0.1")
    assert client.get("/", headers={"host": host}).status_code == 403


@pytest.mark.parametrize("host", ["localhost", "localhost:8080", "127.0.0.1", "[::1]:9", "[::1]"])
def test_names_of_this_machine_are_let_in(results, host):
    client = TestClient(make_app(results), base_url="http://127.0.0.1")
    assert client.get("/style.css", headers={"host": host}).status_code == 200


def test_beyond_this_machine_a_token_is_asked_for(results, monkeypatch):
    monkeypatch.delenv("FIELDMARK_TOKEN", raising=False)
    token = ServeAddress.for_host("0.0.0.0", 0).token
    assert len(token) > 20
    app = make_app(results, "0.0.0.0", token)
    stranger = TestClient(app, base_url="http://lab.example")
    assert stranger.get("/data/summary.js").status_code == 403
    assert stranger.get("/?token=wrong").status_code == 403
    assert stranger.get("/style.css", headers={"authorization": "Bearer no"}).status_code == 403
    known = stranger.get("/", params={"token": token})
    assert known.status_code == 200 and token not in str(known.url)
    assert stranger.get("/data/summary.js").status_code == 200, "the cookie is enough from then on"


def test_defect_third_look_s3_on_this_machine_a_token_is_asked_for_too(results, monkeypatch):
    monkeypatch.delenv("FIELDMARK_TOKEN", raising=False)
    assert len(ServeAddress.for_host("127.0.0.1", 0).token) > 20
    monkeypatch.setenv("FIELDMARK_TOKEN", "mine")
    assert ServeAddress.for_host("127.0.0.1", 0).token == "mine"
    assert load_settings().origin.get("token") is None, "no setting, and no mistake either"
    client = TestClient(make_app(results, "127.0.0.1", "mine"), base_url="http://127.0.0.1")
    assert client.get("/").status_code == 403
    assert client.get("/?token=mine", headers={"host": "evil.example"}).status_code == 403
    assert client.get("/?token=mine").status_code == 200


@pytest.mark.parametrize("path", ["//evil.com/", "/\\evil.com", "//evil.com", "///evil.com/a"])
def test_defect_third_look_s3_the_token_opens_no_way_to_another_host(results, path):
    client = TestClient(make_app(results, "127.0.0.1", "mine"), base_url="http://127.0.0.1")
    answer = client.get(f"http://127.0.0.1{path}?token=mine", follow_redirects=False)
    assert answer.status_code == 303
    assert re.match(r"/[^/\\]", answer.headers["location"])


def test_defect_third_look_s3_silent_connections_are_closed(results, monkeypatch):
    """50 of 50 half-open ones were there after 45 s."""
    monkeypatch.setattr(server, "HEADERS_S", 1.0)
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 20)
    ready = Queue()
    place = ServeAddress("127.0.0.1", 0, "mi&né #+%")
    threading.Thread(target=server.serve, args=(results, place, ready.put), daemon=True).start()
    address = ready.get(timeout=20)
    port = int(re.search(r":(\d+)/", address)[1])

    def open_one() -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", port), timeout=20)
        connection.sendall(b"GET / HTTP/1.1\r\nHost: 127")
        return connection

    first = [open_one() for _ in range(30)]
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with opener.open(address, timeout=20) as page:
        assert b"a/good" in page.read(), "others are answered meanwhile"
    for connection in first:
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(1) == b"", "closed, without an answer"
        connection.close()


def test_the_command_serves_live_and_ends_on_interrupt(place, filled):
    command = [sys.executable, "-m", "fieldmark", "serve"]
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=place
    )
    try:
        address = child.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{20,}", address)
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(address, timeout=30) as page:
            assert b"a/good" in page.read()
        with opener.open(f"{address.partition('?')[0]}events", timeout=30) as news:
            assert next(iter(news)).strip() == b"event: progress"
            with Store.open(place / "results" / "fieldmark.db") as store:
                filled(store, RunSpec("a/new", "foxes", "probe/x"), {"": right(100, 70)})
            until = time.monotonic() + 30
            lines = []
            while b"event: results" not in lines and time.monotonic() < until:
                lines.append(news.readline().strip())
        assert b"event: results" in lines
    finally:
        child.send_signal(signal.SIGINT)
        code = child.wait(timeout=20)
    assert code in (0, 130)


def test_a_port_in_use_is_told(place):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-m", "fieldmark", "serve", "--port", port],
            capture_output=True,
            text=True,
            cwd=place,
            env=os.environ,
        )
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1 port {port}" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1

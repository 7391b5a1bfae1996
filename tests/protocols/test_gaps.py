"""Is a run with unanswered questions told, kept, marked, and asked again: just these questions?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from fieldmark.cli import main
from fieldmark.settings import Settings
from fieldmark.store import Store
from kit.ask import Parrot, command, journalled
from kit.chat import running
from kit.made import make_dataset

A = '{"answer": "A"}'


class Moody(Parrot):
    """Refuses every third request with a code, as long as it is in the mood."""

    code = 400

    def __init__(self, *texts: str) -> None:
        super().__init__(*texts)
        self.is_moody, self.n_asked = True, 0

    async def _answer(self, request: web.BaseRequest, data: bytes) -> web.StreamResponse:
        self.n_asked += 1
        if self.is_moody and self.n_asked % 3 == 0:
            error = {"error": {"message": "not in the mood"}}
            return web.json_response(error, status=self.code)
        return await super()._answer(request, data)


@pytest.fixture
def settings(fresh_settings: Settings) -> Settings:
    return fresh_settings


def run(world: Path, url: str, *more: str) -> int:
    model = f"chat/mock/wren?base_url={url}"
    return main(command(world, "--model", model, "--n-test", "9", *more))


def outcomes(settings: Settings) -> dict[str, int]:
    with Store.open(settings.store) as store:
        (done,) = [found for found in store.runs() if found.state == "done"]
        return store.outcomes(done.id)


def test_what_failed_is_told_and_asked_again(
    settings: Settings, world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = Moody(A)
    with running(server) as url:
        assert run(world, url) == 5
        last = capsys.readouterr().err.splitlines()[-1]
        assert "3 of 9 questions have no answer: 3 failed (400 not in the mood)." in last
        assert "Run the same command to retry what failed." in last
        assert outcomes(settings) == {"failed": 3, "ok": 6}
        server.is_moody, before = False, server.n_asked
        assert main(["plan", *_flags(world, url), "--json"]) == 0
        (job,) = json.loads(capsys.readouterr().out)["jobs"]
        assert (job["status"], job["why"]) == ("run", "3 of its 9 questions are asked again")
        assert run(world, url) == 0
        assert server.n_asked - before == 3 and outcomes(settings) == {"ok": 9}
        assert run(world, url) == 0 and server.n_asked - before == 3
    assert set(journalled(settings).values()) == {1}


class Broken(Moody):
    """Refuses every request, once it has answered so many."""

    def __init__(self, n_good: int = 0) -> None:
        super().__init__(A)
        self.n_good = n_good

    async def _answer(self, request: web.BaseRequest, data: bytes) -> web.StreamResponse:
        self.n_asked += 1
        if self.is_moody and self.n_asked > self.n_good:
            return web.json_response({"error": {"message": "bad item"}}, status=400)
        return await Parrot._answer(self, request, data)


def test_every_command_asks_what_an_endpoint_could_not_do(
    settings: Settings, world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second command used to take the failures of the first for answers."""
    server = Broken()
    with running(server) as url:
        for _ in range(3):
            before = server.n_asked
            assert run(world, url) == 4
            assert "No answer was stored." in capsys.readouterr().err.splitlines()[-1]
            assert server.n_asked > before
        with Store.open(settings.store) as store:
            assert not store.runs(), "nothing is recorded"
        server.is_moody = False
        assert run(world, url) == 0
    assert outcomes(settings) == {"ok": 9}


@pytest.mark.slow
def test_a_run_that_was_given_up_asks_again_what_failed(settings: Settings, tmp_path: Path) -> None:
    """Parts that were complete by then are kept, failures and all."""
    server, n_kept = Broken(n_good=5), 5
    make_dataset("newt", tmp_path / "newt", 60)
    with running(server) as url:
        model = f"chat/mock/wren?base_url={url}"
        given = ["--data", f"newt={tmp_path / 'newt'}", "--n-test", "2", "--concurrency", "2"]
        words = ["run", "--task", "newt", "--model", model, *given]
        assert main(words) == 4
        assert len(journalled(settings)) == n_kept
        server.is_moody, before = False, server.n_asked
        assert main(words) == 5, "this server's one answer cannot be read"
        found = outcomes(settings)
        assert found.keys() == {"unparsed"}
        assert server.n_asked - before == found["unparsed"] - n_kept


def _flags(world: Path, url: str) -> list[str]:
    _, *flags = command(world, "--model", f"chat/mock/wren?base_url={url}", "--n-test", "9")
    return flags


@pytest.mark.slow
def test_a_run_keeps_its_answers_when_asking_again_fails(settings: Settings, world: Path) -> None:
    server = Moody(A)
    with running(server) as url:
        assert run(world, url) == 5
        assert run(world, url) in (0, 5)
    before = outcomes(settings)
    assert run(world, url) in (0, 4, 5), "nobody is there any more"
    assert outcomes(settings) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "outcome", "words"),
    [
        ("I would rather say nothing about it.", "unparsed", "not read"),
        ("Either A or B.", "unparsed", "not read"),
    ],
)
def test_what_could_not_be_read_is_asked_again_when_wanted(
    settings: Settings,
    world: Path,
    capsys: pytest.CaptureFixture[str],
    text: str,
    outcome: str,
    words: str,
) -> None:
    server = Parrot(A, text)
    with running(server) as url:
        assert run(world, url, "--concurrency", "1") == 5
        last = capsys.readouterr().err.splitlines()[-1]
        assert f"4 of 9 questions have no answer: 4 {words}. `--again {outcome}` asks" in last
        assert run(world, url) == 5, "the same command alone asks nothing"
        assert len(server.bodies) == 9
        server.texts = (A,)
        assert run(world, url, "--again", "length") == 5 and len(server.bodies) == 9
        assert run(world, url, "--again", f"length,{outcome}") == 0
        assert len(server.bodies) == 13 and outcomes(settings) == {"ok": 9}


def test_a_strange_word_after_again_is_refused(
    settings: Settings, world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(world, "http://127.0.0.1:9/v1", "--again", "failures") == 2
    assert "--again failures: expected some of length, unparsed" in capsys.readouterr().err


@pytest.mark.parametrize("code", [400, 500, 401, 404])
def test_an_endpoint_that_never_answers_leaves_no_result(
    settings: Settings, world: Path, capsys: pytest.CaptureFixture[str], code: int
) -> None:
    class Closed(Moody):
        async def _answer(self, request: web.BaseRequest, data: bytes) -> Any:
            self.n_asked += 1
            return web.json_response({"error": {"message": "no such model"}}, status=code)

    server = Closed(A)
    with running(server) as url:
        assert run(world, url) == 4
    advice = " No key was sent. Put it into an environment variable, such as LAB_KEY, and add "
    advice += "&key_env=LAB_KEY to the model's name."
    note = advice if code == 401 else ""
    place = f" (asked {url}/chat/completions)" if code == 404 else ""
    assert f"no such model{place}.{note} No answer was stored." in capsys.readouterr().err
    assert server.n_asked <= 12
    with Store.open(settings.store) as store:
        assert not [found for found in store.runs() if found.state == "done"]


@pytest.mark.slow
def test_settings_that_an_endpoint_refuses_are_left_out(
    settings: Settings, world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Picky(Parrot):
        async def _answer(self, request: web.BaseRequest, data: bytes) -> Any:
            for name in ("temperature", "seed", "response_format"):
                if name in json.loads(data):
                    error = {"error": {"message": f"Unsupported parameter: '{name}'"}}
                    return web.json_response(error, status=400)
            return await super()._answer(request, data)

    server = Picky(A)
    with running(server) as url:
        assert run(world, url, "--temp", "0.5") == 0
    assert len(server.bodies) == 9
    with Store.open(settings.store) as store:
        (done,) = store.runs()
        (part,) = store.finished_parts(done.id)
    assert part.info is not None
    assert part.info["not_taken"] == ["schema", "seed", "temperature"]

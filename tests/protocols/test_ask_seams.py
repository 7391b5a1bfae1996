"""Between settings, tables and runs: does what may change an answer rerun it, and
is nothing paid or sent that nobody wants?
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from fieldmark.cli import main
from fieldmark.settings import Settings
from fieldmark.store import Store
from kit.ask import Parrot, command
from kit.chat import running

A, UNCLEAR = '{"answer": "A"}', "Either A or B."
ROW = '[[chat_models]]\nprovider = "custom"\nid = "mine"\ncontext = 32_000\n'


@pytest.fixture
def settings(fresh_settings: Settings) -> Settings:
    return fresh_settings


def run(world: Path, url: str, *more: str) -> int:
    model = f"chat/custom/mine?base_url={url}"
    return main(command(world, "--model", model, "--n-test", "6", *more))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "is_rerun"),
    [
        ('quantizations = ["bf16"]\n', True),
        ("thinks = true\n", True),
        ('lacks = ["schema"]\n', True),
        ("max_image_px = 32\n", True),
        ("usd_in = 1.0\nusd_out = 2.0\n", False),
        ('title = "Mine"\n', False),
    ],
)
def test_a_row_that_changes_requests_makes_another_run(
    settings: Settings, world: Path, more: str, is_rerun: bool
) -> None:
    server = Parrot(A)
    Path("fieldmark.toml").write_text(ROW)
    with running(server) as url:
        assert run(world, url) == 0
        Path("fieldmark.toml").write_text(ROW + more)
        assert run(world, url) == 0
    with Store.open(settings.store) as store:
        assert len(store.runs()) == 1 + is_rerun


def test_a_judge_is_checked_before_anything_is_asked(settings: Settings, world: Path) -> None:
    server = Parrot(UNCLEAR)
    with running(server) as url:
        for name in ("nonsense", "classical/colour", "own.py:Model"):
            assert run(world, url, "--judge", name) == 2
    assert not server.bodies


def test_a_file_cannot_send_a_key_to_its_judge(
    settings: Settings, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-never-to-be-seen-4711")
    server = Parrot(UNCLEAR)
    with running(server) as url:
        Path("grid.toml").write_text(
            f'models = ["chat/custom/mine?base_url={url}"]\ntasks = ["world-species"]\nn_test = 6\n'
            f'judge = "chat/custom/other?base_url={url}&key_env=OPENAI_API_KEY"\n'
            f'data = {{ world = "{world}" }}\n'
        )
        assert main(["run", "grid.toml"]) == 2 and not server.bodies
        host = url.removeprefix("http://").removesuffix("/v1")
        assert main(["run", "grid.toml", "--send-key", f"OPENAI_API_KEY={host}"]) == 5
    assert server.bodies, "where the user agreed"


@pytest.mark.parametrize(
    "extra",
    [["model=two"], ["messages=[]"], ["a=1", "a.b=2"], ["a=nan"], ["a=2026-01-01"], ["detail=hi"],
     ["=3"]],
)  # fmt: skip
def test_extra_keys_that_cannot_be_are_refused_at_once(
    settings: Settings, world: Path, extra: list[str]
) -> None:
    assert run(world, "http://127.0.0.1:9/v1", "--extra", *extra) == 2


def test_what_an_endpoint_refused_stays_with_the_run_when_the_journal_answers(
    settings: Settings, world: Path
) -> None:
    class Picky(Parrot):
        async def _answer(self, request: web.BaseRequest, data: bytes) -> Any:
            if b"response_format" in data:
                error = {"error": {"message": "response_format is not supported"}}
                return web.json_response(error, status=400)
            return await super()._answer(request, data)

    with running(Picky(A)) as url:
        assert run(world, url) == 0
        assert run(world, url, "--force") == 0
    with Store.open(settings.store) as store:
        (done,) = store.runs()
        (part,) = store.finished_parts(done.id)
    assert (part.info or {})["not_taken"] == ["schema"]


def test_a_cap_remembers_what_answers_cost_from_run_to_run(
    settings: Settings, world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Dear(Parrot):
        def reply(self, data: bytes, digest: str = "") -> dict[str, Any]:
            reply = super().reply(data, digest)
            return {**reply, "usage": {"prompt_tokens": 10_000, "completion_tokens": 1}}

    server = Dear(A)
    with running(server) as url:
        price = ("--price", "1/1", "--max-usd", "0.055", "--concurrency", "1")
        assert run(world, url, "--n-train", "0", "1", *price) == 4
    assert len(server.bodies) == 5, "the second run knows that no sixth fits"

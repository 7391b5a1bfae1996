"""Are the parts of a run asked over one line, each stored when it is complete, none paid twice?"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from aiohttp import web

from fieldmark.chat import MockScript, Options
from fieldmark.data import Contents, ImageRef, load_dataset
from fieldmark.errors import DataError
from fieldmark.experiments import Axes, ExecuteOptions, execute, make_jobs, make_plan
from fieldmark.models import load_chat_model
from fieldmark.progress import Silent
from fieldmark.protocols import (
    AskSettings,
    Draw,
    PartPredictions,
    Question,
    Workspace,
    load_protocol,
    split_parts,
)
from fieldmark.protocols.ask.items import Images
from fieldmark.protocols.ask.run import run
from fieldmark.settings import Settings
from fieldmark.store import Store
from fieldmark.tasks import load_own_task
from kit.ask import Parrot, ask, wholes
from kit.chat import CountingServer, running
from kit.made import make_dataset

PRICED = """[[chat_models]]
provider = "mock"
id = "wren"
usd_in = 1.0
usd_out = 4.0
"""
N_PARTS, N_TEST = 12, 2


class Counting(CountingServer):
    """Counts the connections that reach it."""

    def __init__(self, script: MockScript | None = None) -> None:
        super().__init__(script)
        self.peers: set[Any] = set()

    async def _answer(self, request: web.BaseRequest, data: bytes) -> web.StreamResponse:
        assert request.transport is not None
        self.peers.add(request.transport.get_extra_info("peername"))
        return await super()._answer(request, data)


@pytest.fixture
def newt(root: Callable[[str], Path]) -> tuple[Path, str]:
    """The data, and a few of its questions by name."""
    folder = root("newt")
    task = load_own_task("newt")
    parts = split_parts(task, load_dataset("newt").table(folder))
    return folder, ",".join(part.name for part in parts[:N_PARTS])


@pytest.mark.slow
def test_defect_mllms_small_parts_fill_one_line(newt: tuple[Path, str], tmp_path: Path) -> None:
    folder, parts = newt
    settings = Settings(tmp_path / "results", tmp_path / "cache", data={"newt": folder})
    server = Counting(MockScript(latency_s=0.15))
    with running(server) as url:
        name = f"chat/mock/wren?base_url={url}"
        jobs = make_jobs([(name, "")], [(f"newt/{parts}", "")], Axes(n_test=(N_TEST,)))
        how = ExecuteOptions(shared={"sending": Options(concurrency=16)})
        outcome = execute(make_plan(jobs, settings), settings, Silent(), how)
    assert outcome.n_done == 1
    assert server.counts.max_in_flight == 16, "no part alone has so many items"
    assert len(server.peers) <= 16, "one pool of connections serves all parts"
    with Store.open(settings.store) as store:
        rows = store.predictions(1)
    assert rows["part"].n_unique() == N_PARTS and len(rows) == N_PARTS * N_TEST


@pytest.mark.slow
def test_parts_asked_together_are_answered_as_alone(newt: tuple[Path, str], tmp_path: Path) -> None:
    folder, parts = newt
    settings = Settings(tmp_path / "results", tmp_path / "cache", data={"newt": folder})
    model = "chat/mock/wren?skill=0.6"
    columns = ["id", "target", "prediction", "outcome"]
    together = ask(settings, model, f"newt/{parts}", n_train=1, n_test=N_TEST).predictions
    for part in parts.split(",")[::4]:
        alone = ask(settings, model, f"newt/{part}", n_train=1, n_test=N_TEST).predictions
        mine = together.filter(together["part"] == part)
        assert mine.select(columns).equals(alone.select(columns))


@pytest.mark.slow
def test_a_cap_keeps_the_parts_that_are_complete(newt: tuple[Path, str], tmp_path: Path) -> None:
    folder, parts = newt
    settings = Settings(tmp_path / "results", tmp_path / "cache", data={"newt": folder})
    parrot = Parrot("Answer: A")

    def go(budget: int) -> Any:
        from fieldmark.chat import Budget

        how = ExecuteOptions(
            shared={"sending": Options(concurrency=3), "budget": Budget(max_tokens=budget)}
        )
        jobs = make_jobs([(name, "")], [(f"newt/{parts}", "")], Axes(n_test=(N_TEST,)))
        return execute(make_plan(jobs, settings), settings, Silent(), how)

    with running(parrot) as url:
        name = f"chat/mock/wren?base_url={url}"
        (failure,) = go(5_000).failures
        assert failure.exit_code == 4 and "new answers are kept" in failure.error
        with Store.open(settings.store) as store:
            (run,) = store.runs()
            before = {each.part for each in store.finished_parts(run.id)}
        assert 0 < len(before) < N_PARTS
        assert go(10**6).n_done == 1
    assert len(parrot.bodies) == N_PARTS * N_TEST, "nothing is asked again"


@pytest.mark.parametrize("n_stored", [0, 1, 3])
def test_a_killed_traits_run_asks_the_same_question_again(
    n_stored: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fieldmark.toml").write_text(PRICED)
    settings = Settings(tmp_path / "results", tmp_path / "cache", data_root=tmp_path)
    make_dataset("fishvista", tmp_path / "fishvista", 40)
    parrot = Parrot("Answer: A")
    write_part, n_written = Store.write_part, 0

    def killed(*args: Any) -> None:
        nonlocal n_written
        if n_written == n_stored:
            raise KeyboardInterrupt
        n_written += 1
        write_part(*args)

    with running(parrot) as url:
        name = f"chat/mock/wren?base_url={url}"
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Store, "write_part", killed)
            ask(settings, name, "fishvista", n_test=3, n_train=1)
        n_before = len(parrot.bodies)
        found = ask(settings, name, "fishvista", n_test=3, n_train=1)
    rows = found.predictions
    assert n_before == len(parrot.bodies) == rows["id"].n_unique(), "asked and paid once"
    assert rows["part"].n_unique() == 4
    one = rows.filter(rows["part"] == rows["part"][0])
    paid = sum(json.loads(text)["usd"] for text in one["info"])
    assert wholes(found.scores)["usd_per_answer"] == pytest.approx(paid / n_before)


# -- what was seen --------------------------------------------------------------------------------


def run_protocol(root: Path, **draw: int) -> tuple[list[PartPredictions], Any]:
    asked = prepared(root, **draw)
    workspace = Workspace(Settings(results=Path("results"), bad_images="skip"), Contents(None))
    model = load_chat_model("chat/mock/wren?skill=1")
    return list(run(asked, asked.part_names, model, workspace, Silent())), asked.parts


def prepared(root: Path, **draw: int) -> Question:
    workspace = Workspace(Settings(data={"world": root}), Contents(None))
    task = load_own_task("world-stage")
    return load_protocol("ask").prepare(task, Draw(**draw), AskSettings(), workspace)


@pytest.mark.slow
def test_what_may_be_shown_is_known_before_anything_is_read(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (answers,), (part,) = run_protocol(world, n_train=2, n_test=4)
    infos = [json.loads(text) for text in answers.frame["info"]]
    shown = {*answers.frame["id"], *(each for info in infos for each in info["examples"])}
    needed = prepared(world, n_train=2, n_test=4).needed
    rows = needed(())
    assert set(rows["id"]) == shown
    broken = part.train.filter(pl.col("id").is_in(infos[0]["examples"][:1]))["image"][0]
    others = needed((broken,))
    assert broken not in others["image"].to_list(), "the next one drawn takes its place"
    assert len(others) >= len(rows) - 1


def test_an_image_that_is_not_what_it_was_when_the_run_began_is_not_sent(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"one")
    images = Images(tmp_path)
    images.contents.learn(tmp_path, ["a.jpg"])
    picture = images.picture(ImageRef("a.jpg"))
    assert picture.read() == b"one" == images.picture(ImageRef("a.jpg")).read()
    (tmp_path / "a.jpg").write_bytes(b"two")
    with pytest.raises(DataError, match=r"a\.jpg  was changed during the run"):
        picture.read()
    assert picture.cache_key == images.picture(ImageRef("a.jpg")).cache_key
    assert picture.cache_key != Images(tmp_path).picture(ImageRef("a.jpg")).cache_key, "another run"

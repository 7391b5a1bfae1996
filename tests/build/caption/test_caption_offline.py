"""Does a photo that hangs or kills an engine fail alone, once, and is it remembered?"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import types
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from fieldmark.build.caption import (
    CaptionOptions,
    OfflineModel,
    SpeciesWords,
    caption_shards,
    isolated,
    vllm_model,
)
from fieldmark.build.caption.engine_process import EngineProcess
from fieldmark.build.caption.vllm import Ticker, VllmEngine
from fieldmark.chat import AnswerSettings, Picture, Request, user
from fieldmark.errors import ModelError, UsageError
from fieldmark.processes import birth
from kit.captions import fake_engine, make_samples, write_shard
from kit.chat import make_jpeg
from kit.tiny_chat import load_tiny, save_tiny


def engine_model(poison: dict[bytes, str], log: Path, **options: Any) -> OfflineModel:
    options = {"batch_size": 16, "hang_s": 1.0, **options}
    address = {"provider": "fake", "model": "fake"}
    return OfflineModel("fake", "fake", fake_engine, (poison, str(log)), address, **options)


def caption(
    model: OfflineModel, shards: list[Path], out: Path, options: CaptionOptions | None = None
) -> pl.DataFrame:
    caption_shards(shards, model, SpeciesWords(), out, options)
    return pl.read_parquet(out / "captions/*.parquet")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["hang", "die", "raise"])
def test_a_poison_photo_fails_alone_and_is_remembered(tmp_path: Path, how: str) -> None:
    samples = make_samples(40)
    bad = samples[21][1]["jpg"]
    shard, log = write_shard(tmp_path / "a.tar", samples), tmp_path / "log"
    table = caption(engine_model({bad: how}, log), [shard], tmp_path / "out")
    assert table["status"].to_list() == ["ok"] * 21 + ["error"] + ["ok"] * 18
    expected = {"hang": "hung", "die": "died (signal 9)", "raise": "raised ValueError"}[how]
    assert table["reason"][21].startswith(f"poison: the engine {expected}")
    sizes = [int(line) for line in log.read_text().split()]
    assert sizes[:2] == [16, 16] and 8 in sizes and sizes.count(1) == 2

    log.unlink()
    (tmp_path / "out/captions/a.json").unlink()
    again = caption(engine_model({bad: how}, log), [shard], tmp_path / "out")
    assert again.equals(table) and not log.exists(), "nothing is asked again, nobody is killed"


@pytest.mark.slow
def test_two_poison_photos_in_one_batch(tmp_path: Path) -> None:
    samples = make_samples(12)
    poison = {samples[3][1]["jpg"]: "die", samples[4][1]["jpg"]: "die"}
    shard = write_shard(tmp_path / "a.tar", samples)
    table = caption(engine_model(poison, tmp_path / "log"), [shard], tmp_path / "out")
    assert [i for i, status in enumerate(table["status"]) if status == "error"] == [3, 4]


def test_a_photo_that_comes_alone_is_tried_twice(tmp_path: Path) -> None:
    samples = make_samples(1)
    model = engine_model({samples[0][1]["jpg"]: "die"}, tmp_path / "log")
    table = caption(model, [write_shard(tmp_path / "a.tar", samples)], tmp_path / "out")
    assert table["status"].to_list() == ["error"]
    assert (tmp_path / "log").read_text().split() == ["1", "1"]


def test_a_remembered_photo_is_tried_again_on_request(tmp_path: Path) -> None:
    """After an engine was mended."""
    samples, out = make_samples(4), tmp_path / "out"
    shard = write_shard(tmp_path / "a.tar", samples)
    bad = engine_model({samples[2][1]["jpg"]: "raise"}, tmp_path / "log")
    assert caption(bad, [shard], out)["status"].to_list() == ["ok", "ok", "error", "ok"]
    mended = engine_model({}, tmp_path / "new")
    assert caption(mended, [shard], out)["status"][2] == "error"
    again = caption(mended, [shard], out, CaptionOptions(retry_errors=True))
    assert again["status"][2] == "ok" and (tmp_path / "new").read_text().split() == ["1"]


def test_an_engine_that_never_works_ends_the_run(tmp_path: Path) -> None:
    samples = make_samples(64)
    poison = {members["jpg"]: "raise" for _, members in samples}
    shard = write_shard(tmp_path / "a.tar", samples)
    with pytest.raises(ModelError, match="could not be started: RuntimeError: no GPU here"):
        caption(engine_model({b"": "no start"}, tmp_path / "log"), [shard], tmp_path / "out")
    with pytest.raises(ModelError, match="was lost 13 times in a row, the last time it raised"):
        caption(engine_model(poison, tmp_path / "log"), [shard], tmp_path / "out")
    assert not (tmp_path / "out/state/quarantine.jsonl").exists(), "no photo is to blame"


def test_a_hung_engine_is_killed_with_its_children(tmp_path: Path) -> None:
    request = Request("a", (user("Species: A b", Picture(b"bad")),))
    engine = EngineProcess(fake_engine, ({b"bad": "hang"}, str(tmp_path / "log")), "fake", 0.3)
    engine.send([request])
    process = engine._process
    began = time.monotonic()
    with pytest.raises(Exception, match=r"hung: not heard for 0\.3 s"):
        engine.answers(1)
    assert not process.is_alive() and time.monotonic() - began < 20


# --- vLLM, whose place a stand-in takes that has its signatures ---


class FakeParams(types.SimpleNamespace):
    pass


class FakeLlm:
    def __init__(self) -> None:
        self.calls: list[tuple[Any, Any]] = []

    def chat(self, messages: Any, sampling_params: Any = None, use_tqdm: Any = True) -> list[Any]:
        self.calls.append((messages, sampling_params))
        bar = use_tqdm(total=len(messages), desc="Processed prompts", postfix="")
        outputs = []
        for number, _ in enumerate(use_tqdm(messages, desc="Rendering conversations")):
            written = types.SimpleNamespace(
                text=f"caption {number}", finish_reason=("stop", "length")[number], token_ids=[1, 2]
            )
            assert 1 / bar.format_dict["elapsed"] > 0
            bar.update(1)
            outputs.append(types.SimpleNamespace(outputs=[written], prompt_token_ids=[1]))
        assert bar.n == len(messages)
        bar.refresh()
        bar.close()
        return outputs


def test_vllm_gets_openai_messages_and_gives_answers() -> None:
    llm, alive = FakeLlm(), []
    engine = VllmEngine(llm, FakeParams, "repo")
    settings = AnswerSettings(0.6, 0.8, max_output_tokens=50)
    photo = make_jpeg(1)
    requests = [
        Request(f"{number}", (user("shared", Picture(photo), "Species: A b"),), settings)
        for number in range(2)
    ]
    answers = engine.answer_batch(requests, lambda: alive.append(1))
    assert [(answer.outcome, answer.text) for answer in answers] == [
        ("ok", "caption 0"), ("length", "caption 1"),
    ]  # fmt: skip
    assert len(alive) == 4
    (messages, params) = llm.calls[0]
    assert [part["type"] for part in messages[0][0]["content"]] == ["text", "image_url", "text"]
    assert messages[0][0]["content"][1]["image_url"]["url"].startswith("data:image/jpeg;base64,")
    assert (params[0].temperature, params[0].top_p, params[0].max_tokens) == (0.6, 0.8, 50)
    assert params[0].seed != params[1].seed
    assert isinstance(Ticker(lambda: None), Ticker)


@pytest.mark.slow
def test_names_of_vllm_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match="needs the package 'vllm'"):
        vllm_model("vllm/org/model")
    module = types.ModuleType("vllm")
    module.__spec__ = types.SimpleNamespace()  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, "vllm", module)
    model = vllm_model("vllm/org/model@abc?context=2048&tiles=1&batch=512&max_tokens=60")
    (arguments,) = model.arguments
    assert (arguments["model"], arguments["revision"]) == ("org/model", "abc")
    assert arguments["mm_processor_kwargs"] == {"max_dynamic_patch": 1}
    assert arguments["max_model_len"] == 2048 and model.batch_size == 512
    assert model.settings(AnswerSettings()).max_output_tokens == 60
    assert model.address["tiles"] == "1" and model.address["revision"] == "abc"
    folder = save_tiny("llava", tmp_path / "tiny")
    before = vllm_model(f"vllm/{folder}").address
    assert before == vllm_model(f"vllm/{folder.rename(tmp_path / 'moved')}").address
    (tmp_path / "moved/config.json").write_text("{}")
    assert before != vllm_model(f"vllm/{tmp_path / 'moved'}").address
    with pytest.raises(UsageError, match="takes context"):
        vllm_model("vllm/org/model?tile=1")
    with pytest.raises(UsageError, match="expected vllm/"):
        vllm_model("vllm/")


@pytest.mark.slow
def test_a_model_of_transformers_in_a_process_of_its_own(tmp_path: Path) -> None:
    """It answers nonsense, so everything is rejected, and in the same words as without."""
    folder = save_tiny("llava", tmp_path / "tiny")
    shard = write_shard(tmp_path / "a.tar", make_samples(3))
    model = load_tiny(folder, "?context=20000&max_tokens=8")
    apart = caption(isolated(model, "float32"), [shard], tmp_path / "apart")
    together = caption(model, [shard], tmp_path / "together")  # type: ignore[arg-type]
    assert apart["status"].to_list() == ["rejected"] * 3, apart["reason"][0]
    assert apart.equals(together)


@pytest.mark.slow
def test_an_engine_ends_with_the_run_that_started_it(tmp_path: Path) -> None:
    """A killed run must not leave a GPU in use, not even when its engine hangs."""
    code = (
        "import sys; from fieldmark.build.caption.engine_process import EngineProcess\n"
        "from fieldmark.chat import Picture, Request, user; from kit.captions import fake_engine\n"
        "engine = EngineProcess(fake_engine, ({b'bad': 'hang'}, sys.argv[1]), 'fake')\n"
        "engine.send([Request('a', (user('Species: A b', Picture(b'bad')),))])\n"
        "print(engine._process.pid, flush=True); engine.answers(1)"
    )
    tests = Path(__file__).parents[2]
    run = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "log")],
        env={**os.environ, "PYTHONPATH": str(tests)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None
    pid = int(run.stdout.readline())
    assert birth(pid)
    run.kill()
    run.communicate()
    deadline = time.monotonic() + 30
    while birth(pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not birth(pid)

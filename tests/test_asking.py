"""Six commands ask through one engine: no failed request is ever answered by what was kept."""

from __future__ import annotations

import bz2
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import web

from fieldmark.chat import MockServer
from fieldmark.cli import main
from fieldmark.world.wiki import WorldPage, export_xml
from kit.captions import make_shards
from kit.chat import running
from kit.documents import write_jsonl
from kit.made import make_dataset
from kit.wiki_traps import texts_of, trap_wiki, write_names

MODEL = "chat/custom/seer?base_url="
N = 6
"""questions at least"""
DOCUMENTS = """task: garden
dataset_path: json
dataset_kwargs: {data_files: {test: rows.jsonl}}
test_split: test
doc_to_text: question
doc_to_target: answer
generation_kwargs: {max_new_tokens: 8}
"""
JUDGED = """process_results: !function code.results
metric_list: [{metric: score, aggregation: mean, higher_is_better: true}]
"""
CODE = """from lmms_eval.llm_judge import Request, ServerConfig, get_server

def results(doc, results):
    server = get_server("openai", ServerConfig(model_name="judge", max_tokens=10))
    message = {"role": "user", "content": doc["question"]}
    return {"score": float(len(server.evaluate(Request(messages=[message])).content))}
"""


class Refusing(MockServer):
    """Answers every request with 400, until it is mended."""

    def __init__(self) -> None:
        super().__init__()
        self.n_asked, self.is_mended = 0, False

    async def _answer(self, request: web.BaseRequest, data: bytes) -> web.StreamResponse:
        self.n_asked += 1
        if not self.is_mended:
            return web.json_response({"error": {"message": "bad item"}}, status=400)
        return await super()._answer(request, data)


def asking(model: str) -> list[str]:
    make_dataset("world", Path("world"), 60)
    flags = ["--task", "world-species", "--data", "world=world", "--n-test", "9"]
    return ["run", *flags, "--model", model]


def reranking(model: str) -> list[str]:
    make_dataset("inquire", Path("inquire"), 60)
    return ["run", "--task", "inquire-rerank", "--data", "inquire=inquire", "--model", model]


def documents(model: str) -> list[str]:
    write_jsonl(
        Path("rows.jsonl"), [{"question": f"Bird {n}?", "answer": "wren"} for n in range(9)]
    )
    Path("garden.yaml").write_text(DOCUMENTS)
    return ["run", "--task", "garden.yaml", "--model", model]


def judging(model: str) -> list[str]:
    command = documents("chat/custom/wren?base_url=HELPER")
    Path("code.py").write_text(CODE)
    Path("garden.yaml").write_text(DOCUMENTS + JUDGED)
    return [*command, "--judge", model]


def describing(model: str) -> list[str]:
    pages = texts_of(trap_wiki(0, 1).pages)
    text = export_xml(WorldPage(title, text) for title, text in pages.items())
    Path("wiki.xml.bz2").write_bytes(bz2.compress(text))
    names = write_names(Path("names.csv"), 1)
    flags = ["--dump", "wiki.xml.bz2", "--filter", model, "--out", "described"]
    return ["describe", str(names), *flags]


def captioning(model: str) -> list[str]:
    (shard,) = make_shards(Path("shards"), 1, 9)
    return ["caption", str(shard), "--model", model, "--out", "captions"]


@pytest.mark.parametrize(
    "command",
    [
        asking,
        pytest.param(reranking, marks=pytest.mark.slow),
        documents,
        pytest.param(judging, marks=pytest.mark.slow),
        describing,
        captioning,
    ],
)
def test_what_an_endpoint_refused_is_asked_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: Callable[[str], list[str]],
) -> None:
    """Each time the same command gives up after a few requests, and keeps nothing."""
    monkeypatch.chdir(tmp_path)
    server = Refusing()
    with running(server) as url, running(MockServer()) as helper:
        words = [word.replace("HELPER", helper) for word in command(f"{MODEL}{url}")] + ["--quiet"]
        for _ in range(3):
            before = server.n_asked
            assert main(words) == 4
            (line,) = capsys.readouterr().err.splitlines()
            assert "400 bad item" in line and line.endswith("No answer was stored.")
            assert 0 < server.n_asked - before < 9
        before, server.is_mended = server.n_asked, True
        assert main(words) in (0, 5)
        assert server.n_asked - before >= N, "what was refused was not answered"

"""A judge is asked only where the user named one, and its absence is never a wrong answer."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from fieldmark.errors import UsageError
from fieldmark.lmms.code.call import NoJudgement, call, load_function
from fieldmark.lmms.code.judge import KEY, MODEL, URL, Judge, judging
from fieldmark.lmms.code.trust import Function, Trust
from fieldmark.lmms.compat.judge import JudgeRequest, ServerConfig, get_server
from fieldmark.lmms.compat.verifiers import (
    OpenAIVerifier,
    StripReasoningExtractor,
    VerificationPipeline,
)
from kit.chat import FAST


class Endpoint:
    """Answers with the replies in turn: a text, or a status."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.replies: list[str | int] = []
        self.asked: list[tuple[str, dict[str, str], dict[str, Any]]] = []

    def prompt(self, i: int = -1) -> Any:
        return self.asked[i][2]["messages"][-1]["content"]


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            known.asked.append((self.path, dict(self.headers), body))
            reply = known.replies.pop(0)
            message = {"role": "assistant", "content": reply}
            usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
            content = {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}
            self.send_response(reply if isinstance(reply, int) else 200)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        def log_message(self, *_: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    known = Endpoint(f"http://127.0.0.1:{server.server_port}/v1")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    for name in (KEY, MODEL):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(URL, known.url)
    yield known
    server.shutdown()
    server.server_close()
    thread.join()


def test_without_an_endpoint_one_line_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(URL, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "a key alone sends nothing")
    (tmp_path / "utils.py").write_text(
        "from lmms_eval.llm_judge import Request, ServerConfig, get_server\n"
        "server = get_server(server_name='openai', config=ServerConfig(model_name='judge-1'))\n"
        "def process_results(doc, results):\n"
        "    try:\n        server.evaluate(Request(messages=[]))\n"
        "    except Exception:\n        return {'score': 0}\n"
    )
    trust = Trust.of(tmp_path)
    function = load_function(Function("utils.process_results", tmp_path / "a.yaml", 1), trust)
    with pytest.raises(UsageError) as caught:
        call(function, {}, [], where="a.yaml:1", document=4)
    told = str(caught.value)
    assert told.startswith("a.yaml:1  document 4: process_results failed: this task asks a judge")
    assert "judge-1" in told and URL in told and "\n" not in told


def test_request_carries_what_the_task_says(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, "secret")
    endpoint.replies = ["fine", "fine"]
    config = ServerConfig("judge-1", temperature=0.2, max_tokens=9, system_prompt="be fair")
    server = get_server("azure", config)
    response = server.evaluate(JudgeRequest([{"role": "user", "content": "q"}]))
    path, headers, body = endpoint.asked[0]
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    assert (response.content, response.usage) == ("fine", usage)
    assert path == "/v1/chat/completions" and headers["Authorization"] == "Bearer secret"
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("judge-1", 0.2, 9)
    assert [each["role"] for each in body["messages"]] == ["system", "user"]
    monkeypatch.setenv(MODEL, "another")
    server.evaluate(
        JudgeRequest([{"role": "user", "content": "q"}], config=ServerConfig("judge-2"))
    )
    assert endpoint.asked[1][2]["model"] == "another"


def test_images_come_before_the_text(endpoint: Endpoint, tmp_path: Path) -> None:
    endpoint.replies = ["fine"]
    image = Image.new("RGB", (2, 2), "red")
    image.save(tmp_path / "a.png")
    data = (tmp_path / "a.png").read_bytes()
    images = [image, data, str(tmp_path / "a.png"), base64.b64encode(data).decode()]
    get_server().evaluate(JudgeRequest([{"role": "user", "content": "which?"}], images=images))
    *pictures, text = endpoint.prompt()
    assert text == {"type": "text", "text": "which?"}
    heads = [each["image_url"]["url"].partition(",") for each in pictures]
    assert [head for head, _, _ in heads] == ["data:image/png;base64"] * 4
    assert len({tail for _, _, tail in heads[1:]}) == 1


def test_failures_are_tried_again_and_then_told(endpoint: Endpoint) -> None:
    server = get_server("openai", ServerConfig("judge-1"))
    question = JudgeRequest([{"role": "user", "content": "q"}])
    with judging(Judge(sending=replace(FAST, max_attempts=2))):
        endpoint.replies = [500, "fine"]
        assert server.evaluate(question).content == "fine"
    with judging(Judge(sending=replace(FAST, max_attempts=2))):
        endpoint.replies = [503, 503]
        with pytest.raises(NoJudgement, match="judge-1.*503"):
            server.evaluate(question)
        endpoint.replies = [401]
        with pytest.raises(NoJudgement, match="401"):
            server.evaluate(question)
    assert len(endpoint.asked) == 5


@pytest.mark.parametrize(
    ("reply", "form", "expected"),
    [
        ("1", "0/1", 1), ("0", "0/1", 0), ("Score: 1.", "0/1", 1), ("[1]", "0/1", 1),
        ("0, not 1", "0/1", 0), ("10", "0/1", 0), ("", "0/1", 0),
        ("Yes", "yes/no", True), ("yes, it is", "yes/no", True), ("No", "yes/no", False),
    ],
)  # fmt: skip
def test_right_or_wrong(endpoint: Endpoint, reply: str, form: str, expected: object) -> None:
    endpoint.replies = [reply]
    found = get_server().evaluate_binary("how many?", "3", "three", output_format=form)
    assert found["result"] == expected and type(found["result"]) is type(expected)
    assert all(each in endpoint.prompt() for each in ("how many?", "three"))


def test_own_prompts_are_filled_in(endpoint: Endpoint) -> None:
    endpoint.replies = ["1", "Incorrect", "7 of 10", "B"]
    server = get_server()
    server.evaluate_binary("q", "a", "p", custom_prompt="{question}|{answer}|{pred}|{prediction}")
    assert endpoint.prompt() == "q|a|p|p"
    text = "{question}|{ground_truth}|{prediction}"
    pipeline = VerificationPipeline([StripReasoningExtractor()], OpenAIVerifier(custom_prompt=text))
    result = pipeline("q", "<think>hm</think>p", "a")
    assert endpoint.prompt() == "q|a|p" and not result.is_correct and result.score == 0
    assert result.metadata["raw_prediction"] == "<think>hm</think>p"
    scorer = OpenAIVerifier(custom_prompt=lambda q, p, t: q + p + t, response_format="score")
    assert scorer.verify("q", "p", "t").score == pytest.approx(0.7)
    letters = OpenAIVerifier(custom_prompt="x", response_parser=lambda text: text + "!")  # type: ignore[arg-type,return-value]
    assert letters.verify("q", "p", "t") == "B!"

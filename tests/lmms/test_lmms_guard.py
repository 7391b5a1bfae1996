"""Task code has no network and no keys; only the judge the user named is asked, once, counted."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fieldmark.cli import main
from kit.key_log import KeyLog, logging_endpoint

SECRET = "sk-live-0123456789abcdefSECRET"
YAML = """task: garden
dataset_path: json
dataset_kwargs: {data_files: {test: rows.jsonl}}
test_split: test
doc_to_text: question
doc_to_target: answer
process_results: !function code.results
generation_kwargs: {max_new_tokens: 8}
metric_list:
  - {metric: score, aggregation: %s, higher_is_better: true}
"""
N = 12


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KeyLog]:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "JUDGE_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, SECRET)
    for name in ("JUDGE_BASE_URL", "JUDGE_MODEL_NAME"):
        monkeypatch.delenv(name, raising=False)
    rows = [{"question": f"Bird {n}?", "answer": "wren"} for n in range(N)]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with logging_endpoint(lambda body: f"wren {len(str(body))}") as log:
        yield log


def write(code: str, aggregation: str = "mean") -> None:
    Path("garden.yaml").write_text(YAML % aggregation)
    Path("code.py").write_text(code)


def run(model: KeyLog, *flags: str, command: str = "run") -> int:
    name = f"chat/custom/m?base_url={model.url}"
    return main([command, "--task", "garden.yaml", "--model", name, *flags])


def table(capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(["table", "--long", "--json"]) == 0
    return capsys.readouterr().out


WAYS = {
    "urllib": "import urllib.request\nurllib.request.urlopen('{url}', b'x', timeout=2)",
    "socket": "import socket\nsocket.create_connection(('127.0.0.1', {port})).send(b'x')",
    "swallowed": (
        "import urllib.request\n"
        "for _ in range(3):\n"
        "    try:\n        urllib.request.urlopen('{url}', b'x', timeout=2)\n"
        "    except:\n        pass"
    ),
    "thread": (
        "import threading, urllib.request\n"
        "t = threading.Thread(target=urllib.request.urlopen, args=('{url}', b'x'))\n"
        "t.start(); t.join()"
    ),
    "pool": (
        "import urllib.request\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(2) as pool:\n"
        "    pool.submit(urllib.request.urlopen, '{url}', b'x')"
    ),
    "asyncio": (
        "import asyncio\nasync def go():\n    await asyncio.open_connection('127.0.0.1', {port})\n"
        "asyncio.run(go())"
    ),
    "name": "import socket\nsocket.getaddrinfo('api.openai.com', 443)",
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("way", WAYS)
def test_code_that_reaches_for_the_network_stops_the_task(
    model: KeyLog, capsys: pytest.CaptureFixture[str], way: str
) -> None:
    with logging_endpoint() as judge:
        port = judge.host.partition(":")[2]
        lines = WAYS[way].format(url=judge.url, port=port).splitlines()
        body = "\n".join(f"    {line}" for line in lines)
        write(f"def results(doc, results):\n{body}\n    return {{'score': 0}}\n")
        assert run(model, "--quiet") == 2
        assert judge.keys == []
    told = capsys.readouterr().err
    assert "garden.yaml:7" in told and "tried to use the network" in told
    assert "--judge MODEL" in told and "document 0" in told


def test_import_may_try_the_network_in_vain(model: KeyLog) -> None:
    with logging_endpoint() as judge:
        write(
            "import urllib.request\n"
            f"try:\n    urllib.request.urlopen('{judge.url}', b'x')\n    is_open = 1\n"
            "except OSError:\n    is_open = 0\n"
            "def results(doc, results):\n    return {'score': is_open}\n"
        )
        assert run(model, "--quiet") == 0
        assert judge.keys == []


@pytest.mark.slow
def test_code_and_the_programs_it_starts_see_no_secret(
    model: KeyLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODDLY_NAMED", SECRET)
    Path("fieldmark.toml").write_text(
        '[[chat_providers]]\nname = "lab"\nbase_url = "http://h/v1"\nkey_env = "ODDLY_NAMED"\n'
    )
    write(
        "import os, subprocess, sys\n"
        "seen = dict(os.environ)\n"
        "def results(doc, results):\n"
        "    command = [sys.executable, '-c', 'import os; print(dict(os.environ))']\n"
        "    text = subprocess.run(command, capture_output=True, text=True).stdout\n"
        f"    return {{'score': int({SECRET!r} in text + str(seen) + str(os.environ))}}\n"
        "def most(values):\n    return max(values)\n",
        "!function code.most",
    )
    assert run(model, "--quiet", "--n-test", "3") == 0
    assert os.environ["OPENAI_API_KEY"] == SECRET
    from fieldmark.store import Store

    with Store.open(Path("results/fieldmark.db"), read_only=True) as store:
        (scores,) = store.scores().values()
    assert next(score for score in scores if score.is_primary).value == 0


JUDGED = (
    "from lmms_eval.llm_judge import Request, ServerConfig, get_server\n"
    "server = get_server('openai', ServerConfig(model_name='gpt-4o', max_tokens=10))\n"
    "def ask(text):\n"
    "    message = {'role': 'user', 'content': 'Is it right? ' + text}\n"
    "    return float(server.evaluate(Request(messages=[message])).content == 'yes')\n"
)
PER_DOCUMENT = JUDGED + (
    "def results(doc, results):\n    return {'score': ask(doc['question'] + results[0])}\n"
)
IN_AGGREGATION = JUDGED + (
    "def results(doc, results):\n    return {'score': doc['question'] + results[0]}\n"
    "def judged(values):\n    return sum(map(ask, values)) / len(values)\n"
)


def says(body: dict[str, Any]) -> str:
    number = int(body["messages"][-1]["content"].partition("Bird ")[2].partition("?")[0])
    return "yes" if number % 3 else "no"


def test_plan_says_that_a_judge_is_asked_besides(
    model: KeyLog, capsys: pytest.CaptureFixture[str]
) -> None:
    write(PER_DOCUMENT)
    assert run(model, command="plan") == 0
    assert "name one with --judge MODEL" in capsys.readouterr().out
    assert run(model, "--judge", f"chat/custom/j?base_url={model.url}", command="plan") == 0
    assert "its judge is asked too: the cost leaves that out" in capsys.readouterr().out
    assert not model.keys


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["--judge", "environment"])
@pytest.mark.parametrize(
    ("code", "aggregation"),
    [(PER_DOCUMENT, "mean"), (IN_AGGREGATION, "!function code.judged")],
    ids=["per document", "in aggregation"],
)
def test_judge_is_asked_once_per_document(
    model: KeyLog,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    code: str,
    aggregation: str,
    flag: str,
) -> None:
    write(code, aggregation)
    with logging_endpoint(says) as judge:
        flags = []
        if flag == "--judge":
            name = f"chat/custom/j?base_url={judge.url}&key_env=JUDGE_API_KEY"
            flags = ["--judge", name]
        else:
            monkeypatch.setenv("JUDGE_BASE_URL", judge.url)
        assert run(model, "--quiet", *flags) == 0
        assert len(judge.keys) == N and set(judge.keys) == {f"Bearer {SECRET}"}
        assert {body["model"] for body in judge.bodies} == {"j" if flags else "gpt-4o"}
        first = table(capsys)
        # Answers and judgements are in the journal: nothing is paid twice.
        assert run(model, "--quiet", "--force", *flags) == 0
        assert len(judge.keys) == N
    assert set(model.keys) <= {"", f"Bearer {SECRET}"} and len(model.keys) == N
    rows = json.loads(first)
    score = next(row for row in rows if row["metric"].startswith("score"))
    assert score["low"] < score["value"] < score["high"]


@pytest.mark.slow
def test_judge_counts_in_the_cap(model: KeyLog, capsys: pytest.CaptureFixture[str]) -> None:
    write(PER_DOCUMENT)
    with logging_endpoint(says) as judge:
        name = f"chat/custom/j?base_url={judge.url}"
        # The model's answers take 110 tokens each; five judgements fit besides.
        cap = str(N * 110 + 5 * 110 + 60)
        assert run(model, "--quiet", "--judge", name, "--max-tokens", cap) != 0
        assert 1 <= len(judge.keys) <= 6
        assert "the budget is used up" in capsys.readouterr().err
        n = len(judge.keys)
        assert run(model, "--quiet", "--judge", name) == 0
        assert len(judge.keys) == N and n < N


@pytest.mark.slow
def test_no_judge_is_asked_that_was_not_named(
    model: KeyLog, capsys: pytest.CaptureFixture[str]
) -> None:
    write(PER_DOCUMENT)
    assert run(model, "--quiet") == 2
    told = capsys.readouterr().err
    assert "asks a judge (gpt-4o): name one with --judge MODEL" in told


@pytest.mark.slow
def test_judge_of_an_experiment_gets_no_key(
    model: KeyLog, capsys: pytest.CaptureFixture[str]
) -> None:
    write(PER_DOCUMENT)
    with logging_endpoint(says) as judge:
        name = f"chat/custom/j?base_url={judge.url}&key_env=OPENAI_API_KEY"
        Path("exp.toml").write_text(
            f'models = ["chat/mock/wren"]\ntasks = ["garden.yaml"]\njudge = "{name}"\n'
        )
        assert main(["run", "exp.toml", "--quiet"]) == 2
        told = capsys.readouterr().err
        assert "exp.toml:3" in told and f"--send-key OPENAI_API_KEY={judge.host}" in told
        assert judge.keys == []


@pytest.mark.slow
def test_same_question_twice_in_one_call_is_asked_twice(model: KeyLog) -> None:
    """A task that takes the mean of three judgements means three."""
    write(
        JUDGED + "def results(doc, results):\n"
        "    return {'score': sum(ask(doc['question']) for _ in range(3)) / 3}\n"
    )
    with logging_endpoint(says) as judge:
        name = f"chat/custom/j?base_url={judge.url}"
        assert run(model, "--quiet", "--judge", name, "--n-test", "2") == 0
        assert len(judge.keys) == 6


def test_variable_that_a_typed_name_gives_is_hidden_and_used(
    model: KeyLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLUSTER", SECRET)
    write(
        "import os\nos.environ['OPENAI_API_KEY'] = 'another'\n"
        "def results(doc, results):\n    return {'score': 1 / ('CLUSTER' not in os.environ)}\n"
    )
    name = f"chat/custom/m?base_url={model.url}&key_env=CLUSTER"
    assert main(["run", "--task", "garden.yaml", "--model", name, "--quiet"]) == 0
    assert set(model.keys) == {f"Bearer {SECRET}"}
    assert os.environ["CLUSTER"] == os.environ["OPENAI_API_KEY"] == SECRET


@pytest.mark.slow
def test_judge_may_be_asked_from_threads_and_event_loops(model: KeyLog) -> None:
    write(
        JUDGED + "import asyncio\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "async def inside(text):\n    return ask(text)\n"
        "def results(doc, results):\n"
        "    with ThreadPoolExecutor(4) as pool:\n"
        "        own = list(pool.map(ask, [doc['question'] + str(n) for n in range(4)]))\n"
        "    return {'score': sum(own) + asyncio.run(inside(doc['question']))}\n"
    )
    with logging_endpoint(says) as judge:
        name = f"chat/custom/j?base_url={judge.url}"
        assert run(model, "--quiet", "--judge", name, "--n-test", "2") == 0
        assert len(judge.keys) == 10

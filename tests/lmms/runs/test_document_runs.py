"""Are documents asked as the task's file says, and is what came back scored by it?"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from fieldmark.chat import MockScript
from fieldmark.errors import FieldmarkError, UsageError
from fieldmark.experiments import Evaluation, evaluate
from fieldmark.lmms.code.sandbox import SANDBOX
from fieldmark.lmms.metrics import registry
from fieldmark.metrics import register_metric
from fieldmark.report import read_table
from fieldmark.settings import Settings
from fieldmark.store import Store
from kit.chat import CountingServer, running
from kit.documents import write_jsonl

ROWS = [
    {"id": n, "name": name, "hint": f"hint {n}", "red": 40 * n}
    for n, name in enumerate(["wren", "robin", "tit", "wren", "robin", "tit"])
]
CODE = """
from PIL import Image

def photo(doc):
    return [Image.new("RGB", (8, 6), (doc["red"], 90, 30))]

def is_it(doc, results):
    return {"right": float(results[0] == doc["name"]), "pair": (doc["name"], results[0])}

def share(pairs):
    return sum(a == b for a, b in pairs) / len(pairs)
"""
HEAD = """
task: birds
dataset_path: json
dataset_kwargs: {data_files: birds.jsonl}
test_split: train
"""
PLAIN = """
doc_to_visual: !function utils.photo
doc_to_text: "Which bird? {{hint}}"
doc_to_target: name
"""


@dataclass
class Run:
    found: Evaluation
    bodies: list[Mapping[str, Any]]

    @property
    def infos(self) -> list[dict[str, Any]]:
        return [json.loads(text) for text in self.found.predictions["info"]]

    def score(self, name: str) -> float:
        return next(each.value for each in self.found.scores if each.metric == name)


Answers = Callable[[str, Mapping[str, Any]], str]


def write(folder: Path, text: str, code: str = CODE, rows: Any = ROWS) -> Path:
    (folder / "birds.jsonl").parent.mkdir(exist_ok=True)
    write_jsonl(folder / "birds.jsonl", rows)
    (folder / "utils.py").write_text(code)
    path = folder / "birds.yaml"
    path.write_text(HEAD + text)
    return path


def ask(
    folder: Path, text: str, answers: Answers, script: MockScript | None = None, **more: Any
) -> Run:
    path = write(folder, text, more.pop("code", CODE), more.pop("rows", ROWS))
    settings = Settings(cache=folder / "cache", results=folder / "results")
    server = CountingServer(script, answers=answers)
    server.keeps_bodies = True
    with running(server) as url:
        model = f"chat/mock/{more.pop('name', 'parrot')}?base_url={url}"
        return Run(evaluate(model, str(path), settings=settings, **more), server.bodies)


def knows(text: str, _: Mapping[str, Any]) -> str:
    """Right about even hints, "crow" else."""
    number = int(text.rpartition("hint ")[2].split()[0])
    return ROWS[number]["name"] if number % 2 == 0 else "crow"


def texts(body: Mapping[str, Any]) -> list[str]:
    found = []
    for message in body["messages"]:
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found += [part["text"] if part["type"] == "text" else "<image>" for part in parts]
    return found


def reds(body: Mapping[str, Any]) -> list[int]:
    """What the pictures of a request show, in order."""
    found = []
    for message in body["messages"]:
        for part in message["content"] if isinstance(message["content"], list) else ():
            if part["type"] == "image_url":
                data = base64.b64decode(part["image_url"]["url"].partition(",")[2])
                pixel: Any = Image.open(io.BytesIO(data)).getpixel((0, 0))
                found.append(pixel[0])
    return found


def test_pictures_come_first_and_values_are_stored(tmp_path: Path) -> None:
    run = ask(tmp_path, PLAIN + "metric_list: [{metric: exact_match}]", knows)
    by_hint = {texts(body)[-1]: body for body in run.bodies}
    assert texts(by_hint["Which bird? hint 3"]) == ["<image>", "Which bird? hint 3"]
    assert reds(by_hint["Which bird? hint 3"]) == [120]
    assert run.found.score.value == 0.5 and run.found.score.metric == "exact_match"
    assert run.found.score.low is not None and run.found.score.low < 0.5
    info = run.infos[0]
    assert info["input"] == "Which bird? hint 0" and info["resps"] == [["wren"]]
    assert len({each["doc_hash"] for each in run.infos}) == len(ROWS)


def test_generation_settings_arrive(tmp_path: Path) -> None:
    settings = """
generation_kwargs:
  {max_new_tokens: 7, temperature: 0.4, top_p: 0.9, until: ["\\n", "."], num_beams: 3}
"""
    run = ask(tmp_path, PLAIN + settings, knows, seed=11)
    body = run.bodies[0]
    sent = {key: body[key] for key in ("max_tokens", "temperature", "top_p", "stop", "seed")}
    assert sent == {
        "max_tokens": 7, "temperature": 0.4, "top_p": 0.9, "stop": ["\n", "."], "seed": 11,
    }  # fmt: skip


WARM = PLAIN + "generation_kwargs: {max_new_tokens: 7, temperature: 0.7, do_sample: true}"


@pytest.mark.parametrize(
    ("given", "temperature", "room"),
    [
        ((), 0.7, 7),
        ((("temp", 0.0),), 0.0, 7),
        ((("temp", 0.2), ("max_output", 30)), 0.2, 30),
    ],
)
def test_what_is_given_overrides_the_file_even_when_it_is_zero(
    given: Any, temperature: float, room: int, tmp_path: Path
) -> None:
    run = ask(tmp_path, WARM, knows, **dict(given))
    assert {(body["temperature"], body["max_tokens"]) for body in run.bodies} == {
        (temperature, room)
    }


def test_a_temperature_of_zero_is_another_run_than_the_file_s_own(tmp_path: Path) -> None:
    first, second = (ask(tmp_path, WARM, knows, **dict(given)) for given in ((), (("temp", 0.0),)))
    assert first.bodies and second.bodies
    assert first.found.run.spec.settings != second.found.run.spec.settings


def test_a_price_is_per_answer_not_per_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    row = '[[chat_models]]\nprovider = "mock"\nid = "parrot"\nusd_in = 1.0\nusd_out = 4.0\n'
    Path("fieldmark.toml").write_text(row)
    run = ask(tmp_path, WARM + "\nrepeats: 3", knows)
    assert len(run.bodies) == 3 * len(ROWS)
    paid = sum(each["usd"] for each in run.infos)
    assert run.score("usd_per_answer") == pytest.approx(paid / len(run.bodies))


def test_a_stop_nobody_wrote_is_not_sent(tmp_path: Path) -> None:
    run = ask(tmp_path, PLAIN + "generation_kwargs: {max_new_tokens: 9}", knows)
    assert "stop" not in run.bodies[0] and run.bodies[0]["temperature"] == 0.0


SHOTS = PLAIN + "fewshot_split: train\nmetric_list: [{metric: exact_match}]\n"


def test_shots_bring_their_pictures_in_one_message(tmp_path: Path) -> None:
    run = ask(tmp_path, SHOTS, knows, n_train=2)
    for body, told in ((body, texts(body)) for body in run.bodies):
        assert [each == "<image>" for each in told] == [True, False] * 3
        assert told[1].endswith("\n\n") and told[-1].startswith("Which bird? hint")
        own = reds(body)[-1]
        assert own not in reds(body)[:-1], "a document is not its own example"
        assert f"hint {own // 40}" in told[-1]
    assert all("".join(texts(body)).count("Which bird?") == 3 for body in run.bodies)


def test_examples_in_the_prompt_make_no_other_data_version(tmp_path: Path) -> None:
    for n_train in (0, 2):
        ask(tmp_path, SHOTS, knows, n_train=n_train)
    with Store.open(tmp_path / "results" / "fieldmark.db", read_only=True) as store:
        table = read_table(store)
        assert len({run.spec.data for run in store.runs()}) == 2, "either change is run again"
    assert {(row.column, row.data) for row in table.rows} == {("birds", "")}
    assert len(table.rows) == 2


def test_shots_as_turns(tmp_path: Path) -> None:
    run = ask(tmp_path, SHOTS, knows, n_train=2, prompting="multi")
    roles = [message["role"] for message in run.bodies[0]["messages"]]
    assert roles == ["user", "assistant", "user", "assistant", "user"]
    assert run.bodies[0]["messages"][1]["content"] in {"wren", "robin", "tit"}


def test_defect_lmms_shots_depend_on_the_document_alone(tmp_path: Path) -> None:
    """One stream of random numbers for all documents gave others when fewer were asked."""
    whole = ask(tmp_path / "a", SHOTS, knows, n_train=2)
    some = ask(tmp_path / "b", SHOTS, knows, n_train=2, n_test=3)
    every = {json.dumps(texts(body)) for body in whole.bodies}
    assert len(some.bodies) == 3 and {json.dumps(texts(body)) for body in some.bodies} < every


def test_shots_may_be_the_first_or_listed(tmp_path: Path) -> None:
    first = ask(tmp_path / "a", SHOTS + "fewshot_config: {sampler: first_n}", knows, n_train=2)
    asked = next(body for body in first.bodies if reds(body)[-1] == 120)
    assert reds(asked) == [0, 40, 120]
    listed = (
        "doc_to_text: '{{hint}}'\ndoc_to_target: name\n"
        "fewshot_config: {samples: [{hint: red chest, name: robin}]}\n"
    )
    run = ask(tmp_path / "b", listed, lambda *_: "tit", n_train=1)
    assert texts(run.bodies[0])[0].startswith("red chest robin\n\nhint ")


def test_a_file_that_takes_no_examples_gets_none(tmp_path: Path) -> None:
    run = ask(tmp_path, SHOTS + "num_fewshot: 0\n", knows, n_train=3)
    assert len(reds(run.bodies[0])) == 1 and run.found.run.spec.n_train == 0


def test_too_few_examples_are_told_before_anything_is_sent(tmp_path: Path) -> None:
    with pytest.raises(FieldmarkError, match="n_train = 9: the split has 5 documents to show"):
        ask(tmp_path, SHOTS, knows, n_train=9)
    with pytest.raises(FieldmarkError, match="names no `fewshot_split`"):
        ask(tmp_path, PLAIN, knows, n_train=1)


CHOICES = """
output_type: multiple_choice
doc_to_text: "Which bird? {{hint}}"
doc_to_choice: [wren, robin, tit]
doc_to_target: name
"""


def by_letter(text: str, _: Mapping[str, Any]) -> str:
    number = int(text.partition("hint ")[2].split()[0])
    return "BCA"[number % 3] if number == 5 else "ABC"[number % 3]


@pytest.mark.parametrize("tells", [True, False])
def test_choices_of_an_endpoint_are_lettered_and_said_to_be(tmp_path: Path, tells: bool) -> None:
    run = ask(tmp_path, CHOICES, by_letter, MockScript(logprobs=tells))
    assert run.score("acc") == pytest.approx(5 / 6)
    assert run.score("acc_norm") == run.score("acc"), "letters are of one length"
    how = "log-probabilities of the letters" if tells else "read from the text"
    assert run.found.score.warning.startswith(f"chosen by letter: {how}")
    assert "A. wren" in texts(run.bodies[0])[-1]
    assert all("how" in info for info in run.infos)


def test_an_answer_that_is_no_choice_is_unread_and_counts_as_wrong(tmp_path: Path) -> None:
    run = ask(tmp_path, CHOICES, lambda text, _: "no idea" if "hint 4" in text else "A")
    outcomes = run.found.predictions.sort("id")["outcome"].to_list()
    assert outcomes == ["ok"] * 4 + ["unparsed", "ok"]
    assert run.found.score.n == 6 and run.score("acc") == pytest.approx(2 / 6)


def test_likelihoods_are_not_asked_of_an_endpoint(tmp_path: Path) -> None:
    for kind in ("loglikelihood", "loglikelihood_rolling"):
        text = f"output_type: {kind}\ndoc_to_text: '{{{{hint}}}}'\ndoc_to_target: name\n"
        with pytest.raises(FieldmarkError, match=f"{kind} needs a model that gives likelihoods"):
            ask(tmp_path / kind, text, knows)


ROUNDS = """
def talk(doc, lmms_eval_specific_kwargs=None, previous_output=None, round_idx=None,
         previous_round_info=None):
    if round_idx is None:
        return f"First of {doc['id']}?"
    if round_idx == 2:
        return None, None, True, previous_output + ["done"], previous_round_info
    seen = (previous_round_info or 0) + 1
    return [], f"You said {previous_output[-1]}; next of {doc['id']}?", False, previous_output, seen

def both(doc, results):
    return {"n": float(len(results[0])), "heard": float(results[0][1] == f"second {doc['id']}")}
"""


def test_rounds_follow_what_was_said(tmp_path: Path) -> None:
    def answer(text: str, _: Mapping[str, Any]) -> str:
        number = text.split()[-1].rstrip("?")
        return f"first {number}" if text.startswith("First") else f"second {number}"

    text = """
output_type: generate_until_multi_round
doc_to_text: !function utils.talk
doc_to_target: name
process_results: !function utils.both
metric_list: [{metric: heard, aggregation: mean}, {metric: n, aggregation: mean}]
"""
    run = ask(tmp_path, text, answer, code=ROUNDS)
    assert len(run.bodies) == 2 * len(ROWS)
    assert run.score("heard") == 1.0 and run.score("n") == 3.0
    assert texts(run.bodies[-1])[0].startswith("You said first")


MESSAGES = (
    CODE
    + """
def messages(doc, lmms_eval_specific_kwargs=None):
    shown = {"type": "image", "url": photo(doc)[0]}
    say = {"type": "text", "text": lmms_eval_specific_kwargs["pre"] + doc["hint"]}
    return [{"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
            {"role": "user", "content": [say, shown]}]
"""
)


def test_own_messages_and_prompts_by_model(tmp_path: Path) -> None:
    text = """
doc_to_messages: !function utils.messages
doc_to_target: name
lmms_eval_specific_kwargs: {default: {pre: "Usual: "}, openai: {pre: "Http: "}, mine: {pre: "My: "}}
"""
    run = ask(tmp_path, text, knows, code=MESSAGES)
    assert texts(run.bodies[0])[0] == "Be brief."
    assert texts(run.bodies[0])[1].startswith("Http: hint") and len(reds(run.bodies[0])) == 1
    mine = ask(tmp_path, text, knows, code=MESSAGES, prompts_for="mine")
    assert texts(mine.bodies[0])[1].startswith("My: hint")


def test_repeats_pipelines_and_their_seeds(tmp_path: Path) -> None:
    def answer(text: str, body: Mapping[str, Any]) -> str:
        """Wrong in the first of three repeats."""
        number = int(text.rpartition("hint ")[2])
        return ROWS[number]["name"] if body["seed"] % 3 else "crow"

    text = (
        PLAIN
        + """
repeats: 3
generation_kwargs: {temperature: 0.7, do_sample: true}
filter_list:
  - {name: first, filter: [{function: take_first}]}
  - {name: vote, filter: [{function: majority_vote}, {function: take_first}]}
metric_list: [{metric: exact_match}]
"""
    )
    run = ask(tmp_path, text, answer)
    assert len(run.bodies) == 18 and {body["seed"] for body in run.bodies} == {0, 1, 2}
    assert run.score("exact_match,first") == 0.0 and run.score("exact_match,vote") == 1.0
    assert run.score("exact_match/mean_accuracy,first") == pytest.approx(2 / 3)
    assert run.score("exact_match/majority_accuracy,first") == 1.0
    assert run.score("exact_match/agreement_rate,first") == 0.0


def test_own_scoring_and_aggregation(tmp_path: Path) -> None:
    text = (
        PLAIN
        + """
process_results: !function utils.is_it
metric_list:
  - {metric: right, aggregation: mean, higher_is_better: true}
  - {metric: pair, aggregation: !function utils.share, higher_is_better: true}
"""
    )
    run = ask(tmp_path, text, knows)
    assert run.score("right") == run.score("pair") == 0.5
    pair = next(each for each in run.found.scores if each.metric == "pair")
    assert pair.low is not None and pair.high is not None and pair.low < 0.5 < pair.high


def test_code_that_fails_is_told_and_nothing_is_asked_twice(tmp_path: Path) -> None:
    text = PLAIN + "process_results: !function utils.is_it\nmetric_list: [{metric: right}]\n"
    bad = CODE.replace('doc["name"])', 'doc["species"])')
    with pytest.raises(UsageError, match="KeyError: 'species'"):
        broken_then_mended(tmp_path, text, bad)


def broken_then_mended(folder: Path, text: str, bad: str) -> None:
    """The journal keeps what was paid for: the second run sends nothing."""
    settings = Settings(cache=folder / "cache", results=folder / "results")
    server = CountingServer(answers=knows)
    server.keeps_bodies = True
    with running(server) as url:
        model = f"chat/mock/parrot?base_url={url}"
        path = write(folder, text, bad)
        try:
            evaluate(model, str(path), settings=settings)
        except FieldmarkError as error:
            n = len(server.bodies)
            assert n == len(ROWS)
            write(folder, text)
            assert evaluate(model, str(path), settings=settings).score.value == 0.5
            assert len(server.bodies) == n
            raise UsageError(str(error)) from None


def test_a_document_without_an_answer_counts_as_wrong(tmp_path: Path) -> None:
    script = MockScript(p_refuse=0.4, seed=3)
    run = ask(tmp_path, PLAIN, lambda *_: None, script)  # type: ignore[arg-type, return-value]
    outcomes = run.found.predictions["outcome"].to_list()
    assert 0 < outcomes.count("refused") < len(ROWS)
    assert run.found.score.n == len(ROWS)


def test_changed_code_and_changed_documents_run_again(tmp_path: Path) -> None:
    """Code is in the key; documents, as all content, in the digest beside it."""
    settings = Settings(cache=tmp_path / "cache", results=tmp_path / "results")
    server = CountingServer(answers=knows)
    other = [{**row, "hint": f"so {row['hint']}"} for row in ROWS]
    with running(server) as url:
        model, runs, n_asked = f"chat/mock/parrot?base_url={url}", [], []
        for code, rows in ((CODE, ROWS), (f"{CODE}\n# a thought\n", ROWS), (CODE, other)):
            path = write(tmp_path, PLAIN, code, rows)
            runs.append(evaluate(model, str(path), settings=settings).run)
            n_asked.append(server.stats()["n_requests"])
    plain, other_code, other_documents = runs
    assert other_code.key != plain.key
    assert other_documents.key == plain.key
    assert other_documents.spec.data != plain.spec.data
    assert n_asked == [6, 6, 12], "equal prompts are answered by the journal"


DRAWS = """
import random

def text(doc):
    return f"hint {doc['id']} of {random.random()}"

def order(doc):
    return random.sample(["wren", "robin", "tit"], 3)

def place(doc):
    return order(doc).index(doc["name"])
"""


def test_code_that_draws_asks_the_same_again(tmp_path: Path) -> None:
    """In another order, beside other documents and after a restart: the journal answers."""
    text = (
        "output_type: multiple_choice\ndoc_to_text: !function utils.text\n"
        "doc_to_choice: !function utils.order\ndoc_to_target: !function utils.place\n"
    )

    def finds(text: str, _: Mapping[str, Any]) -> str:
        name = ROWS[int(text.partition("hint ")[2].split()[0])]["name"]
        return text.partition(f". {name}")[0][-1]

    whole = ask(tmp_path / "a", text, finds, code=DRAWS)
    some = ask(tmp_path / "b", text, finds, code=DRAWS, n_test=2)
    every = {json.dumps(body["messages"]) for body in whole.bodies}
    assert {json.dumps(body["messages"]) for body in some.bodies} < every
    assert len({texts(body)[-1].partition("Options:")[2] for body in whole.bodies}) > 1
    assert whole.score("acc") == 1.0, "choices and target are drawn alike"


@pytest.mark.slow
def test_sets_have_one_order_in_every_process(tmp_path: Path) -> None:
    code = "def text(doc):\n    return ' or '.join({'wren', 'robin', 'tit', 'owl', 'swift'})\n"
    text = "doc_to_text: !function utils.text\ndoc_to_target: name\n"
    runs = []
    for name in "ab":
        SANDBOX.close()
        runs.append(ask(tmp_path / name, text, lambda *_: "wren", code=code, n_test=1))
    assert texts(runs[0].bodies[0]) == texts(runs[1].bodies[0])


@pytest.mark.parametrize("kind", ["multiple_choice", "generate_until_multi_round"])
def test_repeats_of_what_is_asked_once(tmp_path: Path, kind: str) -> None:
    code = (
        CODE + "\ndef talk(doc, round_idx=None):\n    return None if round_idx else doc['hint']\n"
    )
    rounds = f"output_type: {kind}\ndoc_to_text: !function utils.talk\ndoc_to_target: name\n"
    text = CHOICES if kind == "multiple_choice" else rounds
    run = ask(tmp_path, text + "repeats: 3\n", lambda *_: "A", code=code)
    assert len(run.bodies) == len(ROWS)
    assert not any("agreement" in each.metric for each in run.found.scores)


def test_rounds_that_never_end_are_told(tmp_path: Path) -> None:
    code = "def talk(doc, round_idx=None):\n    return 'And now?'\n"
    text = (
        "output_type: generate_until_multi_round\ndoc_to_text: !function utils.talk\n"
        "doc_to_target: name\n"
    )
    with pytest.raises(FieldmarkError, match="document 0 did not end after 32 rounds"):
        ask(tmp_path, text, lambda *_: "go on", code=code, rows=ROWS[:1])


def test_no_example_is_shown_as_its_own(tmp_path: Path) -> None:
    """ModulePaths are drawn among the others, whatever the document's own place is."""
    run = ask(tmp_path, SHOTS, knows, n_train=5)
    for body in run.bodies:
        assert sorted(reds(body)) == [0, 40, 80, 120, 160, 200]


def test_own_messages_have_no_place_for_examples(tmp_path: Path) -> None:
    """A run must not claim examples that nobody saw."""
    text = (
        "doc_to_messages: !function utils.messages\ndoc_to_target: name\nfewshot_split: train\n"
        "lmms_eval_specific_kwargs: {default: {pre: ''}}\n"
    )
    run = ask(tmp_path / "a", text + "num_fewshot: 2\n", knows, code=MESSAGES)
    assert run.found.run.spec.n_train == 0 and len(reds(run.bodies[0])) == 1
    with pytest.raises(FieldmarkError, match="n_train = 2: doc_to_messages makes the whole prompt"):
        ask(tmp_path / "b", text, knows, code=MESSAGES, n_train=2)


def test_what_code_prints_is_talk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = "print('loaded')\n" + CODE.replace("def photo(doc):", "def photo(doc):\n    print('hi')")
    run = ask(tmp_path, PLAIN + "metric_list: [{metric: exact_match}]", knows, code=code)
    told = capsys.readouterr()
    assert run.score("exact_match") == 0.5 and told.out == ""
    assert "loaded" in told.err and "hi" in told.err


ALIVE = """
import weakref
from PIL import Image

shown, most = [], 0

def photo(doc):
    global most
    shown[:] = [each for each in shown if each() is not None]
    most = max(most, len(shown))
    made = Image.new("RGB", (8, 6), (doc["id"] % 256, doc["id"] // 256, 30))
    shown.append(weakref.ref(made))
    return [made]

def talk(doc, round_idx=None):
    if round_idx == 2:
        return None
    return f"Round {round_idx}?" if round_idx is None else (photo(doc), "Again?", False, None, None)

def alive(doc, results):
    return {"alive": float(most)}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["generate_until", "generate_until_multi_round", "multiple_choice"]
)
def test_pictures_live_no_longer_than_their_requests(tmp_path: Path, kind: str) -> None:
    """All pictures of a dataset do not fit into memory."""
    text = (
        f"output_type: {kind}\ndoc_to_visual: !function utils.photo\n"
        "doc_to_text: !function utils.talk\ndoc_to_target: name\n"
        "doc_to_choice: [wren, robin]\nprocess_results: !function utils.alive\n"
        "metric_list: [{metric: alive, aggregation: mean}]\n"
    )
    rows = [{"id": n, "name": "wren"} for n in range(400)]
    run = ask(tmp_path, text, lambda *_: "A", code=ALIVE, rows=rows)
    assert len(run.bodies) == (800 if "round" in kind else 400)
    assert 0 < run.score("alive") < 200


def test_a_round_of_another_shape_is_told(tmp_path: Path) -> None:
    code = ROUNDS.replace('return [], f"You said', 'return f"You said')
    text = """
output_type: generate_until_multi_round
doc_to_text: !function utils.talk
doc_to_target: name
process_results: !function utils.both
metric_list: [{metric: heard, aggregation: mean}]
"""
    with pytest.raises(FieldmarkError, match="document 0: round 2 gave 3 values: expected"):
        ask(tmp_path, text, lambda *_: "so", code=code.replace(", previous_output, seen", ", seen"))


def test_the_number_of_the_whole_stands_first(tmp_path: Path) -> None:
    """A mapping whose first key depends on the documents must not decide what a run is worth."""
    code = (
        CODE
        + """
def by_kind(pairs):
    found = {kind: float(kind == "wren") for kind, _ in pairs}
    return {**found, "Overall": share(pairs)}
"""
    )
    text = (
        PLAIN
        + """
process_results: !function utils.is_it
metric_list: [{metric: pair, aggregation: !function utils.by_kind}]
"""
    )
    run = ask(tmp_path, text, knows, code=code)
    assert run.found.score.metric == "pair/Overall" and run.found.score.value == 0.5
    names = [each.metric for each in run.found.scores if each.metric.startswith("pair/")]
    assert names == ["pair/Overall", "pair/robin", "pair/tit", "pair/wren"]


COUNTS = """
TOTAL = {"right": 0, "asked": 0}

class Kept:
    n_right = 0

def is_it(doc, results):
    return {"score": float(results[0] == doc["name"])}

def counted(values, seen=[]):
    for value in values:
        TOTAL["right"] += value
        seen.append(value)
        Kept.n_right += value
    assert sum(seen) == Kept.n_right == TOTAL["right"]
    return TOTAL["right"] / 6

def pooled(values):
    TOTAL["right"] += sum(values)
    TOTAL["asked"] += len(values)
    return TOTAL["right"] / TOTAL["asked"]
"""


@pytest.mark.parametrize("aggregation", ["counted", "pooled"])
def test_code_that_counts_in_a_module_gives_equal_models_equal_scores(
    tmp_path: Path, aggregation: str
) -> None:
    """As ocrbench does: the second model got the sum of both, and resamples added to it."""
    text = (
        'doc_to_text: "Which bird? {{hint}}"\ndoc_to_target: name\n'
        "process_results: !function utils.is_it\n"
        f"metric_list: [{{metric: score, aggregation: !function utils.{aggregation}}}]"
    )
    runs = [ask(tmp_path, text, knows, code=COUNTS, name=name) for name in ("parrot", "myna")]
    scores = [next(score for score in run.found.scores if score.is_primary) for run in runs]
    assert [score.value for score in scores] == [0.5, 0.5]
    assert scores[0].low == pytest.approx(
        scores[1].low, abs=0.05
    )  # fewer resamples where it is slow
    for score in scores:
        assert score.low is not None and score.high is not None
        assert 0 <= score.low < 0.5 < score.high <= 1


def test_what_a_user_registered_scores_templates_that_compute(tmp_path: Path) -> None:
    """Such templates are rendered, and scored, in another process than the metric is known in."""
    register_metric(
        "is_it",
        lambda references, predictions: float(references == predictions),
        aggregation=sum,
    )
    text = 'doc_to_text: "Which bird? {{hint.lower()}}"\ndoc_to_target: name\n'
    try:
        run = ask(tmp_path, text + "metric_list: [{metric: is_it}]", knows)
    finally:
        del registry._ADDED_METRICS["is_it"]
    assert run.score("is_it") == 3.0


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{{'a' * 10**11}}", "needs more than 256 MB of memory"),
        ("{{'%099999999999d' % 1}}", "needs more than 256 MB of memory"),
        ("{{hint.ljust(10**11)}}", "needs more than 256 MB of memory"),
        ("{{'a' * 10**8}}", "gives 100,000,000 characters: expected at most 10,000,000"),
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
         "takes longer than 0.3 s"),
        ("{{('a' * 40)|regex_replace('(a+)+$b', '')}}", "takes longer than 0.3 s"),
    ],
)  # fmt: skip
def test_a_template_without_end_is_one_line(
    tmp_path: Path, template: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "longer" in why:
        monkeypatch.setattr(SANDBOX, "template_s", 0.3)
    with pytest.raises(UsageError) as caught:
        ask(tmp_path, f"doc_to_text: {json.dumps(template)}\ndoc_to_target: name\n", knows)
    assert f"{why}." in str(caught.value) and "\n" not in str(caught.value)
    assert "birds.yaml:6  document" in str(caught.value)

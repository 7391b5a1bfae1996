"""Prompts, the sender and the parser together, against the model that ships for tests."""

from __future__ import annotations

import hashlib
import io
from itertools import count

import pytest
from PIL import Image

from fieldmark.chat import (
    Answer,
    AnswerSettings,
    Options,
    Picture,
    Request,
    ask_now,
    chat_model,
    prepare,
)
from fieldmark.chat.budget import Estimator
from fieldmark.chat.prompt.build import Built, parse_answer
from fieldmark.chat.prompt.few_shot import FewShot, limits_of, plan_prompts
from fieldmark.chat.prompt.question import Asking, AskRules, Item, Question, make_question

TAXA = [{"target": f"sp{n}", "s": f"Genus{c} epithet{c}us"} for n, c in enumerate("abcdefghij")]
BEHAVIOUR = {each: each for each in ("Walk", "Graze", "Head Up")}
SHOWN = {"same": "yes", "different": "no"}
KINDS: dict[str, tuple[Question, list[str], int]] = {
    "binary": (
        Question("age", "choice", {"na": "young eagle", "ad": "adult eagle"}),
        ["na", "ad"],
        1,
    ),
    "by name": (
        Question("age", "choice", {"na": "young eagle", "ad": "adult eagle"}, letters=False),
        ["na", "ad"],
        1,
    ),
    "choices": (
        make_question("sp", AskRules(choices=4, scientific="s"), TAXA),
        [each["target"] for each in TAXA],
        1,
    ),
    "clip": (Question("kabr", "choice", BEHAVIOUR), list(BEHAVIOUR), 4),
    "pair": (Question("beluga", "same", subject="whale"), list(SHOWN), 2),
}
numbers = count(1)


def _picture() -> Picture:
    number = next(numbers)
    file = io.BytesIO()
    Image.new("RGB", (8, 8), (number % 256, number // 256, 9)).save(file, "PNG")
    return Picture(file.getvalue(), f"{number}.png")


def _items(labels: list[str], n: int, n_pictures: int) -> list[Item]:
    every = [labels[place % len(labels)] for place in range(n)]
    return [
        Item(f"i{next(numbers)}", tuple(_picture() for _ in range(n_pictures)), label)
        for label in every
    ]


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize(
    "asking",
    [Asking(), Asking(cot=True), Asking(is_json=True), Asking(layout="multi_turn")],
    ids=["plain", "reasons", "json", "turns"],
)
def test_a_model_that_knows_everything_is_always_right(kind: str, asking: Asking) -> None:
    question, labels, n_pictures = KINDS[kind]
    items, examples = _items(labels, 8, n_pictures), _items(labels, 6, n_pictures)
    sees = {
        "+".join(hashlib.sha256(each.read()).hexdigest() for each in item.pictures): (
            question.names.get(item.label or "") or SHOWN[item.label or ""]
        )
        for item in [*items, *examples]
    }
    model = chat_model("chat/mock/wren?skill=1")
    settings = AnswerSettings(max_output_tokens=50)
    limits = limits_of(model, settings, Estimator(model.card), prepare)
    prompts = plan_prompts(question, asking, FewShot(examples, k=3), limits)
    built: dict[str, Built] = {item.id: prompts.build(item) for item in items}
    answers: dict[str, Answer] = {}
    requests = [
        Request(name, each.messages, AnswerSettings(max_output_tokens=50, schema=each.schema))
        for name, each in built.items()
    ]
    ask_now(
        requests, model, Options(mock_labels=sees), on_answer=lambda r, a: answers.update({r.id: a})
    )
    for item in items:
        parsed = parse_answer(built[item.id], answers[item.id].text)
        assert parsed.label == item.label, answers[item.id]
        assert built[item.id].k_used == 3

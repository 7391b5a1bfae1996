"""Prompts, the sender and the parser together, against the model that ships for tests."""

from __future__ import annotations

import hashlib
import io
from itertools import count
from typing import Any

import pytest
from PIL import Image

from fieldmark.chat import (
    Answer,
    AnswerSettings,
    Options,
    Picture,
    PictureCache,
    Request,
    ask_now,
    chat_model,
)
from fieldmark.chat.budget import Estimator
from fieldmark.chat.prompt.build import Built, build, parse_answer
from fieldmark.chat.prompt.few_shot import FewShot, limits_of, plan_prompts
from fieldmark.chat.prompt.question import Asking, AskRules, Item, PromptQuestion, make_question
from kit.chat import make_jpegs

TAXA = [{"target": f"sp{n}", "s": f"Genus{c} epithet{c}us"} for n, c in enumerate("abcdefghij")]
BEHAVIOUR = {each: each for each in ("Walk", "Graze", "Head Up")}
SHOWN = {"same": "yes", "different": "no"}
KINDS: dict[str, tuple[PromptQuestion, list[str], int]] = {
    "binary": (
        PromptQuestion("age", "choice", {"na": "young eagle", "ad": "adult eagle"}),
        ["na", "ad"],
        1,
    ),
    "by name": (
        PromptQuestion("age", "choice", {"na": "young eagle", "ad": "adult eagle"}, letters=False),
        ["na", "ad"],
        1,
    ),
    "choices": (
        make_question("sp", AskRules(choices=4, scientific="s"), TAXA),
        [each["target"] for each in TAXA],
        1,
    ),
    "clip": (PromptQuestion("kabr", "choice", BEHAVIOUR), list(BEHAVIOUR), 4),
    "pair": (PromptQuestion("beluga", "same", subject="whale"), list(SHOWN), 2),
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
    items, examples = _items(labels, 8, n_pictures), _items(labels, 60, n_pictures)
    sees = {
        "+".join(hashlib.sha256(each.read()).hexdigest() for each in item.pictures): (
            question.names.get(item.label or "") or SHOWN[item.label or ""]
        )
        for item in [*items, *examples]
    }
    model = chat_model("chat/mock/wren?skill=1")
    settings = AnswerSettings(max_output_tokens=50)
    limits = limits_of(model, settings, Estimator(model.card), PictureCache().size)
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


NAMES = {"a": "wren", "b": "robin", "c": "tree sparrow"}
PHOTOS = make_jpegs(41)
HASHES = [hashlib.sha256(photo).hexdigest() for photo in PHOTOS]


def make_items(kind: str) -> tuple[list[Item], dict[str, Any]]:
    """Items and what the mock is told of their pictures, in the words of the prompt."""
    items, truth = [], {}
    for i, photo in enumerate(PHOTOS[:-1]):
        picture = Picture(photo)
        if kind == "choice":
            items.append(Item(str(i), (picture,), "abc"[i % 3]))
            truth[HASHES[i]] = NAMES["abc"[i % 3]]
        elif kind == "traits":
            holds = tuple(each for place, each in enumerate("abc") if i >> place & 1)
            items.append(Item(str(i), (picture,), None, holds))
            truth[HASHES[i]] = [NAMES[each] for each in holds]
        elif kind == "same":
            label, said = (("same", "yes"), ("different", "no"))[i % 2]
            items.append(Item(str(i), (picture, Picture(PHOTOS[i + 1])), label))
            truth[f"{HASHES[i]}+{HASHES[i + 1]}"] = said
        else:
            items.append(Item(str(i), (picture,), str(i % 7)))
            truth[HASHES[i]] = str(i % 7)
    return items, truth


@pytest.mark.parametrize(
    "asking",
    [Asking(), Asking(is_json=True), Asking(cot=True), Asking(layout="multi_turn")],
    ids=["plain", "json", "reasons", "turns"],
)
@pytest.mark.parametrize("kind", ["choice", "traits", "same", "count"])
def test_a_skilled_mock_is_right_and_an_unskilled_one_wrong(kind: Any, asking: Asking) -> None:
    items, truth = make_items(kind)
    question = PromptQuestion("birds", kind, NAMES if kind in ("choice", "traits") else {})
    built = {item.id: build(question, item, asking=asking) for item in items}
    for skill, expected in ((1, len(items)), (0, 0)):
        said: dict[str, str] = {}
        ask_now(
            [Request(k, b.messages, AnswerSettings(schema=b.schema)) for k, b in built.items()],
            chat_model(f"chat/mock/wren?skill={skill}"),
            Options(mock_labels=truth),
            on_answer=lambda request, answer, said=said: said.update({request.id: answer.text}),
        )
        parsed = {item.id: parse_answer(built[item.id], said[item.id]) for item in items}
        right = [
            set(parsed[item.id].labels) == set(item.labels)
            if kind == "traits"
            else parsed[item.id].label == item.label
            for item in items
        ]
        assert sum(right) == expected

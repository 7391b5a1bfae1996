"""Do prompts, mock and parser understand each other in every form of question?"""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from chat_kit import make_jpegs
from fieldmark.chat import AnswerSettings, Options, Picture, Request, ask_now, chat_model
from fieldmark.chat.prompt.build import build, parse_answer
from fieldmark.chat.prompt.question import Asking, Item, Question

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
    question = Question("birds", kind, NAMES if kind in ("choice", "traits") else {})
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

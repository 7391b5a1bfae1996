"""Does the mock see, and is it right as often as it should be?"""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from fieldmark.chat import (
    Answer,
    AnswerSettings,
    Options,
    Picture,
    Request,
    ask_now,
    chat_model,
    user,
)
from fieldmark.chat.mock.answers import MockScript, MockVision, PromptView
from kit.chat import make_jpeg

PLAIN = AnswerSettings()
BIRDS = ("wren", "robin", "dunnock", "blackbird")
PHOTOS = [make_jpeg(i, (8, 8)) for i in range(400)]
TRUTH = {hashlib.sha256(data).hexdigest(): BIRDS[i % 4] for i, data in enumerate(PHOTOS)}
ASK = "Which bird is this? Answer with one name.\n" + "\n".join(f"- {bird}" for bird in BIRDS)


def said(name: str, n: int = 400, shots: int = 0, settings: AnswerSettings = PLAIN) -> list[str]:
    """The answers about the first n photos, in order."""
    found: dict[str, str] = {}

    def keep(request: Request, answer: Answer) -> None:
        found[request.id] = answer.text

    examples = [Picture(PHOTOS[-1 - i]) for i in range(shots)]
    requests = [
        Request(str(i), (user(*examples, ASK, Picture(PHOTOS[i])),), settings) for i in range(n)
    ]
    ask_now(requests, chat_model(name), Options(mock_labels=TRUTH), on_answer=keep)
    return [found[str(i)] for i in range(n)]


def share_right(answers: list[str]) -> float:
    return sum(BIRDS[i % 4] in text for i, text in enumerate(answers)) / len(answers)


@pytest.mark.parametrize("skill", [0.0, 0.6, 1.0])
def test_it_is_right_as_often_as_its_skill_says(skill: float) -> None:
    right = share_right(said(f"chat/mock/wren?skill={skill}"))
    assert abs(right - skill) <= (0.08 if 0 < skill < 1 else 0)


def test_it_learns_from_examples() -> None:
    name = "chat/mock/wren?skill=0.3&skill_many=0.9&half_shots=2"
    few, many = share_right(said(name, 150)), share_right(said(name, 150, shots=8))
    assert few < 0.45 and many > 0.6


def test_answers_depend_on_photo_and_seed_only() -> None:
    one = said("chat/mock/wren?skill=0.5", 100)
    assert one == said("chat/mock/wren?skill=0.5&latency_s=0.002", 100)
    assert one != said("chat/mock/wren?skill=0.5&seed=1", 100)


def test_wrong_answers_are_other_options_offered() -> None:
    answers = said("chat/mock/wren?skill=0&style=name", 100)
    assert set(answers) <= set(BIRDS)
    assert all(answer != BIRDS[i % 4] for i, answer in enumerate(answers))


def test_a_schema_is_followed() -> None:
    schema = {"type": "object", "properties": {"why": {"type": "string"}, "bird": {"enum": BIRDS}}}
    answers = said("chat/mock/wren?skill=1", 8, settings=AnswerSettings(schema=schema))
    assert answers[0] == '{"why": "…", "bird": "wren"}'


@pytest.mark.parametrize(
    "text",
    [
        "Which?\nA. wren\nB. robin\nC. dunnock",
        "Which?\n(A) wren\n(B) robin\n(C) dunnock",
        "Which?\n- wren\n- robin\n- dunnock",
        "Which is it? Options: wren, robin, dunnock.",
        "Answer with one of the following: wren, robin or dunnock",
        "Is this a wren, a robin or a dunnock?",
    ],
)
def test_options_are_found_however_they_are_listed(text: str) -> None:
    eyes = MockVision({"h": "wren", "i": "robin", "j": "dunnock"})
    names = [name for _, name in eyes.offered(PromptView(("h",), text))]
    assert sorted(names) == ["dunnock", "robin", "wren"]


def choose(labels: Any, text: str, pictures: tuple[str, ...], **script: Any) -> Any:
    return MockVision(labels).choose(
        PromptView(pictures, text), MockScript(**{"skill": 1.0, **script})
    )


def test_letters_pairs_and_several_truths() -> None:
    assert choose({"h": "wren"}, "A. robin\nB. wren", ("h",)) == (("B", "wren"),)
    pair = {"a+b": "yes", "a": "Nemo", "b": "Nemo"}
    assert choose(pair, "The same individual? Options: yes, no", ("a", "b"))[0][1] == "yes"
    facts = {"h": ("wren", "male", "adult")}
    assert choose(facts, "Options: male, female", ("h",))[0][1] == "male"
    assert choose(facts, "Options: juvenile, adult", ("h",))[0][1] == "adult"


def test_without_options_it_says_what_it_sees() -> None:
    assert choose({"h": "wren", "i": "robin"}, "What is this?", ("h",))[0][1] == "wren"
    assert choose({}, "What is this?", ("h",)) == ()


def test_several_traits_and_counts() -> None:
    text = "Which hold?\nReply with all options that hold.\nOptions:\nA. spots\nB. crest\nC. bill"
    facts = {"h": ("spots", "bill")}
    assert [name for _, name in choose(facts, text, ("h",))] == ["spots", "bill"]
    slip = {name for _, name in choose(facts, text, ("h",), skill=0.0)}
    assert len(slip ^ {"spots", "bill"}) == 1
    assert choose({"h": "7"}, "How many birds?", ("h",)) == (("", "7"),)
    assert choose({"h": "7"}, "How many birds?", ("h",), skill=0.0) == (("", "8"),)


def test_the_last_list_of_options_counts_not_those_of_examples() -> None:
    text = "Options:\nA. wren\nB. robin\nAnswer: B\nNow:\nOptions:\nA. robin\nB. wren"
    assert choose({"h": "wren"}, text, ("h",)) == (("B", "wren"),)

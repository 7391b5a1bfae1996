"""Does the mock play filter and captioner, with the faults it is told to have?"""

from __future__ import annotations

import json
from typing import Any

from fieldmark.chat import (
    AnswerSettings,
    Picture,
    Request,
    ask_now,
    assistant,
    chat_model,
    user,
)
from kit.chat import FAST, make_jpegs

SPANS = AnswerSettings(schema={"type": "object", "properties": {"spans": {"type": "array"}}})
PROMPT = "Keep.\nSentences:\n1. An example with wings.\n\nNow.\nSentences:\n{}"
LINES = "1. The wings are blue.\n2. It sings.\n3. The bark is grey."


def say(prompt: str, settings: AnswerSettings = SPANS, **script: Any) -> Any:
    options = "&".join(f"{name}={value}" for name, value in script.items())
    model = chat_model(f"chat/mock/jay?{options}")
    return json.loads(model.answer([user(prompt)], settings).text)["spans"]


def captions(n: int = 20, below: str = "", again: bool = False, p_invent: float = 0.0) -> list[str]:
    texts: dict[str, str] = {}
    requests = []
    for number, photo in enumerate(make_jpegs(n)):
        shown = user("Write one sentence.", Picture(photo), f"Species: Parus major\n{below}")
        more = (assistant("A bird."), user("Once more.")) if again else ()
        requests.append(Request(str(number), (shown, *more)))
    ask_now(requests, chat_model(f"chat/mock/jay?p_invent={p_invent}"), FAST,
            on_answer=lambda request, answer: texts.update({request.id: answer.text}))  # fmt: skip
    return [texts[str(number)] for number in range(n)]


def test_a_filter_quotes_sentences_that_name_parts_or_colours() -> None:
    assert say(PROMPT.format(LINES), skill=1) == [
        {"sentence": 1, "quote": "The wings are blue."},
        {"sentence": 3, "quote": "The bark is grey."},
    ]
    assert say(PROMPT.format(LINES), skill=0) == [{"sentence": 2, "quote": "It sings."}]


def test_a_filter_invents_as_often_as_it_is_told() -> None:
    prompts = [PROMPT.format(f"{LINES}\n4. Number {n}.") for n in range(200)]
    texts = [say(prompt, skill=1, p_invent=0.3) for prompt in prompts]
    invented = [any(span["quote"] not in LINES for span in spans) for spans in texts]
    assert 35 < sum(invented) < 85
    assert not any(span["quote"] not in LINES for span in say(prompts[0], skill=1))


def test_a_caption_names_the_species_with_words_from_below() -> None:
    below = (
        "Reference text:\nIt has a black head and a yellow belly with green wings and a long tail."
    )
    texts = captions(below=below)
    assert all(text.startswith("Parus major with ") and text.endswith(".") for text in texts)
    assert all(len(text.split()) <= 20 for text in texts) and len(set(texts)) > 1
    marks = {"black head", "yellow belly", "green wings", "long tail"}
    assert all(sum(mark in text for mark in marks) == 3 for text in texts)
    assert texts == captions(below=below), "the same photo, the same caption"


def test_without_words_a_caption_still_says_something() -> None:
    assert all(len(text.split()) >= 5 and "Parus major" in text for text in captions())
    assert all("Parus major" in text for text in captions(again=True))


def test_bad_captions_come_as_often_as_told() -> None:
    bad = [
        text
        for text in captions(n=200, p_invent=0.5)
        if "Parus major" not in text or len(text.split()) > 20
    ]
    assert 70 < len(bad) < 130 and len({"Parus" in text for text in bad}) == 2


def test_other_prompts_are_answered_as_ever() -> None:
    model = chat_model("chat/mock/jay?skill=1")
    first, second = (
        model.answer([user(f"{word}: wren or robin?")]).text
        for word in ("Which Species", "Which one")
    )
    assert first == second


def test_the_builder_is_unclear_now_and_then() -> None:
    model = chat_model("chat/mock/jay?p_unclear=0.5")
    texts = [model.answer([user(PROMPT.format(f"{LINES} {n}"))], SPANS).text for n in range(40)]
    assert 5 < texts.count("I cannot tell.") < 35

"""Is a lettered question one that a model can answer, and do letters' chances say how it chose?"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from typing import Any

import pytest

from fieldmark.chat import (
    Answer,
    AnswerSettings,
    MockScript,
    Option,
    Options,
    Picture,
    Request,
    Text,
    ask_now,
    chat_model,
    letter_choice,
    letter_question,
    letter_scores,
    letter_settings,
    user,
)
from fieldmark.chat.messages import TokenChance
from fieldmark.chat.send.options import AskTotals
from fieldmark.errors import UsageError
from kit.chat import FAST, CountingServer, ask_all, collect, make_jpeg, with_server

BIRDS = ("wren", "robin", "dunnock", "blackbird")
_, LETTERED = letter_question(["Which bird?"], BIRDS)


def words_of(messages: Any) -> str:
    return "\n".join(message.text for message in messages)


def chance(token: str, top: dict[str, float] | None = None, p: float = 0.5) -> TokenChance:
    rivals = {token: p} if top is None else top
    return TokenChance(token, math.log(p), tuple((t, math.log(v)) for t, v in rivals.items()))


def said(*chances: TokenChance, text: str | None = None) -> Answer:
    whole = "".join(each.token for each in chances)
    return Answer("ok", text=whole if text is None else text, logprobs=chances)


def test_choices_are_listed_by_letter_after_the_question() -> None:
    photo = Picture(b"photo")
    messages, options = letter_question([photo, "Which bird?"], [" wren", " robin "])
    (message,) = messages
    assert message.role == "user" and message.parts[0] is photo
    assert words_of(messages) == (
        "Which bird?\nOptions:\nA. wren\nB. robin\n"
        "Reply with the letter of one option and nothing else."
    )
    assert options == (Option("wren", "wren", "A"), Option("robin", "robin", "B"))


def test_a_question_without_words_or_with_the_picture_last() -> None:
    photo = Picture(b"photo")
    for context in ([photo], [photo, ""], ["Which?", photo]):
        (message,), _ = letter_question(context, BIRDS)
        last = message.parts[-1]
        assert isinstance(last, Text) and last.text.startswith("Options:\nA. wren")
        assert photo in message.parts


def test_letters_that_the_text_lists_are_not_listed_again() -> None:
    text = "Which bird?\nA. wren\n(B) robin\nc) dunnock\nAnswer:"
    messages, options = letter_question([text], ["A", "B", "C"])
    assert words_of(messages) == (
        "Which bird?\nA. wren\n(B) robin\nc) dunnock\n"
        "Reply with the letter of one option and nothing else."
    )
    assert [(each.letter, each.name) for each in options] == [
        ("A", "wren"), ("B", "robin"), ("C", "dunnock"),
    ]  # fmt: skip
    _, bare = letter_question(["Look at the options."], ["(A)", "(B)"])
    assert [each.letter for each in bare] == ["A", "B"]
    assert letter_choice(Answer("ok", text="b"), bare) == 1
    assert letter_choice(Answer("ok", text="A bird"), bare) is None


@pytest.mark.parametrize("choices", [["Y", "N"], ["B", "A"], ["1", "2"], ["A", "A"], ["no", "yes"]])
def test_other_short_choices_get_letters(choices: list[str]) -> None:
    messages, options = letter_question(["Is it?"], choices)
    assert [each.letter for each in options] == ["A", "B"]
    assert f"A. {choices[0]}\nB. {choices[1]}" in words_of(messages)


def test_beyond_26_choices_options_are_answered_by_name() -> None:
    names = [f"species {chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(40)]
    messages, options = letter_question(["Which?"], names)
    assert "- species bn\nReply with the name of one option" in words_of(messages)
    answer = said(chance("species bn"))
    assert letter_choice(answer, options) == 39
    assert letter_scores(answer, options) is None
    with pytest.raises(UsageError, match="no choices"):
        letter_question(["Which?"], [])


def test_equal_choices_are_told_apart_by_their_letter() -> None:
    _, options = letter_question(["Which?"], ["wren", "robin", "wren"])
    assert len({each.label for each in options}) == 3
    assert letter_choice(Answer("ok", text="C"), options) == 2
    assert letter_choice(Answer("ok", text="A."), options) == 0
    assert letter_choice(Answer("ok", text="wren"), options) is None


def test_a_letter_has_the_chance_of_all_tokens_that_write_it() -> None:
    top = {"B": 0.5, " B": 0.1, "(b": 0.05, "A": 0.2, "**C**": 0.02, "The": 0.01}
    scores = letter_scores(said(chance("B", top)), LETTERED)
    assert scores is not None
    assert [math.exp(each) for each in scores[:3]] == pytest.approx([0.2, 0.65, 0.02])
    assert scores[3] == pytest.approx(math.log(0.01) - 1), "below the least that was seen"
    assert scores.index(max(scores)) == letter_choice(said(chance("B", top)), LETTERED)


def test_the_token_that_was_said_counts_though_no_rival_is_it() -> None:
    scores = letter_scores(said(chance("B", {"A": 0.3, "C": 0.1}, p=0.4)), LETTERED)
    assert scores is not None
    assert [math.exp(each) for each in scores[:3]] == pytest.approx([0.3, 0.4, 0.1])


def test_the_place_of_the_letter_is_found() -> None:
    right = chance(" C", {" C": 0.9, " A": 0.1}, p=0.9)
    decoy = chance("A", {"A": 0.9, "The": 0.1}, p=0.9)
    sentence = said(decoy, chance(" bird"), chance(", so"), chance(" the answer is"), right)
    thought = said(chance("<think>"), decoy, chance("?"), chance("</think>"), chance("\n"), right)
    for answer in (sentence, thought, said(chance("Answer"), chance(":"), right)):
        assert letter_choice(answer, LETTERED) == 2
        scores = letter_scores(answer, LETTERED)
        assert scores is not None and scores.index(max(scores)) == 2
    apart = said(chance("<think>"), chance("C", {"C": 1.0}, p=1.0), chance("</think>"), right)
    scores = letter_scores(apart, LETTERED)
    assert scores is not None and scores[2] == pytest.approx(math.log(0.9)), "not that of a thought"


@pytest.mark.parametrize("answer", [
    Answer("ok", text="B"),
    said(TokenChance("B", -0.1)),
    said(chance("robin")),
    said(chance("A"), chance(" or"), chance(" B")),
    said(chance("I", {"I": 0.9, "B": 0.1}), chance(" cannot"), chance(" tell")),
    said(chance("<think>"), chance("B")),
    Answer("refused", text="B", logprobs=(chance("B"),)),
    said(),
])  # fmt: skip
def test_where_no_letter_was_said_or_told_there_are_no_scores(answer: Answer) -> None:
    assert letter_scores(answer, LETTERED) is None


def test_impossible_rivals_and_unlettered_options() -> None:
    place = TokenChance("B", -0.1, (("B", -0.1), ("A", float("-inf")), ("C", -9999.0)))
    scores = letter_scores(said(place), LETTERED)
    assert scores is not None and all(map(math.isfinite, scores))
    assert scores.index(max(scores)) == 1
    assert letter_scores(said(chance("wren")), [Option("wren", "wren"), Option("b", "b")]) is None


def test_settings_of_a_lettered_question() -> None:
    settings = letter_settings(
        AnswerSettings(temperature=0.7, stop=("\n\n",), max_output_tokens=50)
    )
    assert (settings.temperature, settings.stop, settings.top_logprobs) == (0.0, (), 20)
    assert settings.max_output_tokens == 50


PHOTOS = [make_jpeg(i, (8, 8)) for i in range(200)]
TRUTH = {hashlib.sha256(data).hexdigest(): BIRDS[i % 4] for i, data in enumerate(PHOTOS)}


@pytest.mark.parametrize("skill", [0.3, 0.9])
def test_the_mock_is_right_by_its_letters_as_often_as_its_skill_says(skill: float) -> None:
    found: dict[str, Answer] = {}

    def keep(request: Request, answer: Answer) -> None:
        found[request.id] = answer

    requests = [
        Request(str(i), letter_question([Picture(photo), "Which?"], BIRDS)[0],
                letter_settings(AnswerSettings()))
        for i, photo in enumerate(PHOTOS)
    ]  # fmt: skip
    model = chat_model(f"chat/mock/wren?skill={skill}&style=letter")
    ask_now(requests, model, Options(mock_labels=TRUTH), on_answer=keep)
    n_right = 0
    for number in range(len(PHOTOS)):
        answer = found[str(number)]
        scores = letter_scores(answer, LETTERED)
        assert scores is not None and len(set(scores)) == 4
        assert sum(map(math.exp, scores)) == pytest.approx(0.98, abs=0.01)
        best = scores.index(max(scores))
        assert best == letter_choice(answer, LETTERED)
        n_right += best == number % 4
    assert abs(n_right / 200 - skill) < 4 * math.sqrt(skill * (1 - skill) / 200)


def test_a_model_that_gives_no_log_probabilities_is_read_by_its_text() -> None:
    model = chat_model("chat/mock/wren?skill=1&style=letter")
    mute = dataclasses.replace(model, card=model.card.model_copy(update={"lacks": ("logprobs",)}))
    messages, options = letter_question([Picture(PHOTOS[1]), "Which?"], BIRDS)
    found: list[Answer] = []
    ask_now(
        [Request("a", messages, letter_settings(AnswerSettings()))], mute,
        Options(mock_labels=TRUTH), on_answer=lambda _, answer: found.append(answer),
    )  # fmt: skip
    assert letter_scores(found[0], options) is None
    assert letter_choice(found[0], options) == 1


def test_an_endpoint_that_refuses_log_probabilities_is_asked_without_them() -> None:
    found: dict[str, Answer] = {}

    async def work(server: CountingServer, name: str) -> AskTotals:
        messages, _ = letter_question(["Which?"], BIRDS)
        asked = [
            Request(str(n), messages, letter_settings(AnswerSettings(seed=n))) for n in range(9)
        ]
        server.keeps_bodies = True
        tally = await ask_all(asked, chat_model(name), FAST, on_answer=collect(found))
        assert "logprobs" in server.bodies[0] and "logprobs" not in server.bodies[-1]
        return tally

    tally = with_server(MockScript(logprobs=False), work, answers={"Which": "C"})
    assert tally.outcomes == {"ok": 9}
    assert all(letter_scores(each, LETTERED) is None for each in found.values())
    assert {letter_choice(each, LETTERED) for each in found.values()} == {2}


def test_a_model_behind_an_address_scores_nothing_and_says_so() -> None:
    request = Request("a", (user("Which?"),), continuations=("wren",))
    with pytest.raises(UsageError, match="gives no likelihoods of given answers"):
        ask_now([request], chat_model("chat/mock/wren"))

"""Building a prompt: which messages ask one item, in which words, and what was answered to them?

    built = build(question, item, shots, asking)      pure: the same arguments, the same messages
    parsed = parse_answer(built, answer.text, is_cut=answer.outcome == "length")

The question and how to answer come first, then the examples, then the item: with shared examples
everything before the item is the same, byte for byte, for all items. The last line of every answer
has one fixed form, `Answer: …` (or a JSON object), which the parser reads strictly; with reasons
asked for, they come first. Examples are answered in the very same form. `rotations` builds an item
once for each turn of its options. Only a prompt with `{options}` in it does otherwise: it stands
whole behind each picture, and nothing else is said (small-data-metrics' form).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from fieldmark.chat.messages import Message, MessagePart, Picture, Text, assistant, system, user
from fieldmark.chat.parse.answer import Form, parse_text
from fieldmark.chat.parse.mentions import Option
from fieldmark.chat.parse.names import TaxonNames
from fieldmark.chat.parse.values import Parsed
from fieldmark.chat.prompt.options import offer
from fieldmark.chat.prompt.question import (
    NO_SHOTS,
    OPTIONS,
    PLAIN,
    Asking,
    Item,
    Kind,
    PromptQuestion,
    Shots,
)

_QUESTIONS: dict[Kind, str] = {
    "choice": "Which of the options does the picture show?",
    "yes_no": "",
    "traits": "Which of these hold for the {subject} in the picture? Any number of them may.",
    "same": "Do the two pictures show the same individual {subject}?",
    "count": "How many {subject}s does the picture show?",
    "open": "Which species is the {subject} in the picture?",
}


def question_text(question: PromptQuestion) -> str:
    return question.prompt or _QUESTIONS[question.kind].format(subject=question.subject)


def options_text(options: Sequence[Option], question: PromptQuestion) -> str:
    """The list of options, one a line, or the prompt that names them; "" where nothing is to be
    chosen from a list.
    """
    if question.has_options_inside:
        return question.prompt.replace(OPTIONS, " or ".join(f"'{one.name}'" for one in options))
    if question.form not in ("choice", "labels"):
        return ""
    marks = [f"{option.letter}." if option.letter else "-" for option in options]
    lines = [f"{mark} {option.name}" for mark, option in zip(marks, options, strict=True)]
    return "\n".join(["Options:", *lines])


def answer_rule(question: PromptQuestion, asking: Asking) -> str:
    """How the model is to answer: the same for all items, so that a prefix can be shared."""
    what = _what(question)
    if asking.is_json:
        keys = '"reasons" (what in the picture decides it) and then "answer"'
        keys = f"the keys {keys}" if asking.cot else 'the key "answer"'
        return f"Reply with one JSON object with {keys}: {what}."
    if asking.cot:
        return (
            "First say briefly which signs in the picture decide it. Then end with one line of "
            f"exactly this form, where X is {what}:\nAnswer: X"
        )
    return f"Reply with one line of exactly this form, where X is {what}:\nAnswer: X"


def _what(question: PromptQuestion) -> str:
    by = "the letter" if question.has_letters else "the name"
    return {
        "choice": f"{by} of one option",
        "yes_no": "yes or no",
        "labels": f"a list of {by}s of all options that hold, separated by commas, or none",
        "count": "a whole number",
        "open": "the scientific name of the species (genus and epithet)",
    }[question.form]


def answer_text(
    question: PromptQuestion, item: Item, options: Sequence[Option], asking: Asking
) -> str:
    """How an example is answered: in the form that is asked for."""
    answer = _truth(question, item, options)
    if question.has_options_inside:
        return f"**{answer}**"
    if asking.is_json:
        return json.dumps({"answer": answer}, ensure_ascii=False)
    return f"Answer: {', '.join(answer) or 'none' if isinstance(answer, list) else answer}"


def _truth(
    question: PromptQuestion, item: Item, options: Sequence[Option]
) -> str | int | list[str]:
    answers = {option.label: option.letter or option.name for option in options}
    if question.form == "labels":
        return [answer for label, answer in answers.items() if label in item.labels]
    label = item.label or ""
    if question.form == "count":
        return int(label)
    return answers.get(label) or question.names.get(label, label)


def schema(question: PromptQuestion, options: Sequence[Option], asking: Asking) -> dict[str, Any]:
    """The JSON schema of the answer; reasons stand before it, so that they are written first."""
    allowed = [option.letter or option.name for option in options]
    answers: dict[str, dict[str, Any]] = {
        "choice": {"type": "string", "enum": allowed},
        "yes_no": {"type": "string", "enum": allowed},
        "labels": {"type": "array", "items": {"type": "string", "enum": allowed}},
        "count": {"type": "integer", "minimum": 0},
        "open": {"type": "string"},
    }
    keys = {"reasons": {"type": "string"}} if asking.cot else {}
    keys = {**keys, "answer": answers[question.form]}
    return {
        "type": "object",
        "properties": keys,
        "required": list(keys),
        "additionalProperties": False,
    }


_NOW = "Now the one to answer:"


@dataclass(frozen=True, slots=True)
class Built:
    """One prompt, and all that is needed to read its answer and to log how it was asked."""

    messages: tuple[Message, ...]
    form: Form
    options: tuple[Option, ...]
    """in the order shown; () where the answer is free"""
    truth: str | None
    position_of_truth: int | None
    """from 0; None where it is not known or not among the options"""
    rotation: int
    k_asked: int
    k_used: int
    why_fewer: str
    """pool, context, pictures or bytes; "" = as many examples as asked for"""
    fits: bool
    """False: the model cannot take even the question alone, so it must not be sent"""
    examples: tuple[str, ...]
    """their ids, in order"""
    schema: Mapping[str, Any] | None
    taxa: TaxonNames | None

    @property
    def info(self) -> dict[str, Any]:
        """What is stored beside the prediction."""
        return {
            "prompt": prompt_text(self.messages),
            "options": [option.label for option in self.options],
            "position_of_truth": self.position_of_truth,
            "rotation": self.rotation,
            "k_asked": self.k_asked,
            "k_used": self.k_used,
            "why_fewer": self.why_fewer,
            "examples": list(self.examples),
        }


LONGEST_PROMPT = 12_000
"""letters of a prompt that are kept: some thirty examples"""


def prompt_text(messages: Sequence[Message]) -> str:
    """The words of a prompt, `[photo]` for each picture; a long one loses its middle: the question
    stands at its beginning, and what is asked about at its end.
    """
    parts = (part for message in messages for part in message.parts)
    text = "\n".join(part.text if isinstance(part, Text) else "[photo]" for part in parts)
    half, n_more = LONGEST_PROMPT // 2, len(text) - LONGEST_PROMPT
    if n_more <= 0:
        return text
    return f"{text[:half]}\n[… {n_more:,} letters left out …]\n{text[-half:]}"


def build(
    question: PromptQuestion, item: Item, shots: Shots = NO_SHOTS, asking: Asking = PLAIN
) -> Built:
    """The messages of one item."""
    options = offer(question, item, asking)
    closing = _closing(question, item, options, asking)
    if shots.examples and not question.has_options_inside:
        closing = Message(
            "user", (Text(_NOW, shots.is_shared), *closing.parts, *_reminder(question, asking))
        )
    opening = _opening(question, shots.examples, asking)
    messages = (*_system(asking), *_joined([*opening, closing]))
    order = [option.label for option in options]
    return Built(
        messages=messages,
        form=question.form,
        options=options,
        truth=item.label,
        position_of_truth=order.index(item.label) if item.label in order else None,
        rotation=asking.rotation,
        k_asked=shots.k_asked,
        k_used=shots.k_used,
        why_fewer=shots.why,
        fits=shots.fits,
        examples=tuple(example.id for example in shots.examples),
        schema=schema(question, options, asking)
        if asking.is_json and not question.has_options_inside
        else None,
        taxa=question.taxa,
    )


def rotations(
    question: PromptQuestion, item: Item, shots: Shots = NO_SHOTS, asking: Asking = PLAIN
) -> tuple[Built, ...]:
    """The item once for each turn of its options; once only where there is nothing to choose."""
    n = len(offer(question, item, asking)) if question.form == "choice" else 1
    return tuple(
        build(question, item, shots, replace(asking, rotation=turn)) for turn in range(max(1, n))
    )


def parse_answer(built: Built, text: str | None, *, is_cut: bool = False) -> Parsed:
    """What the model answered. `is_cut`: it ran out of tokens, so only a strict answer counts."""
    return parse_text(text, built.taxa or built.options, built.form, is_cut=is_cut)


def example_parts(
    question: PromptQuestion, example: Item, asking: Asking
) -> tuple[MessagePart, ...]:
    """What one example adds to a prompt, to be measured: the same in every prompt."""
    turns = _example(question, example, asking)
    return tuple(part for message in turns for part in message.parts)


def lasting_parts(question: PromptQuestion, item: Item, asking: Asking) -> tuple[MessagePart, ...]:
    """What a prompt holds besides its examples, to be measured."""
    closing = _closing(question, item, offer(question, item, asking), asking)
    turns = (*_system(asking), *_opening(question, (), asking), closing)
    more = () if question.has_options_inside else (Text(_NOW), *_reminder(question, asking))
    return (*(part for message in turns for part in message.parts), *more)


def _system(asking: Asking) -> list[Message]:
    return [system(asking.system)] if asking.system else []


def _reminder(question: PromptQuestion, asking: Asking) -> list[MessagePart]:
    """Examples are answered without reasons: that they are wanted is said again at the end."""
    return [Text(answer_rule(question, asking))] if asking.cot else []


def _opening(question: PromptQuestion, examples: Sequence[Item], asking: Asking) -> list[Message]:
    turns = []
    if not question.has_options_inside:
        turns = [user(f"{question_text(question)}\n{answer_rule(question, asking)}")]
    for example in examples:
        turns += _example(question, example, asking)
    return turns


def _example(question: PromptQuestion, example: Item, asking: Asking) -> list[Message]:
    """One example: in a message of its own, answered by the assistant, or all in the user's."""
    options = offer(question, example, replace(asking, rotation=0))
    # Without letters an example needs no options: the answer says the name.
    is_listed = question.has_letters or question.has_options_inside
    listed = options_text(options, question) if is_listed else ""
    shown = [*_pictures(question, example, asking), *([Text(listed)] if listed else [])]
    answer = answer_text(question, example, options, asking)
    if asking.layout == "multi_turn":
        return [Message("user", tuple(shown)), assistant(answer)]
    if question.has_options_inside:
        return [Message("user", (*shown[:-1], Text(f"{listed}\n{answer}")))]
    return [Message("user", (Text("Example:"), *shown, Text(answer)))]


def _closing(
    question: PromptQuestion, item: Item, options: Sequence[Option], asking: Asking
) -> Message:
    listed = options_text(options, question)
    pictures = _pictures(question, item, asking)
    return Message("user", (*pictures, *([Text(listed)] if listed else [])))


def _pictures(question: PromptQuestion, item: Item, asking: Asking) -> list[MessagePart]:
    """The pictures of an item; of a pair and of a clip, with words that say what they are."""
    if question.kind == "same":
        picture_1, picture_2 = item.pictures
        return [Text("Picture 1:"), picture_1, Text("Picture 2:"), picture_2]
    frames = spread(item.pictures, asking.n_frames)
    if len(item.pictures) > 1:
        return [Text(f"{len(frames)} frames of one clip, in order:"), *frames]
    return list(frames)


def spread(frames: Sequence[Picture], n: int) -> tuple[Picture, ...]:
    """n of the frames, evenly spread from the middle of each stretch; all when n is 0 or more."""
    if n <= 0 or n >= len(frames):
        return tuple(frames)
    return tuple(frames[(2 * number + 1) * len(frames) // (2 * n)] for number in range(n))


def _joined(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Neighbouring messages of one role as one: providers want them to take turns."""
    return tuple(
        Message(role, tuple(part for message in group for part in message.parts))
        for role, group in groupby(messages, key=lambda message: message.role)
    )

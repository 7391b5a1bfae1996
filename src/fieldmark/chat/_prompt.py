"""Which messages ask one item, and what did the model say to them?

    built = build(question, item, shots, asking)      pure: the same arguments, the same messages
    parsed = parse_answer(built, answer.text, is_cut=answer.outcome == "length")

`built` knows its options, where the truth stands among them, which examples it shows, and why they
are fewer than asked for. `rotations` builds an item once for each turn of its options.

The question and how to answer come first, then the examples, then the item: with shared examples
everything before the item is the same, byte for byte, for all items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from fieldmark.chat._messages import Message, Part, Picture, Text, assistant, system, user
from fieldmark.chat._names import TaxonNames
from fieldmark.chat._parse import Form, Option, Parsed, parse
from fieldmark.chat._prompt_options import offer
from fieldmark.chat._prompt_question import PLAIN, Asking, Item, Question
from fieldmark.chat._prompt_words import (
    answer_rule,
    answer_text,
    options_text,
    question_text,
    schema,
)
from fieldmark.chat._shots import NO_SHOTS, Shots

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
    n_pictures: int

    @property
    def info(self) -> dict[str, Any]:
        """What is stored beside the prediction."""
        return {
            "options": [each.label for each in self.options],
            "position_of_truth": self.position_of_truth,
            "rotation": self.rotation,
            "k_asked": self.k_asked,
            "k_used": self.k_used,
            "why_fewer": self.why_fewer,
            "examples": list(self.examples),
        }


def build(question: Question, item: Item, shots: Shots = NO_SHOTS, asking: Asking = PLAIN) -> Built:
    """The messages of one item."""
    options = offer(question, item, asking)
    closing = _closing(question, item, options, asking)
    if shots.examples:
        closing = Message("user", (Text(_NOW), *closing.parts, *_reminder(question, asking)))
    opening = _opening(question, shots.examples, asking)
    messages = (*_system(asking), *_joined([*opening, closing]))
    order = [each.label for each in options]
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
        examples=tuple(each.id for each in shots.examples),
        schema=schema(question, options, asking) if asking.is_json else None,
        taxa=question.taxa,
        n_pictures=sum(isinstance(part, Picture) for m in messages for part in m.parts),
    )


def rotations(
    question: Question, item: Item, shots: Shots = NO_SHOTS, asking: Asking = PLAIN
) -> tuple[Built, ...]:
    """The item once for each turn of its options; once only where there is nothing to choose."""
    n = len(offer(question, item, asking)) if question.form == "choice" else 1
    return tuple(
        build(question, item, shots, replace(asking, rotation=turn)) for turn in range(max(1, n))
    )


def parse_answer(built: Built, text: str | None, *, is_cut: bool = False) -> Parsed:
    """What the model answered. `is_cut`: it ran out of tokens, so only a strict answer counts."""
    return parse(text, built.taxa or built.options, built.form, is_cut=is_cut)


def example_parts(question: Question, example: Item, asking: Asking) -> tuple[Part, ...]:
    """What one example adds to a prompt, to be measured: the same in every prompt."""
    turns = _example(question, example, asking)
    return tuple(part for message in turns for part in message.parts)


def lasting_parts(question: Question, item: Item, asking: Asking) -> tuple[Part, ...]:
    """What a prompt holds besides its examples, to be measured."""
    closing = _closing(question, item, offer(question, item, asking), asking)
    turns = (*_system(asking), *_opening(question, (), asking), closing)
    more = (Text(_NOW), *_reminder(question, asking))
    return (*(part for message in turns for part in message.parts), *more)


def _system(asking: Asking) -> list[Message]:
    return [system(asking.system)] if asking.system else []


def _reminder(question: Question, asking: Asking) -> list[Part]:
    """Examples are answered without reasons: that they are wanted is said again at the end."""
    return [Text(answer_rule(question, asking))] if asking.cot else []


def _opening(question: Question, examples: Sequence[Item], asking: Asking) -> list[Message]:
    turns = [user(f"{question_text(question)}\n{answer_rule(question, asking)}")]
    for example in examples:
        turns += _example(question, example, asking)
    return turns


def _example(question: Question, example: Item, asking: Asking) -> list[Message]:
    """One example: in a message of its own, answered by the assistant, or all in the user's."""
    options = offer(question, example, replace(asking, rotation=0))
    # Without letters an example needs no options: the answer says the name.
    listed = options_text(options, question) if question.has_letters else ""
    shown = [*_pictures(question, example, asking), *([Text(listed)] if listed else [])]
    answer = answer_text(question, example, options, asking)
    if asking.layout == "multi_turn":
        return [Message("user", tuple(shown)), assistant(answer)]
    return [Message("user", (Text("Example:"), *shown, Text(answer)))]


def _closing(question: Question, item: Item, options: Sequence[Option], asking: Asking) -> Message:
    listed = options_text(options, question)
    pictures = _pictures(question, item, asking)
    return Message("user", (*pictures, *([Text(listed)] if listed else [])))


def _pictures(question: Question, item: Item, asking: Asking) -> list[Part]:
    """The pictures of an item; of a pair and of a clip, with words that say what they are."""
    if question.kind == "same":
        named = [(Text(f"Picture {n}:"), each) for n, each in enumerate(item.pictures, start=1)]
        return [part for pair in named for part in pair]
    frames = spread(item.pictures, asking.n_frames)
    if len(item.pictures) > 1:
        return [Text(f"{len(frames)} frames of one clip, in order:"), *frames]
    return list(frames)


def spread(frames: Sequence[Picture], n: int) -> tuple[Picture, ...]:
    """n of the frames, evenly spread from the middle of each stretch; all when n is 0 or more."""
    if n <= 0 or n >= len(frames):
        return tuple(frames)
    return tuple(frames[(2 * place + 1) * len(frames) // (2 * n)] for place in range(n))


def _joined(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Neighbouring messages of one role as one: providers want them to take turns."""
    return tuple(
        Message(role, tuple(part for message in group for part in message.parts))
        for role, group in groupby(messages, key=lambda message: message.role)
    )

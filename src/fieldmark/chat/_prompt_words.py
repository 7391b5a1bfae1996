"""Which words surround the pictures?

The question, the list of options, how to answer. The last line of every answer has one fixed form,
`Answer: …` (or a JSON object), which the parser reads strictly; with reasons asked for, they come
first. Examples are answered in the very same form.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fieldmark.chat._parse import Option
from fieldmark.chat._prompt_question import Asking, Item, Kind, Question

_QUESTIONS: dict[Kind, str] = {
    "choice": "Which of the options does the picture show?",
    "yes_no": "",
    "traits": "Which of these hold for the {subject} in the picture? Any number of them may.",
    "same": "Do the two pictures show the same individual {subject}?",
    "count": "How many {subject}s does the picture show?",
    "open": "Which species is the {subject} in the picture?",
}


def question_text(question: Question) -> str:
    return question.prompt or _QUESTIONS[question.kind].format(subject=question.subject)


def options_text(options: Sequence[Option], question: Question) -> str:
    """The list of options, one a line; "" where nothing is to be chosen from a list."""
    if question.form not in ("choice", "labels"):
        return ""
    lines = [f"{each.letter}. {each.name}" if each.letter else f"- {each.name}" for each in options]
    return "\n".join(["Options:", *lines])


def answer_rule(question: Question, asking: Asking) -> str:
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


def _what(question: Question) -> str:
    as_list = "a list" if question.form == "labels" else ""
    by = "the letter" if question.has_letters else "the name"
    return {
        "choice": f"{by} of one option",
        "yes_no": "yes or no",
        "labels": f"{as_list} of {by}s of all options that hold, separated by commas, or none",
        "count": "a whole number",
        "open": "the scientific name of the species (genus and epithet)",
    }[question.form]


def answer_text(question: Question, item: Item, options: Sequence[Option], asking: Asking) -> str:
    """How an example is answered: in the form that is asked for."""
    answer = _truth(question, item, options)
    if asking.is_json:
        return json.dumps({"answer": answer}, ensure_ascii=False)
    return f"Answer: {', '.join(answer) or 'none' if isinstance(answer, list) else answer}"


def _truth(question: Question, item: Item, options: Sequence[Option]) -> str | int | list[str]:
    said = {each.label: each.letter or each.name for each in options}
    if question.form == "labels":
        return [said[each.label] for each in options if each.label in item.labels]
    label = item.label or ""
    if question.form == "count":
        return int(label)
    return said.get(label) or question.names.get(label, label)


def schema(question: Question, options: Sequence[Option], asking: Asking) -> dict[str, Any]:
    """The JSON schema of the answer; reasons stand before it, so that they are written first."""
    said = [each.letter or each.name for each in options]
    answers: dict[str, dict[str, Any]] = {
        "choice": {"type": "string", "enum": said},
        "yes_no": {"type": "string", "enum": said},
        "labels": {"type": "array", "items": {"type": "string", "enum": said}},
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

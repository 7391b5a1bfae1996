"""Answer values: where does an answer say what its answer is, and what does it say there?

The strict places, in order: a JSON object, an <answer> tag or \\boxed{}, a line "Answer: …" (in
several languages). What stands there is read by `read_value`: an option's letter, its name, or a
short sentence that stands by exactly one option. `Parsed` is what every way of reading returns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from fieldmark.chat.parse.mentions import NameIndex, distinct, find_letters, find_names, is_rejected
from fieldmark.chat.parse.text import fold, read, segments

AMBIGUOUS = object()
"""more than one option fits"""
_REFUSALS = ("declined", "cannot tell")


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a text answers: a label, or why none can be had."""

    label: str | None
    """an offered label, or None; of several labels, all of them joined by "; " in offered order"""
    how: str = ""
    """the place that decided: json, tag, answer line, whole text, …"""
    why: str = ""
    """why there is no label; with one, what was left aside"""
    labels: tuple[str, ...] = ()
    """the labels of the form `labels`; may be empty although the text was understood"""

    @property
    def outcome(self) -> Literal["parsed", "refused", "unparsed"]:
        if self.label is not None:
            return "parsed"
        return "refused" if self.why in _REFUSALS else "unparsed"


_ANSWER_KEYS = ("final_answer", "answer", "choice", "option", "label", "prediction", "result")
_OTHER_KEYS = (
    "labels", "traits", "answers", "species", "class", "classification", "identification", "name",
    "letter", "count", "number", "category", "value", "response", "output",
)  # fmt: skip
_TAGGED = re.compile(
    r"<(?P<tag>answer|final_answer|final|label|choice)>(?P<inside>.*?)</(?P=tag)>"
    r"|\\boxed\{(?:\\\w+\{)?(?P<boxed>[^{}]*)\}",
    re.IGNORECASE | re.DOTALL,
)
_CUE = (
    r"answer|ans\.?|choice|prediction|verdict|antwort|respuesta|reponse|risposta|resposta|ответ|svar|"
    r"odpowiedz|cevap|jawaban|vastaus|antwoord|答案|回答|答え|正解|정답|답"
)
_MARKS = r"[\s*_`\"'()\[\]#>-]*"
_COLON = re.compile(
    rf"(?<![^\W_])(?:{_CUE}){_MARKS}(?:[:=]|->|→|⇒)(?P<value>[ \t*_`]*[^\n]*)", re.IGNORECASE
)
_IS = re.compile(
    rf"(?<![^\W_])(?:{_CUE}){_MARKS}(?:\s(?:is|would be|should be|must be|ist|es|est|e)(?![^\W_])|"
    rf"\s*[是为は])\s*:?(?P<value>[^\n]*)",
    re.IGNORECASE,
)
_SEQUEL = re.compile(
    r"\n\W*(?:Example:|Now the one to answer:|(?:User|Human|Question|Assistant)\W*:)"
)
_OTHER_COLON = re.compile(
    r"(?<![^\W_])(?:species|label|class|classification|identification|conclusion|category|name|"
    rf"option|count|total|result){_MARKS}[:=](?P<value>[^\n]*)",
    re.IGNORECASE,
)
_REASON = re.compile(
    r"\b(?:because|since|due to|based on|given|as it|as the|as there|which|while|although|whereas|"
    r"though|weil|porque|car|perche)\b",
    re.IGNORECASE,
)
_LEAD = re.compile(r"^[\s*_`\"'(\[#>-]*([^\W\d_])[\s*_`\"']*(?:[.):\],;-]|$)")
_LEAD_AND_MORE = re.compile(r"\(?([^\W\d_])[\s*_`]*[.):\]-](?=\W*\w)")
_EDGE = " \t\r\n*_`\"'()[]{}<>#.,;:!-"


def read_json(text: str) -> Any:
    """What the last JSON object that answers says; AMBIGUOUS where none is there.

    A list alone counts too. Single quotes and Python's True are forgiven.
    """
    answers = [_answer_of(value) for value in _objects(text)]
    return next((answer for answer in reversed(answers) if answer is not AMBIGUOUS), AMBIGUOUS)


def _objects(text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder()
    place = _next_bracket(text, 0)
    while place >= 0:
        try:
            value, end = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            value, end = _forgiven(text, place)
        if isinstance(value, dict) or (
            isinstance(value, list) and not text[:place].strip("` \njs")
        ):
            yield value
        place = _next_bracket(text, end)


def _next_bracket(text: str, start: int) -> int:
    places = [n for n in (text.find("{", start), text.find("[", start)) if n >= 0]
    return min(places, default=-1)


def _forgiven(text: str, place: int) -> tuple[Any, int]:
    """One flat object written as Python or with a comma too many; else (None, next place)."""
    end = text.find("}" if text[place] == "{" else "]", place, place + 2000)
    if end < 0:
        return None, place + 1
    mended = re.sub(r"(?<=[{\[,:\s])'|'(?=\s*[,:}\]])", '"', text[place : end + 1])
    mended = re.sub(r",\s*(?=[}\]])", "", mended)
    for python, proper in (("True", "true"), ("False", "false"), ("None", "null")):
        mended = re.sub(rf"\b{python}\b(?=\s*[,}}\]])", proper, mended)
    try:
        return json.loads(mended), end + 1
    except (ValueError, RecursionError):
        return None, place + 1


def _answer_of(value: Any) -> Any:
    if isinstance(value, list):
        return value
    keys = {str(key).strip().lower().replace(" ", "_"): entry for key, entry in value.items()}
    for key in (*_ANSWER_KEYS, *_OTHER_KEYS):
        if key in keys:
            return keys[key]
    rest = [entry for key, entry in keys.items() if not key.startswith(("reason", "expl", "conf"))]
    if len(rest) > 1 and all(_is_verdict(entry) for entry in rest):
        return value
    return rest[0] if len(rest) == 1 else AMBIGUOUS


def _is_verdict(value: Any) -> bool:
    return isinstance(value, bool) or str(value).lower() in ("yes", "no", "true", "false")


def tagged(text: str) -> str | None:
    """What the last <answer> or \\boxed{} holds."""
    insides = [match["inside"] or match["boxed"] or "" for match in _TAGGED.finditer(text)]
    return insides[-1] if insides else None


def without_sequel(text: str) -> str:
    """The text up to where a model, having answered, goes on to ask and answer itself."""
    answered = _COLON.search(text)
    sequel = _SEQUEL.search(text, answered.end()) if answered else None
    return text[: sequel.start()] if sequel else text


def cued(plain: str, *, is_list: bool = False) -> tuple[str, bool] | None:
    """What follows the last "Answer:" and whether that must be the answer.

    After a colon it must; "the answer is based on the tail" may be a sentence like any other.
    An answer that begins below the cue is its first line, of a list all lines up to an empty one.
    """
    colon, spoken = _last(_COLON, plain), _last(_IS, plain)
    if colon and (spoken is None or colon.start() >= spoken.start()):
        value = colon["value"].strip(" \t*_`")
        return (value or _below(plain[colon.end() :], is_list)), True
    if spoken:
        return spoken["value"], False
    other = _last(_OTHER_COLON, plain)
    return (other["value"], False) if other else None


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    matches = list(pattern.finditer(text))
    return matches[-1] if matches else None


def _below(rest: str, is_list: bool) -> str:
    if is_list:
        return rest.strip().split("\n\n", maxsplit=1)[0]
    return next((line for line in rest.split("\n") if line.strip(_EDGE)), "")


def read_value(value: str, names: NameIndex) -> str | object | None:
    """The label of the one option a short text stands by, AMBIGUOUS, or None.

    >>> from fieldmark.chat.parse.mentions import Option, index
    >>> names = index((Option("m", "male", "A"), Option("f", "female", "B")))
    >>> read_value("B, because a male is red", names)
    'f'
    """
    exact = exactly(value, names)
    if exact is not None:
        return exact
    passage = read(without_reasons(value))
    cut = segments(passage.words)
    named = [exactly(passage.plain[own[0].start : own[-1].end], names) for own in cut]
    has_or = any(own[0].text == "or" for own in cut)
    if named and not has_or and named[0] is not None and len(set(named) - {None}) == 1:
        return named[0]
    first = [word for word in passage.words if word.sentence == 0]
    lead = _lead_letter(value, names)
    mentions = [
        mention
        for mention in (*find_names(passage, names), *find_letters(passage, names))
        if mention.first < len(first) or (lead and mention.first < len(first) + 8)
    ]
    kept = [mention for mention in mentions if not is_rejected(passage, mention)]
    labels = distinct(kept)
    if lead and not labels:
        return lead
    if len(labels) > 1:
        return AMBIGUOUS
    return labels[0] if labels else None


def without_reasons(text: str) -> str:
    """The text up to where it begins to say why."""
    return _REASON.split(text, maxsplit=1)[0]


def single(value: Any) -> Any:
    """The one answer of a JSON value: [x], {"answer": x}, [{"answer": x}]."""
    for _ in range(4):
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        elif isinstance(value, dict):
            answer = _answer_of(value)
            value = value if answer is AMBIGUOUS else answer
    return value


def exactly(value: str, names: NameIndex) -> str | None:
    """The label, if the text is an option's letter or name and nothing else."""
    bare = value.strip(_EDGE)
    words = fold(bare)
    if len(bare) == 1 and bare.casefold() in names.letters:
        return names.letters[bare.casefold()]
    lead = _LEAD_AND_MORE.match(bare)
    if lead and lead[1].casefold() in names.letters:
        return _letter_and_name(names.letters[lead[1].casefold()], bare[lead.end() :], names)
    if words[:1] in (("option",), ("choice",), ("letter",)) and len(words) == 2:
        return names.letters.get(words[1])
    named = names.by_words.get(words)
    return named[0] if named else names.parts.get(words)


def _letter_and_name(label: str, rest: str, names: NameIndex) -> str | None:
    """ "B. female": both, and they agree."""
    named = names.by_words.get(fold(rest))
    return label if named and named[0] == label else None


def _lead_letter(value: str, names: NameIndex) -> str | None:
    lead = _LEAD.match(value)
    return names.letters.get(lead[1].casefold()) if lead else None

r"""Strict places of an answer: where does a text say what its answer is?

In order: a JSON object, an <answer> tag or \boxed{}, a line "Answer: …" (in several languages);
then a sentence "the correct option is …". `find_answer_field` finds the former, `spoken_values` the
latter. What stands there is read by `choice` and the files of the other forms. `Parsed` is what
every way of reading returns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from fieldmark.chat.parse.text import level
from fieldmark.files import parse_json

AMBIGUOUS = object()
"""more than one answer fits"""
_REFUSALS = ("declined", "cannot tell")


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a text answers: a label, or why none can be had."""

    label: str | None
    """an offered label, or None; of several labels, all of them joined by "; " in offered order"""
    how: str = ""
    """the place that decided: json, tag, answer line, whole text, …"""
    why: str = ""
    """why there is no label"""
    labels: tuple[str, ...] = ()
    """the labels of the form `labels`; may be empty although the text was understood"""
    is_loose: bool = False
    """read in running text, not in a place that is there for the answer"""

    @property
    def outcome(self) -> Literal["parsed", "refused", "unparsed"]:
        if self.label is not None:
            return "parsed"
        return "refused" if self.why in _REFUSALS else "unparsed"


@dataclass(frozen=True, slots=True)
class AnswerField:
    """A strict place: what stands there is the answer, or there is none."""

    how: str
    value: Any
    """a text; of JSON whatever it holds"""
    why: str = ""
    """why it cannot be read at all"""


_ANSWER_KEYS = (
    "final_answer", "answer", "choice", "selected_option", "selected", "selection", "option",
    "label", "prediction", "verdict", "result",
)  # fmt: skip
_OTHER_KEYS = (
    "labels", "traits", "answers", "species", "scientific_name", "class", "classification",
    "identification", "name", "letter", "total", "total_count", "count", "number", "category",
    "value", "response", "output",
)  # fmt: skip
_BEGINS_JSON = re.compile(r"\s*(?:```\w*\s*)?\{\s*[\"']")
_QUOTED_ANSWER = re.compile(r"[\"']answer[\"']\s*:\s*[\"']([^\"'\n]*)[\"']", re.IGNORECASE)
_TAGGED = re.compile(
    r"<(?P<tag>answer|final_answer|final|label|choice)>(?P<inside>.*?)</(?P=tag)>"
    r"|\\boxed\{(?:\\\w+\{)*(?P<boxed>[^{}]*)\}",
    re.IGNORECASE | re.DOTALL,
)
_CUE = (
    r"answer|ans\.?|choice|prediction|verdict|antwort|respuesta|reponse|risposta|resposta|ответ|svar|"
    r"odpowiedz|cevap|jawaban|vastaus|antwoord|答案|回答|答え|正解|정답|답"
)
_OTHERWISE = (
    "incorrect",
    "wrong",
    "alternative",
    "possible",
    "other",
    "second",
    "initial",
    "first",
)
_BEGINS_CUE = r"(?<![^\W_])" + "".join(f"(?<!{word} )" for word in _OTHERWISE)
_MARKS = r"[\s*_`\"'()\[\]#>-]*"
_COLON = re.compile(
    rf"{_BEGINS_CUE}(?:{_CUE}){_MARKS}(?:[:=]|->|→|⇒)(?P<value>[ \t*_`]*[^\n]*)"
    # a heading: the answer stands below
    rf"|^[ \t]*(?:#+|\*\*)[ \t*_]*(?:(?:my|the|final|correct) )*(?:{_CUE})[ \t*_]*$",
    re.IGNORECASE | re.MULTILINE,
)
_BEST = (
    r"(?:correct|right|best|final|closest|likely|likeliest|chosen|selected|appropriate|accurate|"
    r"suitable|fitting|plausible|probable|top|my)"
)
_THING = (
    r"(?:option|choice|match|fit|identification|id|species|classification|label|class|category|"
    r"guess|pick|selection|diagnosis|conclusion|candidate|description|number|count)"
)
_IS = (
    r"\s(?:is|would be|should be|must be|ist|es|est|e)(?![^\W_])"
    r"(?:\s(?:most |very )?(?:likely|probably|clearly|therefore|thus)\b)?\s*:?"
)
_SPOKEN = (
    re.compile(rf"{_BEGINS_CUE}(?:{_CUE}){_MARKS}(?:{_IS}|\s*[是为は])(?P<value>[^\n]*)", re.I),
    re.compile(rf"\b{_BEST} {_THING}(?: here)?{_IS}(?P<value>[^\n]*)", re.I),
    re.compile(
        rf"^[ \t*_#>|-]*(?:\d+[.)] *)?(?:(?:most|final|predicted|{_BEST}) )*(?:{_THING}|result|"
        rf"most likely|total|total count|number of \w+|scientific name|common name)"
        r"[\s*_]*[:=](?P<value>[^\n]*)",
        re.I | re.M,
    ),
)
_UNDECIDED = re.compile(
    r"\b(?:if|whether|not|n't|never|might|may|could|would have|at first|initially|originally|"
    r"unless|seem(?:s|ed) (?:as|like)|tempt\w+|doubt|least|worst|second)\b[^.!?\n]*$",
    re.IGNORECASE,
)
_BEFORE_SEQUEL = re.compile(
    r"(?<!\W)\W++(?=Example:|Now the one to answer:|(?:User|Human|Question|Assistant)\W*:)"
)
"""begins where a word ends, so that of a thousand empty lines not each is tried"""
_MARKS_BEFORE = re.compile(r"(?:(?!-\d)[\W_])*")


def bare(text: str) -> str:
    """Without marks around it; the minus sign of a number is none."""
    # `[\W_]+$` would try every one of a thousand dashes in turn.
    end = next((n for n in range(len(text), 0, -1) if text[n - 1].isalnum()), 0)
    start = _MARKS_BEFORE.match(text, 0, end)
    return text[start.end() : end] if start else text


def find_answer_field(text: str, *, is_list: bool = False) -> AnswerField | None:
    """The strict place of a text. Of several answer lines the last is taken; of a list all lines
    up to an empty one.
    """
    value = read_json(text)
    if value is not AMBIGUOUS:
        return AnswerField("json", value)
    if _BEGINS_JSON.match(text):
        # its quotes and keys must not be read as options
        quoted = _QUOTED_ANSWER.findall(text)
        return (
            AnswerField("json", quoted[-1]) if quoted else AnswerField("json", None, "broken JSON")
        )
    insides = [match["inside"] or match["boxed"] or "" for match in _TAGGED.finditer(text)]
    if insides:
        return AnswerField("tag", insides[-1])
    plain = level(text)
    cues = list(_COLON.finditer(plain))
    if not cues:
        return None
    value = (cues[-1]["value"] or "").strip(" \t*_`") or _below(plain[cues[-1].end() :], is_list)
    return AnswerField("answer line", value) if bare(value) else None


def _below(rest: str, is_list: bool) -> str:
    if is_list:
        return rest.strip().split("\n\n", maxsplit=1)[0]
    return next((line for line in rest.split("\n") if bare(line)), "")


def spoken_values(plain: str) -> list[str]:
    """What follows "the answer is", "the correct option is" or "Species:", in order; sentences that
    say it under a condition, or deny it, are left out.
    """
    cues = sorted((m for rule in _SPOKEN for m in rule.finditer(plain)), key=lambda m: m.start())
    return [
        cue["value"]
        for cue in cues
        if not _UNDECIDED.search(plain[max(0, cue.start() - 80) : cue.start()])
    ]


def without_sequel(text: str) -> str:
    """The text up to where a model, having answered, goes on to ask and answer itself."""
    answered = _COLON.search(text)
    rest = text[answered.end() :] if answered else ""
    gaps = _BEFORE_SEQUEL.finditer(rest)
    starts = (gap.start() + gap[0].index("\n") for gap in gaps if "\n" in gap[0])
    return text[: len(text) - len(rest) + next(starts, len(rest))]


def read_json(text: str) -> Any:
    """What the last JSON object that answers says; AMBIGUOUS where none is there.

    A list alone counts too. Single quotes and Python's True are forgiven.
    """
    answers = [_answer_of(value) for value in _objects(text)]
    return next((answer for answer in reversed(answers) if answer is not AMBIGUOUS), AMBIGUOUS)


def _objects(text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder()
    start = _next_bracket(text, 0)
    while start >= 0:
        try:
            value, end = decoder.raw_decode(text, start)
        except RecursionError:  # so would each of the brackets inside be
            return
        except ValueError:
            value, end = _forgiven(text, start)
        if isinstance(value, dict) or (
            isinstance(value, list) and not text[:start].strip("` \njs")
        ):
            yield value
        start = _next_bracket(text, end)


def _next_bracket(text: str, start: int) -> int:
    positions = [n for n in (text.find("{", start), text.find("[", start)) if n >= 0]
    return min(positions, default=-1)


def _forgiven(text: str, start: int) -> tuple[Any, int]:
    """One flat object written as Python or with a comma too many; else (None, next place)."""
    end = text.find("}" if text[start] == "{" else "]", start, start + 2000)
    if end < 0:
        return None, start + 1
    mended = re.sub(r"(?<=[{\[,:\s])'|'(?=\s*[,:}\]])", '"', text[start : end + 1])
    mended = re.sub(r",\s*(?=[}\]])", "", mended)
    for python, proper in (("True", "true"), ("False", "false"), ("None", "null")):
        mended = re.sub(rf"\b{python}\b(?=\s*[,}}\]])", proper, mended)
    try:
        return parse_json(mended), end + 1
    except ValueError:
        return None, start + 1


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


def single(value: Any) -> Any:
    """The one answer of a JSON value: [x], {"answer": x}, [{"answer": x}]."""
    for _ in range(4):
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        elif isinstance(value, dict):
            answer = _answer_of(value)
            value = value if answer is AMBIGUOUS else answer
    return value

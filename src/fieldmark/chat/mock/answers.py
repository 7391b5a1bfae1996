"""Mock answers: how does the mock model behave, what does it see, and what does it say?

`MockScript` says how it behaves: everything a real endpoint does to people, with a set probability;
drawn from (seed, body, n-th time it was asked), so that a run is the same under any concurrency.

`MockVision` knows pictures by the SHA-256 of their bytes and what is true of each; it looks for
those truths among the options it is offered and chooses the right one with a set probability,
another one otherwise. So whole experiments mean something without a network.

`phrase_answer` puts the choice into words: in the form it was asked for (`Answer: X`, JSON by a
schema), or in a style of its own that makes a parser work. `ScriptedAnswers` are certain words for
tests and rehearsals, by the prompt or by a function of it. `token_logprobs` says how sure it was.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

from fieldmark import draws
from fieldmark.chat.messages import cut
from fieldmark.errors import UnknownName, UsageError
from fieldmark.files import parse_json

Style = Literal["asked", "name", "sentence", "letter"]


@dataclass(frozen=True, slots=True)
class MockScript:
    """How the mock model behaves."""

    skill: float = 0.8
    """probability of a right answer without examples"""
    skill_many: float | None = None
    """what it tends to with many examples; None = as without"""
    half_shots: float = 10.0
    """examples after which half of the way is gone"""
    seed: int = 0
    style: Style = "asked"
    """as the prompt asks · "robin" · "The answer is **robin**." · "B" where options have letters"""
    reasoning: bool = False
    """a <think> block before the answer"""
    p_unclear: float = 0.0
    """"I cannot tell." """
    p_invent: float = 0.0
    """of quotes and captions for the builder: not what was asked for, see `builder`"""
    p_refuse: float = 0.0
    p_length: float = 0.0
    """the answer is cut off, finish_reason length"""
    p_429: float = 0.0
    retry_after_s: float | None = None
    """sent with every 429; None sends none"""
    p_500: float = 0.0
    p_cut: float = 0.0
    """the connection is closed without a reply"""
    p_junk: float = 0.0
    """status 200 and a body that is no JSON"""
    p_error_body: float = 0.0
    """status 200 and an error inside: code 429"""
    p_drip: float = 0.0
    drip_s: float = 1.0
    """how long a dripping reply takes"""
    latency_s: float = 0.0
    max_in_flight: int | None = None
    """beyond so many at once: 429"""
    tokens_per_image: int = 258
    usage: bool = True
    """return token counts"""
    answers: str = ""
    """a JSON file of answers: prompt, or part of one → text, or texts for the first, second … time;
    what it does not know is answered as ever; the journal knows it by its path"""
    logprobs: bool = True
    """False: a request for log-probabilities is refused, as by models that have none to tell"""

    @property
    def p_faults(self) -> float:
        return self.p_429 + self.p_500 + self.p_cut + self.p_junk + self.p_error_body

    def skill_after(self, n_shots: int) -> float:
        if self.skill_many is None:
            return self.skill
        return self.skill + (self.skill_many - self.skill) * n_shots / (n_shots + self.half_shots)


def read_script(name: str, options: Mapping[str, str]) -> MockScript:
    """The script that the options of `chat/mock/NAME?skill=0.9` ask for."""
    fields_of = {field.name: field for field in fields(MockScript)}
    values: dict[str, object] = {}
    for key, text in options.items():
        if key not in fields_of:
            raise UnknownName(f"model {name!r}: mock option", key, fields_of)
        try:
            values[key] = _typed(str(fields_of[key].type), text)
        except ValueError as error:
            raise UsageError(f"model {name!r}: {key}={text}, expected {error}.") from None
        if key.startswith(("p_", "skill")) and not 0 <= float(text) <= 1:
            raise UsageError(f"model {name!r}: {key}={text}, expected a number from 0 to 1.")
    return MockScript(**values)  # type: ignore[arg-type]


def _typed(kind: str, text: str) -> object:
    if kind == "Style":
        if text not in get_args(Style):
            raise ValueError(", ".join(get_args(Style)))
        return text
    if kind == "str":
        return text
    if kind == "bool":
        if text.lower() not in ("true", "false", "1", "0"):
            raise ValueError("true or false")
        return text.lower() in ("true", "1")
    try:
        return int(text) if kind.startswith("int") else float(text)
    except ValueError:
        raise ValueError("a number") from None


ListedOption = tuple[str, str]
"""letter ("" = none) and name"""

_BLOCK = re.compile(r"(?:options|choices)[^:\n]{0,40}:[ \t]*\n", re.IGNORECASE)
_LETTERED = re.compile(r"^\s*\(?([A-Z]|\d{1,2})[.):]\s+(.+?)\s*$", re.MULTILINE)
_DASHED = re.compile(r"^\s*[-*•]\s+(.+?)\s*$", re.MULTILINE)
_LISTED = re.compile(r"(?:options|choices|one of|classes)\b[^:\n]{0,40}:[ \t]*(\S.*)", re.I)
_MANY = re.compile(r"all (?:options )?that (?:hold|apply)|any number of them", re.IGNORECASE)
_COUNT = re.compile(r"how many|whole number", re.IGNORECASE)
_YES_NO = re.compile(r"\b(yes) or (no)\b", re.IGNORECASE)
_SCALE = re.compile(r"number from (\d+)\b[^\n]{0,40}?\bto (\d+)\b", re.IGNORECASE)
_WIDE = 2000
"""vocabularies up to this size are looked for in a prompt that lists no options"""


@dataclass(frozen=True, slots=True)
class PromptView:
    """What of a request matters to an answer."""

    pictures: tuple[str, ...]
    """SHA-256 of every picture, in order"""
    text: str
    """of the last user message"""
    before: str = ""
    """of the earlier ones"""
    schema: Mapping[str, Any] | None = None

    @property
    def words(self) -> str:
        return f"{self.before}\n{self.text}"

    @property
    def target(self) -> tuple[str, Mapping[str, Any]]:
        """The key of the JSON answer that decides, and its type; ("", {}) without a schema."""
        keys = dict((self.schema or {}).get("properties") or {})
        if not keys:
            return "", {}
        with_enum = [key for key, kind in keys.items() if "enum" in kind]
        name = "answer" if "answer" in keys else [*with_enum, [*keys][-1]][0]
        return name, keys[name]

    @property
    def wants_many(self) -> bool:
        return self.target[1].get("type") == "array" or bool(_MANY.search(self.words))

    @property
    def wants_count(self) -> bool:
        return self.target[1].get("type") == "integer" or bool(_COUNT.search(self.words))


class MockVision:
    """Known pictures, or groups of them: hashes joined by "+" (a clip, a pair)."""

    def __init__(self, labels: Mapping[str, str | Collection[str]]) -> None:
        self.labels = labels
        sizes = {key.count("+") + 1 for key in labels}
        self._groups = tuple(sorted(sizes, reverse=True))
        words = {word for value in labels.values() for word in _all(value)}
        self._words = tuple(sorted(words, key=lambda word: (-len(word), word)))

    def truths(self, view: PromptView) -> tuple[tuple[str, ...], int]:
        """What is true of the last picture or group, and how many pictures that is."""
        for size in self._groups:
            truths = self.labels.get("+".join(view.pictures[-size:]))
            if truths is not None and size <= len(view.pictures):
                return _all(truths), size
        return (), 1

    def offered(self, view: PromptView) -> list[ListedOption]:
        """The options, from the last list in the prompt; examples may have lists of their own."""
        return (
            _listed(view.text)
            or [("", name) for name in _enum(view.target[1])]
            or _listed(view.before)
            or [("", word) for pair in _YES_NO.findall(view.words)[-1:] for word in pair]
            or [("", name) for name in self._words_in(view.text)]
        )

    def choose(self, view: PromptView, script: MockScript) -> tuple[ListedOption, ...]:
        """The answer; several where several are asked for, () when nothing can be said."""
        truths, size = self.truths(view)
        who = "+".join(view.pictures[-size:])
        luck = draws.number(script.seed, who, "skill") / 2**64
        knows = luck < script.skill_after(max(0, len(view.pictures) - size))
        if scale := _SCALE.search(view.text):
            is_high = self._is_so(view, truths) == knows
            # From the half of the scale that fits.
            low = int(scale[1])
            high = int(scale[2])
            off = draws.number(script.seed, who, "grade") % max(1, (high - low) // 2)
            return (("", str(high - off if is_high else low + off)),)
        options = self.offered(view)
        if are_yes_no(options) and not are_yes_no([("", truth) for truth in truths[:1]]):
            truths = ("yes" if self._is_so(view, truths) else "no",) if self._words else truths
        if not options and view.wants_count:
            return (("", _count(truths, knows)),)
        options = options or [("", word) for word in (truths if knows else self._words)]
        folded = {_folded(truth) for truth in truths}
        right = [option for option in options if _folded(option[1]) in folded]
        wrong = [option for option in options if _folded(option[1]) not in folded]
        if view.wants_many:
            return tuple(right) if knows else _with_a_slip(options, right, script.seed, who)
        pool = (right if knows else wrong) or options if right else options
        return (_drawn(pool, script.seed, who),) if pool else ()

    def _is_so(self, view: PromptView, truths: Collection[str]) -> bool:
        """Is the picture what the question asks for by a name that is true of some picture?"""
        return any(word in truths for word in self._words_in(view.text))

    def _words_in(self, text: str) -> Iterator[str]:
        """Words of the vocabulary that the text holds, longest first, none inside another."""
        for word in self._words if len(self._words) <= _WIDE else ():
            whole = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", re.IGNORECASE)
            if whole.search(text):
                yield word
                text = whole.sub(" ", text)


def are_yes_no(options: Collection[ListedOption]) -> bool:
    """Is the answer nothing but yes or no?"""
    return bool(options) and all(_folded(name) in ("yes", "no") for _, name in options)


def _folded(name: str) -> str:
    """Names are the same whatever their case, and with or without a last full stop."""
    return name.casefold().rstrip(".")


def read_prompt(body: Mapping[str, Any], with_pictures: bool = True) -> PromptView:
    """The pictures and words of a request's body; hashing pictures can be left out."""
    hashes: list[str] = []
    texts = [""]
    for message in body.get("messages", ()):
        parts = message.get("content")
        parts = [{"type": "text", "text": parts}] if isinstance(parts, str) else parts or []
        if with_pictures:
            urls = [part["image_url"]["url"] for part in parts if "image_url" in part]
            pictures = (base64.b64decode(url.partition(",")[2]) for url in urls)
            hashes += [hashlib.sha256(picture).hexdigest() for picture in pictures]
        if message.get("role") == "user":
            texts.append("\n".join(part["text"] for part in parts if part.get("type") == "text"))
    form = (body.get("response_format") or {}).get("json_schema") or {}
    return PromptView(tuple(hashes), texts[-1], "\n".join(texts[:-1]), form.get("schema"))


def _listed(text: str) -> list[ListedOption]:
    starts = [match.end() for match in _BLOCK.finditer(text)]
    block = text[starts[-1] :] if starts else text
    least = 1 if starts else 2
    lettered = [(letter, _bare(name)) for letter, name in _LETTERED.findall(block)]
    if len(lettered) >= least:
        return lettered
    dashed = [("", _bare(name)) for name in _DASHED.findall(block)]
    if len(dashed) >= least:
        return dashed
    for line in reversed(_LISTED.findall(text)):
        names = [_bare(name) for name in re.split(r"[,;/]|\bor\b", line)]
        if sum(map(bool, names)) > 1:
            return [("", name) for name in names if name]
    return []


def _enum(kind: Mapping[str, Any]) -> list[str]:
    allowed = kind.get("enum") or (kind.get("items") or {}).get("enum") or ()
    return [str(value) for value in allowed]


def _drawn(pool: Sequence[ListedOption], seed: int, who: str) -> ListedOption:
    return min(pool, key=lambda option: draws.digest(seed, who, option[1], "choice"))


def _with_a_slip(
    options: Sequence[ListedOption], right: Sequence[ListedOption], seed: int, who: str
) -> tuple[ListedOption, ...]:
    """The right ones with one too few or too many."""
    if not options:
        return ()
    slip = _drawn(options, seed, who)
    return tuple(option for option in options if (option in right) != (option == slip))


def _count(truths: Sequence[str], knows: bool) -> str:
    count = next((int(truth) for truth in truths if truth.isdecimal()), None)
    return "1" if count is None else str(count if knows else count + 1)


def _all(value: str | Collection[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _bare(name: str) -> str:
    return name.strip().strip("*\"'`.").strip()


_REASONS = "The shape of the bill and the pattern of the back decide it."
_FILLERS: dict[str, Any] = {"number": 0, "integer": 0, "boolean": False, "array": []}


def phrase_answer(chosen: Sequence[ListedOption], view: PromptView, script: MockScript) -> str:
    """The answer as text; "I cannot tell." where there is none to give."""
    thought = f"<think>{_REASONS}</think>\n" if script.reasoning else ""
    if view.schema is not None:
        return thought + _as_json(chosen, view)
    if not chosen and not view.wants_many:
        return thought + "I cannot tell."
    by_letter = script.style == "letter" or "the letter" in view.words
    values = [letter if by_letter and letter else name for letter, name in chosen]
    value = ", ".join(values) or "none"
    if script.style == "asked" and "Answer: X" in view.words:
        reasons = f"{_REASONS}\n" if "First say" in view.words else ""
        return f"{thought}{reasons}Answer: {value}"
    is_bare = script.style in ("name", "letter") or "and nothing else" in view.text
    return thought + (value if is_bare else f"The answer is **{value}**.")


def _as_json(chosen: Sequence[ListedOption], view: PromptView) -> str:
    target, kind = view.target
    keys = (view.schema or {}).get("properties") or {}
    answer = {name: _FILLERS.get(schema.get("type", ""), "…") for name, schema in keys.items()}
    answer[target] = _value(chosen, kind)
    return json.dumps(answer, ensure_ascii=False)


def _value(chosen: Sequence[ListedOption], kind: Mapping[str, Any]) -> Any:
    allowed = _enum(kind)
    values = [letter if letter in allowed else name for letter, name in chosen]
    if kind.get("type") == "array":
        return values
    if kind.get("type") == "integer":
        return int(values[0]) if values and values[0].isdecimal() else 0
    return values[0] if values else ""


_TOKEN = re.compile(r"\s*(?:\w+|[^\w\s])|\s+")
_MARKS = " \n()*."
_LETTERS = 0.98
"""of the probability, what letters have together"""
_PLAIN = 0.9
"""of a letter's probability, what it has without a blank before it"""
TokenShare = tuple[str, float]


def max_tokens_of(body: Mapping[str, Any]) -> int:
    """Most tokens the answer may have."""
    most = body.get("max_completion_tokens") or body.get("max_tokens")
    return int(most) if most else 1 << 31


def truncate(text: str, body: Mapping[str, Any]) -> tuple[str, str]:
    """The text as far as stop strings and the room for it go, and why it ended."""
    stops = body.get("stop") or []
    text = cut(text, [stops] if isinstance(stops, str) else stops)
    tokens = _TOKEN.findall(text)
    if len(tokens) <= max_tokens_of(body):
        return text, "stop"
    return "".join(tokens[: max_tokens_of(body)]), "length"


def token_logprobs(
    text: str, letters: Sequence[str], body: Mapping[str, Any], script: MockScript
) -> dict[str, Any]:
    """Log-probabilities of the answer's tokens in OpenAI's form."""
    content = []
    for token in _TOKEN.findall(text):
        letter = token.strip(_MARKS)
        top = _rivals(token, letter, letters, script) if letter in letters else [(token, 0.9)]
        shown = _padded(top, int(body.get("top_logprobs") or 0))
        share_of_token = next(share for name, share in top if name == token)
        content.append({"token": token, "logprob": math.log(share_of_token), "top_logprobs": shown})
    return {"content": content}


def _rivals(
    token: str, letter: str, letters: Sequence[str], script: MockScript
) -> list[TokenShare]:
    """Every letter with and without a blank before it; the chosen one has more than half."""
    sure = 0.55 + 0.4 * script.skill
    others = [other for other in letters if other != letter]
    weights = [1 + draws.number(script.seed, letter, other, "rival") / 2**64 for other in others]
    shares = {letter: _LETTERS * (sure if others else 1.0)}
    for other, weight in zip(others, weights, strict=True):
        shares[other] = _LETTERS * (1 - sure) * weight / sum(weights)
    tokens = {token: shares[letter] * _PLAIN}
    for name, share in shares.items():
        tokens.setdefault(name, share * (1 - _PLAIN if name == letter else _PLAIN))
        tokens.setdefault(f" {name}", share * (1 - _PLAIN))
    return list(tokens.items())


def _padded(top: Sequence[TokenShare], n: int) -> list[dict[str, Any]]:
    """The n likeliest; tokens of no meaning fill up what is missing."""
    ordered = sorted(top, key=lambda pair: (-pair[1], pair[0]))[:n]
    least = ordered[-1][1] if ordered else 1.0
    fillers = [(f"rival {i}", least * 0.1**i) for i in range(1, n - len(ordered) + 1)]
    shown = (*ordered, *fillers)
    return [{"token": token, "logprob": math.log(share)} for token, share in shown]


Answers = Mapping[str, str | Sequence[str]] | Callable[[str, Mapping[str, Any]], str | None]
"""prompt → what is said; or (text of the last question, body) → what is said, None = as ever"""


class ScriptedAnswers:
    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self._times: Counter[str] = Counter()

    def find(self, view: PromptView, body: Mapping[str, Any]) -> str | None:
        """The answer to a prompt; None where nothing was set for it.

        The whole last question counts before parts of the conversation, long parts before short.
        """
        if callable(self.answers):
            return self.answers(view.text, body)
        if view.text in self.answers:
            return self._next(view.text)
        parts = [part for part in self.answers if part and part in view.words]
        return self._next(max(parts, key=len)) if parts else None

    def _next(self, prompt: str) -> str:
        assert not callable(self.answers)
        answer = self.answers[prompt]
        if isinstance(answer, str):
            return answer
        time_asked = self._times[prompt]
        self._times[prompt] += 1
        return answer[min(time_asked, len(answer) - 1)]


def read_answers(path: str) -> dict[str, str | list[str]]:
    """The answers of a JSON file; "" has none."""
    if not path:
        return {}
    try:
        answers = parse_json(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}  the mock's answers cannot be read: {error}.") from None
    if not isinstance(answers, dict) or not all(map(_is_text, answers.values())):
        raise UsageError(f"{path}  expected a JSON object of prompt → text or list of texts.")
    return answers


def _is_text(value: Any) -> bool:
    texts = value if isinstance(value, list) else [value]
    return bool(texts) and all(isinstance(text, str) for text in texts)

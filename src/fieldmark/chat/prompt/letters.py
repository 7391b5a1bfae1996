"""Lettered questions: how does a model that gives no likelihoods choose among given answers?

By a lettered question, answered with one letter; the log-probabilities of the letters at the place
where it stands say how likely each choice was:

    messages, options = letter_question([picture, "Which bird?"], ["wren", "robin"])
    settings = letter_settings(AnswerSettings())
    letter_scores(answer, options)   →  [-0.2, -1.9], or None
    letter_choice(answer, options)   →  0: what the text says, where there are no scores

The letter that a model wrote decides what is looked at; a text that names no choice has no scores.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Sequence
from string import ascii_lowercase, ascii_uppercase

from fieldmark.chat.messages import (
    Answer,
    AnswerSettings,
    Message,
    MessagePart,
    Text,
    TokenChance,
    user,
)
from fieldmark.chat.parse.answer import parse_text
from fieldmark.chat.parse.mentions import Option
from fieldmark.chat.parse.text import end_of_thought
from fieldmark.errors import UsageError

TOP_LOGPROBS = 20
"""alternatives that are asked for: the most that OpenAI and vLLM give"""
_FLOOR = 1.0
"""a letter that is not among the alternatives is so much less likely, in log, than the last"""
_RULE = "Reply with the letter of one option and nothing else."
_NAME_RULE = "Reply with the name of one option, as it stands above, and nothing else."
_AROUND = " \t\n\r()[]{}<>*_`'\".,:;#▁Ġ"
"""may stand around the letter in its token"""
_CUE = re.compile(r"\n\s*(?:answer|a)\s*:\s*\Z", re.IGNORECASE)
"""what ends a text that is to be continued; a question that is answered does without"""


def letter_question(
    context: Iterable[MessagePart | str], choices: Sequence[str]
) -> tuple[tuple[Message, ...], tuple[Option, ...]]:
    """The question as one user message, and the options in the order of the choices.

    Choices that are the letters of options in the text already ("A", "B", …) are not listed again,
    and a cue at the text's end ("Answer:") is left away. Beyond 26 choices options are
    answered by name and have no scores. Choices are shown without the blanks around them.
    """
    parts = [Text(part) if isinstance(part, str) else part for part in context]
    names = [choice.strip() for choice in choices]
    if not names:
        raise UsageError("a lettered question has no choices: expected at least one.")
    if _are_marks(names):
        return (_closed(parts, _RULE),), _options(_shown(parts, names), names)
    has_letters = len(names) <= len(ascii_uppercase)
    marks = ascii_uppercase[: len(names)] if has_letters else [""] * len(names)
    lines = [
        f"{mark}. {name}" if mark else f"- {name}" for mark, name in zip(marks, names, strict=True)
    ]
    block = "\n".join(["Options:", *lines, _RULE if has_letters else _NAME_RULE])
    return (_closed(parts, block),), _options(names, marks)


def letter_settings(settings: AnswerSettings) -> AnswerSettings:
    """The settings with log-probabilities asked for, the likeliest answer, and no stop strings:
    those of a task are for answers in its own words.
    """
    return dataclasses.replace(settings, temperature=0.0, top_logprobs=TOP_LOGPROBS, stop=())


def letter_choice(answer: Answer, options: Sequence[Option]) -> int | None:
    """Which choice the answer's text names; None where it names none or several."""
    label = parse_text(answer.text, options, is_cut=answer.outcome == "length").label
    return next((n for n, option in enumerate(options) if option.label == label), None)


def letter_scores(answer: Answer, options: Sequence[Option]) -> list[float] | None:
    """Log-probability of each option's letter, over all tokens that write it ("A", " A", "(a").

    Letters that are not among the alternatives get a value below all of them, the same for each.
    None without log-probabilities, or where the text names no option.
    """
    marks = [option.letter.casefold() for option in options]
    label = parse_text(answer.text, options).label
    chosen = next((option.letter.casefold() for option in options if option.label == label), None)
    if answer.outcome == "refused" or not all(marks) or chosen is None:
        return None
    tokens = _after_thought(answer.logprobs)
    chances = (token for token in tokens if _mark(token.token) == chosen and token.top)
    return next((_scores(chance, marks) for chance in chances), None)


def first_word_shares(answer: Answer) -> dict[str, float]:
    """How likely the first word of the answer was, and each of its rivals, over all tokens that
    write it ("Yes", " yes", "YES"): folded word → probability. Empty without log-probabilities.
    """
    chances = (token for token in _after_thought(answer.logprobs) if _mark(token.token))
    return next((_shares(_rivals(chance)) for chance in chances), {})


def _scores(chance: TokenChance, marks: Sequence[str]) -> list[float]:
    rivals = _rivals(chance)
    shares = _shares(rivals)
    floor = min((value for _, value in rivals if math.isfinite(value)), default=0.0) - _FLOOR
    totals = [shares.get(mark, 0.0) for mark in marks]
    return [math.log(share) if share > math.exp(floor) else floor for share in totals]


def _rivals(chance: TokenChance) -> list[tuple[str, float]]:
    """The token itself with all that might have stood in its place."""
    rivals = list(chance.top)
    if all(token != chance.token for token, _ in rivals):
        rivals.append((chance.token, chance.logprob))
    return rivals


def _shares(rivals: Iterable[tuple[str, float]]) -> dict[str, float]:
    shares: dict[str, float] = {}
    for token, logprob in rivals:
        shares[_mark(token)] = shares.get(_mark(token), 0.0) + math.exp(logprob)
    return shares


def _after_thought(chances: Sequence[TokenChance]) -> Sequence[TokenChance]:
    """The tokens after the last one that ends a thought."""
    text, starts = "", []
    for chance in chances:
        starts.append(len(text))
        text += chance.token
    end = end_of_thought(text)
    return [chance for chance, start in zip(chances, starts, strict=True) if start >= end]


def _mark(token: str) -> str:
    return token.strip(_AROUND).casefold()


def _are_marks(names: Sequence[str]) -> bool:
    """Are the choices A, B, C, …, as of options that the text lists?"""
    is_short = all(re.fullmatch(r"\(?[A-Za-z]\)?\.?", name) for name in names)
    return is_short and "".join(map(_mark, names)) == ascii_lowercase[: len(names)]


def _shown(parts: Sequence[MessagePart], marks: Sequence[str]) -> list[str]:
    """What the text lists beside each mark; the marks themselves where it lists none."""
    text = "\n".join(part.text for part in parts if isinstance(part, Text))
    names = []
    for mark in map(_mark, marks):
        listed = re.findall(rf"(?im)^\s*\(?{mark}[.):]\s+(\S.*?)\s*$", text)
        names += listed[-1:]
    return names if len(names) == len(marks) else list(marks)


def _options(names: Sequence[str], marks: Sequence[str]) -> tuple[Option, ...]:
    options: list[Option] = []
    for name, mark in zip(names, marks, strict=True):
        n_twins = sum(option.name == name for option in options)
        # A mark without width keeps labels of equal names apart: they read the same, so that only
        # the letter can tell which is meant.
        options.append(Option(name + "\u200b" * n_twins, name, mark.strip(_AROUND)))
    return tuple(options)


def _closed(parts: Sequence[MessagePart], block: str) -> Message:
    """The parts with the block after them, in the last text where that is last."""
    *before, last = parts or [Text("")]
    if isinstance(last, Text):
        text = _CUE.sub("", last.text).rstrip()
        return user(*before, f"{text}\n{block}" if text else block)
    return user(*before, last, block)

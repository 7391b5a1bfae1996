"""Parsing an answer: free text in, one of the offered labels or an explicit nothing out.

    parse_text("Answer: B", options, "choice")  →  Parsed(label="f", how="answer line")

Never guesses: a refusal, an empty or ambiguous text, an answer that was not offered come back as
`label=None` with a reason, so that parse and refusal rates can stand beside the score. What was
read in running text, through a narrow gate, is marked `is_loose`. Purely a function of its
arguments: re-parsing kept answers costs nothing. Forms of answer:

    choice   one of the options, by letter or by name
    yes_no   the same with options named yes and no
    labels   any number of the options (traits); "none" is an answer too
    count    a whole number; with options, one of their names
    open     a species name, against the index made by `names.index_taxa`
    closest  small-data-metrics' rule: the name most like what is bold, or like all of the text
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Literal

from fieldmark.chat.parse.choice import choose
from fieldmark.chat.parse.counts import count
from fieldmark.chat.parse.labels import choose_some
from fieldmark.chat.parse.mentions import Option, index, with_genera, with_yes_and_no
from fieldmark.chat.parse.names import TaxonNames, read_name
from fieldmark.chat.parse.text import strip_reasoning
from fieldmark.chat.parse.values import Parsed, without_sequel

Form = Literal["choice", "yes_no", "labels", "count", "open", "closest"]
_MOST_CHARACTERS = 20_000
"""of a longer text the end is read: the answer stands last"""


def parse_text(
    text: str | None,
    options: Sequence[Option] | TaxonNames,
    form: Form = "choice",
    *,
    is_cut: bool = False,
) -> Parsed:
    """What a text answers. `is_cut`: the model ran out of tokens, so only strict, whole ones count.

    >>> parse_text("(B)", [Option("m", "male", "A"), Option("f", "female", "B")]).label
    'f'
    """
    if form == "closest" and not isinstance(options, TaxonNames):
        return _closest(text or "", options)
    answer = strip_reasoning(text or "")
    if answer is None:
        return Parsed(None, "", "reasoning never ended")
    answer = without_sequel(_whole_lines(answer) if is_cut else answer).strip()[-_MOST_CHARACTERS:]
    if not any(char.isalnum() for char in answer):
        return Parsed(None, "", "cut off" if is_cut and text else "empty")
    if isinstance(options, TaxonNames):
        return read_name(answer, options, is_cut=is_cut)
    if form == "count":
        return count(answer, [option.name for option in options], is_cut=is_cut)
    names = index(tuple(options))
    answer = with_genera(answer, names)
    if form == "labels":
        return choose_some(answer, names, is_cut=is_cut)
    names = with_yes_and_no(names) if form == "yes_no" else names
    return choose(answer, names, is_cut=is_cut)


def _closest(text: str, options: Sequence[Option]) -> Parsed:
    """The name most like what stands in bold at the start, or like all of the text.

    It finds one in any text, in a refusal too: only for comparison with published scores.
    """
    bold = re.match(r"\*\*(.*)\*\*", text)
    label_of = {option.name: option.label for option in options}
    [name] = get_close_matches(bold[1] if bold else text, label_of, n=1, cutoff=0.0)
    return Parsed(label_of[name], "bold" if bold else "closest name", is_loose=bold is None)


def _whole_lines(text: str) -> str:
    """A cut text without its last line: "Answer: 1" may have been going to be 12.

    What is closed, as JSON and tags are, is whole.
    """
    before, _, last = text.rpartition("\n")
    return text if text.lstrip("` \njson").startswith("{") or "</" in last else before

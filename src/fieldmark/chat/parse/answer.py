"""What did the model answer? Free text in, one of the offered labels or an explicit nothing out.

    parse_text("The bird is **male**", options, "choice")  →  Parsed(label="m", how="marked")

Never guesses: a refusal, an empty or ambiguous text, an answer that was not offered come back as
`label=None` with a reason, so that parse and refusal rates can stand beside the score. Purely a
function of its arguments: re-parsing kept answers costs nothing. Forms of answer:

    choice   one of the options, by letter or by name
    yes_no   the same with options named yes and no
    labels   any number of the options (traits); "none" is an answer too
    count    a whole number; with options, one of their names
    open     a species name, against `fieldmark.chat._names.index_taxa`
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fieldmark.chat.parse.choice import Found, choose
from fieldmark.chat.parse.counts import count
from fieldmark.chat.parse.labels import choose_some
from fieldmark.chat.parse.mentions import Option, index, with_yes_and_no
from fieldmark.chat.parse.names import TaxonNames, read_name
from fieldmark.chat.parse.text import strip_reasoning
from fieldmark.chat.parse.values import without_sequel

Form = Literal["choice", "yes_no", "labels", "count", "open"]
_MOST_CHARACTERS = 20_000
"""of a longer text the end is read: the answer stands last"""
_REFUSALS = ("declined", "cannot tell")


@dataclass(frozen=True, slots=True)
class Parsed:
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
    told = strip_reasoning(text or "")
    if told is None:
        return Parsed(None, "", "reasoning never ended")
    told = without_sequel(_whole_lines(told) if is_cut else told).strip()[-_MOST_CHARACTERS:]
    if not any(char.isalnum() for char in told):
        return Parsed(None, "", "cut off" if is_cut and text else "empty")
    if isinstance(options, TaxonNames):
        match = read_name(told, options, is_cut=is_cut)
        return Parsed(match.label, match.how, match.why)
    if form == "count":
        return _parsed(count(told, [each.name for each in options], is_cut=is_cut))
    names = index(tuple(options))
    if form == "labels":
        some = choose_some(told, names, is_cut=is_cut)
        if some.labels is None:
            return Parsed(None, some.how, some.why)
        return Parsed("; ".join(some.labels), some.how, some.why, some.labels)
    if form == "yes_no":
        names = with_yes_and_no(names)
    return _parsed(choose(told, names, is_yes_no=form == "yes_no", is_cut=is_cut))


def _whole_lines(told: str) -> str:
    """A cut text without its last line: "Answer: 1" may have been going to be 12.

    What is closed, as JSON and tags are, is whole.
    """
    before, _, last = told.rpartition("\n")
    return told if told.lstrip("` \njson").startswith("{") or "</" in last else before


def _parsed(found: Found) -> Parsed:
    return Parsed(found.label, found.how, found.why)

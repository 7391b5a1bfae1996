"""`lmms_eval.tasks._task_utils.mmmu_mcq_utils`: which option does a response choose?

MMMU's own rule: an option's letter in brackets, else before a space, else before a full stop, else
(in longer responses) its text; the last one named wins, and a response without any is drawn.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

__all__ = ["get_multi_choice_info", "parse_mmmu_multi_choice_response"]

LONG = 5
"""words a response must exceed before the options' texts are looked for"""


def get_multi_choice_info(
    options: Sequence[str], start_chr: str = "A"
) -> tuple[dict[str, str], list[str]]:
    """The options by letter, and the letters."""
    by_letter = {chr(ord(start_chr) + i): each for i, each in enumerate(options)}
    return by_letter, list(by_letter)


def parse_mmmu_multi_choice_response(
    response: str, all_choices: Sequence[str], index2ans: Mapping[str, str]
) -> str:
    for mark in ",.!?;:'":
        response = response.strip(mark)
    response = f" {response} "
    for form, place in (("({})", "({})"), ("{} ", " {} "), ("{}.", " {} ")):
        named = [each for each in all_choices if form.format(each) in response]
        if named:
            return _last(named, [response.rfind(place.format(each)) for each in named])
    if len(response.split()) > LONG:
        text = response.lower()
        named = [letter for letter, each in index2ans.items() if each.lower() in text]
        if named:
            return _last(named, [text.rfind(index2ans[each].lower()) for each in named])
    return random.choice(list(all_choices))


def _last(named: Sequence[str], places: Sequence[int]) -> str:
    return named[places.index(max(places))]

"""Rule-based sentence classifier: which sentences speak of what the organism looks like?

A linear score over how many words of each group of the lexicon a sentence has, with weights that
are written below. The default filter, and the baseline for filters that ask a language model.
"""

from __future__ import annotations

import re
from collections import Counter

from fieldmark.build.describe.lexicon import group_of
from fieldmark.build.describe.sentences import Span, split_sentences

WEIGHTS = {
    "colour": 1.5,
    "pattern": 0.8,
    "part": 0.7,
    "shape": 0.8,
    "texture": 0.8,
    "size": 0.5,
    "look": 0.4,
    "habit": 0.2,
    "measure": 0.4,
    "behaviour": -0.9,
    "habitat": -0.9,
    "taxonomy": -0.7,
    "name": -0.8,
    "use": -0.8,
    "status": -1.2,
    "hidden": -1.2,
    "voice": -1.0,
    "time": -0.6,
    "year": -1.0,
}
BIAS = -1.0
_MAX_COUNT = 3
"""more words of a group than this say no more"""

_WORD = re.compile(r"[^\W\d_]+")
_MEASURE = re.compile(r"\d\s?(?:mm|cm|m|in|ft|kg|g|lb|oz|inch(?:es)?|feet|met(?:re|er)s?)\b")
_YEAR = re.compile(r"\b(?:1[789]|20)\d\d\b")


def visible_spans(text: str) -> list[Span]:
    """The sentences that speak of visible appearance, in order."""
    return [span for span in split_sentences(text) if score(text[span.start : span.end]) > 0]


def score(sentence: str) -> float:
    """Above 0 = it speaks of visible appearance; the sum of `WEIGHTS` over what it holds."""
    counts = count_groups(sentence)
    return BIAS + sum(WEIGHTS[group] * min(n, _MAX_COUNT) for group, n in counts.items())


def count_groups(sentence: str) -> Counter[str]:
    """How many words of each group the sentence has, measures and years among them."""
    groups = group_of()
    counts = Counter(groups[word] for word in _WORD.findall(sentence.lower()) if word in groups)
    if measures := len(_MEASURE.findall(sentence)):
        counts["measure"] = measures
    if years := len(_YEAR.findall(sentence)):
        counts["year"] = years
    return counts

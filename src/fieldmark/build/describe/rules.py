"""Rule-based sentence classifier: which sentences speak of what the organism looks like?

A linear score over signs that a reader can check: how many words of each group of the lexicon a
sentence has ("wing", "reddish", "feeds"), and how it is built. "The wings are red" describes,
"it feeds on red berries" does not, so words for looks count more behind a link ("are", "has",
"with"), and the first verb counts on its own. Measures alone say nothing on looks.

The default filter, and the baseline for filters that ask a language model.
"""

from __future__ import annotations

import re
from collections import Counter

from fieldmark.build.describe.lexicon import group_of, word_set
from fieldmark.build.describe.sentences import Span, split_sentences

WEIGHTS = {
    "colour": 0.6,
    "pattern": 0.5,
    "shape": 0.6,
    "texture": 0.6,
    "part": 0.5,
    "size": 0.3,
    "measure": 0.0,
    "look": 0.3,
    "arrange": 0.4,
    "person": 0.0,
    "habit": 0.0,
    "behaviour": -0.7,
    "habitat": -0.6,
    "taxonomy": -0.6,
    "name": -0.7,
    "use": -0.8,
    "status": -0.8,
    "hidden": -0.9,
    "voice": -0.9,
    "time": -0.3,
    "research": -0.6,
    "named": -0.4,
    "colour of a name": -1.0,
    "year": -0.6,
    "number": -0.2,
    "predicate": 0.7,
    "proportion": 0.6,
    "subject": 0.5,
    "part is": 0.3,
    "link": 0.3,
    "deed": -0.4,
    "passive": -0.4,
    "undescribed": -0.4,
    "bare number": -1.0,
    "hidden subject": -1.5,
    "other subject": -0.8,
}
"""Set by hand with the labelled development sentences in view. A logistic regression on them,
pulled towards these numbers, gained nothing in 10 × 10-fold cross-validation, so they stayed. Only
sentences that were not looked at tell how good the filter is.
"""
BIAS = -1.2
MAX_COUNT = 3
"""a sign that a sentence has more often than this says no more"""

_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_NUMBER = re.compile(r"\d[\d.,]*(?:\s?[–-]\s?\d[\d.,]*)?")
_YEAR = re.compile(r"(?:1[789]|20)\d\d[.,]?")
_DESCRIPTORS = frozenset({"colour", "pattern", "shape", "texture"})
_ELSEWHERE = frozenset({"behaviour", "habitat", "research", "use", "status"})
_BE = word_set("is are was were be been being")
_LINKS = _BE | word_set(
    """
    has have had having with without bear bears bearing lack lacks lacking carry carries show shows
    possess possesses turn turns become becomes becoming look looks appear appears no
    """
)
_IRREGULAR = word_set(
    "eaten seen known found made sold shown given taken drawn laid kept held built thought caught"
    " bred fed grown led used"
)


def visible_spans(text: str) -> list[Span]:
    """The sentences that speak of visible appearance, in order."""
    return [span for span in split_sentences(text) if score(text[span.start : span.end]) > 0]


def score(sentence: str) -> float:
    """Above 0 = it speaks of visible appearance; `BIAS` and the `WEIGHTS` of its signs."""
    return BIAS + sum(WEIGHTS[sign] * n for sign, n in signs(sentence).items())


def signs(sentence: str) -> dict[str, int]:
    """What speaks for and against, with how often it occurs, at most `MAX_COUNT` times."""
    words = _WORD.findall(sentence.lower())
    groups = [group_of(word) for word in words]
    counts = Counter(groups)
    del counts[""]
    counts.update(_built(words, groups))
    for number in _NUMBER.findall(sentence):
        counts["year" if _YEAR.fullmatch(number) else "number"] += 1
    if counts.keys().isdisjoint(_DESCRIPTORS) and "proportion" not in counts:
        counts["undescribed"] = 1
        counts["bare number"] = int("number" in counts)
    return {sign: min(n, MAX_COUNT) for sign, n in counts.items()}


def _built(words: list[str], groups: list[str]) -> Counter[str]:
    """Signs that lie in how the sentence is built."""
    counts: Counter[str] = Counter()
    link, verb = -9, ""
    is_part = "part" in groups[:4]
    for here, group in enumerate(groups):
        if words[here] in _LINKS:
            link, verb = here, verb or "link"
            if words[here] in _BE and _is_passive(words, groups, here + 1):
                counts["passive"] += 1
        elif group == "behaviour":
            verb = verb or "deed"
        if group in _DESCRIPTORS:
            if here - link <= 4:
                counts["predicate"] += 1
            if group == "colour" and groups[here + 1 : here + 2] == ["named"]:
                counts["colour of a name"] += 1
        elif group == "size" and (is_part or groups[here + 1 : here + 2] == ["part"]):
            counts["proportion"] += 1
    if verb:
        counts[verb] = 1
    if is_part:
        counts["subject"] = 1
        counts["part is"] = int(verb == "link")
    elif not _ELSEWHERE.isdisjoint(groups[:3]):
        counts["other subject"] = 1
    if "hidden" in groups[:4]:
        counts["hidden subject"] = 1
    return counts


def _is_passive(words: list[str], groups: list[str], here: int) -> bool:
    """Something is done there ("was often collected"), and nothing described ("are flattened")."""
    while here < len(words) and (words[here].endswith("ly") or words[here] in _ADVERBS):
        here += 1
    if here >= len(words) or groups[here] in _SEEN:
        return False
    return words[here] in _IRREGULAR or (len(words[here]) > 4 and words[here].endswith("ed"))


_ADVERBS = word_set("often also never not always sometimes then now first")
_SEEN = _DESCRIPTORS | {"part", "size", "look", "arrange"}

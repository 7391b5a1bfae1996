"""Few-shot examples per taxonomic class: which sentences show how its organisms are described?

A caption is one sentence that names its species and some of its marks; so an example is a name and
one sentence of a description, word for word. Of every class the best few are taken: sentences that
name several parts and colours, neither short nor long, each of another family while there are
families left. The choice depends on the descriptions alone, not on their order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import polars as pl

from fieldmark import draws
from fieldmark.build.describe.lexicon import group_of

FEWEST, MOST = 50, 150
"""characters of a sentence that can be an example"""
_IDEAL = 110
_LEAST_KEPT = 2
"""sentences of a description that can be trusted with an example"""
_RICH = {"part": 4, "colour": 3, "pattern": 2, "shape": 2}
"""groups of words that tell a look, and how many of each count"""
_WORD = re.compile(r"[^\W\d_]+")
_UNFIT = re.compile(r"\d|[\[\]{}<>|]|\bcm\b|\bmm\b")
"""measurements, which no photo shows, and left-over markup"""
_WEAK = re.compile(
    r"\b(?:it|its|they|their|this|these|similar|resembles?|than|unlike|usually|often|sometimes|"
    r"typically|generally|may|can|known)\b",
    re.IGNORECASE,
)
"""words that lean on a sentence before, compare, or speak of other individuals"""
_TEXTS = pl.List(pl.String)


@dataclass(frozen=True, slots=True)
class FormatExample:
    """A sentence that could be an example."""

    text: str
    family: str
    score: float
    tie: bytes
    """decides between equal scores"""


def format_examples(descriptions: pl.DataFrame, n: int = 3) -> pl.DataFrame:
    """`class` and `examples`, sorted by class; classes without any example are left out."""
    columns = ["key", "class", "family", "genus", "species", "text", "spans"]
    described = descriptions.filter(pl.col("status") == "described").select(columns)
    by_class: dict[str, list[FormatExample]] = {}
    for row in described.iter_rows(named=True):
        if row["class"] and (best := best_example(row)):
            by_class.setdefault(row["class"], []).append(best)
    names = sorted(by_class)
    examples = pl.Series("examples", [_choose(by_class[name], n) for name in names], _TEXTS)
    return pl.DataFrame([pl.Series("class", names, pl.String), examples])


def best_example(row: dict[str, object]) -> FormatExample | None:
    """The best sentence of a description; None = it has no good one."""
    spans = list(row["spans"] or ())  # type: ignore[call-overload]
    name = f"{row['genus'] or ''} {row['species'] or ''}".strip()
    if len(spans) < _LEAST_KEPT or not name:
        return None
    sentences = _sentences(str(row["text"] or ""), spans)
    family = str(row["family"] or row["key"])
    options = [
        FormatExample(
            f"{name}: {sentence}", family, score(sentence), draws.digest(row["key"], sentence)
        )
        for sentence in sentences
        if score(sentence) > 0
    ]
    return max(options, key=_rank, default=None)


def _sentences(text: str, spans: Iterable[tuple[int, int]]) -> Iterator[str]:
    """Those that are whole and have the right length."""
    for start, end in spans:
        sentence = " ".join(text[start:end].split())
        is_whole = sentence[:1].isupper() and sentence.endswith(".")
        if is_whole and FEWEST <= len(sentence) <= MOST:
            yield sentence


def score(sentence: str) -> float:
    """How much of a look a sentence tells by itself; 0 = it is no example.

    >>> score("The wings are black with white tips.") > score("The wings are black.") > 0
    True
    """
    words = {word.rstrip("s"): group_of(word) for word in _WORD.findall(sentence.lower())}
    counts = Counter(group for group in words.values() if group)
    if not counts["part"] or _UNFIT.search(sentence):
        return 0.0
    n_weak = len(set(_WEAK.findall(sentence.lower())))
    richness = sum(min(counts[group], most) for group, most in _RICH.items())
    return max(0.01, richness - 1.5 * n_weak - abs(len(sentence) - _IDEAL) / _IDEAL)


def _rank(example: FormatExample) -> tuple[float, bytes]:
    return example.score, example.tie


def _choose(examples: Iterable[FormatExample], n: int) -> list[str]:
    """The best, a family's second only after every family's first, and none twice (rows of one
    organism share its page).
    """
    different = {example.text: example for example in sorted(examples, key=_rank)}
    ordered = sorted(different.values(), key=_rank, reverse=True)
    n_before: dict[str, int] = {}
    turns = []
    for place, example in enumerate(ordered):
        turn = n_before[example.family] = n_before.get(example.family, -1) + 1
        turns.append((turn, place, example.text))
    return [text for _, _, text in sorted(turns)[:n]]

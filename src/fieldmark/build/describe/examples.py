"""Few-shot examples per taxonomic class: which sentences show how its organisms are described?

A caption is one sentence that names its species and some of its marks; so an example is a name and
what one sentence of a description says, in the form of a caption: "The head is black." of Aus albus
gives "Aus albus, the head black." Of every class the best few are taken: sentences that
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
from fieldmark.build.describe.lexicon import group_of, word_set

FEWEST, MOST = 50, 150
"""characters of a sentence that can be an example"""
_IDEAL = 110
MOST_WORDS = 20
"""of an example, its name included: as many as captions have"""
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
_WHOLE = re.compile(
    r"(?:it|they|(?:the|this) (?:species|plant|bird|animal|fish|insect|tree|shrub|adult))"
    r" (is|are|has|have) ",
    re.IGNORECASE,
)
"""the organism is the subject: its name can stand there"""
_VERBS = {"is": "is", "are": "is", "has": "has", "have": "has"}
_LINK = re.compile(r" (is|are|has|have) ")
_INNER = re.compile(
    r"\b(?:which|that|who|it|they|there|this|these|not) (?:is|are|has|have)\b| not "
)
"""clauses that need their verb"""
_STARTS = word_set("the its their both all")
_OTHER_VERBS = word_set("bear lack show appear look carry form cover extend become turn")
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
    family = str(row["family"] or row["key"])
    options = [
        FormatExample(text, family, score(sentence), draws.digest(row["key"], sentence))
        for sentence in _sentences(str(row["text"] or ""), spans)
        if score(sentence) > 0 and (text := caption_form(name, sentence))
    ]
    return max(options, key=_rank, default=None)


def caption_form(name: str, sentence: str) -> str:
    """What a sentence says of a species as a caption with its name; "" = it cannot be said so.

    >>> caption_form("Aus albus", "The head is black and the wings have white tips.")
    'Aus albus, the head black and the wings with white tips.'
    >>> caption_form("Aus albus", "It has a black head.")
    'Aus albus has a black head.'
    """
    if match := _WHOLE.match(sentence):
        text = f"{name} {_VERBS[match[1]]} {sentence[match.end() :]}"
    elif bare := _without_verbs(sentence):
        text = f"{name}, {bare}"
    else:
        return ""
    return text if len(text.split()) <= MOST_WORDS else ""


def _without_verbs(sentence: str) -> str:
    """ "The head is black" as "the head black"; "" = other verbs hold the sentence."""
    opening = sentence.partition(" ")[0].lower()
    words = _WORD.findall(sentence.lower())
    has_verb = any(
        word in _OTHER_VERBS
        or (word.endswith("s") and group_of(word) in ("arrange", "behaviour", "look"))
        for word in words
    )
    if (
        has_verb
        or _INNER.search(sentence)
        or not (opening in _STARTS or group_of(opening) == "part")
    ):
        return ""
    bare = _LINK.sub(lambda link: " with " if link[1].startswith("ha") else " ", sentence)
    return bare[:1].lower() + bare[1:] if bare != sentence else ""


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
    group_by_word = {word.rstrip("s"): group_of(word) for word in _WORD.findall(sentence.lower())}
    counts = Counter(group for group in group_by_word.values() if group)
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
    for number, example in enumerate(ordered):
        turn = n_before[example.family] = n_before.get(example.family, -1) + 1
        turns.append((turn, number, example.text))
    return [text for _, _, text in sorted(turns)[:n]]

"""Caption checks: may this sentence stand beside this photo, and if not, why not?

A caption is one whole sentence of few words that names its species and does not talk of the photo.
What only looks untidy is mended, and the mend is written down; what breaks one of the five rules is
a problem, told to the model in the same words as to the user:

    words       length: too many, or nothing but the name
    sentences   one sentence, on one line
    name        names the species in any of its spellings
    image_talk  does not talk of the photo
    cut_off     is whole
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from fieldmark.build.describe.lexicon import group_of, word_set
from fieldmark.chat.parse.text import Word, read, strip_reasoning

RULES_VERSION = 3
"""part of every manifest: captions that other rules let through are checked anew"""
_LEAST_WORDS = 3
"""besides the name: fewer describe nothing"""
_MOST_LETTERS = 40
"""of what stands between two spaces: "black-black-black-…" is no word"""
_PHOTO = re.compile(
    r"\b(?:images?|photos?|photograph\w*|pictured?|pictures|captions?|captured|close-?ups?|camera|"
    r"depict(?:s|ed|ing)|foreground|background|blurr\w*|cropped|resolution|macro|portraits?|"
    r"illustrations?|(?:screen|head)?shots?)\b",
    re.IGNORECASE,
)
_SHORT = word_set("sp spp subsp ssp var cf aff f st mt nr l c ca approx no fig vs dr incl")
"""abbreviations whose full stop ends no sentence"""
_OPEN_WORDS = word_set("""
    a an the this these its their his her and or but nor with without of at to by from for as into
    onto among beside against toward towards which whose who where while when if than very
    slightly rather more most less is are was has have having showing featuring including some
    """)
"""words that end no sentence"""
_ADVERBS = word_set("in on that over under near between beneath behind through each both several")
"""words that end one where a full stop says so"""


class CheckedCaption(NamedTuple):
    caption: str
    """as it may be used, mends included"""
    mends: tuple[str, ...]
    problem: str
    """`kind: what is wrong`; "" = nothing is"""


def check_caption(answer: str, names: Sequence[str], max_words: int) -> CheckedCaption:
    """The caption of a model's answer; `names` are all that the species may be called."""
    text = strip_reasoning(answer)
    if text is None:
        return CheckedCaption("", (), "cut_off: ends inside its reasoning")
    caption, mends = mend(text)
    return CheckedCaption(caption, mends, next(_problems(caption, names, max_words), ""))


def _problems(caption: str, names: Sequence[str], max_words: int) -> Iterator[str]:
    passage = read(caption)
    words = passage.words
    if not words:
        yield "words: has no words"
        return
    common = (one for name in names[1:] for one in listed_names(name))
    runs = name_places(words, (*names, *common))
    if "\n" in caption:
        yield "sentences: has several lines, one is allowed"
    if (n := n_sentences(words)) > 1:
        yield f"sentences: has {n} sentences, one is allowed"
    if caption[-1] not in ".!)" or words[-1].text in _OPEN_WORDS or caption.endswith(".."):
        yield "cut_off: ends in mid-sentence"
    if (longest := max(map(len, caption.split()))) > _MOST_LETTERS:
        yield f"words: has a word of {longest} letters"
    if (n := len(caption.split())) > max_words:
        yield f"words: has {n} words, at most {max_words} are allowed"
    if not runs:
        yield f"name: does not name the species as {' or '.join(names)}"
    if len(words) - sum(map(len, runs)) < _LEAST_WORDS:
        yield "words: describes nothing"
    # The text without the species' name: a picture-winged fly says nothing of pictures
    text = passage.plain
    for run in reversed(runs):
        first_word, last_word = passage.words[run[0]], passage.words[run[-1]]
        text = f"{text[: first_word.start]}{text[last_word.end :]}"
    if talk := _PHOTO.search(text):
        yield f"image_talk: speaks of the photo itself ({talk[0]!r})"


def n_sentences(words: Sequence[Word]) -> int:
    """As many as the reader counts, less those that an abbreviation seems to end."""
    n = 1
    for before, word in pairwise(words):
        n += word.sentence != before.sentence and before.text not in _SHORT
    return n


# --- mends ---

_LABEL = re.compile(r"^(?:the )?(?:caption|answer|sentence)\s*[:\-–]\s*", re.IGNORECASE)
_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "«": "»", "`": "`"}
_EMPHASIS = re.compile(r"(?<![\w*_])([*_]{1,3})(?=\S)([^*_\n]+?)(?<=\S)\1(?![\w*_])")
_QUOTED_WORD = re.compile(r"(?<!\w)[\"“]([\w-]+)[\"”](?!\w)")


def mend(text: str) -> tuple[str, tuple[str, ...]]:
    """Untidy form made tidy, and what was done.

    >>> mend('Caption: "A *Corvus corax* on snow"')
    ('A Corvus corax on snow.', ('label', 'quotes', 'emphasis', 'full stop'))
    """
    mends: list[str] = []

    def note(before: str, after: str, name: str) -> str:
        if after != before and name not in mends:
            mends.append(name)
        return after

    shown = "".join(char for char in text if unicodedata.category(char) != "Cf")
    text = note(text, shown, "invisible characters")
    text = "\n".join(" ".join(line.split()) for line in text.strip().splitlines())
    for _ in range(2):  # a label may stand inside the quotes, or before them
        text = note(text, _LABEL.sub("", text), "label")
        if len(text) > 1 and _QUOTES.get(text[0]) == text[-1]:
            text = note(text, text[1:-1].strip(), "quotes")
    text = note(text, _EMPHASIS.sub(r"\2", text), "emphasis")
    text = note(text, _QUOTED_WORD.sub(r"\1", text), "quotes")
    if text and (text[-1].isalnum() or text[-1] == ")") and not _is_open(text):
        text = note(text, f"{text}.", "full stop")
    return text, tuple(mends)


def _is_open(text: str) -> bool:
    """Does a text without a full stop end in a word that others must follow?"""
    words = read(text).words
    return not words or words[-1].text in _OPEN_WORDS | _ADVERBS


# --- name matching: does a sentence name this species, whatever its spelling?

_MARKS = word_set("x ssp subsp var f forma")
"""signs of a hybrid and of a rank below the species: they may be left out"""
_SPELLINGS = {
    "gray": "grey", "color": "colour", "colored": "coloured", "mustached": "moustached",
    "sulfur": "sulphur", "saint": "st",
}  # fmt: skip
_PLURALS = (
    ("goose", "geese"), ("mouse", "mice"), ("louse", "lice"), ("foot", "feet"), ("tooth", "teeth"),
    ("man", "men"), ("ox", "oxen"), ("fe", "ves"), ("f", "ves"), ("us", "i"), ("y", "ies"),
    ("", "s"), ("", "es"),
)  # fmt: skip
"""end of a word and of its plural; all that fit are taken, for nobody writes the wrong ones"""
_ORDINARY = word_set("colour pattern shape texture part size habit person look")
"""groups of words that any description has"""


def listed_names(text: str) -> tuple[str, ...]:
    """The names of a field that may hold several, without notes.

    >>> listed_names("Common blackbird, Eurasian blackbird"), listed_names("Warbler, Yellow")
    (('Common blackbird', 'Eurasian blackbird'), ('Yellow Warbler', 'Warbler'))
    """
    bare = " ".join(re.sub(r"\([^()]*\)|\[[^\[\]]*\]", " ", text).split())
    parts = [part.strip() for part in re.split(r"[,;/|]| or ", bare) if part.strip()]
    if len(parts) == 2 and "," in bare and " " not in parts[1]:
        parts.insert(0, f"{parts[1]} {parts[0]}")
    names = [part for part in parts if " " in part or group_of(part.lower()) not in _ORDINARY]
    return tuple(dict.fromkeys(names or parts))


@lru_cache(4096)
def _forms(name: str) -> frozenset[str]:
    """The ways to write a name, without spaces: "honey bee" is "honeybee"."""
    words = (word.text for word in read(name.replace("×", " ")).words)
    *modifiers, last = [_SPELLINGS.get(word, word) for word in words if word not in _MARKS] or [""]
    forms = {"".join([*modifiers, form]) for form in _numbers(last)}
    if "of" in modifiers:  # birds of paradise
        index = modifiers.index("of")
        before = "".join(modifiers[:index])
        forms |= {"".join([form, *modifiers[index:], last]) for form in _numbers(before)}
    return frozenset(forms - {""})


def _numbers(word: str) -> set[str]:
    """Singular, plural, genitive (whose apostrophe is gone)."""
    ends = {word.removesuffix(one) + many for one, many in _PLURALS if word.endswith(one)}
    return {word, *ends}


def name_places(words: Sequence[Word], names: Sequence[str]) -> list[range]:
    """The runs of words that are one of the names."""
    forms = frozenset[str]().union(*map(_forms, names))
    longest = max(map(len, forms), default=0)
    numbers = [number for number, word in enumerate(words) if word.text not in _MARKS]
    runs: list[range] = []
    for position, start in enumerate(numbers):
        if runs and start in runs[-1]:
            continue
        ends, joined = [], ""
        for number in numbers[position:]:
            joined += _SPELLINGS.get(words[number].text, words[number].text)
            if len(joined) > longest:
                break
            ends += [number] if joined in forms else []
        runs += [range(start, ends[-1] + 1)] if ends else []
    return runs

"""Caption prompt: what is a vision model told, so that one sentence says what this photo shows?

What is the same for many photos comes first: the instruction, then the examples of the taxonomic
class; the photo and the words about its species follow. Servers that keep the beginning of a prompt
(prefix caching) then compute it once per class. The excerpt of the description is there to choose
terms for traits that are visible, and the prompt says so: a caption that repeats what the page says
and the photo does not show teaches a model nothing about photos.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from fieldmark import draws
from fieldmark.build.caption.checks import check_caption, listed_names
from fieldmark.build.describe.sentences import split_sentences
from fieldmark.chat import Message, Picture, Text, assistant, user
from fieldmark.errors import DataError
from fieldmark.taxa import RANKS, Taxon, same_organism

MAX_WORDS = 20
EXCERPT_CHARS = 600
INSTRUCTION = """\
You are a biologist who writes captions for photos of organisms.
Write one sentence of at most {max_words} words about the photo below.
Name the species in the sentence, by its scientific name or by its common name, as they are given.
Describe only what is visible in this photo: shape, colour, pattern, texture, posture.
Tell at least one mark of the organism itself, not only where it is.
Put the traits first that tell this species from similar ones.
Leave out what a photo cannot show: range, measurements, voice, habits, names of other species.
Leave out guesses, and do not speak of the photo itself, its light, focus or background.
Answer with the sentence alone: no quotation marks, no markup, no line break."""
EXAMPLES = "Examples of the style, for other species{of_class}; do not copy them:"
GENERIC_EXAMPLES = (
    "Sturnus vulgaris with glossy black plumage, dense pale spots and a yellow pointed bill.",
    "Amanita muscaria showing a red convex cap with raised white warts and a ringed white stalk.",
    "Vanessa atalanta, dark wings spread, each forewing crossed by an orange-red band.",
)
SHORT_EXAMPLES = (
    "Sturnus vulgaris, glossy black with pale spots.",
    "Amanita muscaria with a red, white-warted cap.",
    "Vanessa atalanta, dark wings crossed by orange bands.",
)
"""for captions of few words"""
REFERENCE = (
    "Reference text, only to choose the right terms for traits that are visible in this photo; "
    "leave out whatever it says that the photo does not show:"
)
AGAIN = "That caption cannot be used: {problem}. Write another one that follows all rules."


@dataclass(frozen=True, slots=True)
class SpeciesWords:
    """What descriptions and class examples say; all of it is optional."""

    by_key: Mapping[str, str] = field(default_factory=dict)
    """taxon key → description"""
    by_name: Mapping[str, tuple[tuple[Taxon, str], ...]] = field(default_factory=dict)
    """scientific name → the taxa of that name with their descriptions"""
    examples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """taxonomic class → captions as they should be"""
    digest: str = ""
    """changes when any of this does"""
    generic: tuple[str, ...] = GENERIC_EXAMPLES
    """for classes that have no examples"""

    def description(self, taxon: Taxon) -> str:
        """By all ranks; else by the name, where all taxa that it can mean have one description."""
        if by_taxon := self.by_key.get(taxon.key, ""):
            return by_taxon
        named = self.by_name.get(taxon.name, ())
        texts = {text for other, text in named if same_organism(taxon, other)}
        return texts.pop() if len(texts) == 1 else ""

    def names(self, taxon: Taxon) -> tuple[str, ...]:
        """All that a caption may call it: the scientific name, then common ones."""
        common = (taxon.common_name, *self.common_names(taxon.name))
        every = (taxon.name, *(name for names in common for name in listed_names(names)))
        return tuple(dict.fromkeys(name for name in every if name))

    def common_names(self, name: str) -> list[str]:
        """Of all taxa with this scientific name."""
        return [taxon.common_name for taxon, _ in self.by_name.get(name, ())]

    def examples_of(self, taxon: Taxon) -> tuple[str, ...]:
        return self.examples.get(taxon.at("class")) or self.generic

    def fit(self, max_words: int) -> SpeciesWords:
        """Only examples that are captions by the run's own rules: models copy their form."""
        by_class = {name: _captions(texts, max_words) for name, texts in self.examples.items()}
        generic = _captions(GENERIC_EXAMPLES, max_words) or _captions(SHORT_EXAMPLES, max_words)
        examples = {name: texts for name, texts in by_class.items() if texts}
        return replace(self, examples=examples, generic=generic)


_BINOMIAL = re.compile(r"\b[A-Z][a-z]+ (?:× ?)?[a-z][a-z-]+")


def _captions(examples: Sequence[str], max_words: int) -> tuple[str, ...]:
    """Those that the rules let through as they are."""
    checked = ((text, check_caption(text, _BINOMIAL.findall(text), max_words)) for text in examples)
    return tuple(text for text, caption in checked if caption == (text, (), ""))


def read_words(folder: Path | None) -> SpeciesWords:
    """descriptions.parquet and format_examples.parquet of a folder; None has none."""
    if folder is None:
        return SpeciesWords(digest=draws.digest("no descriptions").hex())
    columns = ["key", *RANKS, "common_name", "status", "description"]
    rows = _read(folder / "descriptions.parquet", columns).unique(maintain_order=True).sort("key")
    examples = _read(folder / "format_examples.parquet", ["class", "examples"]).sort("class")
    by_key: dict[str, str] = {}
    by_name: dict[str, list[tuple[Taxon, str]]] = {}
    for row in rows.iter_rows(named=True):
        ranks = tuple(row[rank] or "" for rank in RANKS)
        taxon = Taxon(ranks, row["common_name"] or "")  # type: ignore[arg-type]  # seven of them
        text = row["description"] if row["status"] == "described" else None
        by_name.setdefault(taxon.name, []).append((taxon, text or ""))
        if text:
            by_key[taxon.key] = text
    return SpeciesWords(
        by_key,
        {name: tuple(pairs) for name, pairs in by_name.items()},
        {row[0]: tuple(row[1]) for row in examples.iter_rows() if row[0] and row[1]},
        draws.digest(rows.write_ndjson(), examples.write_ndjson()).hex(),
    )


def _read(path: Path, columns: Sequence[str]) -> pl.DataFrame:
    try:
        frame = pl.read_parquet(path)
    except FileNotFoundError:
        raise DataError(f"{path}  does not exist: `fieldmark describe` writes it.") from None
    except (OSError, pl.exceptions.PolarsError) as error:
        message = str(error).splitlines()[0]
        raise DataError(f"{path}  cannot be read as Parquet: {message}.") from None
    if missing := [name for name in columns if name not in frame.columns]:
        raise DataError(
            f"{path}  has no column {missing[0]!r}: expected a file of `fieldmark describe`."
        )
    return frame.select(columns)


def excerpt(text: str, most: int = EXCERPT_CHARS) -> str:
    """The beginning of a text, whole sentences only; of a longer first sentence, whole words.

    >>> excerpt("Wings are blue. Legs are black.", 20)
    'Wings are blue.'
    """
    text = " ".join(text.split())
    if len(text) <= most:
        return text
    ends = [span.end for span in split_sentences(text[: most + 100]) if span.end <= most]
    if ends:
        return text[: ends[-1]]
    space = text.rfind(" ", 0, most + 1)
    return text[: space if space > 0 else most].rstrip(" ,;:") + " …"


@dataclass(frozen=True, slots=True)
class CaptionPrompt:
    """Makes the messages of a photo."""

    words: SpeciesWords
    max_words: int = MAX_WORDS

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", self.words.fit(self.max_words))

    @property
    def digest(self) -> str:
        """Changes when the wording does; what differs between photos is not in it."""
        generic = (*GENERIC_EXAMPLES, *SHORT_EXAMPLES)
        parts = (INSTRUCTION, EXAMPLES, *generic, REFERENCE, AGAIN, _species_text(("A", "B", "C")))
        return draws.digest(*parts, EXCERPT_CHARS, self.max_words).hex()

    def messages(self, taxon: Taxon, picture: Picture) -> tuple[Message, ...]:
        shared = Text(self._shared(taxon), ends_shared=True)
        species = _species_text(self.words.names(taxon))
        if description := excerpt(self.words.description(taxon)):
            species = f"{species}\n\n{REFERENCE}\n{description}"
        return (user(shared, picture, species),)

    def _shared(self, taxon: Taxon) -> str:
        name = taxon.at("class")
        of_class = f" of the class {name}" if self.words.examples.get(name) else ""
        lines = [INSTRUCTION.format(max_words=self.max_words)]
        if examples := self.words.examples_of(taxon):
            lines += ["", EXAMPLES.format(of_class=of_class), *(f"- {text}" for text in examples)]
        return "\n".join(lines)


def _species_text(names: Sequence[str]) -> str:
    """The first name stands for the species: the common one where there is no other."""
    lines = [f"Species: {names[0]}"]
    if common := ", ".join(names[1:]):
        lines.append(f"Common name: {common}")
    return "\n".join([*lines, f"Name it in the sentence as: {' or '.join(names)}"])


def ask_again(messages: Sequence[Message], text: str, problem: str) -> tuple[Message, ...]:
    """The conversation so far, and what is wrong with the caption that came of it."""
    return (*messages, assistant(text or "(nothing)"), user(AGAIN.format(problem=problem)))

"""What is asked, of which picture, and how?

A `Question` is the same for all items of a part of a task; an `Item` is one row of its table with
its pictures; `Asking` are the settings of a run that change the prompt. Plain data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from fieldmark.chat._messages import Picture
from fieldmark.chat._names import Taxon, TaxonNames
from fieldmark.chat._names_taxonomy import Relatives
from fieldmark.chat._parse import Form
from fieldmark.errors import DataError, UsageError

Kind = Literal["choice", "yes_no", "traits", "same", "count", "open"]
FORMS: dict[Kind, Form] = {
    "choice": "choice", "yes_no": "yes_no", "traits": "labels", "same": "yes_no", "count": "count",
    "open": "open",
}  # fmt: skip
MOST_LETTERS = 26


@dataclass(frozen=True, slots=True)
class Item:
    """One row that is asked about, or shown as an example."""

    id: str
    pictures: tuple[Picture, ...]
    """one; the frames of a clip in their order; the two of a pair"""
    label: str | None = None
    """the truth; of traits see `labels`"""
    labels: tuple[str, ...] = ()
    """the traits that hold"""


@dataclass(frozen=True, slots=True)
class Question:
    """One question of a task, asked of many items."""

    task: str
    """task and part: what draws depend on"""
    kind: Kind
    names: Mapping[str, str] = field(default_factory=dict)
    """label → what the model is shown; bound by label, never by position"""
    prompt: str = ""
    """the question in words; "" = one that fits the kind"""
    n_choices: int = 0
    """options offered, the truth among them; 0 = all labels"""
    distractors: Literal["random", "nearest"] = "random"
    letters: bool = True
    """options are answered by letter; without, by name"""
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """label → other ways to say it, understood but not shown"""
    subject: str = "animal"
    """what the words of the question call the thing in the picture"""
    relatives: Relatives | None = None
    """lineages, for the nearest distractors"""
    taxa: TaxonNames | None = None
    """what an open answer is matched with"""

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", {each: self.names[each] for each in sorted(self.names)})
        needs = {"choice": 2, "traits": 1}.get(self.kind, 0)
        if len(self.names) < needs:
            raise UsageError(
                f"task {self.task!r}: a question of kind {self.kind!r} needs at least {needs} "
                f"labels, found {len(self.names)}."
            )
        if self.n_choices == 1 or self.n_choices < 0:
            raise UsageError(
                f"task {self.task!r}: choices is {self.n_choices}: expected 0 (all) or at least 2."
            )
        if self.distractors == "nearest" and self.n_choices and self.relatives is None:
            raise UsageError(
                f"task {self.task!r}: the nearest distractors need lineages: name the columns of "
                "the ranks, or use `distractors: random`."
            )
        if self.kind == "yes_no" and not self.prompt:
            raise UsageError(f"task {self.task!r}: a question of yes or no needs a prompt.")
        if self.kind == "open" and self.taxa is None:
            raise UsageError(f"task {self.task!r}: an open answer needs names to be matched with.")

    @property
    def form(self) -> Form:
        return FORMS[self.kind]

    @property
    def has_letters(self) -> bool:
        n = self.n_choices or len(self.names)
        return self.letters and self.kind in ("choice", "traits") and n <= MOST_LETTERS


@dataclass(frozen=True, slots=True)
class Asking:
    """What a run may set about its prompts."""

    seed: int = 0
    cot: bool = False
    """reasons first, the answer last"""
    system: str = ""
    """"" sends no system message"""
    is_json: bool = False
    """the answer as a JSON object, with its schema"""
    layout: Literal["single_turn", "multi_turn"] = "single_turn"
    """examples in one message, or each as a question and its answer"""
    n_frames: int = 8
    """of a clip, evenly spread; 0 = all"""
    rotation: int = 0
    """options turned by so many places; see `rotations`"""


PLAIN = Asking()


def bind_names(pairs: Iterable[tuple[str, str | None]], where: str = "") -> dict[str, str]:
    """label → readable name, from rows of (label, name); the order of rows does not matter.

    A label without a name is shown as it is, readable. Two labels of one name are told apart by
    adding the label; one label of two names is refused.

    >>> bind_names([("not_adult", "juvenile bald eagle"), ("adult", None)])
    {'adult': 'adult', 'not_adult': 'juvenile bald eagle'}
    """
    found: dict[str, str] = {}
    for label, name in pairs:
        shown = (name or label).replace("_", " ").strip()
        if found.setdefault(label, shown) != shown:
            raise DataError(
                f"{where + ': ' if where else ''}label {label!r} is called {found[label]!r} and "
                f"{shown!r}: expected one name for each label."
            )
    owners: dict[str, list[str]] = {}
    for label, name in sorted(found.items()):
        owners.setdefault(name.casefold(), []).append(label)
    return {
        label: name if len(owners[name.casefold()]) == 1 else f"{name} ({label})"
        for label, name in sorted(found.items())
    }


def shown_name(taxon: Taxon, show: str) -> str:
    """What the options call a species: "lion (Panthera leo)", or one of the two."""
    common = taxon.common[0] if taxon.common else ""
    if show == "common" and common:
        return common
    if show == "both" and common and taxon.scientific:
        return f"{common} ({taxon.scientific})"
    return taxon.scientific or common or taxon.label

"""The question: what is asked, of which picture, and how does the `ask:` block of a task say so?

A `PromptQuestion` is the same for all items of a part of a task; an `Item` is one row of its table,
with its pictures; `Asking` are the settings of a run that change the prompt. `AskRules` are the
keys of the block, one to one; `make_question` binds them to the rows of a part: every label to its
readable name, species to their names and lineages. Nearest distractors are those of the smallest
taxonomic distance: lineages are compared by names, rank by rank, so that a genus of the same name
in another kingdom is another genus.

    ask: {prompt: "Which species is this?", choices: 8, distractors: nearest}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from fieldmark import draws
from fieldmark.chat.messages import Picture
from fieldmark.chat.parse.answer import Form
from fieldmark.chat.parse.names import NamedTaxon, TaxonNames, index_taxa
from fieldmark.errors import DataError, UsageError, closest

Kind = Literal["choice", "yes_no", "traits", "same", "count", "open"]
FORMS: dict[Kind, Form] = {
    "choice": "choice", "yes_no": "yes_no", "traits": "labels", "same": "yes_no", "count": "count",
    "open": "open",
}  # fmt: skip
MOST_LETTERS = 26
OPTIONS = "{options}"
"""in a prompt: 'this' or 'that'"""

Lineage = Sequence[str | None]
"""names from kingdom to species, None or "" where a rank is not known"""


def taxon_distance(one: Lineage, two: Lineage) -> int:
    """Ranks up from species to the lowest one that both share: 0 same species, 1 same genus, …

    Nothing shared is the number of ranks. A rank that either lacks is passed over.

    >>> taxon_distance(("Felidae", "Panthera", "leo"), ("Felidae", "Panthera", "tigris"))
    1
    """
    n_ranks = max(len(one), len(two))
    lowest = 0
    for rank, (left, right) in enumerate(zip(one, two, strict=False), start=1):
        if not left or not right:
            continue
        if left.casefold() != right.casefold():
            break
        lowest = rank
    return n_ranks - lowest


@dataclass(frozen=True, slots=True)
class Relatives:
    """Labels with their lineages; what is near to each is worked out once."""

    lineages: Mapping[str, Lineage]
    tiers: dict[tuple[str, int], list[list[str]]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def nearest(self, label: str, n: int, *key: object) -> list[str]:
        """`n` other labels, the nearest in the tree first; which of equally near ones is drawn.

        `key` is what the draw depends on: (seed, task, item, purpose).
        """
        labels: list[str] = []
        # Labels at growing distance, as many tiers as n of them need
        if (label, n) not in self.tiers:
            lineage_of_label = self.lineages.get(label, ())
            by_distance: dict[int, list[str]] = {}
            for other, lineage in self.lineages.items():
                if other != label:
                    by_distance.setdefault(taxon_distance(lineage_of_label, lineage), []).append(
                        other
                    )
            tiers = self.tiers[label, n] = []
            for distance in sorted(by_distance):
                if sum(map(len, tiers)) < n:
                    tiers.append(by_distance[distance])
        for tier in self.tiers[label, n]:
            labels += draws.shuffled(tier, *key)[: n - len(labels)]
        return labels


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
class PromptQuestion:
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
        object.__setattr__(self, "names", dict(sorted(self.names.items())))
        if problem := self._problem():
            raise UsageError(f"task {self.task!r}: {problem}.")

    def _problem(self) -> str:
        needs = {"choice": 2, "traits": 1}.get(self.kind, 0)
        if len(self.names) < needs:
            need = f"a question of kind {self.kind!r} needs at least {needs} labels"
            return f"{need}, found {len(self.names)}"
        if self.n_choices == 1 or self.n_choices < 0:
            return f"choices is {self.n_choices}: expected 0 (all) or at least 2"
        if self.distractors == "nearest" and self.n_choices and self.relatives is None:
            columns = "name the columns of the ranks, or use `distractors: random`"
            return f"the nearest distractors need lineages: {columns}"
        if self.has_options_inside and (self.kind != "choice" or self.has_letters):
            return f"{OPTIONS} in a prompt needs `kind: choice` and `letters: false`"
        if self.kind == "yes_no" and not self.prompt:
            return "a question of yes or no needs a prompt"
        if self.kind == "open" and self.taxa is None:
            return "an open answer needs names to be matched with"
        return ""

    @property
    def form(self) -> Form:
        return "closest" if self.has_options_inside else FORMS[self.kind]

    @property
    def has_options_inside(self) -> bool:
        """The prompt names the options itself, and says how to answer: in bold."""
        return OPTIONS in self.prompt

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


@dataclass(frozen=True, slots=True)
class Shots:
    """The examples of one prompt, in their order, and why there are not more."""

    examples: tuple[Item, ...] = ()
    k_asked: int = 0
    """-1 = all"""
    why: str = ""
    """pool, context, pictures or bytes: what made them fewer; "" = as many as asked"""
    fits: bool = True
    """False: not even the question alone fits the model"""
    is_shared: bool = False
    """all items have these"""

    @property
    def k_used(self) -> int:
        return len(self.examples)


NO_SHOTS = Shots()


def bind_names(pairs: Iterable[tuple[str, str | None]], where: str = "") -> dict[str, str]:
    """label → readable name, from rows of (label, name); the order of rows does not matter.

    A label without a name is shown as it is, readable. Two labels of one name are told apart by
    adding the label; one label of two names is refused.

    >>> bind_names([("not_adult", "juvenile bald eagle"), ("adult", None)])
    {'adult': 'adult', 'not_adult': 'juvenile bald eagle'}
    """
    name_of: dict[str, str] = {}
    for label, name in pairs:
        shown = (name or label).replace("_", " ").strip()
        if name_of.setdefault(label, shown) != shown:
            raise DataError(
                f"{where + ': ' if where else ''}label {label!r} is called {name_of[label]!r} and "
                f"{shown!r}: expected one name for each label."
            )
    owners: dict[str, list[str]] = {}
    for label, name in sorted(name_of.items()):
        owners.setdefault(name.casefold(), []).append(label)
    return {
        label: name if len(owners[name.casefold()]) == 1 else f"{name} ({label})"
        for label, name in sorted(name_of.items())
    }


def shown_name(taxon: NamedTaxon, show: str) -> str:
    """What the options call a species: "lion (Panthera leo)", or one of the two."""
    common = taxon.common[0] if taxon.common else ""
    if show == "common" and common:
        return common
    if show == "both" and common and taxon.scientific:
        return f"{common} ({taxon.scientific})"
    return taxon.scientific or common or taxon.label


TableRow = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AskRules:
    """The keys of `ask:`; each has a meaning for some kinds only."""

    kind: Kind = "choice"
    """choice, yes_no, traits, same, count or open"""
    prompt: str = ""
    """the question in words; "" = one that fits the kind"""
    subject: str = "animal"
    """what the ready-made questions call the thing in the picture"""
    names: str | Mapping[str, str] = ""
    """a column with the readable name of each label, or label → name; "" = the labels"""
    choices: int = 0
    """options offered, the truth among them; 0 = all labels"""
    distractors: Literal["random", "nearest"] = "random"
    letters: bool = True
    """options are answered by letter; without, by name"""
    scientific: str = ""
    """column of the scientific name; with it or `common`, the labels are species"""
    common: str = ""
    """column of the common name"""
    synonyms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """label → further names that an answer may use"""
    show: Literal["both", "scientific", "common"] = "both"
    """which names of a species the options show"""
    lineage: tuple[str, ...] = ()
    """columns from kingdom to species, for the nearest distractors and for "genus only" """


def make_question(
    task: str,
    rules: AskRules,
    rows: Iterable[TableRow],
    label: str = "target",
    traits: Sequence[str] = (),
) -> PromptQuestion:
    """The question of a task's part; `rows` are its training and test rows, in any order.

    Rows that say the same of the same label count once. `task` is what draws depend on: task and
    part. `traits` are the columns of a question of kind traits.
    """
    if rules.kind in ("same", "count"):
        return PromptQuestion(task, rules.kind, prompt=rules.prompt, subject=rules.subject)
    if rules.kind == "traits":
        names_of = rules.names if isinstance(rules.names, Mapping) else {}
        names = bind_names([(trait, names_of.get(trait)) for trait in traits])
        return PromptQuestion(task, names=names, aliases=rules.synonyms, **_shared_keys(rules))
    table = list(rows)
    columns = [rules.scientific, rules.common, *rules.lineage]
    for column in (*columns, rules.names if isinstance(rules.names, str) else ""):
        _need(task, column, table)
    if any(columns) or rules.kind == "open":
        return _of_species(task, rules, table, label)
    pairs = [(str(row[label]), _name(rules.names, row, label)) for row in table]
    names = bind_names(pairs, f"task {task!r}")
    return PromptQuestion(task, names=names, aliases=rules.synonyms, **_shared_keys(rules))


def _of_species(task: str, rules: AskRules, rows: Sequence[TableRow], label: str) -> PromptQuestion:
    taxa = {str(row[label]): _taxon(rules, row, label) for row in rows}
    shown = [(name, shown_name(taxon, rules.show)) for name, taxon in taxa.items()]
    aliases = {
        name: tuple(filter(None, (taxon.scientific, *taxon.common, *taxon.synonyms)))
        for name, taxon in taxa.items()
    }
    lineages = {name: taxon.lineage for name, taxon in taxa.items()}
    return PromptQuestion(
        task,
        names=bind_names(shown, f"task {task!r}"),
        aliases=aliases,
        relatives=Relatives(lineages) if rules.lineage else None,
        taxa=index_taxa(taxa.values()) if rules.kind == "open" else None,
        **_shared_keys(rules),
    )


def _shared_keys(rules: AskRules) -> dict[str, Any]:
    """What a block and its question say in the same words."""
    return {
        "kind": rules.kind,
        "prompt": rules.prompt,
        "subject": rules.subject,
        "n_choices": rules.choices,
        "distractors": rules.distractors,
        "letters": rules.letters,
    }


def _taxon(rules: AskRules, row: TableRow, label: str) -> NamedTaxon:
    name = str(row[label])
    common = row.get(rules.common) if rules.common else None
    return NamedTaxon(
        name,
        str(row.get(rules.scientific) or "") if rules.scientific else "",
        (str(common),) if common else (),
        tuple(rules.synonyms.get(name, ())),
        tuple(row.get(rank) for rank in rules.lineage),
    )


def _name(names: str | Mapping[str, str], row: TableRow, label: str) -> str | None:
    if isinstance(names, str):
        return row.get(names) if names else None
    return names.get(str(row[label]))


def _need(task: str, column: str, rows: Sequence[TableRow]) -> None:
    if not column or not rows or column in rows[0]:
        return
    near = closest(column, rows[0])
    hint = f" Did you mean {near[0]!r}?" if near else f" It has {', '.join(rows[0])}."
    raise UsageError(f"task {task!r}: ask: the dataset has no column {column!r}.{hint}")

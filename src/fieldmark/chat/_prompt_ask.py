"""How does the `ask:` block of a task become a question?

`AskRules` are the keys of the block, one to one; `make_question` binds them to the rows of a part:
every label to its readable name, species to their names and lineages.

    ask: {prompt: "Which species is this?", choices: 8, distractors: nearest}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from fieldmark.chat._names import Taxon, index_taxa
from fieldmark.chat._names_taxonomy import Relatives
from fieldmark.chat._prompt_question import Kind, Question, bind_names, shown_name
from fieldmark.errors import UsageError, closest

Row = Mapping[str, Any]


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
    rows: Iterable[Row],
    label: str = "target",
    traits: Sequence[str] = (),
) -> Question:
    """The question of a task's part; `rows` are its training and test rows, in any order.

    Rows that say the same of the same label count once. `task` is what draws depend on: task and
    part. `traits` are the columns of a question of kind traits.
    """
    if rules.kind in ("same", "count"):
        return Question(task, rules.kind, prompt=rules.prompt, subject=rules.subject)
    if rules.kind == "traits":
        return _of_traits(task, rules, traits)
    every = list(rows)
    for column in (rules.scientific, rules.common, *rules.lineage, _column(rules.names)):
        _need(task, column, every)
    if rules.scientific or rules.common or rules.lineage or rules.kind == "open":
        return _of_species(task, rules, every, label)
    pairs = [(str(row[label]), _name(rules.names, row, label)) for row in every]
    return _question(task, rules, bind_names(pairs, f"task {task!r}"))


def _of_traits(task: str, rules: AskRules, traits: Sequence[str]) -> Question:
    known = rules.names if isinstance(rules.names, Mapping) else {}
    return _question(task, rules, bind_names([(each, known.get(each)) for each in traits]))


def _of_species(task: str, rules: AskRules, rows: Sequence[Row], label: str) -> Question:
    taxa = {str(row[label]): _taxon(rules, row, label) for row in rows}
    shown = [(each.label, shown_name(each, rules.show)) for each in taxa.values()]
    return Question(
        task=task,
        kind=rules.kind,
        names=bind_names(shown, f"task {task!r}"),
        prompt=rules.prompt,
        n_choices=rules.choices,
        distractors=rules.distractors,
        letters=rules.letters,
        aliases={each.label: _said(each) for each in taxa.values()},
        subject=rules.subject,
        relatives=_relatives(rules, taxa.values()),
        taxa=index_taxa(taxa.values()) if rules.kind == "open" else None,
    )


def _relatives(rules: AskRules, taxa: Iterable[Taxon]) -> Relatives | None:
    return Relatives({each.label: each.lineage for each in taxa}) if rules.lineage else None


def _said(taxon: Taxon) -> tuple[str, ...]:
    every = (taxon.scientific, *taxon.common, *taxon.synonyms)
    return tuple(each for each in every if each)


def _taxon(rules: AskRules, row: Row, label: str) -> Taxon:
    name = str(row[label])
    common = row.get(rules.common) if rules.common else None
    return Taxon(
        name,
        str(row.get(rules.scientific) or "") if rules.scientific else "",
        (str(common),) if common else (),
        tuple(rules.synonyms.get(name, ())),
        tuple(row.get(rank) for rank in rules.lineage),
    )


def _question(task: str, rules: AskRules, names: dict[str, str]) -> Question:
    return Question(
        task=task,
        kind=rules.kind,
        names=names,
        prompt=rules.prompt,
        n_choices=rules.choices,
        distractors=rules.distractors,
        letters=rules.letters,
        aliases=rules.synonyms,
        subject=rules.subject,
    )


def _column(names: str | Mapping[str, str]) -> str:
    return names if isinstance(names, str) else ""


def _name(names: str | Mapping[str, str], row: Row, label: str) -> str | None:
    if isinstance(names, str):
        return row.get(names) if names else None
    return names.get(str(row[label]))


def _need(task: str, column: str, rows: Sequence[Row]) -> None:
    if not column or not rows or column in rows[0]:
        return
    near = closest(column, rows[0])
    mean = f" Did you mean {near[0]!r}?" if near else f" It has {', '.join(rows[0])}."
    raise UsageError(f"task {task!r}: ask: the dataset has no column {column!r}.{mean}")

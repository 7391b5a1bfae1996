"""How scores grow with training photos: probes and chat models on one axis.

A model that was shown no example stands at nought, a chat model at the number of its examples, a
probe at the images it was trained on.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from fieldmark.errors import DataError
from fieldmark.report.plots._chance import chance_lines, chance_words
from fieldmark.report.plots._panel import (
    Results,
    Spec,
    few_answers,
    first_panels,
    undefined,
)
from fieldmark.report.plots._series import (
    Axis,
    Series,
    by_task,
    level_note,
    quiet_note,
    series_figure,
)
from fieldmark.report.rows import Row, mark_notes
from fieldmark.report.run_labels import spec_facts
from fieldmark.store import Score
from fieldmark.words import first_few

_DRAWS = ("n_train", "seed", "repeats", "shots", "sampling", "data")
"""what may differ along one line"""
_AXIS = Axis("training photos", "symlog")


def plot(results: Results) -> Spec:
    groups = by_task(results)
    n_train = {row.run.id: n_train_of(results, row) for rows in groups.values() for row in rows}
    lines = {name: _lines(rows, n_train) for name, rows in groups.items()}
    grown = [name for name, drawn in lines.items() if any(len(line.points) > 1 for line in drawn)]
    if not grown:
        raise DataError(
            "no task was run with several numbers of training photos: "
            "`fieldmark run … --n-train 1 10 100` gives a curve."
        )
    shown, more = first_panels(
        sorted(grown, key=lambda name: -len({x for line in lines[name] for x, _ in line.points}))
    )
    chance = {name: chance_lines(results, groups[name]) for name in shown}
    rows = [row for name in shown for row in groups[name]]
    unplaced = sorted({row.model for row in rows if n_train[row.run.id] is None})
    n_kinds = len({line.kind for name in shown for line in lines[name]})
    flat = sorted({name.partition("\n")[0] for name in lines if name not in grown})
    notes = [
        f"{level_note(rows)} {'Line style: how the model was used. ' * (n_kinds > 1)}{_luck(rows)}",
        *chance_words(list(chance.values())),
        few_answers(rows),
        quiet_note(max(len(lines[name]) for name in shown)),
        f"The number of training photos is not known for {first_few(unplaced)}."
        if unplaced
        else "",
        f"Run with one number of training photos, so without a curve: {first_few(flat)}."
        if flat
        else "",
        more,
        undefined(results.rows),
        *mark_notes(rows),
    ]
    drawn = {name: lines[name] for name in shown}
    return series_figure("Score over training photos", drawn, _AXIS, notes, chance)


def _luck(rows: Sequence[Row]) -> str:
    """What the bars hold of the luck of the training draw."""
    draws = {row.n_draws > 1 for row in rows}
    if draws == {True}:
        return "Means over several training samples; the bars include the differences between them."
    if True in draws:
        return "Bars include differences between training samples only where there were several."
    return "One training each: the bars leave out differences between training samples."


def n_train_of(results: Results, row: Row) -> float | None:
    """How many were used, the median over parts; where that is not known, what was asked for.

    Who asks for more images than there are gets all of them, so the two may differ.
    """
    used = [part.n_train for part in results.store.finished_parts(row.run.id)]
    counts = [n for n in used if n is not None]
    return median(counts) if counts else row.run.spec.n_train


def _lines(rows: Sequence[Row], n_train_of: dict[int, float | None]) -> list[Series]:
    """One line per model and setup."""
    setups: dict[tuple[str, str, str], dict[float, Score]] = {}
    for row in sorted(rows, key=lambda row: (row.run.finished or "", row.run.id)):
        n_train = n_train_of[row.run.id]
        if n_train is not None:
            settings = spec_facts(row.run.spec)
            rest = {k: v for k, v in settings.items() if k.rpartition(".")[2] not in _DRAWS}
            rest["data"] = row.data
            key = (row.label, row.run.spec.protocol, repr(sorted(rest.items(), key=str)))
            setups.setdefault(key, {})[n_train] = row.score
    names = _line_names(list(setups))
    return [
        Series(
            names[key],
            key[1].partition("/")[0],
            tuple((n_train, scores[n_train]) for n_train in sorted(scores)),
        )
        for key, scores in setups.items()
    ]


def _line_names(keys: Sequence[tuple[str, str, str]]) -> dict[tuple[str, str, str], str]:
    """The model; with the protocol, and at last a number, where one model has several lines."""
    names: dict[tuple[str, str, str], str] = {}
    for key in keys:
        model, protocol, _ = key
        same = [other for other in keys if other[0] == model]
        alike = sorted(other for other in same if other[1] == protocol)
        name = model if len(same) == 1 else f"{model}, {protocol}"
        names[key] = name if len(alike) == 1 else f"{name} ({alike.index(key) + 1})"
    return names

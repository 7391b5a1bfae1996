"""Which labels are mixed up most: the twenty pairs with most wrong answers.

Of the best model of each task, or of the one that --model names. Answers that are
texts, not labels, are not drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fieldmark.charts import INK, ORANGE, WIDTH
from fieldmark.errors import DataError
from fieldmark.report.compare.paired import unit_numbers
from fieldmark.report.plots._panel import (
    Results,
    Spec,
    columns_in_words,
    figure,
    first_panels,
    heading,
    panels,
    rounded,
    short_names,
)
from fieldmark.report.providers import is_valued
from fieldmark.report.rows import Row, mark_notes, without_stand_ins
from fieldmark.words import first_few

N_PAIRS = 20


def plot(results: Results) -> Spec:
    every = results.columns()
    columns = {name: rows for name, rows in every.items() if not is_valued(rows[0].run)}
    if not columns:
        raise DataError("these answers are texts, not labels: nothing is mixed up.")
    shown, more = first_panels(list(columns))
    best = [columns[name][0] for name in shown]
    pairs = [confusion_pairs(results, row) for row in best]
    drawn = [(row, mixed) for row, mixed in zip(best, pairs, strict=True) if mixed]
    if not drawn:
        raise DataError("no wrong answers in these runs: there is nothing to draw.")
    right = [heading(row) for row, mixed in zip(best, pairs, strict=True) if not mixed]
    texts = [heading(rows[0]) for name, rows in every.items() if name not in columns]
    others = max(len(without_stand_ins(columns[name])) for name in shown) - 1
    is_alone = len(drawn) == 1
    notes = [
        "Bars: how many photos of the first label were mistaken for the second; lines: 95 % "
        "intervals.",
        f"The best of {others + 1} models." if others > 0 else "",
        f"No wrong answers: {first_few(right)}." if right else "",
        f"Texts, not labels, were answered: {first_few(texts)}." if texts else "",
        more,
        *mark_notes([row for row, _ in drawn]),
    ]
    title = f"What {drawn[0][0].name} mixes up on {heading(drawn[0][0])}"
    if not is_alone:
        where = columns_in_words([row for row, _ in drawn])
        title = f"What the best model mixes up on {where}"
    parts = [
        _panel(mixed, "" if is_alone else f"{heading(row)}: {row.name}") for row, mixed in drawn
    ]
    return figure(title, notes, panels(parts), len(parts))


def confusion_pairs(results: Results, row: Row) -> list[Spec]:
    """The pairs with most wrong answers, most first; equal ones by name."""
    answers = results.store.answers([row.run.id])
    answers = answers.taken(answers.prediction_mn[0] != 0)
    labels, code, n_c = _counted(np.stack([answers.part, answers.target]))
    units, _, _ = _counted(np.stack([answers.part, answers.target, unit_numbers(answers)]))
    n_units_c = _counted(units[:2])[2]
    wrong = answers.prediction_mn[0] != answers.target
    pairs, _, n_wrong = _counted(np.stack([code[wrong], answers.prediction_mn[0][wrong]]))
    names = results.store.texts({*labels.ravel().tolist(), *pairs[1].tolist()})
    has_parts = len(np.unique(labels[0])) > 1
    mixed = [
        _pair(
            _pair_name(names, labels[:, at], int(answer), has_parts),
            int(n),
            int(n_c[at]),
            int(n_units_c[at]),
        )
        for (at, answer), n in zip(pairs.T, n_wrong, strict=True)
    ]
    return sorted(mixed, key=lambda pair: (-pair["wrong"], pair["pair"]))[:N_PAIRS]


def _counted(columns_kn: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The different columns, which of them each one is, and how often each occurs."""
    distinct, code, counts = np.unique(columns_kn, axis=1, return_inverse=True, return_counts=True)
    return distinct, code.reshape(-1), counts


def _pair_name(names: Mapping[int, str], label: np.ndarray, answer: int, has_parts: bool) -> str:
    part, target = (names[int(number)] for number in label)
    return f"{part}: {target} → {names[answer]}" if has_parts else f"{target} → {names[answer]}"


def _pair(name: str, wrong: int, n: int, n_units: int) -> Spec:
    """Images of one unit are one draw, so the interval counts units, not images."""
    from fieldmark.stats import wilson

    limits = wilson(round(wrong / n * n_units), n_units)
    return {
        "pair": name,
        "wrong": wrong,
        "low": rounded(min(limits.low * n, wrong)),
        "high": rounded(max(limits.high * n, wrong)),
        "text": f"{wrong:,} of {n:,}",
        "n": n,
    }


def _panel(pairs: Sequence[Spec], title: str) -> Spec:
    names = short_names((pair["pair"] for pair in pairs), 54)
    values = [{**pair, "label": names[pair["pair"]]} for pair in pairs]
    y = {"field": "label", "type": "nominal", "sort": [value["label"] for value in values],
         "title": None}  # fmt: skip
    x = {"type": "quantitative", "title": "wrong answers", "axis": {"tickCount": 5,
                                                                    "format": "~s"}}  # fmt: skip
    layers: list[Spec] = [
        {"mark": {"type": "bar", "color": ORANGE, "height": 9},
         "encoding": {"y": y, "x": {**x, "field": "wrong"},
                      "tooltip": [{"field": "pair", "type": "nominal"},
                                  {"field": "wrong", "type": "quantitative"},
                                  {"field": "n", "type": "quantitative"}]}},
        {"mark": {"type": "rule", "strokeWidth": 1.2, "color": INK},
         "encoding": {"y": y, "x": {**x, "field": "low"}, "x2": {"field": "high"}}},
        {"mark": {"type": "text", "align": "right", "dx": 8 + 5 * max(len(value["text"]) for value
                                                                     in values)},
         "encoding": {"y": y, "x": {"value": "width"}, "text": {"field": "text"}}},
    ]  # fmt: skip
    panel: Spec = {"width": int(WIDTH * 0.8), "height": {"step": 14}, "data": {"values": values}}
    if title:
        panel["title"] = {"text": title, "fontSize": 10.5}
    return panel | {"layer": layers}

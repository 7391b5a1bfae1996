"""Power from stored answers (sample size): how do models of these results differ from unit to unit,
and how many units would show a smaller difference?
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from fieldmark.errors import FieldmarkError
from fieldmark.metrics import Metric
from fieldmark.report.labels import model_name
from fieldmark.report.paired import read_paired
from fieldmark.report.providers import pairing_metric
from fieldmark.stats import UnitSpread, compare_pair, errors
from fieldmark.store import Run, RunSpec, Store

MOST_MODELS = 4
"""the newest of a task, whose pairs are looked at"""


@dataclass(frozen=True, slots=True)
class MeasuredSpread:
    """How two models differed on a task."""

    spread: UnitSpread
    words: str
    """which models, for a person"""
    is_fraction: bool
    """does the metric lie in [0, 1]?"""


def measured_spread(
    store: Store, runs: Iterable[Run], spec: RunSpec, n_units: int
) -> MeasuredSpread | None:
    """From the newest of the finished `runs` that ask the same task about the same rows in the same
    way: the pair of models with the middle one of the differences visible in `n_units` units. None
    where no two models can be compared.
    """
    alike = _asked_alike(runs, spec)
    metric = _pairing_metric(store, alike, str(spec.settings["metric"][0]))
    if metric is None:
        return None
    paired = read_paired(store, alike, metric)
    if not paired.answer_mn.size:
        return None
    scores, pairs = errors(paired.items, paired.answer_mn, paired.metric), []
    for a, b in itertools.combinations(range(len(alike)), 2):
        comparison = compare_pair(scores, a, b)
        if comparison.n_units > 1 and comparison.freedom > 0:
            pairs.append((comparison.spread.detectable(n_units), a, b, comparison.spread))
    if not pairs:
        return None
    _, a, b, spread = sorted(pairs, key=lambda pair: pair[0])[(len(pairs) - 1) // 2]
    names = [model_name(alike[number].spec) for number in (a, b)]
    words = f"{names[0]} and {names[1]}"
    if len(pairs) > 1:
        words = f"{len(pairs)} pairs of models, the middle one"
    return MeasuredSpread(spread, words, paired.metric.bounds == (0.0, 1.0))


def _asked_alike(runs: Iterable[Run], spec: RunSpec) -> list[Run]:
    """The newest run of each of the newest models, all asked in one way; the way asked last of
    those that two models were asked in.
    """
    ways: dict[str, dict[str, Run]] = defaultdict(dict)
    for run in sorted(runs, key=lambda run: run.id):
        if _subject(run.spec) == _subject(spec):
            way = replace(run.spec, model="", model_version="").key
            ways[way].pop(model_name(run.spec), None)
            ways[way][model_name(run.spec)] = run
    several = [list(mine.values()) for mine in ways.values() if len(mine) > 1]
    return max(several, key=lambda mine: mine[-1].id)[-MOST_MODELS:] if several else []


def _subject(spec: RunSpec) -> tuple[str, str, str]:
    return spec.task_name, spec.protocol.partition("/")[0], spec.data.partition("-")[0]


def _pairing_metric(store: Store, runs: Sequence[Run], name: str) -> Metric | None:
    try:
        return pairing_metric(store, runs[0], name) if runs else None
    except FieldmarkError:  # code that is not here any more
        return None

"""Report provider: how are runs of documents compared one by one, and groups of tasks scored?

A document is a row of an lmms-eval task. Its run stores what each document was worth by the task's
own metric, which is no metric of fieldmark's even where the names agree. Values of single documents
can be paired where the score is their mean; where a function aggregates them, they cannot.

Groups are lmms-eval's: a group file says which tasks it holds and which of their metrics are
averaged, each task counting the same or by its number of documents. Nothing of a group is stored;
it is worked out from the scores of its members once all of them have run. Members hold different
documents, so their errors are taken as independent.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from fieldmark.lmms.data.sources import BUILDERS
from fieldmark.lmms.read.schema import result_name
from fieldmark.store import OK, Run, RunFilter, RunSpec, Score, Store, canonical_json
from fieldmark.words import first_few

if TYPE_CHECKING:
    from fieldmark.metrics import Metric

_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w.-]+")
_HUB = "https://huggingface.co/datasets/"
NO_FILTER = "none"
"""the pipeline whose name is left out of a metric's"""


def has_documents(run: Run) -> bool:
    return "documents" in run.spec.settings


def facts_of(store: Store, run: Run) -> dict[str, Any]:
    """What the run noted of its task; {} for one without documents."""
    if not has_documents(run):
        return {}
    infos = [part.info or {} for part in store.finished_parts(run.id)]
    return next((dict(info["documents"]) for info in infos if "documents" in info), {})


def split_name(name: str, pipelines: Sequence[str]) -> tuple[str, str]:
    """The metric and the pipeline; a comma may stand in a metric's own name.

    >>> split_name("acc,strict", ["none", "strict"]), split_name("a,b", ["none"])
    (('acc', 'strict'), ('a,b', 'none'))
    >>> split_name("acc,strict/majority", ["strict"])
    ('acc/majority', 'strict')
    """
    metric, _, rest = name.rpartition(",")
    pipeline, slash, inside = rest.partition("/")
    is_known = metric and pipeline in pipelines
    return (f"{metric}{slash}{inside}", pipeline) if is_known else (name, NO_FILTER)


def pipelines_of(facts: Mapping[str, Any]) -> list[str]:
    """The names of the task's filters, in its order."""
    pipelines = (facts.get("config") or {}).get("filter_list") or []
    return [str(pipeline["name"]) for pipeline in pipelines] or [NO_FILTER]


def hub_name(config: Mapping[str, Any]) -> str:
    """`org/name` of a task's data on the Hugging Face Hub; "" for files of the user's own."""
    path = str(config.get("dataset_path") or "")
    is_saved = (config.get("dataset_kwargs") or {}).get("load_from_disk")
    return path if _HUB_NAME.fullmatch(path) and not is_saved else ""


def data_name(config: Mapping[str, Any]) -> str:
    """What a task's data are called, without folders; "" where files have no name in common."""
    path = str(config.get("dataset_path") or "")
    return hub_name(config) or ("" if path in BUILDERS else PurePath(path).name)


def task_facts(store: Store, run: Run) -> dict[str, str]:
    """All that a task says of its data is where they are."""
    config = facts_of(store, run).get("config")
    if config is None:
        return {}
    hub = hub_name(config)
    return {
        "title": str(config.get("task_alias") or ""),
        "dataset": data_name(config),
        "homepage": f"{_HUB}{hub}" if hub else "",
    }


def value_metric(run: Run) -> str:
    """The metric whose value of each document is stored; "" where its score is no mean."""
    about = run.spec.settings.get("documents", {})
    metric = about.get("mean_of") or ""
    return result_name(metric, about.get("pipeline", NO_FILTER)) if metric else ""


def means_of(store: Store, run: Run) -> set[str]:
    """The metrics whose score is the mean of what the documents were worth."""
    facts = facts_of(store, run)
    listed = (facts.get("config") or {}).get("metric_list") or []
    how = {_short(str(item["metric"])): item.get("aggregation") for item in listed}
    names = {name: split_name(name, pipelines_of(facts))[0] for name in run.spec.settings["metric"]}
    return {name for name, metric in names.items() if (how.get(metric) or _usual(metric)) == "mean"}


def _short(metric: str) -> str:
    """What a metric given as code is called."""
    return metric.rpartition(".")[2] if metric.startswith("!function") else metric


def _usual(metric: str) -> str:
    """How values of that name are aggregated where the task does not say."""
    from fieldmark.lmms.metrics.registry import find_document_metric

    return str(getattr(find_document_metric(metric), "aggregation", "mean"))


def pairing_metric(store: Store, run: Run, name: str) -> Metric | None:
    """What compares runs by that metric; None where documents cannot be compared one by one."""
    from fieldmark.metrics import mean_value

    if name != value_metric(run) and name not in means_of(store, run):
        return None
    where = RunFilter(models=(run.spec.model,), tasks=(run.spec.task,))
    score = next(
        (score for score in store.scores(where).get(run.id, []) if score.metric == name),
        Score("", 0),
    )
    bounds = (0.0, 1.0) if score.is_fraction else (-math.inf, math.inf)
    return mean_value(name, direction="up" if score.higher_is_better else "down", bounds=bounds)


def why_not_paired(name: str) -> str:
    """Why documents cannot be compared one by one, in words."""
    return f"{name} is a function of all documents, not a mean over them"


def item_values(store: Store, run: Run, name: str) -> dict[tuple[str, int, str], float]:
    """What each answered document was worth by a metric, by part, repeat and document."""
    metric, pipeline = split_name(name, pipelines_of(facts_of(store, run)))
    values = {}
    frame = store.predictions(run.id).select("part", "repeat", "id", "outcome", "info")
    for part, repeat, item, outcome, info in frame.iter_rows():
        if outcome == OK and info:
            text = json.loads(info).get("values", {}).get(pipeline, {}).get(metric)
            value = json.loads(text) if isinstance(text, str) else text
            if isinstance(value, (bool, int, float)):
                values[part, repeat, item] = float(value)
    return values


METHOD = "members' intervals as independent"


@dataclass(frozen=True, slots=True)
class GroupResult:
    """One model's scores on one group."""

    group: str
    alias: str
    members: tuple[Run, ...]
    scores: tuple[Score, ...]
    notes: tuple[str, ...] = ()
    """what could not be averaged, a line each"""

    @property
    def words(self) -> str:
        return f"{self.group}: mean over {first_few([run.spec.task_name for run in self.members])}"


def _model(run: Run) -> tuple[str, str]:
    return run.spec.model, run.spec.model_version


def group_results(
    store: Store, runs: Sequence[Run], scores: Mapping[int, Sequence[Score]]
) -> Iterator[GroupResult]:
    """The groups these runs belong to, of each model and way of asking, by name."""
    runs_of: dict[tuple[Any, ...], list[Run]] = {}
    for run in sorted(filter(has_documents, runs), key=lambda run: run.finished or ""):
        runs_of.setdefault(_way(run.spec), []).append(run)
    results = []
    for alike in runs_of.values():
        groups: dict[str, Mapping[str, Any]] = {}
        for run in alike:
            for part in store.finished_parts(run.id):
                asked_with = (part.info or {}).get("asked_with") or ()
                groups |= {group["group"]: group for group in asked_with}
        results += [
            _group_result(group, members, scores)
            for group in groups.values()
            for members in _choose_members(group, alike)
        ]
    yield from sorted(results, key=lambda group: (group.group, _model(group.members[0])))


def _way(spec: RunSpec) -> tuple[Any, ...]:
    """What members of a group must have in common; each has its own data, code and examples."""
    identity_keys = ("documents", "metric", "parts", "score")
    shared = {name: value for name, value in spec.settings.items() if name not in identity_keys}
    drawn = (spec.n_test, spec.seed, spec.repeats)
    return spec.model, spec.model_version, *drawn, canonical_json(shared)


def _choose_members(group: Mapping[str, Any], runs: Sequence[Run]) -> list[dict[str, Run]]:
    """The members' runs by task; once for each number of examples that all of them were given.

    Where files fix different numbers, the newest run of each. A member may have run before its
    group was asked for: it is one by its name.
    """
    runs_of: dict[str, dict[int | None, Run]] = {}
    for run in runs:
        if run.spec.task in group["tasks"]:
            by_shots = runs_of.setdefault(run.spec.task, {})
            by_shots.pop(run.spec.n_train, None)  # the newest comes last
            by_shots[run.spec.n_train] = run
    if not runs_of:
        return []
    common = set.intersection(*(set(runs_of_task) for runs_of_task in runs_of.values()))
    if common:
        order = sorted(common, key=lambda n: (n is not None, n))
        return [{task: runs_of_task[n] for task, runs_of_task in runs_of.items()} for n in order]
    return [{task: list(runs_of_task.values())[-1] for task, runs_of_task in runs_of.items()}]


def _group_result(
    facts: Mapping[str, Any], members: Mapping[str, Run], scores: Mapping[int, Sequence[Score]]
) -> GroupResult:
    """`facts`: what a member's run says of the group."""
    group, alias = facts["group"], facts.get("alias") or facts["group"]
    runs = tuple(run for _, run in sorted(members.items()))
    if missing := [name for name in facts["tasks"] if name not in members]:
        model, names = runs[0].spec.model, first_few(missing)
        note = f"group {group!r} of {model}: {names} not among these results"
        return GroupResult(group, alias, runs, (), (note,))
    scores_of = {
        task: {score.metric: score for score in scores.get(run.id, ()) if not score.part}
        for task, run in members.items()
    }
    made: list[Score] = []
    notes: list[str] = []
    for item in facts["metrics"]:
        for pipeline in item["filter_list"] or [NO_FILTER]:
            score = _average_of(item, result_name(item["metric"], pipeline), scores_of)
            if isinstance(score, Score):
                made.append(replace(score, is_primary=not made))
            else:
                notes.append(f"group {group!r}: {score}")
    return GroupResult(group, alias, runs, tuple(made), tuple(notes))


def _average_of(
    item: Mapping[str, Any], name: str, scores_of: Mapping[str, Mapping[str, Score]]
) -> Score | str:
    """The score, or why there is none; `scores_of` are the members' by task and metric."""
    if item["aggregation"] != "mean":
        return f"{name} is averaged by a function, which is not done here"
    lacking = sorted(task for task, scores in scores_of.items() if name not in scores)
    if lacking:
        return f"{name} is not averaged: {', '.join(lacking)} has no metric of that very name"
    task_scores = [scores[name] for scores in scores_of.values()]
    if len({score.higher_is_better for score in task_scores}) > 1:
        return f"{name} is not averaged: more is better for some members and worse for others"
    return average(task_scores, item["weight_by_size"])


def average(scores: Sequence[Score], by_size: bool) -> Score:
    """The mean of scores, each counting the same or by its number of documents.

    The distance of each limit is the root of the members' squared distances, by weight: exact for
    normal errors, and it keeps skewed intervals skewed.
    """
    sizes = [score.n if by_size else 1 for score in scores]
    total = sum(sizes)
    weights = [size / total if total else math.nan for size in sizes]
    value = sum(w * score.value for w, score in zip(weights, scores, strict=True))
    is_fraction = all(score.is_fraction for score in scores)
    limits = [_reach(scores, weights, side) for side in ("low", "high")]
    low, high = (
        None if reach is None else value + sign * reach
        for reach, sign in zip(limits, (-1, 1), strict=True)
    )
    if is_fraction:
        low, high = _within(low), _within(high)
    units = [score.n_units for score in scores]
    counts = [n for n in units if n is not None]
    return replace(
        scores[0],
        value=value,
        low=low,
        high=high,
        n=sum(score.n for score in scores),
        n_units=sum(counts) if len(counts) == len(units) else None,
        method="" if low is None else METHOD,
        is_fraction=is_fraction,
        warning="",
    )


def _reach(scores: Sequence[Score], weights: Sequence[float], side: str) -> float | None:
    squares = []
    for weight, score in zip(weights, scores, strict=True):
        limit = getattr(score, side)
        if limit is None or math.isnan(limit):
            return None
        squares.append((weight * (limit - score.value)) ** 2)
    return math.sqrt(sum(squares))


def _within(limit: float | None) -> float | None:
    return None if limit is None else min(max(limit, 0.0), 1.0)

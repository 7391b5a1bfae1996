"""What stands in lmms-eval's results file?

Keys and their places are those of lmms-eval 0.7 and LM Evaluation Harness: a metric is called
`name,filter`, its standard error `name_stderr,filter`. What fieldmark does not know is not written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fieldmark.report.lmms.documents import (
    facts_of,
    has_documents,
    item_values,
    means_of,
    pipelines_of,
    split_name,
)
from fieldmark.report.lmms.groups import GroupResult, group_results
from fieldmark.report.lmms.samples import samples, task_hash
from fieldmark.report.lmms.standard_error import NOT_KNOWN, error_of_mean, standard_error
from fieldmark.store import Run, Score, Store

if TYPE_CHECKING:
    from fieldmark.report.export import Chosen

Scores = Mapping[int, Sequence[Score]]
"""of whole tasks, by run"""


def results_of(chosen: Chosen, runs: Sequence[Run], scores: Scores, date: str) -> dict[str, Any]:
    """The whole file for these runs, which are of one model."""
    tasks = {run.spec.task_name: run for run in runs}
    facts = {name: facts_of(chosen.store, run) for name, run in tasks.items()}
    errors = {run.id: _errors(chosen.store, run, scores[run.id]) for run in runs}
    groups = list(group_results(chosen.store, runs, _one_error_wide(scores, errors)))
    told = [note for each in groups for note in each.notes]
    chosen.left_out.extend(note for note in told if note not in chosen.left_out)
    made = {each.group: each for each in groups if each.scores}
    records = {name: chosen.store.record(run.id) for name, run in tasks.items()}
    rows = {
        name: _row(run, facts[name], scores[run.id], errors[run.id]) for name, run in tasks.items()
    }
    averages = {name: _group(each) for name, each in made.items()}
    return {
        "results": rows | averages,
        **({"groups": averages} if averages else {}),
        "group_subtasks": {
            each.group: [run.spec.task_name for run in each.members] for each in groups
        },
        "configs": {name: _config(facts[name], records[name]) for name in tasks},
        "versions": {
            name: facts[name].get("version") or run.spec.task_version or NOT_KNOWN
            for name, run in tasks.items()
        },
        "n-shot": {name: _shots(run, facts[name]) for name, run in tasks.items()},
        "higher_is_better": {
            name: _directions(scores[run.id], pipelines_of(facts[name]))
            for name, run in tasks.items()
        }
        | {name: _directions(each.scores, _filters(each)) for name, each in made.items()},
        "n-samples": {name: _sizes(run, facts[name]) for name, run in tasks.items()},
        "notes": {name: each["fallback"] for name, each in facts.items() if each.get("fallback")},
        **_about(runs, date, next(iter(records.values()))),
        "model_name_sanitized": chosen.file_name(runs[0].spec.model),
        "task_hashes": {name: task_hash(samples(chosen.store, run)) for name, run in tasks.items()},
    }


def _errors(store: Store, run: Run, scores: Sequence[Score]) -> dict[str, float | str]:
    """The standard error of each score, by its metric."""
    found = {score.metric: standard_error(score) for score in scores}
    if not has_documents(run):
        return found
    frame = store.predictions(run.id).select("repeat", "id", "unit")
    units = {(repeat, item): unit or (repeat, item) for repeat, item, unit in frame.iter_rows()}
    for name in means_of(store, run) & set(found):
        values = item_values(store, run, name)
        found[name] = error_of_mean(list(values.values()), [units[each] for each in values])
    return found


def _one_error_wide(scores: Scores, errors: Mapping[int, Mapping[str, float | str]]) -> Scores:
    """Scores whose limits lie one standard error away, so that averages have theirs there too."""
    return {
        run: [_one_error(score, mine[score.metric]) for score in scores[run]]
        for run, mine in errors.items()
    }


def _one_error(score: Score, error: float | str) -> Score:
    if isinstance(error, str):
        return replace(score, low=None, high=None)
    low, high = score.value - error, score.value + error
    return replace(score, low=low, high=high, is_fraction=False)


def _row(
    run: Run, facts: dict[str, Any], scores: Sequence[Score], errors: Mapping[str, float | str]
) -> dict[str, Any]:
    name = run.spec.task_name
    alias = (facts.get("config") or {}).get("task_alias") or name
    numbers = _numbers(scores, errors, pipelines_of(facts))
    return {"alias": alias, "samples": run.n_items, **numbers}


def _group(found: GroupResult) -> dict[str, Any]:
    n = sum(run.n_items or 0 for run in found.members)
    errors = {
        score.metric: NOT_KNOWN if score.high is None else score.high - score.value
        for score in found.scores
    }
    return {"alias": found.alias, "samples": n, **_numbers(found.scores, errors, _filters(found))}


def _filters(found: GroupResult) -> list[str]:
    return sorted({score.metric.rpartition(",")[2] for score in found.scores})


def _numbers(
    scores: Sequence[Score], errors: Mapping[str, float | str], pipelines: Sequence[str]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for score in scores:
        metric, pipeline = split_name(score.metric, pipelines)
        value = NOT_KNOWN if math.isnan(score.value) else score.value
        found[f"{metric},{pipeline}"] = value
        found[f"{metric}_stderr,{pipeline}"] = errors[score.metric]
    return found


def _config(facts: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    told = facts.get("config") or (record.get("config") or {}).get("task") or {}
    return dict(told)


def _shots(run: Run, facts: dict[str, Any]) -> int:
    shots = facts.get("n_shot", run.spec.settings.get("shots", run.spec.n_train))
    return int(shots or 0)


def _directions(scores: Sequence[Score], pipelines: Sequence[str]) -> dict[str, bool]:
    return {split_name(score.metric, pipelines)[0]: score.higher_is_better for score in scores}


def _sizes(run: Run, facts: dict[str, Any]) -> dict[str, int]:
    effective = run.n_items or 0
    return {"original": int(facts.get("n_original", effective)), "effective": effective}


def _about(runs: Sequence[Run], date: str, record: dict[str, Any]) -> dict[str, Any]:
    spec = runs[0].spec
    seconds = sum(run.seconds or 0.0 for run in runs)
    seeds = ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed")
    return {
        "config": {
            "model": spec.model.partition("/")[0],
            "model_args": f"model={spec.model}",
            "limit": spec.n_test,
            **dict.fromkeys(seeds, spec.seed),
        },
        "git_hash": (record.get("git") or {}).get("commit"),
        "date": date,
        "fieldmark_version": ",".join(sorted({run.app for run in runs})),
        "model_source": "fieldmark",
        "model_name": spec.model,
        "total_evaluation_time_seconds": str(seconds),
    }

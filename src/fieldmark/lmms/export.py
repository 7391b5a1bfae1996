"""Results and samples files of lmms-eval and LM Evaluation Harness, for their viewers.

A folder per model: `<date>_results.json` with all tasks that were asked in one way, and a
`<date>_samples_<task>.jsonl` for each. The date is that of the last run, so the same store gives
the same files. Keys are those of lmms-eval 0.7 and LM Evaluation Harness: a metric is called
`name,filter`, its standard error `name_stderr,filter`; a sample is a line per document and filter.
What fieldmark does not know is not written.

The standard error of a mean is worked out from the values of single documents where these are
known, as those suites do; documents of one unit count as one draw. Elsewhere an interval gives it
back: Wilson's of a share by the share, resampled ones by half their width over Student's quantile,
which widened them.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from fieldmark import draws
from fieldmark.lmms.report import (
    NO_FILTER,
    GroupResult,
    facts_of,
    group_results,
    has_documents,
    item_values,
    means_of,
    pipelines_of,
    split_name,
)
from fieldmark.stats import student
from fieldmark.store import OK, Run, Score, Store, canonical_json

if TYPE_CHECKING:
    from fieldmark.report.export import Chosen

HAS_PREDICTIONS = True


def export(chosen: Chosen) -> Iterator[tuple[str, Iterator[bytes]]]:
    scores: dict[int, list[Score]] = {}
    for row in chosen.rows:
        scores.setdefault(row.run.id, []).extend([] if row.score.part else [row.score])
    taken: set[str] = set()
    for runs in _sheets(chosen.runs()):
        folder, date = chosen.file_name(runs[0].spec.model), _date(runs)
        while f"{folder}/{date}" in taken:
            date = _later(date)
        taken.add(f"{folder}/{date}")
        results = results_of(chosen, runs, scores, date)
        text = f"{json.dumps(results, indent=2, ensure_ascii=False)}\n"
        yield f"{folder}/{date}_results.json", iter([text.encode()])
        for name, run in zip(_file_names(chosen, runs), runs, strict=True):
            lines = (json.dumps(line, ensure_ascii=False) for line in samples(chosen.store, run))
            yield f"{folder}/{date}_samples_{name}.jsonl", (f"{line}\n".encode() for line in lines)


def _sheets(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs that make one results file: of one model, asked in one way, each task once.

    The newest of each task stand together, as members of a group must, then those before them.
    """
    sheets: dict[tuple[Any, ...], list[dict[str, Run]]] = {}
    for run in sorted(runs, key=lambda run: (run.finished or "", run.id), reverse=True):
        spec, name = run.spec, run.spec.task_name
        way = (spec.model, spec.model_version, spec.protocol, spec.n_test, spec.seed, spec.repeats)
        way_sheets = sheets.setdefault(way, [])
        free = next((sheet for sheet in way_sheets if name not in sheet), None)
        if free is None:
            way_sheets.append(free := {})
        free[name] = run
    every = [sheet for way_sheets in sheets.values() for sheet in way_sheets]
    return [[run for _, run in sorted(sheet.items())] for sheet in every]


def _date(runs: Sequence[Run]) -> str:
    """As both suites write it in names: colons would not do on every file system."""
    last = max(run.finished or run.started for run in runs)
    return f"{last.removesuffix('Z').replace(':', '-')}.000000"


def _later(date: str) -> str:
    """
    >>> _later("2026-11-15T09-00-00.000009")
    '2026-11-15T09-00-00.000010'
    """
    second, _, micro = date.rpartition(".")
    return f"{second}.{int(micro) + 1:06d}"


def _file_names(chosen: Chosen, runs: Sequence[Run]) -> list[str]:
    """Of the tasks; two that a file system cannot tell apart get a hash."""
    tasks = [run.spec.task_name for run in runs]
    names = [chosen.file_name(task) for task in tasks]
    return [
        name if names.count(name) == 1 else f"{name}-{draws.digest(task).hex()[:8]}"
        for name, task in zip(names, tasks, strict=True)
    ]


Scores = Mapping[int, Sequence[Score]]
"""of whole tasks, by run"""


def results_of(chosen: Chosen, runs: Sequence[Run], scores: Scores, date: str) -> dict[str, Any]:
    """The whole file for these runs, which are of one model."""
    tasks = {run.spec.task_name: run for run in runs}
    facts_of_task = {name: facts_of(chosen.store, run) for name, run in tasks.items()}
    errors = {run.id: _errors(chosen.store, run, scores[run.id]) for run in runs}
    groups = list(group_results(chosen.store, runs, _one_error_wide(scores, errors)))
    fewer = {row.run.id: row.fewer for row in chosen.rows}
    notes = [note for group in groups for note in group.notes]
    chosen.left_out.extend(note for note in notes if note not in chosen.left_out)
    made = {group.group: group for group in groups if group.scores}
    records = {name: chosen.store.record(run.id) for name, run in tasks.items()}
    rows = {
        name: _row(run, facts_of_task[name], scores[run.id], errors[run.id])
        for name, run in tasks.items()
    }
    averages = {name: _group(group) for name, group in made.items()}
    return {
        "results": rows | averages,
        **({"groups": averages} if averages else {}),
        "group_subtasks": {
            group.group: [run.spec.task_name for run in group.members] for group in groups
        },
        "configs": {name: _config(facts_of_task[name], records[name]) for name in tasks},
        "versions": {
            name: facts_of_task[name].get("version") or run.spec.task_version or NOT_KNOWN
            for name, run in tasks.items()
        },
        "n-shot": {name: _shots(run, facts_of_task[name]) for name, run in tasks.items()},
        "higher_is_better": {
            name: _directions(scores[run.id], pipelines_of(facts_of_task[name]))
            for name, run in tasks.items()
        }
        | {name: _directions(group.scores, _filters(group)) for name, group in made.items()},
        "n-samples": {name: _sizes(run, facts_of_task[name]) for name, run in tasks.items()},
        "notes": {
            name: "; ".join(lines)
            for name, run in tasks.items()
            if (lines := [*filter(None, [facts_of_task[name].get("fallback"), fewer[run.id]])])
        },
        **_about(runs, date, next(iter(records.values()))),
        "model_name_sanitized": chosen.file_name(runs[0].spec.model),
        "task_hashes": {name: task_hash(samples(chosen.store, run)) for name, run in tasks.items()},
    }


def _errors(store: Store, run: Run, scores: Sequence[Score]) -> dict[str, float | str]:
    """The standard error of each score, by its metric."""
    errors = {score.metric: standard_error(score) for score in scores}
    if not has_documents(run):
        return errors
    frame = store.predictions(run.id).select("part", "repeat", "id", "unit")
    units = {tuple(key): unit or tuple(key) for *key, unit in frame.iter_rows()}
    for name in means_of(store, run) & set(errors):
        values = item_values(store, run, name)
        errors[name] = error_of_mean(list(values.values()), [units[value] for value in values])
    return errors


def _one_error_wide(scores: Scores, errors: Mapping[int, Mapping[str, float | str]]) -> Scores:
    """Scores whose limits lie one standard error away, so that averages have theirs there too."""
    return {
        run: [_one_error(score, run_errors[score.metric]) for score in scores[run]]
        for run, run_errors in errors.items()
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


def _group(result: GroupResult) -> dict[str, Any]:
    n = sum(run.n_items or 0 for run in result.members)
    errors = {
        score.metric: NOT_KNOWN if score.high is None else score.high - score.value
        for score in result.scores
    }
    return {
        "alias": result.alias,
        "samples": n,
        **_numbers(result.scores, errors, _filters(result)),
    }


def _filters(result: GroupResult) -> list[str]:
    return sorted({score.metric.rpartition(",")[2] for score in result.scores})


def _numbers(
    scores: Sequence[Score], errors: Mapping[str, float | str], pipelines: Sequence[str]
) -> dict[str, Any]:
    numbers: dict[str, Any] = {}
    for score in scores:
        metric, pipeline = split_name(score.metric, pipelines)
        value = NOT_KNOWN if math.isnan(score.value) else score.value
        numbers[f"{metric},{pipeline}"] = value
        numbers[f"{metric}_stderr,{pipeline}"] = errors[score.metric]
    return numbers


def _config(facts: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    config = facts.get("config") or (record.get("config") or {}).get("task") or {}
    return dict(config)


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


RIGHT = "accuracy"
"""the metric of a single item that is known of every run without documents"""


def samples(store: Store, run: Run) -> Iterator[dict[str, Any]]:
    """All lines of a run, by document and filter."""
    if has_documents(run):
        yield from _documents(store, run)
    else:
        yield from _items(store, run)


def task_hash(lines: Iterator[dict[str, Any]]) -> str:
    """Changes with any document, prompt or target."""
    hasher = hashlib.sha256()
    for line in lines:
        for name in ("doc_hash", "prompt_hash", "target_hash"):
            hasher.update((line[name] or "").encode())
    return hasher.hexdigest()


def _documents(store: Store, run: Run) -> Iterator[dict[str, Any]]:
    facts = facts_of(store, run)
    pipelines = pipelines_of(facts)
    kwargs = (facts.get("config") or {}).get("generation_kwargs") or {}
    rows = store.predictions(run.id).iter_rows(named=True)
    for row in sorted(rows, key=lambda row: (row["repeat"], int(row["id"]))):
        info = json.loads(row["info"] or "{}")
        prompt = info.get("input", "")
        followed = info.get("choices") or [kwargs]
        arguments = {
            f"gen_args_{number}": {"arg_0": prompt, "arg_1": continuation}
            for number, continuation in enumerate(followed)
        }
        for pipeline in pipelines:
            yield _document(row, info, pipeline) | {"arguments": arguments}


def _document(row: Mapping[str, Any], info: Mapping[str, Any], pipeline: str) -> dict[str, Any]:
    from fieldmark.lmms.score.encoding import decode

    values = info.get("values", {}).get(pipeline, {})
    line: dict[str, Any] = {
        "doc_id": int(row["id"]),
        "doc": info.get("doc") or {"id": int(row["id"])},
        "target": row["target"],
        "arguments": {},
        "resps": _texts(info.get("resps", [])),
        "filtered_resps": _texts(info.get("filtered", {}).get(pipeline, [])),
        "filter": pipeline,
        "metrics": list(values),
        **{name: info.get(name) for name in ("doc_hash", "prompt_hash", "target_hash")},
        "input": info.get("input", ""),
    }
    read = {name: _plain(decode(text)) for name, text in values.items() if name not in line}
    return line | read | _outcome(row, info)


def _items(store: Store, run: Run) -> Iterator[dict[str, Any]]:
    """Runs of fieldmark's own tasks keep no prompt: what was said, and whether that is right."""
    number: dict[tuple[str, str], int] = {}
    for row in store.predictions(run.id).iter_rows(named=True):
        info = json.loads(row["info"] or "{}")
        doc = {name: row[name] for name in ("id", "part", "unit") if row[name]}
        text = info.get("text", row["prediction"])
        is_answered = row["outcome"] == OK
        yield {
            "doc_id": number.setdefault((row["part"], row["id"]), len(number)),
            "doc": doc,
            "target": row["target"],
            "arguments": {},
            "resps": [] if text is None else [[text]],
            "filtered_resps": [row["prediction"]] if is_answered else [],
            "filter": NO_FILTER,
            "metrics": [RIGHT] if is_answered else [],
            "doc_hash": _sha(canonical_json(doc)),
            "prompt_hash": None,
            "target_hash": _sha(row["target"] or ""),
            "input": "",
            **({RIGHT: float(row["prediction"] == row["target"])} if is_answered else {}),
            **({"repeat": row["repeat"]} if row["repeat"] else {}),
            **_outcome(row, info),
        }


def _outcome(row: Mapping[str, Any], info: Mapping[str, Any]) -> dict[str, Any]:
    tokens = {
        theirs: info[ours]
        for ours, theirs in (("tokens_in", "input_tokens"), ("tokens_out", "output_tokens"))
        if info.get(ours) is not None
    }
    fields: dict[str, Any] = {"token_counts": [tokens]} if tokens else {}
    if row["outcome"] != OK:
        fields |= {"outcome": row["outcome"], "error": info.get("error", "")}
    return fields


def _texts(value: Any) -> Any:
    """Leaves become texts, so that all lines of a file have the same types."""
    if isinstance(value, (list, tuple)):
        return [_texts(inner) for inner in value]
    return str(value)


def _plain(value: Any) -> Any:
    """A value as JSON of its own; what JSON lacks becomes a list or a text."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_plain(inner) for inner in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return value if isinstance(value, (str, int, type(None))) else str(value)


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


NOT_KNOWN = "N/A"
"""what those formats write"""


def standard_error(score: Score) -> float | str:
    """
    >>> standard_error(Score("acc", 0.5, low=0.2, high=0.8, n=10, method="wilson"))
    0.16666666666666666
    >>> standard_error(Score("acc", 0.5, n=10))
    'N/A'
    """
    if score.low is None or score.high is None or math.isnan(score.value):
        return NOT_KNOWN
    if score.method == "wilson":
        spread = score.value * (1 - score.value)
        return math.sqrt(spread / (score.n - 1)) if score.n > 1 else NOT_KNOWN
    freedom = (score.n_units or score.n) - 1
    normal = NormalDist().inv_cdf((1 + score.level) / 2)
    return (score.high - score.low) / 2 / (normal if freedom < 1 else student(freedom))


def error_of_mean(values: Sequence[float], units: Sequence[object]) -> float | str:
    """The standard error of a mean over units; with one document per unit, SD / root of n.

    >>> error_of_mean([0, 1, 1, 1], "abcd"), error_of_mean([0, 0, 1, 1], "aabb")
    (0.25, 0.5)
    """
    mean, off = sum(values) / max(len(values), 1), dict[object, float]()
    for value, unit in zip(values, units, strict=True):
        off[unit] = off.get(unit, 0.0) + value - mean
    n = len(off)
    if n < 2:
        return NOT_KNOWN
    return math.sqrt(sum(deviation**2 for deviation in off.values()) * n / (n - 1)) / len(values)

"""Ways of asking: in how many ways was a model asked a task, and what is each one called?

A way is all of a run's settings that are neither the question (task, parts, metric, data) nor luck
(seed, repeats): the protocol, the variant, the classifier, the prompt, the training images. It is
named only where several are shown, and by no more than tells them apart: a task's own way, as its
file has it, by the protocol alone (`probe`), others by what differs (`probe, n_train=24`,
`biobench2026`), so that the rows of tasks whose own probes differ line up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from fieldmark import draws
from fieldmark.store import Run, RunSpec

QUESTION = ("task", "task_version", "data", "parts", "score", "metric", "test", "choices")
"""facts that tell columns apart, or follow from what does"""
LUCK = ("seed", "repeats")
"""facts that tell draws of one cell apart"""
_MODEL = ("model", "model_version")
_FIRST = ("task_variant", "n_train", "shots", "n_test", "protocol")
"""what is named before any other setting"""
ABSENT = "-"
"""stands for a setting that a way does not have"""
_Facts = Mapping[str, str]
RecordOf = Callable[[int], Mapping[str, Any]]


def spec_facts(spec: RunSpec) -> dict[str, Any]:
    """All of a spec but its model, flat; the data last: another draw of the same images has other
    data too, and is to be told by the draw.
    """
    named = {field.name: getattr(spec, field.name) for field in fields(RunSpec)}
    apart = (*_MODEL, "settings", "data")
    facts = {name: value for name, value in named.items() if name not in apart}
    return {**facts, **dict(_flat(spec.settings)), "data": spec.data}


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def short_value(value: Any) -> str:
    """A value in a heading or a label; what is long is told apart by a hash."""
    text = "all" if value is None else str(value)
    return text if len(text) <= 20 else f"#{draws.digest(text).hex()[:6]}"


def way_facts(spec: RunSpec) -> dict[str, str]:
    """What makes the way of asking, each value short."""
    apart = (*QUESTION, *LUCK)
    facts = {k: v for k, v in spec_facts(spec).items() if k.rpartition(".")[2] not in apart}
    first = {name: facts.pop(name) for name in _FIRST if name in facts}
    return {name: short_value(value) for name, value in (first | facts).items()}


def head_of(spec: RunSpec) -> str:
    """The protocol without its method."""
    return spec.protocol.partition("/")[0]


# --- labels ---


def way_labels(runs: Sequence[Run], record_of: RecordOf = lambda _: {}) -> dict[int, str]:
    """What the way of asking of each run is called, by the run's id; `record_of` reads a run's
    record, which says what the task's file asked for.

    "" for all where no model was asked a task in two ways, nor two models in two ways of one
    protocol. Else "" for models that were asked each task in its own way, but by several protocols.
    """
    words: dict[int, tuple[str, ...]] = {run.id: () for run in runs}
    if _is_asked_twice(runs):
        words = _words(runs, {run.id: way_facts(run.spec) for run in runs}, record_of)
    labels = _labels(runs, words)
    asked: dict[str, dict[str, set[str]]] = {}
    for run in runs:
        tasks = asked.setdefault(_model(run), {})
        tasks.setdefault(run.spec.task, set()).add(labels[run.id])
    plain = {
        model for model, tasks in asked.items() if all(len(mine) == 1 for mine in tasks.values())
    }
    if len(plain) == len(asked) and not any(words.values()):
        return dict.fromkeys(labels, "")
    mixed = {model for model in plain if len(set().union(*asked[model].values())) > 1}
    mixed -= {_model(run) for run in runs if words[run.id]}
    return {run.id: "" if _model(run) in mixed else labels[run.id] for run in runs}


def _model(run: Run) -> str:
    return run.spec.model_version or run.spec.model


def _labels(runs: Sequence[Run], words: Mapping[int, tuple[str, ...]]) -> dict[int, str]:
    """The protocol and what is to be said besides; a variant that one protocol has stands alone."""
    heads: dict[str, set[str]] = {}
    for run in runs:
        heads.setdefault(run.spec.task_variant, set()).add(head_of(run.spec))

    def label(run: Run) -> str:
        mine, variant = words[run.id], run.spec.task_variant
        is_alone = bool(variant) and variant in mine and len(heads[variant]) == 1
        return ", ".join(mine if is_alone else [head_of(run.spec), *mine])

    return {run.id: label(run) for run in runs}


def _is_asked_twice(runs: Sequence[Run]) -> bool:
    """May any task have been asked in two ways of one protocol?"""
    first: dict[tuple[str, str], tuple[Any, ...]] = {}
    for run in runs:
        spec = run.spec
        mine = (spec.task_variant, spec.protocol, spec.n_train, spec.n_test, spec.settings)
        if first.setdefault((spec.task, head_of(spec)), mine) != mine:
            return True
    return False


def _words(
    runs: Sequence[Run], facts: Mapping[int, _Facts], record_of: RecordOf
) -> dict[int, tuple[str, ...]]:
    """What is to be said of each run's way besides its protocol.

    A difference from the task's own way is named where it is one of several in some task; one that
    a task has alone is named if it is one of several in another.
    """
    own = _own_ways(runs, facts, record_of)
    differs = {run.id: _difference(facts[run.id], own[_question(run.spec)]) for run in runs}
    keys = _distinguishing(runs, differs)
    words = {
        run: tuple(_word(key, mine[key]) for key in keys if key in mine)
        for run, mine in differs.items()
    }
    by_task: dict[tuple[str, str], set[tuple[str, ...]]] = {}
    for run in runs:
        by_task.setdefault((run.spec.task, head_of(run.spec)), set()).add(words[run.id])
    shown = set().union(*(mine for mine in by_task.values() if len(mine) > 1))
    return {run: mine if mine in shown else () for run, mine in words.items()}


def _word(key: str, value: str) -> str:
    if key == "task_variant":
        return value
    if key == "protocol":
        from fieldmark.protocols import main_key, protocol_of

        head, _, method = value.partition("/")
        return f"{main_key(protocol_of(head)) or 'method'}={method}"
    name = key.rpartition(".")[2]
    return f"no {name}" if value == ABSENT else f"{name}={value}"


def _question(spec: RunSpec) -> tuple[str, str, str]:
    return spec.task, spec.task_variant, head_of(spec)


def _difference(mine: _Facts, own: _Facts) -> dict[str, str]:
    """The facts that are not as in the task's own way; a variant always is one."""
    keys = dict.fromkeys((*mine, *own))
    differs = {k: mine.get(k, ABSENT) for k in keys if mine.get(k, ABSENT) != own.get(k, ABSENT)}
    if "n_train" in differs:
        differs.pop("shots", None)  # who asks for a number of images has no number per class
    variant = mine.get("task_variant", "")
    return ({"task_variant": variant} if variant else {}) | differs


def _distinguishing(runs: Sequence[Run], differs: Mapping[int, Mapping[str, str]]) -> list[str]:
    """The first few keys that tell all ways of all tasks apart: settings of a probe differ with
    the probe. Those that all ways have come first, the rest by name.
    """
    known = {key for mine in differs.values() for key in mine}
    missed = {key for mine in differs.values() for key in mine if mine[key] == ABSENT}
    order = [key for key in _FIRST if key in known]
    order += sorted(known.difference(_FIRST), key=lambda key: (key in missed, key))
    chosen: list[str] = []
    n_told = len({(run.spec.task, head_of(run.spec)) for run in runs})
    for key in order:
        labels = {
            (run.spec.task, head_of(run.spec), *(differs[run.id].get(k) for k in (*chosen, key)))
            for run in runs
        }
        if len(labels) > n_told:
            chosen, n_told = [*chosen, key], len(labels)
    return chosen


# --- the task's own way ---


def _own_ways(
    runs: Sequence[Run], facts: Mapping[int, _Facts], record_of: RecordOf
) -> dict[tuple[str, str, str], _Facts]:
    """By task, variant and protocol: as the task's file had it when the newest of the runs was
    made. Where no run recorded that, as most models were asked: the order of runs decides nothing.
    """
    asked: dict[tuple[str, str, str], list[Run]] = {}
    for run in sorted(runs, key=lambda run: (run.finished or "", run.id), reverse=True):
        asked.setdefault(_question(run.spec), []).append(run)
    own = {}
    for question, mine in asked.items():
        recorded = (_recorded(run, record_of) for run in mine)
        own[question] = next(filter(None, recorded), {}) or _usual(mine, facts)
    return own


def _recorded(run: Run, record_of: RecordOf) -> _Facts:
    """The facts of a run as the task's file asks for it; {} where that is not recorded."""
    own = (record_of(run.id).get("config") or {}).get("own")
    if not own:
        return {}
    spec = run.spec
    return way_facts(RunSpec("", spec.task, **own, task_variant=spec.task_variant))


_Way = tuple[tuple[str, str], ...]


def _usual(runs: Sequence[Run], facts: Mapping[int, _Facts]) -> _Facts:
    """The way that most models were asked in; of several, with all training images."""
    models: dict[_Way, set[str]] = {}
    for run in runs:
        models.setdefault(tuple(sorted(facts[run.id].items())), set()).add(_model(run))

    def standing(way: _Way) -> tuple[int, bool, _Way]:
        return -len(models[way]), ("n_train", short_value(None)) not in way, way

    usual: _Way = min(models, key=standing)
    return dict(usual)

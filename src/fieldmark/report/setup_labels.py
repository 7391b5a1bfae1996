"""Labels of setups: what are the settings of runs called where several stand side by side?

A setup is all of a run's settings that are neither the question (task, parts, metric, data) nor
luck (seed, repeats): the protocol, the variant, the classifier, the prompt, the training images. It
is named only where several are shown, and by no more than tells them apart: a task's own setup, as
its file has it, by the protocol alone (`probe`), others by what differs (`probe, n_train=24`,
`biobench2026`), so that the rows of tasks whose own probes differ line up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fieldmark.report.run_labels import (
    ABSENT,
    FIRST,
    Facts,
    RecordOf,
    main_protocol,
    newest_first,
    run_config,
    setup_facts,
    short_value,
    tell_apart,
)
from fieldmark.store import Run, RunSpec


def setup_labels(runs: Sequence[Run], record_of: RecordOf = lambda _: {}) -> dict[int, str]:
    """What the setup of each run is called, by the run's id; `record_of` reads a run's
    record, which says what the task's file asked for.

    "" for all where no model was asked a task in two setups, nor two models in two setups of one
    protocol. Else "" for models that were asked each task in its own setup, but by several
    protocols.
    """
    labels_of: dict[int, tuple[str, ...]] = {run.id: () for run in runs}
    if _is_asked_twice(runs):
        labels_of = _words(runs, {run.id: setup_facts(run.spec) for run in runs}, record_of)
    labels = _labels(runs, labels_of)
    questions: dict[str, dict[str, set[str]]] = {}
    for run in runs:
        tasks = questions.setdefault(_model(run), {})
        tasks.setdefault(run.spec.task, set()).add(labels[run.id])
    plain = {
        model
        for model, tasks in questions.items()
        if all(len(task_runs) == 1 for task_runs in tasks.values())
    }
    if len(plain) == len(questions) and not any(labels_of.values()):
        return dict.fromkeys(labels, "")
    mixed = {model for model in plain if len(set().union(*questions[model].values())) > 1}
    mixed -= {_model(run) for run in runs if labels_of[run.id]}
    return {run.id: "" if _model(run) in mixed else labels[run.id] for run in runs}


def _model(run: Run) -> str:
    return run.spec.model_version or run.spec.model


def _labels(runs: Sequence[Run], labels_of: Mapping[int, tuple[str, ...]]) -> dict[int, str]:
    """The protocol and what is to be said besides; a variant that one protocol has stands alone."""
    heads: dict[str, set[str]] = {}
    for run in runs:
        heads.setdefault(run.spec.task_variant, set()).add(main_protocol(run.spec))

    def label(run: Run) -> str:
        run_words, variant = labels_of[run.id], run.spec.task_variant
        is_alone = bool(variant) and variant in run_words and len(heads[variant]) == 1
        return ", ".join(run_words if is_alone else [main_protocol(run.spec), *run_words])

    return {run.id: label(run) for run in runs}


def _is_asked_twice(runs: Sequence[Run]) -> bool:
    """May any task have been asked in two setups of one protocol?"""
    question_of: dict[tuple[str, str], tuple[Any, ...]] = {}
    for run in runs:
        spec = run.spec
        run_question = (spec.task_variant, spec.protocol, spec.n_train, spec.n_test, spec.settings)
        if question_of.setdefault((spec.task, main_protocol(spec)), run_question) != run_question:
            return True
    return False


def _words(
    runs: Sequence[Run], facts_of: Mapping[int, Facts], record_of: RecordOf
) -> dict[int, tuple[str, ...]]:
    """What is to be said of each run's setup besides its protocol.

    A difference from the task's own setup is named where it is one of several in some task; one
    that a task has alone is named if it is one of several in another.
    """
    own_setups = _own_setups(runs, facts_of, record_of)
    differs = {
        run.id: _difference(facts_of[run.id], own_setups[_question(run.spec)]) for run in runs
    }
    differences = [((run.spec.task, main_protocol(run.spec)), differs[run.id]) for run in runs]
    keys = tell_apart(_in_order(differs), differences)
    shown_of = {
        run: tuple(_word(key, run_differs[key]) for key in keys if key in run_differs)
        for run, run_differs in differs.items()
    }
    by_task: dict[tuple[str, str], set[tuple[str, ...]]] = {}
    for run in runs:
        by_task.setdefault((run.spec.task, main_protocol(run.spec)), set()).add(shown_of[run.id])
    shown = set().union(*(run_differs for run_differs in by_task.values() if len(run_differs) > 1))
    return {
        run: run_differs if run_differs in shown else () for run, run_differs in shown_of.items()
    }


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
    return spec.task, spec.task_variant, main_protocol(spec)


def _difference(run_facts: Facts, usual: Facts) -> dict[str, str]:
    """The facts that are not as in the task's own setup; a variant always is one."""
    keys = dict.fromkeys((*run_facts, *usual))
    differs = {
        k: run_facts.get(k, ABSENT)
        for k in keys
        if run_facts.get(k, ABSENT) != usual.get(k, ABSENT)
    }
    if "n_train" in differs:
        differs.pop("shots", None)  # who asks for a number of images has no number per class
    variant = run_facts.get("task_variant", "")
    return ({"task_variant": variant} if variant else {}) | differs


def _in_order(differs: Mapping[int, Mapping[str, str]]) -> list[str]:
    """Settings of a probe differ with the probe: those that all setups have come first, the rest
    by name.
    """
    present = {key for run_differs in differs.values() for key in run_differs}
    missed = {
        key for run_differs in differs.values() for key in run_differs if run_differs[key] == ABSENT
    }
    order = [key for key in FIRST if key in present]
    return order + sorted(present.difference(FIRST), key=lambda key: (key in missed, key))


# --- the task's own setup ---


def _own_setups(
    runs: Sequence[Run], facts_of: Mapping[int, Facts], record_of: RecordOf
) -> dict[tuple[str, str, str], Facts]:
    """By task, variant and protocol: as the task's file had it when the newest of the runs was
    made. Where no run recorded that, as most models were asked: the order of runs decides nothing.
    """
    runs_of: dict[tuple[str, str, str], list[Run]] = {}
    for run in newest_first(runs):
        runs_of.setdefault(_question(run.spec), []).append(run)
    setups = {}
    for question, question_runs in runs_of.items():
        recorded = (_recorded(run, record_of) for run in question_runs)
        setups[question] = next(filter(None, recorded), {}) or _usual(question_runs, facts_of)
    return setups


def _recorded(run: Run, record_of: RecordOf) -> Facts:
    """The facts of a run as the task's file asks for it; {} where that is not recorded."""
    recorded = run_config(run, record_of).get("own")
    if not recorded:
        return {}
    spec = run.spec
    return setup_facts(RunSpec("", spec.task, **recorded, task_variant=spec.task_variant))


_Setup = tuple[tuple[str, str], ...]


def _usual(runs: Sequence[Run], facts_of: Mapping[int, Facts]) -> Facts:
    """The setup that most models were asked in; of several, with all training images."""
    models: dict[_Setup, set[str]] = {}
    for run in runs:
        models.setdefault(tuple(sorted(facts_of[run.id].items())), set()).add(_model(run))

    def standing(setup: _Setup) -> tuple[int, bool, _Setup]:
        return -len(models[setup]), ("n_train", short_value(None)) not in setup, setup

    usual: _Setup = min(models, key=standing)
    return dict(usual)

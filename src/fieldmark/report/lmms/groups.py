"""What does a model score on a group of tasks?

Groups are lmms-eval's: a group file says which tasks it holds and which of their metrics are
averaged, each task counting the same or by its number of documents. Nothing of a group is stored;
it is worked out from the scores of its members once all of them have run. Members hold different
documents, so their errors are taken as independent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fieldmark.report.lmms.documents import NO_FILTER, facts_of, has_documents, named
from fieldmark.store import Run, RunSpec, Score, Store, canonical_json

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
        return f"{self.group}: mean over {_some([run.spec.task_name for run in self.members])}"


def _model(run: Run) -> tuple[str, str]:
    return run.spec.model, run.spec.model_version


def group_results(
    store: Store, runs: Sequence[Run], scores: Mapping[int, Sequence[Score]]
) -> Iterator[GroupResult]:
    """The groups these runs belong to, of each model and way of asking, by name."""
    asked: dict[tuple[Any, ...], list[Run]] = {}
    for run in sorted(filter(has_documents, runs), key=lambda run: run.finished or ""):
        asked.setdefault(_way(run.spec), []).append(run)
    found = []
    for mine in asked.values():
        told: dict[str, Mapping[str, Any]] = {}
        for run in mine:
            told |= {each["group"]: each for each in facts_of(store, run).get("groups") or ()}
        found += [
            _Members(each, members).result(scores)
            for each in told.values()
            for members in _choose_members(each, mine)
        ]
    yield from sorted(found, key=lambda each: (each.group, _model(each.members[0])))


def _way(spec: RunSpec) -> tuple[Any, ...]:
    """What members of a group must have in common; each has its own data, code and examples."""
    own = ("documents", "metric", "parts", "score")
    shared = {name: value for name, value in spec.settings.items() if name not in own}
    drawn = (spec.n_test, spec.seed, spec.repeats)
    return spec.model, spec.model_version, *drawn, canonical_json(shared)


def _choose_members(told: Mapping[str, Any], runs: Sequence[Run]) -> list[dict[str, Run]]:
    """The members' runs by task; once for each number of examples that all of them were given.

    Where files fix different numbers, the newest run of each. A member may have run before its
    group was asked for: it is one by its name.
    """
    mine: dict[str, dict[int | None, Run]] = {}
    for run in runs:
        if run.spec.task in told["tasks"]:
            by_shots = mine.setdefault(run.spec.task, {})
            by_shots.pop(run.spec.n_train, None)  # the newest comes last
            by_shots[run.spec.n_train] = run
    if not mine:
        return []
    common = set.intersection(*(set(each) for each in mine.values()))
    if common:
        order = sorted(common, key=lambda n: (n is not None, n))
        return [{task: each[n] for task, each in mine.items()} for n in order]
    return [{task: list(each.values())[-1] for task, each in mine.items()}]


@dataclass(frozen=True, slots=True)
class _Members:
    told: Mapping[str, Any]
    """what a member's run says of the group"""
    runs: Mapping[str, Run]

    def result(self, scores: Mapping[int, Sequence[Score]]) -> GroupResult:
        group, alias = self.told["group"], self.told.get("alias") or self.told["group"]
        missing = [name for name in self.told["tasks"] if name not in self.runs]
        runs = tuple(run for _, run in sorted(self.runs.items()))
        if missing:
            return GroupResult(group, alias, runs, (), (_missing(group, runs[0], missing),))
        made: list[Score] = []
        notes: list[str] = []
        for each in self.told.get("metrics") or ():
            for pipeline in _pipelines(each):
                score = self._average(each, pipeline, scores)
                if isinstance(score, Score):
                    made.append(replace(score, is_primary=not made))
                else:
                    notes.append(f"group {group!r}: {score}")
        return GroupResult(group, alias, runs, tuple(made), tuple(notes))

    def _average(
        self, told: Mapping[str, Any], pipeline: str, scores: Mapping[int, Sequence[Score]]
    ) -> Score | str:
        """The score, or why there is none."""
        name = named(told["metric"], pipeline)
        if told.get("aggregation", "mean") != "mean":
            return f"{name} is averaged by a function, which is not done here"
        mine = {
            task: next((s for s in scores.get(run.id, ()) if s.metric == name and not s.part), None)
            for task, run in self.runs.items()
        }
        lacking = sorted(task for task, score in mine.items() if score is None)
        if lacking:
            return f"{name} is not averaged: {', '.join(lacking)} has no metric of that very name"
        known = [score for score in mine.values() if score is not None]
        if len({score.higher_is_better for score in known}) > 1:
            return f"{name} is not averaged: more is better for some members and worse for others"
        return average(known, bool(told.get("weight_by_size")))


def _pipelines(told: Mapping[str, Any]) -> list[str]:
    given = told.get("filter_list") or [NO_FILTER]
    return [given] if isinstance(given, str) else list(given)


def _missing(group: str, run: Run, missing: Sequence[str]) -> str:
    return f"group {group!r} of {run.spec.model}: {_some(missing)} not among these results"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


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
    known = [n for n in units if n is not None]
    return replace(
        scores[0],
        value=value,
        low=low,
        high=high,
        n=sum(score.n for score in scores),
        n_units=sum(known) if len(known) == len(units) else None,
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

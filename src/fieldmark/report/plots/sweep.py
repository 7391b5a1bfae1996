"""What a setting does: scores over a setting that runs differ in, or that a probe has searched.
The setting with most values is taken; --by names another. Of a searched one (`alpha`, `C`) every
value of the grid is drawn, by its score on held-out training images.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from fieldmark.errors import DataError, UnknownName
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
from fieldmark.report.run_labels import main_protocol, spec_facts
from fieldmark.store import Score, fit_summary
from fieldmark.words import first_few

_NOT_SETTINGS = ("seed", "data", "task_version", "task", "task_variant", "parts", "metric")


def plot(results: Results) -> Spec:
    groups = by_task(results)
    differing = {name: _differing(rows) for name, rows in groups.items()}
    between_runs = {key for settings in differing.values() for key in settings}
    if results.by not in between_runs and (results.by or not between_runs):
        searches = _searches(results, groups)
        if results.by in searches or (searches and not results.by):
            return _search_figure(searches, results.by)
        if searches:
            raise UnknownName("setting of these runs", results.by, [*between_runs, *searches])
    setting = _chosen(differing, results.by)
    lines = {name: _lines(groups[name], setting) for name in groups if setting in differing[name]}
    shown, more = first_panels([name for name, drawn in lines.items() if drawn])
    if not shown:
        raise DataError(f"no model was run with several values of {setting!r} and all else equal.")
    axis = _axis(setting, [x for name in shown for line in lines[name] for x, _ in line.points])
    chance = {name: chance_lines(results, groups[name]) for name in shown}
    rows = [row for name in shown for row in groups[name]]
    others = sorted(between_runs - {setting})
    notes = [
        level_note(rows),
        *chance_words(list(chance.values())),
        few_answers(rows),
        quiet_note(max(len(lines[name]) for name in shown)),
        f"Other settings that differ: {first_few(others)}." if others else "",
        more,
        undefined(results.rows),
        *mark_notes(rows),
    ]
    drawn = {name: _as_words(lines[name], axis) for name in shown}
    return series_figure(f"Score over {setting}", drawn, axis, notes, chance)


def _facts(row: Row) -> dict[str, Any]:
    """The settings without the name of the block they stand in, as headings of tables have them."""
    method = main_protocol(row.run.spec)
    return {
        key.removeprefix(f"{method}."): value
        for key, value in spec_facts(row.run.spec).items()
        if key.rpartition(".")[2] not in _NOT_SETTINGS
    }


def _differing(rows: Sequence[Row]) -> dict[str, int]:
    """Setting → the most values that any model was run with."""
    by_model: dict[str, dict[str, set[str]]] = {}
    for row in rows:
        for key, value in _facts(row).items():
            by_model.setdefault(row.model, {}).setdefault(key, set()).add(repr(value))
    counts: dict[str, int] = {}
    for settings in by_model.values():
        for key, values in settings.items():
            counts[key] = max(counts.get(key, 0), len(values))
    return {key: n for key, n in counts.items() if n > 1}


def _chosen(differing: Mapping[str, Mapping[str, int]], by: str) -> str:
    totals: dict[str, int] = {}
    for settings in differing.values():
        for key, n in settings.items():
            totals[key] = max(totals.get(key, 0), n)
    if not totals:
        raise DataError(
            "no model was run with several values of a setting: a grid such as "
            "`fieldmark run … --n-train 10 100`, or several probes in an experiment file, gives "
            "some."
        )
    if by and by not in totals:
        raise UnknownName("setting that differs between these runs", by, totals)
    if by:
        return by
    return max(sorted(totals), key=lambda key: totals[key])


def _lines(rows: Sequence[Row], setting: str) -> list[Series]:
    setups: dict[tuple[str, str], dict[Any, Score]] = {}
    for row in rows:
        settings = _facts(row)
        value = settings.pop(setting, None)
        rest = repr((row.data, sorted(settings.items(), key=str)))
        setups.setdefault((row.label, rest), {})[_plain(value)] = row.score
    return _numbered(
        [
            Series(model, "", tuple((x, scores[x]) for x in sorted(scores, key=_standing)))
            for (model, _), scores in setups.items()
            if len(scores) > 1
        ]
    )


def _numbered(lines: Sequence[Series]) -> list[Series]:
    """A number behind the names that several lines share."""
    total, count = Counter(line.name for line in lines), Counter[str]()
    named = []
    for line in lines:
        count[line.name] += 1
        number = f" ({count[line.name]})" if total[line.name] > 1 else ""
        named.append(Series(f"{line.name}{number}", line.kind, line.points))
    return named


# --- what the searches of probes tried


def _searches(
    results: Results, groups: Mapping[str, Sequence[Row]]
) -> dict[str, dict[str, list[Series]]]:
    """Setting → task → a line for each row whose probe searched several values of it."""
    searches: dict[str, dict[str, list[Series]]] = {}
    for name, rows in groups.items():
        for row in rows:
            parts = [part for run in row.runs for part in results.store.finished_parts(run.id)]
            fits = fit_summary(parts).tried
            for setting in dict.fromkeys(key for fit in fits for key in fit if key != "score"):
                line = Series(row.label, "", _profile(fits, setting))
                if len(line.points) > 1:
                    searches.setdefault(setting, {}).setdefault(name, []).append(line)
    return searches


def _profile(
    fits: Sequence[Mapping[str, Sequence[Any]]], setting: str
) -> tuple[tuple[Any, Score], ...]:
    """Each value and its score: the best over the other settings searched, the mean over fits."""
    scores: dict[Any, list[float]] = {}
    for fit in fits:
        best: dict[Any, float] = {}
        for value, score in zip(fit.get(setting, ()), fit["score"], strict=False):
            if score is not None:  # training diverged
                best[value] = max(score, best.get(value, score))
        for value, score in best.items():
            scores.setdefault(value, []).append(score)
    return tuple((x, Score("score on held-out photos", fmean(scores[x]))) for x in sorted(scores))


def _search_figure(searches: Mapping[str, Mapping[str, list[Series]]], by: str) -> Spec:
    setting = by or max(
        sorted(searches),
        key=lambda key: max(len(line.points) for lines in searches[key].values() for line in lines),
    )
    shown, more = first_panels(list(searches[setting]))
    lines = {name: _numbered(searches[setting][name]) for name in shown}
    axis = _axis(setting, [x for drawn in lines.values() for line in drawn for x, _ in line.points])
    others = sorted(searches.keys() - {setting})
    notes = [
        "Scores on held-out training photos, not on test photos; means over fits.",
        f"At each value, the best of {first_few(others)}." if others else "",
        quiet_note(max(map(len, lines.values()))),
        more,
    ]
    return series_figure(f"Search over {setting}", lines, axis, notes)


def _plain(value: Any) -> Any:
    """A number as it is, anything else in words."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value)) or "none"
    return "all" if value is None else str(value)


def _standing(value: Any) -> tuple[bool, float, str]:
    return isinstance(value, str), 0.0 if isinstance(value, str) else float(value), str(value)


def _axis(setting: str, values: Sequence[Any]) -> Axis:
    if any(isinstance(value, str) for value in values):
        return Axis(setting, "ordinal")
    is_wide = min(values) > 0 and max(values) / min(values) >= 50
    return Axis(setting, "log" if is_wide else "linear")


def _as_words(lines: Sequence[Series], axis: Axis) -> list[Series]:
    """On an axis of words numbers are words too."""
    if axis.kind != "ordinal":
        return list(lines)
    return [
        Series(line.name, line.kind, tuple((str(x), score) for x, score in line.points))
        for line in lines
    ]

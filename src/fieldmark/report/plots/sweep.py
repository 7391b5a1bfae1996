"""What a setting does: scores over a hyper-parameter that differs between runs.

The setting with most values is taken; --by names another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fieldmark.errors import DataError, UnknownName
from fieldmark.report.plots._chance import chance_lines, chance_words
from fieldmark.report.plots._panel import (
    Spec,
    few_answers,
    figure,
    first_panels,
    panels,
    undefined,
)
from fieldmark.report.plots._results import Results
from fieldmark.report.plots._series import (
    Axis,
    Series,
    by_task,
    level_note,
    quiet_note,
    series_panel,
)
from fieldmark.report.rows import Row, mark_notes
from fieldmark.report.run_labels import spec_facts
from fieldmark.store import Score
from fieldmark.words import first_few

_NOT_SETTINGS = ("seed", "data", "task_version", "task", "task_variant", "parts", "metric")


def plot(results: Results) -> Spec:
    groups = by_task(results)
    differing = {name: _differing(rows) for name, rows in groups.items()}
    setting = _chosen(differing, results.by)
    lines = {name: _lines(groups[name], setting) for name in groups if setting in differing[name]}
    shown, more = first_panels([name for name, drawn in lines.items() if drawn])
    if not shown:
        raise DataError(f"no model was run with several values of {setting!r} and all else equal.")
    axis = _axis(setting, [x for name in shown for line in lines[name] for x, _ in line.points])
    chance = {name: chance_lines(results, groups[name]) for name in shown}
    parts = [
        series_panel(
            _as_words(lines[name], axis),
            axis,
            name.partition("\n")[0] if len(shown) > 1 else "",
            chance[name],
        )
        for name in shown
    ]
    rows = [row for name in shown for row in groups[name]]
    others = sorted({key for settings in differing.values() for key in settings} - {setting})
    notes = [
        level_note(rows),
        *chance_words(list(chance.values())),
        few_answers(rows),
        quiet_note(max(len(lines[name]) for name in shown)),
        f"Other settings that differ (--by draws them): {first_few(others)}." if others else "",
        more,
        undefined(results.rows),
        *mark_notes(rows),
    ]
    where = shown[0].partition("\n")[0] if len(shown) == 1 else f"{len(shown)} tasks"
    return figure(f"Score over {setting} on {where}", notes, panels(parts), len(parts))


def _facts(row: Row) -> dict[str, Any]:
    """The settings without the name of the block they stand in, as headings of tables have them."""
    method = row.run.spec.protocol.partition("/")[0]
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
    for mine in by_model.values():
        for key, values in mine.items():
            counts[key] = max(counts.get(key, 0), len(values))
    return {key: n for key, n in counts.items() if n > 1}


def _chosen(differing: Mapping[str, Mapping[str, int]], asked: str) -> str:
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
    if asked and asked not in totals:
        raise UnknownName("setting that differs between these runs", asked, totals)
    if asked:
        return asked
    return max(sorted(totals), key=lambda key: totals[key])


def _lines(rows: Sequence[Row], setting: str) -> list[Series]:
    setups: dict[tuple[str, str], dict[Any, Score]] = {}
    for row in rows:
        facts = _facts(row)
        value = facts.pop(setting, None)
        rest = repr((row.data, sorted(facts.items(), key=str)))
        setups.setdefault((row.label, rest), {})[_plain(value)] = row.score
    several = {key: scores for key, scores in setups.items() if len(scores) > 1}
    models = [model for model, _ in several]
    counts: dict[str, int] = {}
    lines = []
    for (model, _), scores in several.items():
        counts[model] = counts.get(model, 0) + 1
        name = model if models.count(model) == 1 else f"{model} ({counts[model]})"
        points = tuple((x, scores[x]) for x in sorted(scores, key=_standing))
        lines.append(Series(name, "", points))
    return lines


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

"""Labels of runs: what are models and columns called where several stand side by side?

Versions of one model (its code, weights or precision changed) are told apart by the beginning of
their hash, `m.py:Mine#4ae7`. All runs of one task share a column, whichever way the models were
asked; where a task stands in several versions of its data, or with other parts, the heading says
what differs. Data versions are told apart by the folders they lay in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import permutations
from pathlib import PurePath
from typing import Any

from fieldmark import draws
from fieldmark.registry import split_options
from fieldmark.store import Run, RunSpec, canonical_json
from fieldmark.words import SYNTHETIC

LEAST = 4
"""hex digits of a version that are shown"""
_OLDER = " (older)"
_COLUMN_FACTS = ("task_version", "parts", "score", "test")
"""what tells columns of one task apart, besides the data and the metric"""
QUESTION = ("task", "task_version", "data", "parts", "score", "metric", "test", "choices")
"""facts that tell columns apart, or follow from what does"""
LUCK = ("seed", "repeats")
"""facts that tell draws of one cell apart"""
_DRAWN = (*LUCK, "n_train", "n_test", "shots", "sampling")
"""facts that say how much is drawn of a table, and how"""
_MODEL = ("model", "model_version")
FIRST = ("task_variant", "n_train", "shots", "n_test", "protocol")
"""what is named before any other setting"""
ABSENT = "-"
"""stands for a setting that a setup does not have"""
Facts = Mapping[str, str]
RecordOf = Callable[[int], Mapping[str, Any]]


# --- facts of a run ---


def spec_facts(spec: RunSpec) -> dict[str, Any]:
    """All of a spec but its model, flat; the data last: another draw of the same images has other
    data too, and is to be told by the draw.
    """
    named = {field.name: getattr(spec, field.name) for field in fields(RunSpec)}
    apart = (*_MODEL, "settings", "data")
    named_settings = {name: value for name, value in named.items() if name not in apart}
    return {**named_settings, **dict(_flat(spec.settings)), "data": spec.data}


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


def setup_facts(spec: RunSpec) -> dict[str, str]:
    """What makes the setup, each value short."""
    apart = (*QUESTION, *LUCK)
    settings = {k: v for k, v in spec_facts(spec).items() if k.rpartition(".")[2] not in apart}
    leading = {name: settings.pop(name) for name in FIRST if name in settings}
    return {name: short_value(value) for name, value in (leading | settings).items()}


def main_protocol(spec: RunSpec) -> str:
    """The protocol without its method."""
    return spec.protocol.partition("/")[0]


def is_drawn(run: Run) -> bool:
    """Were some of the training images drawn? All of them are the same sample each time."""
    return bool(run.spec.n_train or run.spec.settings.get("shots"))


def is_drawn_once(runs: Sequence[Run]) -> bool:
    """Were they, and only once in runs that differ in their seed?"""
    return is_drawn(runs[0]) and sum(run.spec.repeats for run in runs) == 1


# --- models ---


def model_name(spec: RunSpec) -> str:
    """What all versions of the model are called: its name without the folders of its file."""
    return spec.model_version.rpartition("#")[0] or spec.model


def version_mark(spec: RunSpec) -> str:
    """What tells the version from others of that name; "" where nothing does."""
    name, _, mark = spec.model_version.rpartition("#")
    return mark if name or mark != spec.model else ""


def _model_names(runs: Sequence[Run]) -> dict[int, str]:
    """The model of each run without its version, by the run's id. Files of one name from several
    folders are several models: as much of their paths is kept as tells them apart.
    """
    typed: dict[str, dict[str, str]] = {}
    for run in newest_first(runs):
        versions = typed.setdefault(model_name(run.spec), {})
        versions.setdefault(version_mark(run.spec), run.spec.model)
    shown = {
        (name, mark): text
        for name, versions in typed.items()
        for mark, text in zip(versions, _with_folders(name, [*versions.values()]), strict=True)
    }
    return {run.id: shown[model_name(run.spec), version_mark(run.spec)] for run in runs}


def _with_folders(name: str, typed: Sequence[str]) -> list[str]:
    """
    >>> _with_folders("timm/x?size=9&w=n.pt", [f"timm/x?w=r/{k}/n.pt&size=9" for k in "ab"])
    ['timm/x?size=9&w=a/n.pt', 'timm/x?size=9&w=b/n.pt']
    """
    if len(set(typed)) == 1:
        return [name] * len(typed)
    bases, options = zip(*map(split_options, typed), strict=True)
    base, values = split_options(name)
    if any(option.keys() != values.keys() for option in options):
        return [name] * len(typed)
    columns: dict[str, tuple[str, Sequence[str]]] = {"": (base, bases)}
    columns |= {key: (short, [option[key] for option in options]) for key, short in values.items()}
    shown: list[list[str]] = []
    for key, (short, texts) in columns.items():
        tails = _tails(texts) if len(set(texts)) > 1 else dict.fromkeys(texts, short)
        shown.append([f"{key}={tails[text]}" if key else tails[text] for text in texts])
    return [
        "?".join(filter(None, [one, "&".join(rest)])) for one, *rest in zip(*shown, strict=True)
    ]


def model_labels(runs: Sequence[Run]) -> dict[int, str]:
    """What the model of each run is called, by the run's id; versions are told apart."""
    names = _model_names(runs)
    versions: dict[str, set[str]] = {}
    for run in runs:
        versions.setdefault(names[run.id], set()).add(version_mark(run.spec))
    short = {name: _shortened(marks) for name, marks in versions.items()}

    def label(run: Run) -> str:
        name, mark = names[run.id], version_mark(run.spec)
        if len(versions[name]) == 1:
            return name
        return f"{name}#{short[name][mark]}" if mark else f"{name} (no version)"

    return {run.id: label(run) for run in runs}


def without_version(label: str, spec: RunSpec) -> str:
    """The label of a model without what tells its version."""
    name, _, mark = label.rpartition("#")
    is_marked = name and version_mark(spec).startswith(mark)
    return name if is_marked else label.removesuffix(" (no version)")


def _shortened(marks: Iterable[str]) -> dict[str, str]:
    """
    >>> _shortened(["4ae7da83", "4ae79b1c", "bf16-4ae7da83"])["4ae79b1c"]
    '4ae79'
    """
    parts = {mark: mark.rpartition("-") for mark in marks}
    longest = max((len(digits) for _, _, digits in parts.values()), default=0)
    short: dict[str, str] = {}
    for n in range(LEAST, max(longest, LEAST) + 1):
        short = {mark: f"{a}{dash}{digits[:n]}" for mark, (a, dash, digits) in parts.items()}
        if len(set(short.values())) == len(short):
            break
    return short


def newest_first(runs: Iterable[Run]) -> list[Run]:
    return sorted(runs, key=lambda run: (run.finished or "", run.id), reverse=True)


def version_notes(runs: Sequence[Run]) -> list[str]:
    """Which version of a model is the newest, a line for each model that has several."""
    labels, names = model_labels(runs), _model_names(runs)
    versions: dict[str, list[str]] = {}
    for run in newest_first(runs):
        versions.setdefault(names[run.id], []).append(labels[run.id])
    several = {
        name: list(dict.fromkeys(model_versions)) for name, model_versions in versions.items()
    }
    return [
        f"{name} has {len(model_versions)} versions here; {model_versions[0]} was run last."
        for name, model_versions in sorted(several.items())
        if len(model_versions) > 1
    ]


# --- columns ---


@dataclass(frozen=True, slots=True)
class Column:
    """The column that a run stands in."""

    label: str
    """the task and, on lines of their own, what differs between its columns"""
    data: str = ""
    """which version of the data, in words; "" where the task has one only"""
    is_counted: bool = True
    """False: it counts in no mean and no rank, as another data version of the task does"""
    task: str = ""
    """what was asked, a part of a task by its own name: newt/health"""


def columns_of_runs(
    runs: Sequence[Run], folders: Collection[str] = (), record_of: RecordOf = lambda _: {}
) -> dict[int, Column]:
    """The column of each run, by its id. `folders` are those that the user named; `record_of` reads
    a run's record, which says whether only some parts of its task were asked.
    """
    by_task: dict[tuple[str, bool], list[Run]] = {}
    for run in runs:
        by_task.setdefault((run.spec.task, run.marks.is_synthetic), []).append(run)
    columns: dict[int, Column] = {}
    for (_, is_synthetic), task_runs in by_task.items():
        names = _asked_names(task_runs, record_of)
        for number, column in _columns_of_task(task_runs, folders, names).items():
            name, *lines = column.label.split("\n")
            label = "\n".join([name, SYNTHETIC, *lines]) if is_synthetic else column.label
            columns[number] = replace(column, label=label)
    return columns


def data_notes(columns: Iterable[tuple[str, str, bool]]) -> list[str]:
    """Which tasks stand in several data versions, and what that means, a line each.

    `columns`: task, data version and whether it counts.
    """
    versions: dict[str, dict[str, bool]] = {}
    for task, data, is_counted in columns:
        if data:
            versions.setdefault(task, {})[data] = is_counted
    return [_data_note(task, task_versions) for task, task_versions in versions.items()]


def _data_note(task: str, versions: Mapping[str, bool]) -> str:
    counted = ", ".join(data for data, is_counted in versions.items() if is_counted)
    names = ", ".join(sorted(versions))
    others = [data for data, is_counted in versions.items() if not is_counted]
    has_folders = any(not data.endswith(_OLDER) for data in others)
    choice = f"; --data {task}=FOLDER chooses another folder" * has_folders
    what = f" Means and ranks use {counted}{choice}." * bool(counted)
    return f"{task} has {len(versions)} data versions ({names}).{what}"


def _asked_names(runs: Sequence[Run], record_of: RecordOf) -> dict[int, str]:
    """By run: the task, and which parts of it where its newest run was asked for some only."""
    parts_of: dict[tuple[str, ...], str] = {}
    names = {}
    for run in newest_first(runs):
        parts = tuple(run.spec.settings.get("parts") or ())
        if parts not in parts_of:
            is_whole = parts in ((), ("",))
            parts_of[parts] = "" if is_whole else str(run_config(run, record_of).get("parts") or "")
        some = parts_of[parts]
        names[run.id] = f"{run.spec.task_name}/{some}" if some else run.spec.task_name
    return names


def run_config(run: Run, record_of: RecordOf) -> Mapping[str, Any]:
    return record_of(run.id).get("config") or {}


def _columns_of_task(
    runs: Sequence[Run], folders: Collection[str], asked_names: Mapping[int, str]
) -> dict[int, Column]:
    """A task that was asked in one variant only is headed by it."""
    spec = runs[0].spec
    if all(
        (run.spec.task_variant, run.spec.task_version, run.spec.data, run.spec.settings)
        == (spec.task_variant, spec.task_version, spec.data, spec.settings)
        for run in runs
    ):
        name = asked_names[runs[0].id]
        return {run.id: Column(name, task=name) for run in runs}
    facts_of = {run.id: spec_facts(run.spec) for run in runs}
    settings_of = {
        run: {k: short_value(run_facts[k]) for k in _COLUMN_FACTS if k in run_facts}
        for run, run_facts in facts_of.items()
    }
    keys = dict.fromkeys(key for run_facts in settings_of.values() for key in run_facts)
    distinguishing = tell_apart(keys, [("", run_facts) for run_facts in settings_of.values()])
    versions = _DataVersions(runs, facts_of, folders)
    names = {run.spec.task_name for run in runs}
    unnamed = {run.id for run in runs if asked_names[run.id] == run.spec.task_name}
    n_unnamed = len({str(facts_of[run].get("parts")) for run in unnamed})
    columns = {}
    for run in runs:
        name, data = asked_names[run.id], versions.words.get(run.spec.data, "")
        if len(names) > 1:
            name = run.spec.task + name.removeprefix(run.spec.task_name)
        is_named = run.id not in unnamed or n_unnamed == 1
        lines = [
            f"{key}={settings_of[run.id].get(key, '-')}"
            for key in distinguishing
            if key != "parts" or not is_named
        ]
        lines += [f"data={data}"] if data else []
        is_counted = not versions.words or versions.is_counted(run)
        label = "\n".join([name, *lines])
        columns[run.id] = Column(label, data, is_counted, asked_names[run.id])
    return columns


def tell_apart(names: Iterable[str], rows: Sequence[tuple[Hashable, Facts]]) -> list[str]:
    """The first few names of facts that tell all rows apart; those of other groups are apart."""
    chosen: list[str] = []
    n_told = len({group for group, _ in rows})
    for name in names:
        keys = (*chosen, name)
        n = len({(group, *map(row_facts.get, keys)) for group, row_facts in rows})
        if n > n_told:
            chosen, n_told = [*keys], n
    return chosen


# --- data versions ---


class _DataVersions:
    """The data versions of one task: in which folder each lay, which came first, which counts."""

    def __init__(
        self,
        runs: Sequence[Run],
        facts_of: Mapping[int, Mapping[str, Any]],
        folders: Collection[str],
    ) -> None:
        self.roots: dict[str, str] = {}
        """data → the folder, by its newest run; "": not known"""
        copies: dict[str, str] = {}
        for run in newest_first(runs):
            root = self.roots.setdefault(run.spec.data, run.root)
            copies.setdefault(run.root, copies.get(root, root))  # a copy of the same data
        self.roots = {data: copies[root] for data, root in self.roots.items()}
        rivals = [list(data) for data in _data_of_alike(runs, facts_of, {"data"}) if len(data) > 1]
        roots = {*self.roots.values()} - {""}
        self.words: dict[str, str] = {}
        """{} where the task has one version"""
        self.older: set[str] = set()
        named = [copies[folder] for folder in folders if folder in copies]
        self.folder = (named or [*self.roots.values()])[0]
        """the one that counts: named by the user, or else that of the newest run"""
        pairs = [pair for rival_data in rivals for pair in permutations(rival_data, 2)]
        pairs += _other_tables(runs, facts_of)
        if not pairs and len(roots) < 2:
            return
        order = list(self.roots)  # the newest first
        self.older = {
            data
            for data, other in pairs
            if self.roots[data] == self.roots[other] and order.index(other) < order.index(data)
        }
        tails = _tails(roots)
        self.words = {data: self._words(data, tails) for data in self.roots}
        for rival_data in rivals:
            taken = [self.words[data] for data in rival_data]
            for data in rival_data:
                if taken.count(self.words[data]) > 1:
                    self.words[data] += f" {short_value(data)}"

    def is_counted(self, run: Run) -> bool:
        """The newest version of one folder counts."""
        data = run.spec.data
        return self.roots[data] == self.folder and data not in self.older

    def _words(self, data: str, tails: Mapping[str, str]) -> str:
        folder = tails.get(self.roots[data])
        if folder is None:
            return short_value(data)
        return f"{folder}{_OLDER}" if data in self.older else folder


def _data_of_alike(
    runs: Sequence[Run], facts_of: Mapping[int, Mapping[str, Any]], apart: Collection[str]
) -> list[dict[str, None]]:
    """The data of runs that differ in nothing but these facts."""
    data_of: dict[str, dict[str, None]] = {}
    for run in runs:
        rest = {k: v for k, v in facts_of[run.id].items() if k not in apart}
        data_of.setdefault(canonical_json(rest), {})[run.spec.data] = None
    return list(data_of.values())


def _other_tables(
    runs: Sequence[Run], facts_of: Mapping[int, Mapping[str, Any]]
) -> list[tuple[str, str]]:
    """Pairs of data from different tables, of runs that differ in their draws at most: how many
    photos were drawn, or which examples are shown, does not change the table.
    """
    alike = _data_of_alike(runs, facts_of, {"data", *_DRAWN})
    table = {run.spec.data: run.spec.rows for run in runs}
    pairs = [pair for data in alike for pair in permutations(data, 2)]
    return [(one, two) for one, two in pairs if table[one] != table[two]]


def _tails(roots: Iterable[str]) -> dict[str, str]:
    """The last folder of each path; as many more as tell it from the others.

    >>> _tails(["/data/a/photos", "/data/b/photos", "/data/cropped"])["/data/a/photos"]
    'a/photos'
    """
    parts = {root: PurePath(root).parts for root in roots}
    tails: dict[str, str] = {}
    for root, folder_names in parts.items():
        others = [folders for other, folders in parts.items() if other != root]
        n = 1
        while n < len(folder_names) and any(
            folders[-n:] == folder_names[-n:] for folders in others
        ):
            n += 1
        tails[root] = "/".join(folder_names[-n:])
    return tails

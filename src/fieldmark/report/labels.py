"""Labels: what is a model called, and a column headed, where several are shown side by side?

Versions of one model (its code, weights or precision changed) are told apart by the beginning of
their hash, `m.py:Mine#4ae7`. All runs of one task share a column, whichever way the models were
asked (`ways` names that); where a task stands in several versions of its data, or with other parts,
the heading says what differs. Data versions are told apart by the folders they lay in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from fieldmark import draws
from fieldmark.report.ways import short_value, spec_facts
from fieldmark.store import Run, RunSpec, canonical_json

if TYPE_CHECKING:
    from fieldmark.report.cells import Row

LEAST = 4
"""hex digits of a version that are shown"""
_OLDER = " (older)"
_COLUMN_FACTS = ("task_version", "parts", "score", "test")
"""what tells columns of one task apart, besides the data and the metric"""


# --- models ---


def model_name(spec: RunSpec) -> str:
    """What all versions of the model are called: its name without the folders of its file."""
    return spec.model_version.rpartition("#")[0] or spec.model


def version_mark(spec: RunSpec) -> str:
    """What tells the version from others of that name; "" where nothing does."""
    name, _, mark = spec.model_version.rpartition("#")
    return mark if name or mark != spec.model else ""


def model_labels(runs: Sequence[Run]) -> dict[int, str]:
    """What the model of each run is called, by the run's id; versions are told apart."""
    versions: dict[str, set[str]] = {}
    for run in runs:
        versions.setdefault(model_name(run.spec), set()).add(version_mark(run.spec))
    short = {name: _shortened(marks) for name, marks in versions.items()}

    def label(spec: RunSpec) -> str:
        name, mark = model_name(spec), version_mark(spec)
        if len(versions[name]) == 1:
            return name
        return f"{name}#{short[name][mark]}" if mark else f"{name} (no version)"

    return {run.id: label(run.spec) for run in runs}


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
    labels = model_labels(runs)
    versions: dict[str, list[str]] = {}
    for run in newest_first(runs):
        versions.setdefault(model_name(run.spec), []).append(labels[run.id])
    several = {name: list(dict.fromkeys(mine)) for name, mine in versions.items()}
    return [
        f"{name} has {len(mine)} versions here; {mine[0]} was run last."
        for name, mine in sorted(several.items())
        if len(mine) > 1
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


def column_labels(runs: Sequence[Run]) -> dict[int, str]:
    """The heading of each run, by its id."""
    return {run: column.label for run, column in columns_of_runs(runs).items()}


def columns_of_runs(runs: Sequence[Run], folders: Collection[str] = ()) -> dict[int, Column]:
    """The column of each run, by its id. `folders` are those that the user named."""
    by_task: dict[tuple[str, bool], list[Run]] = {}
    for run in runs:
        by_task.setdefault((run.spec.task, run.marks.is_synthetic), []).append(run)
    columns: dict[int, Column] = {}
    for (_, is_synthetic), mine in by_task.items():
        own = _columns_of_task(mine, folders)
        columns |= {run: _marked(column) for run, column in own.items()} if is_synthetic else own
    return columns


SYNTHETIC = "synthetic"
"""stands beside the name of a task whose photos were drawn"""


def _marked(column: Column) -> Column:
    name, *lines = column.label.split("\n")
    return replace(column, label="\n".join([name, SYNTHETIC, *lines]))


def marked_task(name: str, is_synthetic: bool) -> str:
    """
    >>> marked_task("newt", True), marked_task("newt", False)
    ('newt (synthetic)', 'newt')
    """
    return f"{name} ({SYNTHETIC})" if is_synthetic else name


def data_notes(columns: Iterable[tuple[str, str, bool]]) -> list[str]:
    """Which tasks stand in several data versions, and what that means, a line each.

    `columns`: task, data version and whether it counts.
    """
    versions: dict[str, dict[str, bool]] = {}
    for task, data, is_counted in columns:
        if data:
            versions.setdefault(task, {})[data] = is_counted
    return [_data_note(task, mine) for task, mine in versions.items()]


def _data_note(task: str, versions: Mapping[str, bool]) -> str:
    counted = ", ".join(data for data, is_counted in versions.items() if is_counted)
    names = ", ".join(sorted(versions))
    others = [data for data, is_counted in versions.items() if not is_counted]
    has_folders = any(not data.endswith(_OLDER) for data in others)
    choice = f"; --data {task}=FOLDER chooses another folder" * has_folders
    what = f" Means and ranks use {counted}{choice}." * bool(counted)
    return f"{task} has {len(versions)} data versions ({names}).{what}"


def _columns_of_task(runs: Sequence[Run], folders: Collection[str]) -> dict[int, Column]:
    """A task that was asked in one variant only is headed by it."""
    first = runs[0].spec
    if all(_is_alike(run.spec, first) for run in runs):
        return {run.id: Column(first.task_name) for run in runs}
    facts = {run.id: spec_facts(run.spec) for run in runs}
    asked = {
        run: {k: short_value(mine[k]) for k in _COLUMN_FACTS if k in mine}
        for run, mine in facts.items()
    }
    distinguishing = _distinguishing(list(asked.values()))
    versions = _DataVersions(runs, facts, folders)
    names = {run.spec.task_name for run in runs}
    name = names.pop() if len(names) == 1 else runs[0].spec.task
    columns = {}
    for run in runs:
        data = versions.words.get(run.spec.data, "")
        lines = [f"{key}={asked[run.id].get(key, '-')}" for key in distinguishing]
        lines += [f"data={data}"] if data else []
        is_counted = not versions.words or versions.is_counted(run)
        columns[run.id] = Column("\n".join([name, *lines]), data, is_counted)
    return columns


def _is_alike(spec: RunSpec, other: RunSpec) -> bool:
    """Are two runs of one task surely in the same column?"""
    names = ("task_variant", "task_version", "data", "settings")
    return all(getattr(spec, name) == getattr(other, name) for name in names)


def _distinguishing(facts: Sequence[Mapping[str, str]]) -> list[str]:
    """The first few facts that tell all columns apart."""
    known = dict.fromkeys(key for run_facts in facts for key in run_facts)
    chosen: list[str] = []
    n_told = 1
    for key in known:
        n = len({tuple(run_facts.get(k, "-") for k in (*chosen, key)) for run_facts in facts})
        if n > n_told:
            chosen, n_told = [*chosen, key], n
    return chosen


# --- data versions ---


class _DataVersions:
    """The data versions of one task: in which folder each lay, which came first, which counts."""

    def __init__(
        self,
        runs: Sequence[Run],
        facts: Mapping[int, Mapping[str, Any]],
        folders: Collection[str],
    ) -> None:
        self.roots: dict[str, str] = {}
        """data → the folder, by its newest run; "": not known"""
        copies: dict[str, str] = {}
        for run in newest_first(runs):
            root = self.roots.setdefault(run.spec.data, run.root)
            copies.setdefault(run.root, copies.get(root, root))  # a copy of the same data
        self.roots = {data: copies[root] for data, root in self.roots.items()}
        rivals = _data_rivals(runs, facts)
        known = {*self.roots.values()} - {""}
        self.words: dict[str, str] = {}
        """{} where the task has one version"""
        self.older: set[str] = set()
        named = [copies[folder] for folder in folders if folder in copies]
        self.folder = (named or [*self.roots.values()])[0]
        """the one that counts: named by the user, or else that of the newest run"""
        if not rivals and len(known) < 2:
            return
        self.older = {
            data
            for mine in rivals
            for data in mine
            if any(self._is_before(data, other) for other in mine)
        }
        tails = _tails(known)
        self.words = {data: self._words(data, tails) for data in self.roots}
        for mine in rivals:
            taken = [self.words[data] for data in mine]
            for data in mine:
                if taken.count(self.words[data]) > 1:
                    self.words[data] += f" {short_value(data)}"

    def is_counted(self, run: Run) -> bool:
        """The newest version of one folder counts."""
        data = run.spec.data
        return self.roots[data] == self.folder and data not in self.older

    def _is_before(self, data: str, other: str) -> bool:
        order = list(self.roots)  # the newest first
        return self.roots[data] == self.roots[other] and order.index(other) < order.index(data)

    def _words(self, data: str, tails: Mapping[str, str]) -> str:
        folder = tails.get(self.roots[data])
        if folder is None:
            return short_value(data)
        return f"{folder}{_OLDER}" if data in self.older else folder


def _data_rivals(runs: Sequence[Run], facts: Mapping[int, Mapping[str, Any]]) -> list[list[str]]:
    """Data that differ although all else is the same, the question, the way and the draw."""
    asked: dict[str, dict[str, None]] = {}
    for run in runs:
        rest = canonical_json({k: v for k, v in facts[run.id].items() if k != "data"})
        asked.setdefault(rest, {})[run.spec.data] = None
    return [list(mine) for mine in asked.values() if len(mine) > 1]


def _tails(roots: Iterable[str]) -> dict[str, str]:
    """The last folder of each path; as many more as tell it from the others.

    >>> _tails(["/data/a/photos", "/data/b/photos", "/data/cropped"])["/data/a/photos"]
    'a/photos'
    """
    parts = {root: PurePath(root).parts for root in roots}
    tails: dict[str, str] = {}
    for root, mine in parts.items():
        others = [folders for other, folders in parts.items() if other != root]
        n = 1
        while n < len(mine) and any(folders[-n:] == mine[-n:] for folders in others):
            n += 1
        tails[root] = "/".join(mine[-n:])
    return tails


# --- signature: the line under a table ---


def signatures(rows: Sequence[Row]) -> list[str]:
    """The lines of all columns, in their order; each names the versions its runs were made with."""
    apps: dict[str, set[str]] = {}
    for row in rows:
        line = signature(row.run.spec, [run.spec for run in row.runs])
        apps.setdefault(line, set()).update(run.app for run in row.runs or (row.run,))
    return [f"{line} app={','.join(sorted(versions))}" for line, versions in apps.items()]


def signature(spec: RunSpec, draws_of_it: Sequence[RunSpec] = ()) -> str:
    """All but the model and the version of fieldmark; of several draws all seeds, and of their
    data what they share.
    """
    every = draws_of_it or [spec]
    data = {one.data for one in every}
    facts = {
        "task": spec.task_name,
        "version": spec.task_version,
        "data": spec.data
        if len(data) == 1
        else "+".join(sorted({d.partition("-")[0] for d in data})),
        "protocol": spec.protocol,
        "settings": draws.digest(canonical_json(spec.settings)).hex()[:8],
        "n_train": "all" if spec.n_train is None else spec.n_train,
        "n_test": "all" if spec.n_test is None else spec.n_test,
        "seed": ",".join(str(seed) for seed in sorted({one.seed for one in every})),
        "repeats": spec.repeats,
    }
    is_default = {"n_test": "all", "repeats": 1, "version": "", "data": ""}
    return " ".join(f"{k}={v}" for k, v in facts.items() if v != is_default.get(k))

"""Groups, tags and patterns: which tasks does a name mean?

A group's keys other than its own are put onto its members, those of an outer group over those of an
inner one. A task that is met twice with the same keys is one task; with other keys it is a second
one, `name-1`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from fieldmark.errors import UnknownName, UsageError, join_problems
from fieldmark.lmms.code.trust import Trust
from fieldmark.lmms.read.files import (
    Index,
    IndexEntry,
    add_below,
    kind_of,
    read_document_file,
    with_includes,
)
from fieldmark.lmms.read.schema import GROUP_KEYS, NO_EFFECT, DocumentTask, Group, GroupItem
from fieldmark.source_lines import Located, is_file, validate
from fieldmark.tasks import is_pattern

# --- Loading: how does a file become a task or a group, and what in it has no effect?

_CODE_FIELDS = ("doc_to_visual", "doc_to_text", "doc_to_target", "doc_to_choice")
_MODULE_NAME = re.compile(r"([A-Za-z_]\w*)\.([A-Za-z_]\w*)")


def notes_of(task: DocumentTask, located: Located) -> Iterator[str]:
    """One line each, with its place."""
    yield from located.notes
    for key in located.data:
        if key in NO_EFFECT:
            yield f"{located.where((key,))}  {key} {NO_EFFECT[key]}."
    if task.group:
        where = located.where(("group",))
        yield f"{where}  group in a task is an old word for tag, and is read as tag."
    for key in _CODE_FIELDS:
        if _is_untagged(getattr(task, key), located, key):
            reason = "names a function, but without `!function` it is plain text"
            yield f"{located.where((key,))}  {key} = {getattr(task, key)!r} {reason}."


def _is_untagged(value: object, located: Located, field: str) -> bool:
    """Is this text the name of a function in a file that stands beside the task's?"""
    match = _MODULE_NAME.fullmatch(value) if isinstance(value, str) else None
    return bool(match and is_file(located.file((field,)).parent / f"{match[1]}.py"))


_INSTEAD = {
    "group": "is a group of tasks, not a task",
    "python": "is a task written as a Python class: fieldmark runs tasks whose steps are named"
    " one by one (doc_to_text, process_results, …)",
    "abstract": "names no task: it is a template for other files to include",
    "own": "is a task in fieldmark's own form, not in lmms-eval's",
}


def load_document_task(
    path: Path, trust: Trust, overrides: Mapping[str, Any] | Located | None = None
) -> DocumentTask:
    """The task in the file, checked; `overrides` are keys put in place of the file's own."""
    located = read_document_file(path, trust)
    kind = kind_of(located)
    if kind != "task":
        raise UsageError(f"{located.where(_telling_key(kind))}  {_INSTEAD[kind]}.")
    return make_task(with_includes(with_overrides(located, overrides), trust), trust)


def make_task(located: Located, trust: Trust) -> DocumentTask:
    """The task that the keys describe."""
    task = validate(DocumentTask, located)
    task._origin, task._trust = located, trust
    task._notes = tuple(notes_of(task, located))
    return task


def load_group(path: Path, trust: Trust) -> Group:
    """The group in the file, checked; its members are only named."""
    located = read_document_file(path, trust)
    kind = kind_of(located)
    if kind != "group":
        reason = "is a task, not a group" if kind == "task" else _INSTEAD[kind]
        raise UsageError(f"{located.where(_telling_key(kind))}  {reason}.")
    return make_group(located)


def make_group(located: Located) -> Group:
    """The group that the keys describe."""
    group = validate(Group, located)
    group._origin = located
    return group


def with_overrides(located: Located, overrides: Mapping[str, Any] | Located | None) -> Located:
    """The keys with others put in their place; those of another file keep their places."""
    if overrides is None:
        return located
    if isinstance(overrides, Located):
        merged = add_below(overrides, located)
        return replace(
            merged,
            path=located.path,
            files=merged.files | {key: overrides.file((key,)) for key in overrides.data},
        )
    lines = {key: line for key, line in located.lines.items() if key[0] not in overrides}
    return replace(located, data=located.data | dict(overrides), lines=lines)


def _telling_key(kind: str) -> tuple[str, ...]:
    return {"group": ("task",), "python": ("class",), "task": ("task",)}.get(kind, ())


# --- groups


Chain = tuple[IndexEntry, ...]
"""the groups around a member, the outermost first"""


@dataclass(frozen=True, slots=True)
class ExpandedGroup:
    """A group and who belongs to it."""

    group: Group
    members: tuple[str, ...]
    """tasks and groups that stand in it, by name"""
    tasks: tuple[str, ...]
    """every task in it, those of inner groups too, once each"""


@dataclass(frozen=True, slots=True)
class Expanded:
    """What a name means."""

    tasks: tuple[DocumentTask, ...]
    """each with a name of its own"""
    groups: tuple[ExpandedGroup, ...] = ()
    """inner groups before the group around them"""
    notes: tuple[str, ...] = ()
    """what a pattern fits but cannot be run, one line each"""


def expand(index: Index, name: str, trust: Trust, where: str = "") -> Expanded:
    """The tasks of a task, tag, group or pattern (`mme*`), loaded and checked."""
    work = _Expansion(index, trust)
    if index.has(name) or not is_pattern(name):
        work.add(name, None, (), where)
    else:
        work.add_all(index.match(name), name, where)
    return work.finished()


def expand_file(index: Index, path: Path, trust: Trust) -> Expanded:
    """The tasks of a task's or group's file; members of a group are looked up in the index."""
    work = _Expansion(index, trust)
    located = read_document_file(path, trust)
    if kind_of(located) == "group":
        name = located.data.get("group")
        work.add_group(located, (IndexEntry(str(name), "group", path),))
    else:
        work.add_task(IndexEntry("", "task", path), None)
    return work.finished()


@dataclass(slots=True)
class _Expansion:
    index: Index
    trust: Trust
    tasks: dict[str, DocumentTask] = field(default_factory=dict)
    groups: list[ExpandedGroup] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    made: dict[tuple[Path, str], str] = field(default_factory=dict)
    """a task's file and the keys put onto it → the name it got"""
    held: dict[tuple[Path, str], list[str]] = field(default_factory=dict)
    """a group's file and the keys put onto it → the names of its tasks"""
    homes: dict[str, Path] = field(default_factory=dict)

    def finished(self) -> Expanded:
        if self.problems:
            raise UsageError(join_problems(list(dict.fromkeys(self.problems))))
        if not self.tasks and self.groups:
            group = self.groups[-1].group
            raise UsageError(f"{group.line_of('task')}  group {group.group!r} contains no tasks.")
        return Expanded(tuple(self.tasks.values()), tuple(self.groups), tuple(self.notes))

    def add_all(self, names: list[str], pattern: str, where: str) -> None:
        """What a pattern fits; groups first, since they may change the tasks they hold."""
        if not names:
            raise UnknownName("task, group or tag", pattern, self.index.names, where=where)
        for name in (name for name in names if self._is_group(name)):
            self._try(partial(self.add, name, None, (), where))
        reached = {file for file, _ in self.made}
        for name in (name for name in names if not self._is_group(name)):
            self._try(partial(self._add_unless, reached, name, where))

    def _add_unless(self, reached: set[Path], name: str, where: str) -> list[str]:
        entry, names = self.index.find(name, where), []
        for member in self.index.tagged(name) if entry.kind == "tag" else (entry,):
            if member.kind != "task":
                self.notes.append(f"{member.path}  is not in a form that a pattern can run.")
            elif member.path not in reached:
                names.append(self.add_task(member, None))
        return names

    def add(self, name: str, over: Located | None, chain: Chain, where: str) -> list[str]:
        """Adds what the name means and returns the names of its tasks."""
        if over is not None and "dataset_path" in over.data and not self.index.has(name):
            located = replace(over, data=over.data | {"task": name})  # a whole task, written here
            return [self._keep(make_task(with_includes(located, self.trust), self.trust))]
        near = chain[-1].path if chain else None
        entry = self.index.find(name, where, near)
        if entry.kind == "group":
            if entry in chain:
                circle = " → ".join(group.name for group in [*chain[chain.index(entry) :], entry])
                text = f"{where}  groups contain each other: {circle}."
                raise UsageError(text.lstrip())
            key = (entry.path, "" if over is None else repr((over.data, over.files)))
            if key not in self.held:
                located = read_document_file(entry.path, self.trust)
                self.held[key] = self.add_group(with_overrides(located, over), (*chain, entry))
            return self.held[key]
        entries = self.index.tagged(name) if entry.kind == "tag" else (entry,)
        return [self.add_task(entry, over) for entry in entries]

    def add_group(self, located: Located, chain: Chain) -> list[str]:
        group = make_group(located)
        over = _part(located, (), [key for key in located.data if key not in GROUP_KEYS])
        tasks: dict[str, None] = {}
        members: dict[str, None] = {}
        for index, item in enumerate(group.task):
            keys = _item_keys(located, index)
            names = self._try(partial(self._add_item, item, keys, over, chain))
            tasks |= dict.fromkeys(names)
            is_group = item.inner is not None or self._is_group(item.name)
            members |= dict.fromkeys([item.name] if is_group else names)
        expanded = ExpandedGroup(group, tuple(members), tuple(tasks))
        if expanded not in self.groups:
            self.groups.append(expanded)
        return list(tasks)

    def add_task(self, entry: IndexEntry, over: Located | None) -> str:
        key = (entry.path, "" if over is None else repr((over.data, over.files)))
        if key not in self.made:
            task = load_document_task(entry.path, self.trust, over)
            home = self.homes.setdefault(task.task, entry.path)
            if home != entry.path:
                reason = (
                    f"task {task.task!r} is defined in {home} too: rename one, or name its file"
                )
                raise UsageError(f"{task.line_of('task')}  {reason}.")
            self.made[key] = self._keep(task)
        return self.made[key]

    def _add_item(
        self, item: GroupItem, keys: Located, over: Located | None, chain: Chain
    ) -> list[str]:
        if item.inner is not None:
            return self.add_group(with_overrides(keys, over), chain)
        of_item = _part(keys, (), list(item.overrides))
        both = over if of_item is None else with_overrides(of_item, over)
        return self.add(item.name, both, chain, keys.where(("task",)))

    def _keep(self, task: DocumentTask) -> str:
        name, count = task.task, 0
        while name in self.tasks:
            count += 1
            name = f"{task.task}-{count}"
        self.tasks[name] = task.renamed(name)
        return name

    def _try(self, work: Callable[[], list[str]]) -> list[str]:
        """The names that were added; a problem does not hide the next one."""
        try:
            return work()
        except UsageError as error:
            self.problems.extend(str(error).splitlines())
            return []

    def _is_group(self, name: str) -> bool:
        return any(entry.kind == "group" for entry in self.index.by_name.get(name, ()))


def _item_keys(located: Located, index: int) -> Located:
    """A member of a group as if it were a file of its own."""
    item = located.data["task"][index]
    if not isinstance(item, dict):
        item = {"task": item}
    part = _part(located, ("task", index), list(item), item)
    assert part is not None
    return replace(part, lines={("task",): located.line(("task", index)) or 0} | part.lines)


def _part(
    located: Located,
    prefix: tuple[str | int, ...],
    keys: list[str],
    data: dict[str, object] | None = None,
) -> Located | None:
    """Some keys of a file, or of a mapping inside it, each still on its own line."""
    if not keys:
        return None
    depth, names = len(prefix), set(keys)
    lines = {
        key[depth:]: line
        for key, line in located.lines.items()
        if key[:depth] == prefix and len(key) > depth and key[depth] in names
    }
    files: dict[str | int, Path] = {key: located.file((*prefix, key)) for key in keys}
    values = located.data if data is None else data
    return Located(located.path, {key: values[key] for key in keys}, lines, files)

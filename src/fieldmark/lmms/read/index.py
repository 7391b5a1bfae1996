"""Index: which tasks, groups and tags do folders of YAML files hold?

Files are read with what they include, but not checked, and no code is looked for. A name that
stands in two files is known to be ambiguous: which one lmms-eval takes depends on the order of the
file system.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from fieldmark.errors import UnknownName, UsageError
from fieldmark.lmms.code.trust import Trust
from fieldmark.lmms.read.files import Kind, kind_of, read_document_file
from fieldmark.source_lines import Located
from fieldmark.tasks import yaml_files


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One file, or a tag."""

    name: str
    """"" for a template, which names no task"""
    kind: Kind | Literal["tag"]
    path: Path
    """a tag's: the file of its first task"""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Index:
    """What stands in the folders."""

    folders: tuple[Path, ...]
    entries: tuple[IndexEntry, ...]
    """one per file that could be read, sorted by path"""
    problems: tuple[tuple[Path, str], ...] = ()
    """files that cannot be read, and why: one line each"""

    @cached_property
    def by_name(self) -> Mapping[str, tuple[IndexEntry, ...]]:
        entries: dict[str, tuple[IndexEntry, ...]] = {}
        for entry in self.entries:
            if entry.name:
                entries[entry.name] = (*entries.get(entry.name, ()), entry)
        return entries

    @cached_property
    def tags(self) -> Mapping[str, tuple[str, ...]]:
        """The names of each tag's tasks; a task or group of the same name hides a tag."""
        members: dict[str, dict[str, None]] = {}
        for entry in self.entries:
            for tag in entry.tags:
                if tag not in self.by_name:
                    members.setdefault(tag, {})[entry.name] = None
        return {tag: tuple(names) for tag, names in members.items()}

    def tagged(self, tag: str) -> tuple[IndexEntry, ...]:
        """The tasks of a tag."""
        return tuple(entry for entry in self.entries if tag in entry.tags)

    def has(self, name: str) -> bool:
        return name in self.by_name or name in self.tags

    @property
    def duplicates(self) -> Mapping[str, tuple[Path, ...]]:
        """Names that stand in several files."""
        pairs = self.by_name.items()
        return {name: tuple(hit.path for hit in hits) for name, hits in pairs if len(hits) > 1}

    @property
    def names(self) -> list[str]:
        return sorted({*self.by_name, *self.tags})

    def of_kind(self, kind: str) -> list[IndexEntry]:
        return [entry for entry in self.entries if entry.kind == kind]

    def find(self, name: str, where: str = "", near: Path | None = None) -> IndexEntry:
        """The task, group or tag of that name; of several, the one beside the file `near`."""
        hits = self.by_name.get(name, ())
        if len(hits) > 1 and near is not None:
            beside = tuple(hit for hit in hits if hit.path.parent == near.parent)
            hits = beside if len(beside) == 1 else hits
        if len(hits) == 1:
            return hits[0]
        if hits:
            files = " and ".join(str(hit.path) for hit in hits)
            words = f"task {name!r} stands in {files}: name the file, or rename one."
            raise UsageError(f"{where}  {words}" if where else words)
        if name in self.tags:
            return IndexEntry(name, "tag", self.tagged(name)[0].path)
        raise UnknownName("task, group or tag", name, self.names, where=where)

    def match(self, pattern: str) -> list[str]:
        """The names a pattern with `*` and `?` fits, sorted."""
        return [name for name in self.names if fnmatchcase(name, pattern)]


def index_folders(folders: Sequence[Path], trust: Trust | None = None) -> Index:
    """Every `.yaml` and `.yml` file below the folders; they may include what `trust` allows."""
    trusted = Trust.of(*folders) if trust is None else trust
    entries, problems = [], []
    for path in yaml_files(folders):
        try:
            entries.append(_entry(read_document_file(path, trusted)))
        except UsageError as error:
            problems.append((path, str(error)))
    return Index(tuple(folders), tuple(entries), tuple(problems))


def _entry(located: Located) -> IndexEntry:
    kind, data = kind_of(located), located.data
    name = data.get("group" if kind == "group" else "task")
    tags = (*_names(data.get("tag")), *_names(data.get("group"))) if kind == "task" else ()
    return IndexEntry(name if isinstance(name, str) else "", kind, located.path, tags)


def _names(value: Any) -> tuple[str, ...]:
    names = value if isinstance(value, list) else [value]
    return tuple(name for name in names if isinstance(name, str))

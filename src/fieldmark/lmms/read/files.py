"""Reading YAML with `include`: what does a file hold, and whose form is it in?

Nothing behind `!function` is run or looked for here: it becomes a mark. Files are parsed once for
each state they are in, since hundreds of tasks include the same template.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

from fieldmark.errors import UnknownName, UsageError, at, closest
from fieldmark.lmms.code.trust import Function, Trust
from fieldmark.lmms.read.schema import GROUP_KEYS, DocumentTask
from fieldmark.source_lines import Located, is_there, read_yaml
from fieldmark.tasks import Task, yaml_files

_OURS = {*Task.model_fields, "ask", "probe", "retrieve", "zero_shot"}
_THEIRS = {*DocumentTask.model_fields, *GROUP_KEYS, "class", "include"}
OWN_KEYS = frozenset(_OURS - _THEIRS)
"""keys of fieldmark's own files that lmms-eval does not know"""
THEIR_KEYS = frozenset(_THEIRS - _OURS)
"""keys of lmms-eval's files that fieldmark's own do not have"""


Kind = Literal["task", "group", "python", "abstract", "own"]

_DEEPEST = 32
"""files that include each other in a row"""


def read_document_file(path: Path, trust: Trust) -> Located:
    """The file with what it includes in place; each key knows the file and line it stands on.

    A file's own keys win over included ones, and of several included files the first listed; keys
    are replaced whole. Files outside `trust` are not opened.
    """
    if not trust.allows(path) and path.exists():
        raise UsageError(f"{path}  lies outside the folders that were named ({trust.words()}).")
    return with_includes(_parsed(path), trust)


def kind_of(data: Mapping[str, Any] | Located) -> Kind:
    """What sort of file this is; one with keys of both forms is an error."""
    keys: Mapping[str, Any] = data.data if isinstance(data, Located) else data
    own_keys = [key for key in keys if key in OWN_KEYS]
    their = [key for key in keys if key in THEIR_KEYS]
    if own_keys and their:
        raise UsageError(_both_forms(data, own_keys[0], their[0]))
    if "class" in keys:
        return "python"
    if isinstance(keys.get("task"), list):
        return "group"
    if not their:
        return "own"
    return "task" if "task" in keys else "abstract"


def _both_forms(data: Mapping[str, Any] | Located, ours: str, their: str) -> str:
    reason = f"key {ours!r} is fieldmark's and key {their!r}"
    if not isinstance(data, Located):
        return f"{reason} is lmms-eval's: keep to the keys of one."
    return f"{data.where([ours])}  {reason} ({data.where([their])}) lmms-eval's: keep to one form."


def with_includes(
    located: Located, trust: Trust, chain: tuple[Path, ...] = (), seen: set[Path] | None = None
) -> Located:
    """The keys with those of the files that their `include` names below them.

    A file that is met again adds nothing, since the first to say a key wins: `seen` are those.
    """
    seen = set() if seen is None else seen
    data = {key: _fresh(value) for key, value in located.data.items() if key != "include"}
    merged = replace(located, data=data)
    if "include" not in located.data:
        return merged
    includer = located.file(("include",))
    for index, name in enumerate(_names(located)):
        where = located.where(("include", index))
        file = _included_file(name, includer, where, trust)
        _check_chain([*chain, includer, file], where)
        if file in seen:
            continue
        seen.add(file)
        try:
            below = with_includes(_parsed(file), trust, (*chain, includer), seen)
        except UsageError as error:
            raise _with_chain(error, where) from error
        merged = add_below(merged, below)
    return merged


def add_below(above: Located, below: Located) -> Located:
    """Both together; a key that stands in both is the upper one's."""
    new = below.data.keys() - above.data.keys()
    lines = {key: line for key, line in below.lines.items() if key[0] in new}
    files: dict[str | int, Path] = {key: below.file((key,)) for key in new}
    notes = (*above.notes, *(note for note in below.notes if note not in above.notes))
    return Located(
        above.path, below.data | above.data, lines | above.lines, files | above.files, notes
    )


def _parsed(path: Path) -> Located:
    try:
        about = path.stat()
    except (OSError, ValueError):
        return read_yaml(path)  # which says what is wrong
    return _parsed_in_state(path, about.st_mtime_ns, about.st_size, about.st_ino)


@lru_cache(maxsize=4096)
def _parsed_in_state(path: Path, *_state: int) -> Located:
    return read_yaml(path, "1.1", {"!function": _function})


def _function(text: str, file: Path, line: int) -> Function:
    module, _, name = text.strip().rpartition(".")
    if not (module and name):
        raise ValueError("`!function` needs a file and a name in it, as in `utils.doc_to_text`")
    return Function(text.strip(), file, line)


def _fresh(value: Any) -> Any:
    """A copy of lists and mappings: code of tasks changes what it is given."""
    if isinstance(value, dict):
        return {key: _fresh(inner) for key, inner in value.items()}
    return [_fresh(inner) for inner in value] if isinstance(value, list) else value


def _names(located: Located) -> list[str]:
    value = located.data["include"]
    names = value if isinstance(value, list) else [value]
    for index, name in enumerate(names):
        if not (isinstance(name, str) and name.strip()):
            where = located.where(("include", index))
            raise UsageError(f"{where}  include = {name!r}: the name of a file is expected.")
    return names


def _included_file(name: str, includer: Path, where: str, trust: Trust) -> Path:
    """Beside the including file, else from the working folder (where lmms-eval looks first)."""
    beside = _tidy(includer.parent / name)
    file = next((path for path in (beside, Path(name)) if is_there(path)), None)
    if file is not None and trust.allows(file):
        return file
    if file is not None or not trust.allows(beside):
        raise UsageError(
            f"{where}  include {name!r} lies outside the folders that were named"
            f" ({trust.words()}): name its folder too, or copy the file."
        )
    near = closest(beside.name, _files_in(beside.parent), most=1)
    mean = f" Did you mean {str(Path(name).with_name(near[0]))!r}?" if near else ""
    raise UsageError(f"{where}  include {name!r} does not exist (no file {beside}).{mean}")


def _files_in(folder: Path) -> Iterable[str]:
    try:
        return [path.name for path in folder.iterdir() if path.is_file()]
    except OSError:
        return []


def _tidy(path: Path) -> Path:
    """Without `..` where that leads to the same file."""
    if ".." not in path.parts:
        return path
    short = Path(os.path.normpath(path))
    return short if os.path.realpath(short) == os.path.realpath(path) else path


def _check_chain(chain: list[Path], where: str) -> None:
    real = [file.resolve() for file in chain]
    if real[-1] in real[:-1]:
        circle = chain[real.index(real[-1]) :]
        names = " → ".join(file.name for file in circle)
        raise UsageError(f"{where}  files include each other in a circle: {names}.")
    if len(chain) > _DEEPEST:
        names = " → ".join(file.name for file in [*chain[:2], Path("…"), *chain[-2:]])
        raise UsageError(f"{where}  more than {_DEEPEST} files include each other: {names}.")


def _with_chain(error: UsageError, where: str) -> UsageError:
    """The place of the first `include` that leads to the fault, where it is not told already."""
    text = str(error)
    is_told = text.startswith(where) or "in a circle" in text or " include each other" in text
    if is_told or "(included by " in text:
        return error
    return UsageError(f"{text.removesuffix('.')} (included by {where}).")


# --- Index: which tasks, groups and tags do folders of YAML files hold?
# Files are read with what they include, but not checked, and no code is looked for. A name that
# stands in two files is known to be ambiguous: which one lmms-eval takes depends on the order of
# the file system.


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
            reason = f"task {name!r} is defined in {files}: name the file, or rename one."
            raise UsageError(at(where, None, reason))
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
    tags = (*_texts(data.get("tag")), *_texts(data.get("group"))) if kind == "task" else ()
    return IndexEntry(name if isinstance(name, str) else "", kind, located.path, tags)


def _texts(value: Any) -> tuple[str, ...]:
    names = value if isinstance(value, list) else [value]
    return tuple(name for name in names if isinstance(name, str))

"""Data sources: where do a task's documents lie, and what is the `datasets` library told?

Paths in a task file are meant from its folder. Nothing remote is read unless the user asked for it;
what the Hugging Face Hub's own client has put on this machine is used.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from fieldmark.errors import DataError, UsageError, meant
from fieldmark.lmms.code.trust import Function, Trust
from fieldmark.lmms.read.schema import DocumentTask
from fieldmark.source_lines import is_file, is_folder, is_there, with_home

BUILDERS = {
    "csv", "json", "parquet", "text", "pandas", "arrow", "imagefolder", "audiofolder",
    "videofolder", "webdataset", "xml",
}  # fmt: skip
"""what reads local files; any other `dataset_path` is a folder or a name on the hub"""
_ALIASES = {"jsonl": "json", "tsv": "csv"}
_PICKLES = ("pandas",)
_GLOB = set("*?[")
LOCAL_PROTOCOLS = ("dir", "file", "local", "memory")
"""of fsspec: a path by another name"""
UPSTREAM_ONLY = {
    "From_YouTube": "videos are not fetched",
    "builder_script": "scripts of datasets are not run",
    "cache_dir": "fieldmark has a cache folder of its own",
    "create_link": "nothing is unpacked",
    "force_download": "the copy on this machine is used",
    "force_unzip": "nothing is unpacked",
    "local_files_only": "nothing is downloaded without --fetch anyway",
    "max_retries": "the library decides",
    "num_proc": "one process reads",
    "streaming": "documents are read by number",
    "trust_remote_code": "scripts of datasets are not run",
    "video": "videos are not fetched",
}
"""keys of `dataset_kwargs` that are accepted and dropped → why"""
_SILENT = {"cache_dir", "local_files_only", "max_retries", "num_proc", "trust_remote_code"}
"""dropped without a note: nothing is lost"""

Kind = Literal["files", "folder", "saved", "hub"]


@dataclass(frozen=True, slots=True)
class DocumentSource:
    """The arguments of `load_dataset`, with every path in place."""

    kind: Kind
    path: str
    name: str | None
    where: str
    """`file:line` of what names it"""
    options: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    remote: tuple[str, ...] = ()
    """addresses of files that are not on this machine"""
    trust: Trust = Trust()

    def files(self) -> Iterator[Path]:
        """Every file on this machine that it names, or that lies in a folder it names."""
        for name in self._names():
            yield from files_at(name)

    def tops(self) -> Iterator[Path]:
        """The files and folders it names; of a pattern, the folder before it."""
        for name in self._names():
            parts = Path(name).absolute().parts
            n_plain = next((i for i, part in enumerate(parts) if _GLOB & set(part)), len(parts))
            yield Path(*parts) if is_there(Path(name)) else Path(*parts[:n_plain])

    def _names(self) -> list[str]:
        home = Path(self.path) if self.kind in ("folder", "saved") else None
        names = [str(home)] if home else []
        for key in ("data_files", "data_dir"):
            for name in _each_file(self.options.get(key)):
                plain = name.removeprefix("file://")
                if "://" in plain or not (home or self.kind == "files" or _is_local(plain)):
                    continue  # of the hub
                names.append(str((home or Path()) / with_home(plain)))
        return list(dict.fromkeys(names))

    @property
    def places(self) -> tuple[Path, ...]:
        """The files and folders that hold the documents; () where some are on the hub."""
        if self.kind in ("folder", "saved"):
            return (Path(self.path),)
        if self.kind == "hub" or self.remote:
            return ()
        return tuple(map(Path, self._names()))


def find_source(task: DocumentTask, load: Callable[[Function], Any]) -> DocumentSource:
    """Where the task's documents are; `load` gives the object behind a `!function`."""
    given = dict(task.dataset_kwargs or {})
    where = task.line_of("dataset_path")
    if not task.dataset_path:
        raise UsageError(f"{task.line_of('task')}  dataset_path is missing: no documents to ask.")
    is_saved = bool(given.pop("load_from_disk", False))
    notes = tuple(_notes(task, given))
    options = {
        key: load(value) if isinstance(value, Function) else value
        for key, value in given.items()
        if key not in UPSTREAM_ONLY
    }
    if not isinstance(options.get("token"), str):  # `true` only says that a login may be needed
        options.pop("token", None)
    if not isinstance(options.get("revision", ""), str):
        pinned, revision = task.line_of("dataset_kwargs", "revision"), options["revision"]
        raise UsageError(f"{pinned}  revision = {revision!r}: expected text, put it in quotes.")
    path, kind = _place(task, is_saved)
    if kind == "files":
        options = _local_files(task, path, options)
    remote = tuple(file for file in _each_file(options.get("data_files")) if "://" in file)
    if remote:
        where = task.line_of("dataset_kwargs", "data_files")
    source = DocumentSource(
        kind, path, task.dataset_name, where, options, notes, remote, task.trust
    )
    _refuse_places(source)
    return source


def _refuse_places(source: DocumentSource) -> None:
    for file in chain(source.tops(), source.files()):
        refuse_outside(file, source)
    for address in source.remote:
        links = [link.partition("://") for link in address.split("::")]
        if any(not rest or protocol in LOCAL_PROTOCOLS for protocol, _, rest in links):
            raise UsageError(
                f"{source.where}  {address!r} is not the address of a file: expected https://… or hf://…."
            )


def refuse_outside(file: Path, source: DocumentSource, own: Path | None = None) -> None:
    """What a task reads may be sent to a model: it lies with the task, or where the user said.
    `own` is a folder of fieldmark's, where tables are kept.
    """
    is_own = own is not None and file.resolve().is_relative_to(own.resolve())
    if not (is_own or source.trust.allows(file) or is_of_hub(file)):
        text = outside(f"the data {str(file)!r} lie", file, source.trust)
        raise UsageError(f"{source.where}  {text}")


def outside(what: str, file: Path, trust: Trust) -> str:
    """Of a file that a link leads to: where it lies."""
    with contextlib.suppress(OSError, RuntimeError, ValueError):
        file = file.resolve()
    return (
        f"{what} outside the folder of the task and those you named ({trust.words()}): "
        f"`--include-path {file.parent}` allows it."
    )


def folders_of(task: DocumentTask, key: str) -> list[Path]:
    """The folders a relative path is meant from: of the file that says it, then of the task's."""
    origin = task._origin
    if origin is None:
        return [Path.cwd()]
    folders = [file.parent.absolute() for file in (origin.file((key,)), origin.path)]
    return list(dict.fromkeys([*folders, Path.cwd()]))


def _notes(task: DocumentTask, given: Mapping[str, Any]) -> Iterator[str]:
    for key, why in UPSTREAM_ONLY.items():
        if given.get(key) and key not in _SILENT:
            yield f"{task.line_of('dataset_kwargs', key)}  {key} has no effect here: {why}."


def _place(task: DocumentTask, is_saved: bool) -> tuple[str, Kind]:
    path = str(task.dataset_path)
    if not is_saved and _ALIASES.get(path, path) in BUILDERS:
        return _ALIASES.get(path, path), "files"
    if "://" in path:
        return path, "hub"
    plain = with_home(path)
    for folder in folders_of(task, "dataset_path"):
        if is_folder(folder / plain):
            return str(folder / plain), "saved" if is_saved else "folder"
    if is_saved or _is_local(path):
        raise DataError(f"{task.line_of('dataset_path')}  folder {path!r} does not exist.")
    return path, "hub"


def _is_local(path: str) -> bool:
    """Names on the hub are `name` or `owner/name`."""
    return path.startswith((".", "/", "~")) or path.count("/") > 1 or "\\" in path


def _local_files(task: DocumentTask, builder: str, options: dict[str, Any]) -> dict[str, Any]:
    keys = [key for key in ("data_files", "data_dir") if options.get(key)]
    if not keys:
        raise UsageError(
            f"{task.line_of('dataset_path')}  dataset_path {builder!r} reads files: name them "
            "with dataset_kwargs.data_files or data_dir."
        )
    made = {**options, **{key: _local_paths(task, options[key], key) for key in keys}}
    if builder in _PICKLES:
        _refuse_pickles(task, made.get("data_files"))
    if str(task.dataset_path) == "tsv":
        made.setdefault("sep", "\t")
    return made


def _local_paths(task: DocumentTask, value: Any, key: str) -> Any:
    """A path, a list of paths, or a mapping of splits to them."""
    if isinstance(value, Mapping):
        return {str(split): _local_paths(task, inner, key) for split, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_local_paths(task, inner, key) for inner in value]
    return _local_path(task, str(value), key)


def _local_path(task: DocumentTask, value: str, key: str) -> str:
    if "://" in value and not value.startswith("file://"):
        return str(cached_file(value) or value)
    plain, folders = with_home(value.removeprefix("file://")), folders_of(task, "dataset_kwargs")
    for folder in folders:
        if _is_there(folder, str(plain), key):
            return str(folder / plain)
    first = (folders[0] / plain).parent
    names = [path.name for path in first.iterdir()] if is_folder(first) else []
    hint = meant(plain.name, names) or f" It was looked for in {first}."
    where = task.line_of("dataset_kwargs", key)
    raise DataError(f"{where}  {key} {value!r} does not exist.{hint}")


def _is_there(folder: Path, value: str, key: str) -> bool:
    path = folder / value
    if key == "data_dir":
        return is_folder(path)
    if is_there(path) or not _GLOB & set(value):
        return is_file(path)
    base = Path(path.anchor)
    try:
        return next(base.glob(str(path.relative_to(base))), None) is not None
    except ValueError:  # `a**b`
        return False


def is_of_hub(file: Path) -> bool:
    """Is it what the hub's own clients have put on this machine?"""
    from huggingface_hub.constants import HF_HOME, HF_HUB_CACHE

    datasets = os.environ.get("HF_DATASETS_CACHE") or Path(HF_HOME) / "datasets"
    try:
        real = file.resolve()
    except (OSError, RuntimeError, ValueError):
        return False
    return any(real.is_relative_to(Path(home).resolve()) for home in (HF_HUB_CACHE, datasets))


def files_at(name: str) -> Iterator[Path]:
    """The file, all files below the folder, or those that the pattern fits."""
    path = Path(name).absolute()
    if path.is_file():
        yield path
        return
    base, pattern = (path, "**/*") if path.is_dir() else (Path(path.anchor), name.lstrip("/"))
    yield from (path for path in sorted(base.glob(pattern)) if path.is_file())


def _each_file(value: Any) -> Iterator[str]:
    """The names in a path, a list of paths, or a mapping of splits to them."""
    if isinstance(value, (list, tuple, Mapping)):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _each_file(inner)
    elif value is not None:
        yield str(value)


def _refuse_pickles(task: DocumentTask, files: Any) -> None:
    """A pickled table can run code when it is opened: it needs the same trust as code."""
    where = task.line_of("dataset_kwargs")
    if files is None:
        raise UsageError(f"{where}  dataset_path 'pandas' needs dataset_kwargs.data_files.")
    for file in _each_file(files):
        if "://" in file or not task.trust.allows(Path(file)):
            raise UsageError(
                f"{where}  {file!r} is a pickle, which can run code, and lies outside the "
                f"folders whose code may run ({task.trust.words()})."
            )


_ADDRESS = re.compile(r"hf://datasets/([^/@]+/[^/@]+)(?:@([^/]+))?/(.+)")
_SHARD = re.compile(r"(.*)-(\d{5})-of-(\d{5})(.*)")


def cached_file(address: str) -> Path | None:
    """The file of `hf://datasets/owner/name[@revision]/path`, if it was fetched before."""
    match = _ADDRESS.fullmatch(address)
    if match is None:
        return None
    folder = snapshot(match[1], match[2])
    path = folder / match[3] if folder else None
    return path if path is not None and is_there(path) else None


def snapshot(name: str, revision: str | None = None) -> Path | None:
    """The folder of the dataset's files as they were fetched; of no revision, the newest."""
    from huggingface_hub.constants import HF_HUB_CACHE

    home = Path(HF_HUB_CACHE) / f"datasets--{name.replace('/', '--')}"
    reference = home / "refs" / (revision or "main")
    commit = reference.read_text().strip() if is_file(reference) else revision
    if commit and is_folder(home / "snapshots" / commit):
        return home / "snapshots" / commit
    if revision:
        return None
    every = [path for path in (home / "snapshots").glob("*") if path.is_dir()]
    return max(every, key=lambda folder: folder.stat().st_mtime, default=None)


def missing_shards(folder: Path) -> list[str]:
    """`train-00001-of-00003.parquet`: parts that were not fetched although others were."""
    seen: dict[tuple[str, int, str], set[int]] = {}
    for path in folder.rglob("*-of-*"):
        match = _SHARD.fullmatch(path.relative_to(folder).as_posix())
        if match:
            seen.setdefault((match[1], int(match[3]), match[4]), set()).add(int(match[2]))
    return [
        f"{start}-{number:05d}-of-{total:05d}{end}"
        for (start, total, end), numbers in seen.items()
        for number in sorted(set(range(total)) - numbers)
    ]

"""The `datasets` library: how are tables opened, offline, quietly and in one process?

The library finds what it fetched again only by asking the network whether it changed. So what came
is written down under what was asked for, and found there by the next run.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import json
import pickle
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from fieldmark import draws
from fieldmark.data import content_key
from fieldmark.errors import CodeNotRun, DataError, MissingExtra, UsageError
from fieldmark.files import stamp, write_file
from fieldmark.lmms.data.sources import (
    BUILDERS,
    DocumentSource,
    missing_shards,
    refuse_outside,
    snapshot,
)
from fieldmark.registry import may_run
from fieldmark.source_lines import is_file

_OPTION = re.compile(r"unexpected keyword argument '(\w+)'|doesn't have a '(\w+)' key")
_HUB_ONLY = ("revision", "token")
_PREPARE = ("download_mode", "verification_mode", "storage_options")


def load(datasets: Any, source: DocumentSource, cache: Path, fetch: bool) -> Mapping[str, Any]:
    """Split name → table. Prepared tables are kept in `cache`."""
    if source.kind == "saved":
        every = _splits(datasets, _tried(datasets, source, datasets.load_from_disk, source.path))
        for table in every.values():  # its own list of files may name any
            for file in table.cache_files:
                refuse_outside(Path(file["filename"]), source, cache)
        return every
    if source.path == "pandas" and source.kind == "files":
        return _pickled(datasets, source)
    if source.kind != "hub" and not source.remote:
        return _load(datasets, source, source.path, cache / "local" / _version(source))
    # The library reads more than files: `iceberg`, for one, asks a server of its own.
    if source.kind == "hub" and source.path in datasets.packaged_modules._PACKAGED_DATASETS_MODULES:
        raise UsageError(
            f"{source.where}  dataset_path {source.path!r} is not supported: expected a dataset's "
            f"name, a folder, or one of {', '.join(sorted(BUILDERS))}."
        )
    if not fetch:
        return _from_this_machine(datasets, source, cache)
    every = _load(datasets, source, source.path, cache)
    remember(source, every, cache)
    return every


def _version(source: DocumentSource) -> str:
    """Stands for the files of a local source as they are now.

    The library keeps a prepared table by the base name of its folder where that has a card
    (README.md), and by modification times elsewhere: two folders, or two states of one, could
    share a table.
    """
    marks: dict[str, str] = {}
    for path in sorted(set(source.files())):
        mark, is_settled = stamp(path)
        marks[str(path)] = mark.hex() if is_settled else content_key(path.read_bytes()).hex()
    return draws.digest(source.name, *(part for item in marks.items() for part in item)).hex()


def _load(datasets: Any, source: DocumentSource, path: str, cache: Path) -> Mapping[str, Any]:
    options = dict(source.options)
    if source.kind != "hub":
        options = {key: value for key, value in options.items() if key not in _HUB_ONLY}
    if source.kind == "folder" and is_file(Path(path) / "state.json"):
        raise DataError(
            f"{source.where}  {path!r} was saved: dataset_kwargs.load_from_disk reads it."
        )
    prepare = {key: options.pop(key) for key in _PREPARE if key in options}
    part, in_memory = options.pop("split", None), options.pop("keep_in_memory", False)
    # As `load_dataset` does it, with a look at the files before one of them is opened.
    builder = _tried(
        datasets, source, datasets.load_dataset_builder, path, source.name, cache_dir=str(cache),
        **options,
    )  # fmt: skip
    for files in (builder.config.data_files or {}).values():  # a card may name any
        for file in files:
            if "://" not in str(file):
                refuse_outside(Path(file), source, cache)
    _tried(datasets, source, builder.download_and_prepare, **prepare)
    opened = _tried(datasets, source, builder.as_dataset, split=part, in_memory=bool(in_memory))
    return _splits(datasets, opened)


def _pickled(datasets: Any, source: DocumentSource) -> Mapping[str, Any]:
    """Tables of pandas: the library itself no longer opens them. Their files are trusted, and are
    code: opening one can run any.
    """
    if not may_run():
        raise CodeNotRun("dataset_path 'pandas'")
    import pandas  # type: ignore[import-untyped]

    files = source.options["data_files"]
    named = files if isinstance(files, Mapping) else {"train": files}
    tables = {}
    for split, paths in named.items():
        every = paths if isinstance(paths, list) else [paths]
        frames = [_tried(datasets, source, pandas.read_pickle, file) for file in every]
        table = _tried(datasets, source, pandas.concat, frames, ignore_index=True)
        tables[split] = _tried(datasets, source, datasets.Dataset.from_pandas, table)
    return tables


def _from_this_machine(datasets: Any, source: DocumentSource, cache: Path) -> Mapping[str, Any]:
    """A dataset of the hub as it was prepared or fetched before, by fieldmark or anybody."""
    kept = recall(datasets, source, cache)
    if kept is not None:
        return kept
    if source.remote:
        raise DataError(
            f"{source.where}  {source.remote[0]!r} is not on this machine: `--fetch` downloads it."
        )
    problems = []
    for attempt in _attempts(datasets, source, cache):
        try:
            return _load(datasets, *attempt)
        except DataError as error:
            problems.append(error)
    raise _not_here(source, problems)


def _not_here(source: DocumentSource, problems: Sequence[DataError]) -> DataError:
    folder = snapshot(source.path, source.options.get("revision"))
    missing = missing_shards(folder) if folder is not None else []
    if missing:
        return DataError(
            f"{source.where}  dataset {source.path!r} is only partly on this machine "
            f"({missing[0]} is missing): `--fetch` downloads it."
        )
    unknown = [problem for problem in problems if "BuilderConfig" in str(problem)]
    if unknown:
        return unknown[-1]
    which = f"{source.path!r} ({source.name})" if source.name else repr(source.path)
    return DataError(
        f"{source.where}  dataset {which} is not on this machine: `--fetch` downloads it."
    )


def _attempts(
    datasets: Any, source: DocumentSource, cache: Path
) -> Iterator[tuple[DocumentSource, str, Path]]:
    """A revision can only be told from the files that were fetched, not from prepared tables."""
    if "revision" not in source.options:
        yield source, source.path, cache
        yield source, source.path, Path(datasets.config.HF_DATASETS_CACHE)
    folder = snapshot(source.path, source.options.get("revision"))
    if folder is not None and not missing_shards(folder):
        local = replace(source, kind="folder", path=str(folder), notes=(), remote=())
        yield local, str(folder), cache


def _tried(datasets: Any, source: DocumentSource, function: Any, *args: Any, **options: Any) -> Any:
    import pyarrow

    expected = (
        OSError, ValueError, TypeError, LookupError, AttributeError, RuntimeError,
        StopIteration, EOFError, pickle.UnpicklingError, pyarrow.ArrowException,
        datasets.exceptions.DatasetsError,
    )  # fmt: skip
    try:
        return function(*args, **options)
    except expected as error:
        raise DataError(f"{source.where}  {_told(source, error)}") from error


def _told(source: DocumentSource, error: BaseException) -> str:
    """The library wraps what went wrong in an error that says less."""
    inner = error
    while inner.__cause__ is not None:
        inner = inner.__cause__
    if "scripts are no longer supported" in str(inner):
        return (
            f"dataset {source.path!r} is made by a script, which is not run: try its converted "
            "tables with dataset_kwargs.revision 'refs/convert/parquet'."
        )
    option = _OPTION.search(str(inner))
    if option:
        return f"dataset_kwargs has {option[1] or option[2]!r}, no option of {source.path!r}."
    reason = " ".join(str(inner).split()).rstrip(".") or type(inner).__name__
    if isinstance(inner, StopIteration):
        reason = "a file is empty"
    if len(reason) > 240:
        reason = f"{reason[:239]}…"
    what = ", ".join(filter(None, (repr(source.path), source.name)))
    return f"the documents ({what}) cannot be opened: {reason}."


def _splits(datasets: Any, opened: Any) -> Mapping[str, Any]:
    if isinstance(opened, datasets.DatasetDict):
        return dict(opened)
    return _OneSplit(str(opened.split or "train"), opened)


class _OneSplit(dict[str, Any]):
    """A saved table without splits stands for whichever one the task names."""

    def __init__(self, name: str, table: Any) -> None:
        super().__init__({name: table})
        self.table = table

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> Any:
        return self.table


def remember(source: DocumentSource, every: Mapping[str, Any], cache: Path) -> None:
    """Notes the files of each split; those that lie elsewhere than below `cache` are not ours."""
    files = {
        name: [file["filename"] for file in table.cache_files] for name, table in every.items()
    }
    paths = [Path(file) for listed in files.values() for file in listed]
    if paths and all(path.is_relative_to(cache) for path in paths):
        note = _note(source, cache)
        kept = {k: [str(Path(f).relative_to(cache)) for f in v] for k, v in files.items()}
        about = json.dumps({"path": source.path, "name": source.name, "files": kept})
        write_file(note, about.encode())


def recall(datasets: Any, source: DocumentSource, cache: Path) -> Mapping[str, Any] | None:
    """The tables an earlier fetch of the same left; None if there are none, or not all."""
    note = _note(source, cache)
    if not note.is_file():
        return None
    files: dict[str, list[str]] = json.loads(note.read_text(encoding="utf-8"))["files"]
    if not all((cache / file).is_file() for listed in files.values() for file in listed):
        return None
    return {
        name: datasets.concatenate_datasets(
            [datasets.Dataset.from_file(str(cache / file)) for file in listed]
        )
        for name, listed in files.items()
        if listed
    }


def _note(source: DocumentSource, cache: Path) -> Path:
    options = json.dumps(dict(source.options), sort_keys=True, default=str)
    key = draws.digest(source.kind, source.path, source.name, options).hex()
    return cache / "fetched" / f"{key}.json"


_ON_THIS_MACHINE = (
    "file", "local", "memory", "dir", "zip", "tar", "libarchive", "gzip", "bz2", "xz", "lz4",
    "zstd", "hf",
)  # fmt: skip
"""protocols of fsspec that open no connection; `hf` heeds the switch that is turned off here"""


def missing_datasets() -> MissingExtra | None:
    """Why the data of no task can be opened on this machine."""
    is_there = importlib.util.find_spec("datasets") is not None
    return None if is_there else MissingExtra("a task in lmms-eval's form", "hub", "datasets")


@contextlib.contextmanager
def quiet_datasets(is_online: bool) -> Iterator[Any]:
    """The library without progress bars and talk; it reaches the network only when `is_online`.

    A user who switched the network off for it by HF_HUB_OFFLINE has it off here too, and nobody is
    told what was opened.
    """
    if missing := missing_datasets():
        raise missing
    import datasets
    import huggingface_hub

    flags = [(datasets.config, "HF_HUB_OFFLINE"), (huggingface_hub.constants, "HF_HUB_OFFLINE")]
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        stack.enter_context(_set(datasets.config, "HF_UPDATE_DOWNLOAD_COUNTS", False))
        if not is_online:
            for module, name in flags:
                stack.enter_context(_set(module, name, True))
            stack.enter_context(_without_addresses())
        for module in (datasets.utils, huggingface_hub.utils):
            stack.enter_context(_without_bars(module))
        for log in (datasets.logging, huggingface_hub.logging):
            stack.callback(log.set_verbosity, log.get_verbosity())
            log.set_verbosity(log.CRITICAL)  # what fails is told by us
        yield datasets


@contextlib.contextmanager
def fresh_transforms(datasets: Any) -> Iterator[None]:
    """What `map` and `filter` make is made anew, in this process, and goes with it.

    The library keeps such results by a hash of the function that does not see the files it imports:
    after a change there it would hand out yesterday's documents. And its `filter` decodes every
    picture of the split to look at one word of each row.
    """
    kind = datasets.Dataset
    was_cached = datasets.is_caching_enabled()
    datasets.disable_caching()
    try:
        with _set(kind, "map", _alone(kind.map)), _set(kind, "filter", _lazy(_alone(kind.filter))):
            yield
    finally:
        if was_cached:
            datasets.enable_caching()


def _alone(method: Callable[..., Any]) -> Callable[..., Any]:
    def in_one_process(self: Any, *args: Any, **options: Any) -> Any:
        options.pop("num_proc", None)
        return method(self, *args, **options)

    return in_one_process


def _lazy(method: Callable[..., Any]) -> Callable[..., Any]:
    """`filter` whose function gets rows of which a column is decoded when it is looked at."""

    def lazily(self: Any, function: Any = None, *args: Any, **options: Any) -> Any:
        is_plain = not args and not set(options) & {
            "batched",
            "fn_kwargs",
            "input_columns",
            "with_rank",
        }
        if function is None or not is_plain or inspect.iscoroutinefunction(function):
            return method(self, function, *args, **options)
        with_indices = options.pop("with_indices", False)

        def mask(batch: Any, indices: list[int]) -> list[bool]:
            rows = [(_row_of(batch, spot), index) for spot, index in enumerate(indices)]
            return [bool(function(*row) if with_indices else function(row[0])) for row in rows]

        return method(self, mask, batched=True, with_indices=True, **options)

    return lazily


def _row_of(batch: Any, spot: int) -> Mapping[str, Any]:
    from datasets.formatting.formatting import LazyBatch, LazyRow

    if isinstance(batch, LazyBatch):
        return cast(Mapping[str, Any], LazyRow(batch.pa_table.slice(spot, 1), batch.formatter))
    return {name: column[spot] for name, column in batch.items()}  # of a format: all are decoded


@contextlib.contextmanager
def _without_addresses() -> Iterator[None]:
    """The switch covers the hub alone: a dataset's own files may name other addresses."""
    name = "get_filesystem_class"
    # By name: `fsspec.registry` is a mapping that hides the module.
    registry, core = map(importlib.import_module, ("fsspec.registry", "fsspec.core"))
    find = getattr(registry, name)

    def refuse(protocol: str | None) -> Any:
        if (protocol or "file") in _ON_THIS_MACHINE:
            return find(protocol)
        raise OSError(f"addresses of {protocol} are opened with `--fetch` only")

    with _set(registry, name, refuse), _set(core, name, refuse):
        yield


@contextlib.contextmanager
def _without_bars(module: Any) -> Iterator[None]:
    was_off = module.are_progress_bars_disabled()
    module.disable_progress_bars()
    try:
        yield
    finally:
        if not was_off:
            module.enable_progress_bars()


@contextlib.contextmanager
def _set(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)

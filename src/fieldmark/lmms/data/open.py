"""How are the tables of a source opened with the `datasets` library?"""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fieldmark import draws
from fieldmark.data import content_key, stamp
from fieldmark.errors import DataError, UsageError
from fieldmark.lmms.data.fetched import recall, remember
from fieldmark.lmms.data.hub_cache import missing_shards, snapshot
from fieldmark.lmms.data.sources import BUILDERS, Source, files_in

_OPTION = re.compile(r"unexpected keyword argument '(\w+)'|doesn't have a '(\w+)' key")
_HUB_ONLY = ("revision", "token")


def load(datasets: Any, source: Source, cache: Path, fetch: bool) -> Mapping[str, Any]:
    """Split name → table. Prepared tables are kept in `cache`."""
    if source.kind == "saved":
        return _splits(datasets, _tried(datasets, source, datasets.load_from_disk, source.path))
    if source.path == "pandas" and source.kind == "files":
        return _pickled(datasets, source)
    if source.kind != "hub" and not source.remote:
        return _load(datasets, source, source.path, cache / "local" / _version(source))
    _refuse_readers(datasets, source)
    if not fetch:
        return _from_this_machine(datasets, source, cache)
    every = _load(datasets, source, source.path, cache)
    remember(source, every, cache)
    return every


def _version(source: Source) -> str:
    """Stands for the files of a local source as they are now.

    The library keeps a prepared table by the base name of its folder where that has a card
    (README.md), and by modification times elsewhere: two folders, or two states of one, could
    share a table.
    """
    named = [source.path] if source.kind == "folder" else []
    named += [each for key in ("data_files", "data_dir") for each in files_in(source.options, key)]
    found: dict[str, str] = {}
    for name in sorted(set(named)):
        for path in _files_at(name):
            mark, is_settled = stamp(path)
            found[str(path)] = mark.hex() if is_settled else content_key(path.read_bytes()).hex()
    return draws.digest(source.name, *(part for each in found.items() for part in each)).hex()


def _files_at(name: str) -> Iterator[Path]:
    """The file, all files below the folder, or those that the pattern fits."""
    path = Path(name).absolute()
    if path.is_file():
        yield path
        return
    base, pattern = (path, "**/*") if path.is_dir() else (Path(path.anchor), name.lstrip("/"))
    yield from (each for each in sorted(base.glob(pattern)) if each.is_file())


def _refuse_readers(datasets: Any, source: Source) -> None:
    """The library reads more than files: `iceberg`, for one, asks a server of its own."""
    if source.kind == "hub" and source.path in datasets.packaged_modules._PACKAGED_DATASETS_MODULES:
        raise UsageError(
            f"{source.where}  dataset_path {source.path!r} is not supported: expected a dataset's "
            f"name, a folder, or one of {', '.join(sorted(BUILDERS))}."
        )


def _load(datasets: Any, source: Source, path: str, cache: Path) -> Mapping[str, Any]:
    options = dict(source.options)
    if source.kind != "hub":
        options = {key: each for key, each in options.items() if key not in _HUB_ONLY}
    opened = _tried(
        datasets, source, datasets.load_dataset, path, source.name, cache_dir=str(cache), **options
    )
    return _splits(datasets, opened)


def _pickled(datasets: Any, source: Source) -> Mapping[str, Any]:
    """Tables of pandas: the library itself no longer opens them. Their files are trusted."""
    import pandas  # type: ignore[import-untyped]

    files = source.options["data_files"]
    named = files if isinstance(files, Mapping) else {"train": files}
    tables = {}
    for split, paths in named.items():
        every = paths if isinstance(paths, list) else [paths]
        frames = [_tried(datasets, source, pandas.read_pickle, each) for each in every]
        table = _tried(datasets, source, pandas.concat, frames, ignore_index=True)
        tables[split] = _tried(datasets, source, datasets.Dataset.from_pandas, table)
    return tables


def _from_this_machine(datasets: Any, source: Source, cache: Path) -> Mapping[str, Any]:
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


def _not_here(source: Source, problems: Sequence[DataError]) -> DataError:
    folder = snapshot(source.path, source.options.get("revision"))
    missing = missing_shards(folder) if folder is not None else []
    if missing:
        return DataError(
            f"{source.where}  dataset {source.path!r} is only partly on this machine "
            f"({missing[0]} is missing): `--fetch` downloads it."
        )
    unknown = [each for each in problems if "BuilderConfig" in str(each)]
    if unknown:
        return unknown[-1]
    which = f"{source.path!r} ({source.name})" if source.name else repr(source.path)
    return DataError(
        f"{source.where}  dataset {which} is not on this machine: `--fetch` downloads it."
    )


def _attempts(datasets: Any, source: Source, cache: Path) -> Iterator[tuple[Source, str, Path]]:
    """A revision can only be told from the files that were fetched, not from prepared tables."""
    if "revision" not in source.options:
        yield source, source.path, cache
        yield source, source.path, Path(datasets.config.HF_DATASETS_CACHE)
    folder = snapshot(source.path, source.options.get("revision"))
    if folder is not None and not missing_shards(folder):
        local = Source("folder", str(folder), source.name, source.where, source.options)
        yield local, str(folder), cache


def _tried(datasets: Any, source: Source, function: Any, *args: Any, **options: Any) -> Any:
    import pyarrow

    known = (
        OSError, ValueError, TypeError, LookupError, AttributeError, RuntimeError,
        StopIteration, EOFError, pickle.UnpicklingError, pyarrow.ArrowException,
        datasets.exceptions.DatasetsError,
    )  # fmt: skip
    try:
        return function(*args, **options)
    except known as error:
        raise DataError(f"{source.where}  {_told(source, error)}") from error


def _told(source: Source, error: BaseException) -> str:
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
    words = " ".join(str(inner).split()).rstrip(".") or type(inner).__name__
    if isinstance(inner, StopIteration):
        words = "a file is empty"
    if len(words) > 240:
        words = f"{words[:239]}…"
    what = ", ".join(filter(None, (repr(source.path), source.name)))
    return f"the documents ({what}) cannot be opened: {words}."


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

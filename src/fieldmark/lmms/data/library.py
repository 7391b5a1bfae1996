"""How is the `datasets` library kept quiet, on this machine, and in one process?"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

from fieldmark.errors import MissingExtra

_ON_THIS_MACHINE = (
    "file", "local", "memory", "dir", "zip", "tar", "libarchive", "gzip", "bz2", "xz", "lz4",
    "zstd", "hf",
)  # fmt: skip
"""protocols of fsspec that open no connection; `hf` heeds the switch that is turned off here"""


def import_datasets() -> Any:
    try:
        import datasets
    except ModuleNotFoundError:
        raise MissingExtra("a task in lmms-eval's form", "hub", "datasets") from None
    return datasets


@contextlib.contextmanager
def quiet_datasets(is_online: bool) -> Iterator[Any]:
    """The library without progress bars and talk; it reaches the network only when `is_online`.

    A user who switched the network off for it by HF_HUB_OFFLINE has it off here too, and nobody is
    told what was opened.
    """
    datasets = import_datasets()
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
        for each in (datasets.utils, huggingface_hub.utils):
            stack.enter_context(_without_bars(each))
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
            rows = [(LazyRow(batch, spot), index) for spot, index in enumerate(indices)]
            return [bool(function(*each) if with_indices else function(each[0])) for each in rows]

        return method(self, mask, batched=True, with_indices=True, **options)

    return lazily


class LazyRow(MutableMapping[str, Any]):
    """One row of a batch of columns."""

    def __init__(self, batch: Mapping[str, Any], spot: int) -> None:
        self._batch, self._spot = batch, spot
        self._own: dict[str, Any] | None = None

    def __getitem__(self, key: str) -> Any:
        return self._batch[key][self._spot] if self._own is None else self._own[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._all()[key] = value

    def __delitem__(self, key: str) -> None:
        del self._all()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._batch) if self._own is None else self._own)

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, key: object) -> bool:
        return key in (self._batch if self._own is None else self._own)

    def _all(self) -> dict[str, Any]:
        if self._own is None:
            self._own = dict(self)
        return self._own


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

"""How is the `datasets` library kept quiet, on this machine, and in one process?"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from fieldmark.errors import MissingExtra


def import_datasets() -> Any:
    try:
        import datasets
    except ModuleNotFoundError:
        raise MissingExtra("a task in lmms-eval's form", "hub", "datasets") from None
    return datasets


@contextlib.contextmanager
def quiet_datasets(is_online: bool) -> Iterator[Any]:
    """The library without progress bars and talk; it reaches the network only when `is_online`.

    A user who switched the network off for it by HF_HUB_OFFLINE has it off here too.
    """
    datasets = import_datasets()
    import huggingface_hub

    flags = [(datasets.config, "HF_HUB_OFFLINE"), (huggingface_hub.constants, "HF_HUB_OFFLINE")]
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        if not is_online:
            for module, name in flags:
                stack.enter_context(_set(module, name, True))
        for each in (datasets.utils, huggingface_hub.utils):
            stack.enter_context(_without_bars(each))
        for log in (datasets.logging, huggingface_hub.logging):
            stack.callback(log.set_verbosity, log.get_verbosity())
            log.set_verbosity_error()
        yield datasets


@contextlib.contextmanager
def fresh_transforms(datasets: Any) -> Iterator[None]:
    """What `map` and `filter` make is made anew, in this process, and goes with it.

    The library keeps such results by a hash of the function that does not see the files it imports:
    after a change there it would hand out yesterday's documents.
    """
    kind = datasets.Dataset
    was_cached = datasets.is_caching_enabled()
    datasets.disable_caching()
    try:
        with _set(kind, "map", _alone(kind.map)), _set(kind, "filter", _alone(kind.filter)):
            yield
    finally:
        if was_cached:
            datasets.enable_caching()


def _alone(method: Callable[..., Any]) -> Callable[..., Any]:
    def in_one_process(self: Any, *args: Any, **options: Any) -> Any:
        options.pop("num_proc", None)
        return method(self, *args, **options)

    return in_one_process


@contextlib.contextmanager
def _without_bars(module: Any) -> Iterator[None]:
    was_off = module.are_progress_bars_disabled()
    with contextlib.suppress(Warning):  # an environment variable may already have decided
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

"""How is an aggregation called that the task brought with it?

Such code may print, log, draw from global random states, write files where it stands or where
`args.output_path` says, change the values it is given, and fail. Its first call is the real one;
further calls (resamples) leave no trace. The working folder and the global random states belong to
the process, so no two aggregations run at once.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import math
import os
import pickle
import sys
import tempfile
import threading
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fieldmark.lmms import call, seeded
from fieldmark.lmms.score.values import as_number

_ONE_AT_A_TIME = threading.RLock()

USUAL_FLAGS: Mapping[str, Any] = {
    "batch_size": 1,
    "config": "",
    "device": None,
    "gen_kwargs": "",
    "include_path": None,
    "limit": None,
    "log_samples": False,
    "log_samples_suffix": "model_outputs",
    "model": "",
    "model_args": "",
    "num_fewshot": None,
    "offset": 0,
    "output_path": None,
    "predict_only": False,
    "process_with_media": False,
    "seed": [0, 1234, 1234, 1234],
    "tasks": "",
    "timezone": "UTC",
    "verbosity": "INFO",
    "wandb_args": "",
}
"""lmms-eval's flags, as task code may read them from `args`"""


@dataclass(frozen=True, slots=True)
class Caller:
    """A function of a list of values."""

    function: Callable[..., Any]
    where: str
    """`file:line`, for messages"""
    seed: int = 0
    flags: Mapping[str, Any] = field(default_factory=dict)

    def once(self, items: Sequence[Any], folder: Path | None) -> Any:
        """The real call; files go to the folder, or nowhere."""
        with contextlib.ExitStack() as stack:
            place = folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            place.mkdir(parents=True, exist_ok=True)
            place = place.resolve()  # code is told it while it stands there
            stack.enter_context(_standing_in(place))
            stack.enter_context(seeded(self.seed, _name(self.function), "aggregation"))
            return self._call(copies(items)(range(len(items))), self._options(place))

    @contextlib.contextmanager
    def again(self) -> Iterator[Callable[[list[Any]], Any]]:
        """A function to call as often as wanted: it is silent, and what it writes is gone."""
        with contextlib.ExitStack() as stack:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            stack.enter_context(_standing_in(place))
            stack.enter_context(_silence())
            stack.enter_context(seeded(self.seed, _name(self.function), "resamples"))
            options = self._options(place)
            yield lambda items: self._call(items, options)

    def _options(self, place: Path) -> dict[str, Any]:
        if not _asks_for_args(self.function):
            return {}
        return {"args": Namespace(**{**USUAL_FLAGS, **self.flags, "output_path": str(place)})}

    def _call(self, items: list[Any], options: Mapping[str, Any]) -> Any:
        return call(self.function, items, where=self.where, **options)


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _asks_for_args(function: Callable[..., Any]) -> bool:
    try:
        found = inspect.signature(function).parameters.get("args")
    except (TypeError, ValueError):
        return False
    return found is not None and found.kind is not inspect.Parameter.VAR_POSITIONAL


@contextlib.contextmanager
def _standing_in(folder: Path) -> Iterator[None]:
    with _ONE_AT_A_TIME:
        before = Path.cwd()
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """No prints, no logs: a function is called hundreds of times."""
    loguru = sys.modules.get("loguru")
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    if loguru is not None:
        loguru.logger.disable("")
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(before)
        if loguru is not None:
            loguru.logger.enable("")


def numbers_in(result: Any, key: str = "") -> dict[str, float]:
    """The numbers of a result: itself, or those in a mapping by `key` or `key/key`.

    >>> numbers_in({"all": 0.5, "by kind": {"bird": 1, "note": "few"}})
    {'all': 0.5, 'by kind/bird': 1.0}
    """
    if isinstance(result, Mapping):
        inside: dict[str, float] = {}
        for name, each in result.items():
            inside |= numbers_in(each, f"{key}/{name}" if key else str(name))
        return inside
    if isinstance(result, np.ndarray) and result.size == 1:
        result = result.reshape(-1)[0]
    number = as_number(result)
    return {} if number is None else {key: number}


def copies(items: Sequence[Any]) -> Callable[[Iterable[int]], list[Any]]:
    """Items by their places, each a value of its own: code may change what it is given.

    Values of kinds that cannot be copied are handed out as they are.
    """
    try:
        kept = [pickle.dumps(each) for each in items]
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError):
        return lambda places: [items[place] for place in places]
    return lambda places: [pickle.loads(kept[place]) for place in places]


def is_same(a: Mapping[str, float], b: Mapping[str, float]) -> bool:
    """Are all numbers equal, but for rounding?"""
    return a.keys() == b.keys() and all(
        math.isclose(a[key], b[key], rel_tol=1e-6, abs_tol=1e-9)
        or (math.isnan(a[key]) and math.isnan(b[key]))
        for key in a
    )

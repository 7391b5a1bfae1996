"""Bootstrap and jackknife: between which values does an aggregation lie, 19 times out of 20?

A bootstrap over documents, or over the units they belong to, with as many resamples as there is
time for. Not every function that a task brings can be resampled: some count (a sum over twice the
documents is twice the number), some look documents up by their id (a document that was drawn twice
counts once), some want pairs to be complete. These are found out by asking about documents that
come twice, and get their interval by leaving out blocks of documents in turn; where values carry an
id that several share, blocks hold all that share it.

A task's own function may print, log, draw from global random states, write files where it stands or
where `args.output_path` says, change the values it is given, and fail. Its first call is the real
one; further calls (resamples) leave no trace. Where the first leaves something in a module, such as
a sum that it adds to, each further call gets the module anew. The working folder and the global
random states belong to the process, so no two aggregations run at once.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import math
import pickle
import sys
import tempfile
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from fieldmark.errors import FieldmarkError
from fieldmark.lmms.code.call import FreshFunction, call, seeded
from fieldmark.lmms.code.judge import resampling
from fieldmark.lmms.score.encoding import as_number
from fieldmark.stats import (
    Items,
    Resampling,
    count_units,
    jackknife_limits,
    percentile_limits,
    unit_blocks,
    unit_weights,
)

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


@dataclass(slots=True)
class Caller:
    """A function of a list of values."""

    function: Callable[..., Any]
    where: str
    """`file:line`, for messages"""
    seed: int = 0
    flags: Mapping[str, Any] = field(default_factory=dict)
    fresh: FreshFunction | None = None
    remembers: bool = False
    """did the first call leave something in a module?"""

    def once(self, items: Sequence[Any], folder: Path | None) -> Any:
        """The real call; files go to the folder, or nowhere."""
        with contextlib.ExitStack() as stack:
            folder_here = folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            folder_here.mkdir(parents=True, exist_ok=True)
            folder_here = folder_here.resolve()  # code is told it while it stands there
            stack.enter_context(_standing_in(folder_here))
            stack.enter_context(seeded(self.seed, _name(self.function), "aggregation"))
            copied, options = copies(items)(range(len(items))), self._options(folder_here)
            if self.fresh is None:
                return call(self.function, copied, **options)
            function, modules = self.fresh()
            before = modules.state()
            made = call(function, copied, **options)
            # Code that adds to a module's list would count each resample on top of the last one.
            self.remembers = modules.state() != before
            return made

    @contextlib.contextmanager
    def again(self) -> Iterator[Callable[[list[Any]], Any]]:
        """A function to call as often as wanted: it is silent, and what it writes is gone."""
        with contextlib.ExitStack() as stack:
            folder_here = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            stack.enter_context(_standing_in(folder_here))
            stack.enter_context(_silence())
            stack.enter_context(resampling())
            stack.enter_context(seeded(self.seed, _name(self.function), "resamples"))
            options = self._options(folder_here)
            yield lambda items: call(self._function(), items, **options)

    def _function(self) -> Callable[..., Any]:
        return self.fresh()[0] if self.fresh is not None and self.remembers else self.function

    def _options(self, folder: Path) -> dict[str, Any]:
        if not _asks_for_args(self.function):
            return {"where": self.where}
        flags = {**USUAL_FLAGS, **self.flags, "output_path": str(folder)}
        return {"where": self.where, "args": Namespace(**flags)}


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _asks_for_args(function: Callable[..., Any]) -> bool:
    try:
        parameter = inspect.signature(function).parameters.get("args")
    except (TypeError, ValueError):
        return False
    return parameter is not None and parameter.kind is not inspect.Parameter.VAR_POSITIONAL


@contextlib.contextmanager
def _standing_in(folder: Path) -> Iterator[None]:
    # The working folder belongs to the process, not to a thread.
    with _ONE_AT_A_TIME, contextlib.chdir(folder):
        yield


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
        for name, inner in result.items():
            inside |= numbers_in(inner, f"{key}/{name}" if key else str(name))
        return inside
    if isinstance(result, np.ndarray) and result.size == 1:
        result = result.reshape(-1)[0]
    number = as_number(result)
    return {} if number is None else {key: number}


def copies(items: Sequence[Any]) -> Callable[[Iterable[int]], list[Any]]:
    """Items by their numbers, each a value of its own: code may change what it is given.

    Values of kinds that cannot be copied are handed out as they are.
    """
    try:
        kept = [pickle.dumps(item) for item in items]
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError):
        return lambda indices: [items[index] for index in indices]
    return lambda indices: [pickle.loads(kept[index]) for index in indices]


def is_same(a: Mapping[str, float], b: Mapping[str, float]) -> bool:
    """Are all numbers equal, but for rounding?"""
    return a.keys() == b.keys() and all(
        math.isclose(a[key], b[key], rel_tol=1e-6, abs_tol=1e-9)
        or (math.isnan(a[key]) and math.isnan(b[key]))
        for key in a
    )


LADDER = (2000, 1000, 500, 200, 100)
"""numbers of resamples: rungs, so that a machine's mood does not change an interval"""
MOST_BLOCKS, LEAST_BLOCKS = 40, 10
_NO_SPREAD = "every resample gives the same number: the spread is not known"
_ANY = (-math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class ScoreLimits:
    """An interval, or why there is none."""

    low: float | None = None
    high: float | None = None
    method: str = ""
    n_units: int | None = None
    warning: str = ""


def weighted_limits(
    value: float,
    score: Callable[[np.ndarray], np.ndarray],
    items: Items,
    resampling: Resampling,
    bounds: tuple[float, float],
    seconds: float,
) -> ScoreLimits:
    """For a score that takes resampling weights."""
    n_units = count_units(items)
    if n_units < 2:
        return ScoreLimits(n_units=n_units, warning="one unit only: no interval")
    began = time.perf_counter()
    score(np.ones((20, len(items.target))))
    n = _rung(seconds * 20 / max(1e-9, time.perf_counter() - began))
    if not n:
        return ScoreLimits(n_units=n_units, warning="too slow to resample: no interval")
    weights = unit_weights(items, _with_draws(resampling, n))
    replicate_r = np.concatenate([score(weight) for weight in weights])
    return _percentiles(value, replicate_r, items, resampling, bounds)


def function_limits(
    caller: Caller,
    keys: Iterable[str],
    items: list[Any],
    grouping: Items,
    resampling: Resampling,
    seconds: float,
) -> dict[str, ScoreLimits]:
    """For a function of a list: the limits of every number it gives, by its key."""
    n_units = count_units(grouping)
    limits: dict[str, ScoreLimits] = {}
    why_none = "one unit only: no interval"
    if n_units > 1:
        with caller.again() as function:
            try:
                limits = _OwnAggregation(function, items, grouping, resampling, seconds).limits()
                why_none = "no interval: a second call does not give it"
            except FieldmarkError as error:
                why_none = f"no interval, since other documents cannot be asked about: {error}"
    return dict.fromkeys(keys, ScoreLimits(n_units=n_units, warning=why_none)) | limits


class _OwnAggregation:
    """A function, and what was found out about it."""

    def __init__(
        self,
        function: Callable[[list[Any]], Any],
        items: list[Any],
        grouping: Items,
        resampling: Resampling,
        seconds: float,
    ) -> None:
        self.function, self.items, self.grouping = function, items, grouping
        self.resampling, self.seconds = resampling, seconds
        self.pick: Callable[[Iterable[int]], list[Any]] = lambda indices: [
            items[i] for i in indices
        ]
        self.every: np.ndarray = np.arange(len(items))
        # A second call: the first may have imported much. Notices values that it changes
        fresh = copies(self.items)
        given = fresh(self.every)
        before = repr(given)
        began = time.perf_counter()
        numbers = numbers_in(self.function(given))
        self.cost = max(1e-6, time.perf_counter() - began)
        if repr(given) != before:
            self.pick = fresh
        self.values = numbers

    def ask(self, place_n: np.ndarray) -> dict[str, float]:
        return numbers_in(self.function(self.pick(place_n.tolist())))

    def limits(self) -> dict[str, ScoreLimits]:
        n = _rung(self.seconds / self.cost)
        if not n:
            return self._without_blocks([self.grouping, *self._shared()])
        drawn = self._resampled(n) if self._may_come_twice() else None
        if drawn is not None:
            return self._all(drawn)
        return self._without_blocks([*self._shared(), self.grouping])

    def _shared(self) -> list[Items]:
        """Documents that share an id, where the task does not say what is independent."""
        if count_units(self.grouping) < len(self.items):
            return []
        shared = _shared_id(self.items)
        return [] if shared is None else [Items(self.grouping.target, unit=shared)]

    def _may_come_twice(self) -> bool:
        """Is it a function of shares of documents, which resamples change?"""
        try:
            if not is_same(self.ask(np.tile(self.every, 2)), self.values):
                return False
            random = self.resampling.generator("twice")
            halves = [np.sort(random.permutation(self.every)[::2]) for _ in range(3)]
            added = [self.ask(np.concatenate([self.every, half])) for half in halves]
            if not all(is_same(numbers, self.values) for numbers in added):
                return True
            return all(is_same(self.ask(half), self.values) for half in halves)
        except FieldmarkError:
            return False

    def _resampled(self, n: int) -> list[dict[str, float]] | None:
        """The numbers of each resample; None where more than one in twenty fails."""
        drawn: list[dict[str, float]] = []
        n_failed, late = 0, time.perf_counter() + 2 * self.seconds
        blocks = unit_weights(self.grouping, _with_draws(self.resampling, n))
        for weight in chain.from_iterable(blocks):
            try:
                drawn.append(self.ask(np.repeat(self.every, weight)))
            except FieldmarkError:
                n_failed += 1
                if n_failed > n / 20:
                    return None
            if time.perf_counter() > late:  # resamples take longer than the call that was timed
                return drawn[: _rung(len(drawn))] or None
        return drawn

    def _all(self, drawn: Sequence[Mapping[str, float]]) -> dict[str, ScoreLimits]:
        limits = {}
        for key, value in self.values.items():
            replicate_r = np.array([numbers.get(key, math.nan) for numbers in drawn])
            limits[key] = _percentiles(value, replicate_r, self.grouping, self.resampling, _ANY)
        return limits

    def _without_blocks(self, groupings: Sequence[Items]) -> dict[str, ScoreLimits]:
        """By the first grouping whose blocks can be left out."""
        most = min(MOST_BLOCKS, int(self.seconds / self.cost))
        if most < LEAST_BLOCKS:
            text = f"no interval: one call takes {self.cost:.1f} s, too long for resamples"
            none = ScoreLimits(n_units=count_units(self.grouping), warning=text)
            return dict.fromkeys(self.values, none)
        first_error: FieldmarkError | None = None
        for grouping in groupings:
            try:
                n_blocks = min(most, count_units(grouping))
                block_n = unit_blocks(grouping, n_blocks, self.resampling)
                without = [self.ask(np.flatnonzero(block_n != block)) for block in range(n_blocks)]
                limits = {}
                for key, value in self.values.items():
                    value_b = np.array([block.get(key, math.nan) for block in without])
                    limits[key] = _jackknife(value, value_b, grouping, self.resampling.level)
                return limits
            except FieldmarkError as error:
                first_error = first_error or error
        assert first_error is not None
        raise first_error


def _shared_id(items: Sequence[Any]) -> np.ndarray | None:
    """The finest key of mappings that a few values share, where there are enough of its groups."""
    if not all(isinstance(item, Mapping) for item in items):
        return None
    best: tuple[int, np.ndarray] | None = None
    for key in set(items[0]).intersection(*items[1:]):
        column = [item[key] for item in items]
        if not all(
            isinstance(value, int | str) and not isinstance(value, bool) for value in column
        ):
            continue
        _, code_n = np.unique([str(value) for value in column], return_inverse=True)
        n = int(code_n.max()) + 1
        if LEAST_BLOCKS <= n <= len(items) / 1.5 and (best is None or n > best[0]):
            best = n, code_n
    return None if best is None else best[1]


def _percentiles(
    value: float,
    replicate_r: np.ndarray,
    items: Items,
    resampling: Resampling,
    bounds: tuple[float, float],
) -> ScoreLimits:
    n_units, n_asked = count_units(items), len(replicate_r)
    replicate_r = replicate_r[np.isfinite(replicate_r)]
    if not math.isfinite(value) or len(replicate_r) < 0.9 * n_asked:
        text = "no interval: the number is not defined for many resamples"
        return ScoreLimits(n_units=n_units, warning=text)
    width = bounds[1] - bounds[0]
    if not math.isfinite(width) and np.ptp(replicate_r) <= 1e-12 * max(1.0, abs(value)):
        return ScoreLimits(n_units=n_units, warning=_NO_SPREAD)
    if not math.isfinite(width):
        bounds = _bounds_seen(value, replicate_r)
        width = bounds[1] - bounds[0]
    scale = width if math.isfinite(width) else 1.0
    scaled = (bounds[0] / scale, bounds[1] / scale)
    low, high = percentile_limits(value / scale, replicate_r / scale, items, resampling, scaled)
    method = "bootstrap" if n_asked >= LADDER[0] else f"bootstrap, {n_asked} resamples"
    return ScoreLimits(low * scale, high * scale, method, n_units)


def _bounds_seen(value: float, replicate_r: np.ndarray) -> tuple[float, float]:
    """A number that is a share on all documents and in all resamples is a share."""
    seen = np.append(replicate_r, value)
    return (0.0, 1.0) if seen.min() >= 0 and seen.max() <= 1 else _ANY


def _jackknife(value: float, value_b: np.ndarray, items: Items, level: float) -> ScoreLimits:
    n_units = count_units(items)
    if not (math.isfinite(value) and np.isfinite(value_b).all()):
        text = "no interval: the number is not defined without some documents"
        return ScoreLimits(n_units=n_units, warning=text)
    if np.ptp(value_b) <= 1e-12 * max(1.0, abs(value)):
        return ScoreLimits(n_units=n_units, warning=_NO_SPREAD)
    low, high = jackknife_limits(value, value_b, level, _bounds_seen(value, value_b))
    return ScoreLimits(low, high, f"jackknife, {len(value_b)} blocks", n_units)


def _rung(n_affordable: float) -> int:
    """The most resamples of the ladder that there is time for; 0 for none."""
    return next((n for n in LADDER if n <= n_affordable), 0)


def _with_draws(resampling: Resampling, n: int) -> Resampling:
    return Resampling(n, resampling.level, resampling.seed, resampling.task)

"""Sampler (shuffle, sampling with replacement): which samples make up the batch of a step?

A pure function of seed and step, so a restart, another number of ranks or readers changes nothing.
Shards are put in a drawn order and taken a window at a time; the samples of a window are shuffled
together. A batch is therefore mixed out of many shards, and yet reads only the few files of one
window, or of two where one ends. Nothing but the current windows is kept in memory.

epoch      every sample once per epoch; the rest that fills no whole batch is dropped, and is
           another one in the next epoch
resampled  every window draws its shards with replacement, as webdataset's `resampled=True`

Replay samples (BioCLIP 2: general photos, so that nothing is forgotten) have an order of their own
and lie evenly spread in every batch.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fieldmark import draws
from fieldmark.errors import DataError, UsageError

Int64s = NDArray[np.int64]

_KEPT = 3
"""windows in memory: where a batch begins, where it ends, and one for a reader that looks ahead"""


class SampleOrder:
    """Numbers of the samples of every step. Those of replay follow those of the main shards."""

    def __init__(
        self,
        counts: Sequence[int] | Int64s,
        batch: int,
        *,
        seed: int,
        mode: str = "epoch",
        window: int = 32,
        replay_counts: Sequence[int] | Int64s = (),
        replay_share: float = 0.0,
    ) -> None:
        """`counts`: samples per shard; `batch`: of all ranks together, replay included."""
        if mode not in ("epoch", "resampled"):
            raise UsageError(f"data.mode is {mode!r}, expected 'epoch' or 'resampled'.")
        self.batch_size = batch
        self.n_samples = int(np.sum(counts, dtype=np.int64))
        self.n_replay = _n_replay(batch, replay_share, len(replay_counts))
        """replay samples of every batch"""
        kind = _Resampled if mode == "resampled" else _Epochs
        self._main = kind(counts, batch - self.n_replay, window, "main", seed)
        self._replay: _Epochs | _Resampled | None = None
        self._is_replay = np.zeros(batch, bool)
        if self.n_replay:
            self._replay = kind(replay_counts, self.n_replay, window, "replay", seed)
            # Spread evenly over the batch, so that every rank's part has its share.
            self._is_replay[np.arange(self.n_replay) * batch // self.n_replay] = True
        for stream in (self._main, self._replay):
            if isinstance(stream, _Epochs) and stream.n_samples < stream.size:
                fits = 1 << max(stream.n_samples, 1).bit_length() - 1  # the power of two below
                photos = "photos" if stream is self._main else "replay photos"
                raise DataError(
                    f"The batch ({stream.size:,}) is larger than your {stream.n_samples:,} {photos}"
                    f". Try --set train.batch={fits}, or use photos more than once: --set "
                    "data.mode=resampled."
                )

    @property
    def n_batches(self) -> int:
        """Steps of one epoch: of the main samples."""
        return self._main.n_batches

    def batch(self, step: int) -> Int64s:
        """The samples of a step (from 0), for all ranks together."""
        main = self._main.batch(step)
        if self._replay is None:
            return main
        numbers = np.empty(self.batch_size, np.int64)
        numbers[~self._is_replay] = main
        numbers[self._is_replay] = self.n_samples + self._replay.batch(step)
        return numbers

    def rank_batch(self, step: int, rank: int, n_ranks: int) -> Int64s:
        """One rank's part. All parts together, in the order of the ranks, are the batch."""
        if self.batch_size % n_ranks:
            raise UsageError(
                f"train.batch is {self.batch_size:,}, which {n_ranks} processes cannot share "
                f"evenly: choose a multiple of {n_ranks}."
            )
        part = self.batch_size // n_ranks
        return self.batch(step)[rank * part : (rank + 1) * part]


def _n_replay(batch: int, share: float, n_shards: int) -> int:
    if share <= 0 or not n_shards:
        return 0
    if share >= 1 or batch < 2:
        raise UsageError(
            f"data.replay_share is {share:g} of a batch of {batch:,}: expected a share below 1 "
            "that leaves room for other samples."
        )
    return min(max(round(batch * share), 1), batch - 1)


class _Stream:
    """One group of shards, and windows of it."""

    def __init__(
        self, counts: Sequence[int] | Int64s, batch: int, window: int, *seed: object
    ) -> None:
        if batch < 1 or window < 1:
            raise UsageError(
                f"train.batch is {batch} and data.window_shards {window}: expected 1 or more."
            )
        self.counts = np.asarray(counts, np.int64)
        self.starts = np.cumsum(self.counts) - self.counts
        """number of the first sample of each shard"""
        self.n_samples = int(self.counts.sum())
        if not self.n_samples:
            raise DataError("the shards hold no samples to train on.")
        self.size, self.window, self.seed = batch, min(window, len(self.counts)), seed
        self.n_batches = max(self.n_samples // batch, 1)
        self._windows: OrderedDict[tuple[int, int], Int64s] = OrderedDict()

    def _window(self, epoch: int, number: int, shards: Int64s) -> Int64s:
        """The samples of these shards, shuffled; those of the last few calls are kept."""
        key = (epoch, number)
        if key in self._windows:
            self._windows.move_to_end(key)
            return self._windows[key]
        samples = np.concatenate(
            [np.arange(self.starts[k], self.starts[k] + self.counts[k]) for k in shards]
        )
        draws.generator(*self.seed, "samples", epoch, number).shuffle(samples)
        self._windows[key] = samples
        if len(self._windows) > _KEPT:
            self._windows.popitem(last=False)
        return samples


class _Epochs(_Stream):
    """Every sample once per epoch, but for the rest that fills no batch."""

    _of: tuple[int, Int64s, Int64s] | None = None
    """epoch, its order of the shards, and where each of its windows ends"""

    def batch(self, step: int) -> Int64s:
        epoch, turn = divmod(step, self.n_batches)
        shards, ends = self._shards(epoch)
        at, end = turn * self.size, (turn + 1) * self.size
        parts: list[Int64s] = []
        while at < end:  # a batch may begin in one window and end in the next
            number = int(np.searchsorted(ends, at, side="right"))
            start, stop = int(ends[number - 1]) if number else 0, min(end, int(ends[number]))
            some = shards[number * self.window : (number + 1) * self.window]
            parts.append(self._window(epoch, number, some)[at - start : stop - start])
            at = stop
        return np.concatenate(parts)

    def _shards(self, epoch: int) -> tuple[Int64s, Int64s]:
        if self._of is None or self._of[0] != epoch:
            generator = draws.generator(*self.seed, "shards", epoch)
            shards = generator.permutation(len(self.counts))
            firsts = np.arange(0, len(self.counts), self.window)
            self._of = epoch, shards, np.cumsum(np.add.reduceat(self.counts[shards], firsts))
        return self._of[1:]


class _Resampled(_Stream):
    """Shards drawn with replacement, each as likely as another, whatever it holds.

    A window gives a fixed number of whole batches, so that the window of a step is known without
    counting through those before it; what is left over of its shards is not used. A shard that is
    drawn twice for a window gives its samples twice.
    """

    def batch(self, step: int) -> Int64s:
        of_window = self.window * self.n_samples // len(self.counts)
        n_batches = max(of_window // self.size, 1)
        number, turn = divmod(step, n_batches)
        samples = self._window(0, number, self._draw(number, n_batches * self.size))
        return samples[turn * self.size : (turn + 1) * self.size]

    def _draw(self, number: int, n_samples: int) -> Int64s:
        """As many shards as hold so many samples."""
        generator = draws.generator(*self.seed, "shards", number)
        n_drawn, shards = 0, list[Int64s]()
        while n_drawn < n_samples:
            drawn = generator.integers(len(self.counts), size=self.window)
            ends = n_drawn + np.cumsum(self.counts[drawn])
            drawn = drawn[: int(np.searchsorted(ends, n_samples)) + 1]
            n_drawn += int(self.counts[drawn].sum())
            shards.append(drawn)
        return np.concatenate(shards)

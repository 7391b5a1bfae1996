"""Order of samples: a pure function of seed and step, whatever is restarted or shared out."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmark.build.train.feed.order import SampleOrder
from fieldmark.errors import DataError, UsageError
from kit.cpu_time import least_cpu_s

COUNTS = st.lists(st.integers(0, 40), min_size=1, max_size=25).filter(lambda counts: sum(counts))
MODES = st.sampled_from(["epoch", "resampled"])


def shards_of(counts: list[int], numbers: np.ndarray) -> np.ndarray:
    return np.searchsorted(np.cumsum(counts), numbers, side="right")


@given(COUNTS, st.data(), st.integers(1, 30), st.integers(0, 2**40))
def test_an_epoch_has_every_sample_once(
    counts: list[int], data: st.DataObject, window: int, seed: int
) -> None:
    n = sum(counts)
    batch = data.draw(st.integers(1, n))
    order = SampleOrder(counts, batch, seed=seed, mode="epoch", window=window)
    assert order.n_batches == n // batch
    for epoch in (0, 1, 7):
        steps = range(epoch * order.n_batches, (epoch + 1) * order.n_batches)
        numbers = np.concatenate([order.batch(step) for step in steps])
        assert numbers.dtype == np.int64
        assert len(set(numbers.tolist())) == len(numbers) == n - n % batch
        assert numbers.min() >= 0 and numbers.max() < n


@given(COUNTS, MODES, st.integers(1, 8), st.integers(1, 6), st.integers(0, 60), st.integers(0, 99))
def test_a_restart_and_more_ranks_change_nothing(
    counts: list[int], mode: str, n_ranks: int, part: int, step: int, seed: int
) -> None:
    batch = n_ranks * part
    if mode == "epoch" and batch > sum(counts):
        return
    made: dict[str, Any] = {"seed": seed, "mode": mode, "window": 3}
    going = SampleOrder(counts, batch, **made)
    for before in range(step):
        going.batch(before)
    whole = SampleOrder(counts, batch, **made).batch(step)
    assert len(whole) == batch
    assert np.array_equal(going.batch(step), whole)
    parts = [
        SampleOrder(counts, batch, **made).rank_batch(step, rank, n_ranks)
        for rank in range(n_ranks)
    ]
    assert np.array_equal(np.concatenate(parts), whole)


@pytest.mark.parametrize("mode", ["epoch", "resampled"])
def test_a_batch_reads_few_files(mode: str) -> None:
    counts = [100] * 60
    order = SampleOrder(counts, 50, seed=1, mode=mode, window=6)
    steps = range(3 * order.n_batches)
    touched = [set(shards_of(counts, order.batch(step)).tolist()) for step in steps]
    assert max(map(len, touched)) <= 2 * 6
    assert np.mean([len(shards) for shards in touched]) > 4, "and yet mixes them"


def test_epochs_and_seeds_differ() -> None:
    counts = [20] * 10
    order = SampleOrder(counts, 40, seed=1, mode="epoch", window=4)
    other = SampleOrder(counts, 40, seed=2, mode="epoch", window=4)
    batches = [order.batch(0), order.batch(order.n_batches), other.batch(0)]
    assert len({tuple(numbers.tolist()) for numbers in batches}) == 3


def test_the_dropped_rest_is_another_one_in_every_epoch() -> None:
    order = SampleOrder([7] * 9, 20, seed=3, mode="epoch", window=3)
    dropped = []
    for epoch in range(30):
        steps = range(epoch * order.n_batches, (epoch + 1) * order.n_batches)
        seen = set(np.concatenate([order.batch(step) for step in steps]).tolist())
        dropped += sorted(set(range(63)) - seen)
    assert len(set(dropped)) > 40


def test_places_in_an_epoch_are_even() -> None:
    """No sample is likelier early than late."""
    order = SampleOrder([5, 10, 15], 5, seed=4, mode="epoch", window=2)
    places = np.zeros(30)
    for epoch in range(400):
        for turn in range(6):
            places[order.batch(epoch * 6 + turn)] += turn
    assert np.abs(places / 400 - 2.5).max() < 0.4  # standard error 0.085


def test_resampling_draws_shards_with_replacement() -> None:
    counts = [10] * 20
    order = SampleOrder(counts, 40, seed=5, mode="resampled", window=8)
    assert order.n_batches == 5, "an epoch is as long as the data"
    per_epoch = [
        np.concatenate([order.batch(step) for step in range(epoch * 5, epoch * 5 + 5)])
        for epoch in range(200)
    ]
    missed = np.mean([20 - len(set(shards_of(counts, numbers).tolist())) for numbers in per_epoch])
    assert 5 < missed < 9, "with replacement 20 draws of 20 miss 7.2; without they miss none"
    drawn = np.bincount(shards_of(counts, np.concatenate(per_epoch)), minlength=20)
    assert np.abs(drawn / drawn.mean() - 1).max() < 0.25, "each as likely as another"


def test_small_and_large_shards_are_drawn_equally_often() -> None:
    """As webdataset does it: a sample of a small shard comes more often."""
    counts = [5] * 10 + [50] * 10
    order = SampleOrder(counts, 100, seed=6, mode="resampled", window=10)
    numbers = np.concatenate([order.batch(step) for step in range(600)])
    from_small = np.mean(shards_of(counts, numbers) < 10)
    assert abs(from_small - 5 / 55) < 0.02


@given(st.integers(2, 64), st.floats(0.01, 0.6), st.integers(1, 4), MODES)
def test_replay_lies_evenly_in_every_batch(
    batch: int, share: float, n_ranks: int, mode: str
) -> None:
    order = SampleOrder(
        [40] * 5, batch, seed=1, mode=mode, window=2, replay_counts=[70, 30], replay_share=share
    )
    n_replay = min(max(round(batch * share), 1), batch - 1)
    for step in (0, 3, 50):
        numbers = order.batch(step)
        is_replay = numbers >= 200
        assert (len(numbers), int(is_replay.sum())) == (batch, n_replay)
        assert numbers.max() < 300
        if batch % n_ranks == 0:
            parts = is_replay.reshape(n_ranks, -1).sum(axis=1)
            assert parts.max() - parts.min() <= 1


def test_replay_has_epochs_of_its_own() -> None:
    order = SampleOrder(
        [50] * 4, 25, seed=1, mode="epoch", window=2, replay_counts=[10, 10], replay_share=0.2
    )
    assert order.n_batches == 10, "of 20 main samples each"
    replay = np.concatenate([order.batch(step) for step in range(4)])
    assert sorted(replay[replay >= 200].tolist()) == list(range(200, 220))


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(DataError, match=r"The batch \(10\) is larger than your 9 photos"):
        SampleOrder([4, 5], 10, seed=0, mode="epoch", window=2)
    assert len(SampleOrder([4, 5], 10, seed=0, mode="resampled", window=2).batch(0)) == 10
    with pytest.raises(DataError, match="no samples"):
        SampleOrder([0, 0], 10, seed=0, mode="resampled", window=2)
    with pytest.raises(UsageError, match="multiple of 3"):
        SampleOrder([40], 10, seed=0, mode="epoch", window=2).rank_batch(0, 0, 3)
    with pytest.raises(UsageError, match="'epoch' or 'resampled'"):
        SampleOrder([40], 10, seed=0, mode="random", window=2)
    with pytest.raises(UsageError, match="a share below 1"):
        SampleOrder([40], 10, seed=0, replay_counts=[9], replay_share=1.0)


@pytest.mark.parametrize("mode", ["epoch", "resampled"])
def test_two_hundred_million_samples_are_cheap(mode: str) -> None:
    """BioCLIP 2's 24,236 shards: a step in milliseconds, and memory of a few windows."""
    order = SampleOrder([8_800] * 24_236, 32_768, seed=0, mode=mode, window=32)
    tracemalloc.start()
    try:
        for step in range(4_960, 5_001):
            order.batch(step)
        assert tracemalloc.get_traced_memory()[0] < 20e6
    finally:
        tracemalloc.stop()
    steps = iter(range(5_001, 5_041))
    assert least_cpu_s(lambda: [order.batch(next(steps)) for _ in range(10)]) / 10 < 0.05

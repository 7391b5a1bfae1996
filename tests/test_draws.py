"""Draws depend on names and purpose only: never on order, size or who else draws."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from fieldmark import draws

ids = st.lists(st.text(max_size=5), unique=True, min_size=1, max_size=30)


@given(ids, st.randoms())
def test_order_of_arrival_does_not_matter(names: list[str], shuffler) -> None:  # type: ignore[no-untyped-def]
    other = list(names)
    shuffler.shuffle(other)
    assert draws.shuffled(names, 1, "t") == draws.shuffled(other, 1, "t")


@given(ids, st.integers(0, 40))
def test_small_draws_are_part_of_large_ones(names: list[str], n: int) -> None:
    small, large = draws.sample(names, n, "seed"), draws.sample(names, n + 3, "seed")
    assert set(small) <= set(large)
    assert len(small) == min(n, len(names))
    assert small == [each for each in names if each in set(small)]


def test_parts_are_not_run_together() -> None:
    assert draws.digest("ab", "c") != draws.digest("a", "bc")
    assert draws.digest(1, "x") != draws.digest(11, "x")


def test_generators_of_other_purposes_differ_and_repeat() -> None:
    one, same, other = (draws.generator(0, name) for name in ("a", "a", "b"))
    first = one.integers(0, 1 << 30, 5).tolist()
    assert first == same.integers(0, 1 << 30, 5).tolist()
    assert first != other.integers(0, 1 << 30, 5).tolist()


def test_every_item_is_drawn_equally_often() -> None:
    names = [f"item{number}" for number in range(10)]
    counts = dict.fromkeys(names, 0)
    for seed in range(2000):
        for each in draws.sample(names, 3, seed):
            counts[each] += 1
    assert all(520 <= count <= 680 for count in counts.values())  # 600 expected, 4 sd = 82


@given(st.integers(0, 12), st.integers(1, 40))
def test_places_are_different_and_few_are_the_first_of_many(k: int, n: int) -> None:
    few, many = draws.places(k, n, "seed"), draws.places(k + 4, n, "seed")
    assert len(set(few)) == len(few) == min(k, n)
    assert all(0 <= each < n for each in few) and many[: len(few)] == few


def test_every_place_is_drawn_as_often() -> None:
    drawn = [each for row in range(4000) for each in draws.places(3, 10, "seed", row)]
    assert all(abs(drawn.count(each) - 1200) < 150 for each in range(10))


def test_lazy_shuffle_is_a_permutation_and_fair() -> None:
    names = tuple("abcdef")
    assert sorted(draws.lazily_shuffled(names, 0)) == sorted(names)
    firsts = Counter(next(draws.lazily_shuffled(names, seed)) for seed in range(1200))
    assert all(150 < firsts[name] < 250 for name in names)
    assert list(draws.lazily_shuffled((), 0)) == []

"""Few-shot examples: which, how many, in which order, and that it takes k steps for k of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmark.chat.messages import Message, Picture
from fieldmark.chat.prompt.build import build
from fieldmark.chat.prompt.few_shot import (
    FewShot,
    Fit,
    Limits,
    Pool,
    PromptSize,
    RequestLimits,
    ShotDraw,
    choose,
    fit,
    plan_prompts,
)
from fieldmark.chat.prompt.question import Asking, Item, PromptQuestion, Shots
from fieldmark.errors import DataError

LABELS = ("adult", "not_adult")
QUESTION = PromptQuestion(
    "newt/age", "choice", {"adult": "adult eagle", "not_adult": "young eagle"}
)


def _item(name: str, label: str = "adult") -> Item:
    return Item(name, (Picture(name.encode(), f"{name}.jpg"),), label)


EXAMPLES = [_item(f"e{n}", LABELS[n % 2]) for n in range(40)]


def _pool(examples: list[Item] = EXAMPLES, tokens: int = 10) -> Pool:
    return Pool.of(examples, lambda _: PromptSize(tokens, 1, 1000))


def _names(shots: Shots) -> list[str]:
    return [each.id for each in shots.examples]


# --- how many fit ---


loads = st.lists(
    st.builds(PromptSize, st.integers(0, 50), st.integers(0, 3), st.integers(0, 90)), max_size=30
)
rooms = st.builds(
    RequestLimits,
    st.none() | st.integers(0, 800),
    st.integers(0, 100),
    st.none() | st.integers(0, 30),
    st.none() | st.integers(0, 900),
)


@given(
    st.builds(PromptSize, st.integers(0, 99), st.integers(0, 2), st.integers(0, 90)), loads, rooms
)
def test_fit_against_trying_every_k(
    base: PromptSize, costs: list[PromptSize], room: RequestLimits
) -> None:
    def fits(k: int) -> bool:
        return not room.lacks(sum(costs[:k], base))

    found = fit(base, costs, room)
    assert found.fits == fits(0)
    assert found.k == max((k for k in range(len(costs) + 1) if fits(k)), default=0)
    assert bool(found.why) == (not found.fits or found.k < len(costs))


def test_every_limit_is_named() -> None:
    ten = [PromptSize(10, 1, 100)] * 10
    assert fit(PromptSize(), ten, RequestLimits(tokens=150, answer_tokens=100)) == Fit(5, "context")
    assert fit(PromptSize(0, 1), ten, RequestLimits(pictures=4)) == Fit(3, "pictures")
    assert fit(PromptSize(), ten, RequestLimits(n_bytes=250)) == Fit(2, "bytes")
    assert fit(PromptSize(), ten, RequestLimits()) == Fit(10)
    assert fit(PromptSize(999), ten, RequestLimits(tokens=100)) == Fit(0, "context", fits=False)


def test_defect_small_data_metrics_one_example_too_many() -> None:
    """It tested before adding; here the prompt with k examples fits and with k + 1 does not."""
    found = fit(PromptSize(7), [PromptSize(10)] * 50, RequestLimits(tokens=200, answer_tokens=50))
    assert 7 + 10 * found.k + 50 <= 200 < 7 + 10 * (found.k + 1) + 50


def test_defect_small_data_metrics_no_room_for_the_answer() -> None:
    base, costs = PromptSize(), [PromptSize(10)] * 50
    without, with_room = (fit(base, costs, RequestLimits(400, n)).k for n in (0, 200))
    assert (without, with_room) == (40, 20)


def test_defect_small_data_metrics_fit_is_quadratic() -> None:
    """Each example is measured once, whatever k and however many items show it."""
    calls: Counter[str] = Counter()

    def measure(example: Item) -> PromptSize:
        calls[example.id] += 1
        return PromptSize(10, 1, 0)

    pool = Pool.of(EXAMPLES, measure)
    for n in range(50):
        choose(pool, _item(f"i{n}"), ShotDraw(30, "t"), RequestLimits(tokens=10_000))
    assert max(calls.values()) == 1
    assert sum(calls.values()) <= len(EXAMPLES)


def test_only_what_is_drawn_is_measured() -> None:
    """A large pool is not gone through for a few examples; one more is measured to find the end."""
    calls: list[str] = []

    def measure(example: Item) -> PromptSize:
        calls.append(example.id)
        return PromptSize(10)

    many = [_item(f"e{n}", f"class {n % 500}") for n in range(5000)]
    shots = choose(
        Pool.of(many, measure), _item("i"), ShotDraw(100, "t"), RequestLimits(tokens=1324)
    )
    assert shots.k_used == 30 and shots.why == "context"
    assert len(calls) == 31


# --- which ---


@pytest.mark.parametrize("k", [0, 1, 3, 10, 30, 100, -1])
@pytest.mark.parametrize("sampling", ["balanced", "uniform"])
def test_defect_small_data_metrics_all_examples_end(k: int, sampling: str) -> None:
    """n_train = -1 with everything fitting looped for ever; n_train = 1 failed an assertion."""
    shots = choose(_pool(), _item("i"), ShotDraw(k, "t", 0, sampling))  # type: ignore[arg-type]
    assert shots.k_used == (40 if k in (-1, 100) else k)
    assert shots.k_asked == k
    assert shots.why == ("pool" if k == 100 else "")
    assert len(set(_names(shots))) == shots.k_used


@given(st.integers(0, 40), st.integers(0, 5))
def test_balanced_prompts_are_balanced_at_every_length(k: int, seed: int) -> None:
    shots = choose(_pool(), _item("i"), ShotDraw(k, "t", seed))
    counts = Counter(each.label for each in shots.examples)
    assert abs(counts["adult"] - counts["not_adult"]) <= 1


def test_defect_small_data_metrics_sampling_is_obeyed() -> None:
    lopsided = [_item(f"a{n}") for n in range(90)] + [
        _item(f"n{n}", "not_adult") for n in range(10)
    ]
    pool = _pool(lopsided)

    def n_young(sampling: str) -> list[int]:
        wanted = [ShotDraw(10, "t", seed, sampling) for seed in range(40)]  # type: ignore[arg-type]
        drawn = [choose(pool, _item("i"), each).examples for each in wanted]
        return [sum(each.label == "not_adult" for each in shots) for shots in drawn]

    assert set(n_young("balanced")) == {5}
    assert 0.3 < sum(n_young("uniform")) / 40 < 1.9  # 1 expected, 6 sd


def test_defect_small_data_metrics_small_classes_do_not_fail() -> None:
    pool = _pool([_item("a"), _item("b", "not_adult"), _item("c"), _item("d")])
    assert choose(pool, _item("i"), ShotDraw(4, "t")).k_used == 4


def test_no_label_is_always_last() -> None:
    last = Counter(
        choose(_pool(), _item(f"i{n}"), ShotDraw(4, "t")).examples[-1].label for n in range(200)
    )
    assert min(last[label] for label in LABELS) > 60


@given(st.sampled_from(["balanced", "uniform"]), st.permutations(EXAMPLES), st.booleans())
def test_defect_small_data_metrics_global_random_state(
    sampling: str, order: list[Item], is_shared: bool
) -> None:
    """Draws depend on (seed, task, item) only; fewer examples are the beginning of more."""
    few = ShotDraw(3, "t", 1, sampling, is_shared)  # type: ignore[arg-type]
    more = ShotDraw(10, "t", 1, sampling, is_shared)  # type: ignore[arg-type]
    one = choose(_pool(), _item("i"), more)
    assert choose(_pool(order), _item("i"), more).examples == one.examples
    assert choose(_pool(order), _item("i"), few).examples == one.examples[:3]
    other = choose(_pool(), _item("j"), more)
    assert (other.examples == one.examples) == is_shared


@pytest.mark.parametrize("is_shared", [False, True])
def test_an_item_is_never_its_own_example(is_shared: bool) -> None:
    for item in EXAMPLES:
        shots = choose(_pool(), item, ShotDraw(39, "t", is_shared=is_shared))
        assert item.id not in _names(shots) and shots.k_used == 39
    twin = Item("other id", EXAMPLES[0].pictures, "adult")
    assert "e0" not in _names(choose(_pool(), twin, ShotDraw(-1, "t")))


def test_ids_that_come_twice_are_refused() -> None:
    with pytest.raises(DataError, match="1 examples share an id"):
        _pool([_item("a"), _item("a")])


# --- whole prompts ---


def _before_item(messages: tuple[Message, ...], item: Item) -> list[object]:
    parts = [(m.role, part) for m in messages for part in m.parts]
    return parts[: parts.index(("user", item.pictures[0]))]


@pytest.mark.parametrize("layout", ["single_turn", "multi_turn"])
def test_a_shared_prefix_is_the_same_byte_for_byte(layout: str) -> None:
    items = [*(_item(f"i{n}") for n in range(5)), EXAMPLES[3]]
    few = FewShot(EXAMPLES, k=10, is_shared=True)
    asking = Asking(layout=layout, cot=True)  # type: ignore[arg-type]
    prompts = plan_prompts(QUESTION, asking, few, Limits(), items)
    prefixes = [_before_item(prompts.build(each).messages, each) for each in items]
    assert all(each == prefixes[0] for each in prefixes)
    assert "e3" not in prompts.build(items[0]).examples
    own = plan_prompts(QUESTION, asking, FewShot(EXAMPLES, k=10), Limits())
    assert own.build(items[0]).examples != own.build(items[1]).examples


def test_a_shared_prefix_fits_the_largest_question() -> None:
    def measure(parts: object) -> PromptSize:
        names = [part.name for part in parts if isinstance(part, Picture)]  # type: ignore[attr-defined]
        return PromptSize(sum(500 if name == "big.jpg" else 10 for name in names), len(names), 0)

    few = FewShot(EXAMPLES, k=-1, is_shared=True)
    limits = Limits(RequestLimits(tokens=700, answer_tokens=100), measure)
    items = [_item("big"), _item("small")]
    prompts = plan_prompts(QUESTION, Asking(), few, limits, items)
    built = [prompts.build(each) for each in items]
    assert built[0].k_used == built[1].k_used == 9
    assert {each.why_fewer for each in built} == {"context"}
    assert {each.k_asked for each in built} == {-1}


def test_the_prompt_tested_is_the_prompt_sent() -> None:
    """Measured piece by piece, it never takes more than the whole that is sent."""

    def measure(parts: object) -> PromptSize:
        n = sum(len(getattr(part, "text", "x" * 100)) for part in parts)  # type: ignore[attr-defined]
        return PromptSize(n, sum(isinstance(part, Picture) for part in parts), 0)  # type: ignore[attr-defined]

    for layout in ("single_turn", "multi_turn"):
        for cot in (False, True):
            asking = Asking(system="You know birds.", layout=layout, cot=cot)  # type: ignore[arg-type]
            limits = Limits(RequestLimits(tokens=4000, answer_tokens=500), measure)
            prompts = plan_prompts(QUESTION, asking, FewShot(EXAMPLES, k=-1), limits)
            built = prompts.build(_item("i"))
            sent = measure([part for message in built.messages for part in message.parts]).tokens
            one_more = Shots((*prompts.shots(_item("i")).examples, EXAMPLES[0]), -1)
            longer = build(QUESTION, _item("i"), one_more, asking)
            more = measure([part for message in longer.messages for part in message.parts]).tokens
            assert built.why_fewer == "context"
            assert sent + 500 <= 4000 < more + 500 + 10 * built.k_used


SPECIES = [f"species {n:02}" for n in range(24)]
OF_24 = PromptQuestion("birds", "choice", {name: name for name in SPECIES}, n_choices=8)
PHOTOS = [_item(f"p{n}", SPECIES[n % 24]) for n in range(24 * 6)]


@pytest.mark.parametrize("sampling", ["balanced", "uniform"])
@pytest.mark.parametrize("layout", ["single_turn", "multi_turn"])
def test_examples_are_of_the_classes_among_the_options(sampling: Any, layout: Any) -> None:
    asking = Asking(seed=3, layout=layout)
    prompts = plan_prompts(OF_24, asking, FewShot(PHOTOS, 16, sampling), Limits())
    labels = {photo.id: photo.label for photo in PHOTOS}
    for n in range(24):
        built = prompts.build(_item(f"i{n}", SPECIES[n]))
        offered = {option.label for option in built.options}
        shown = Counter(labels[name] for name in built.examples)
        assert len(offered) == 8 and built.k_used == 16
        assert set(shown) <= offered
        if sampling == "balanced":
            assert set(shown.values()) == {2} and set(shown) == offered
    again = plan_prompts(OF_24, asking, FewShot(PHOTOS[::-1], 16, sampling), Limits())
    item = _item("i7", SPECIES[7])
    assert again.build(item).messages == prompts.build(item).messages
    fewer = plan_prompts(OF_24, asking, FewShot(PHOTOS, 5, sampling), Limits())
    assert fewer.build(item).examples == prompts.build(item).examples[:5]


def test_the_classes_of_the_examples_do_not_give_the_truth_away() -> None:
    """Of one example among eight options, the truth is shown as often as any other option."""
    prompts = plan_prompts(OF_24, Asking(), FewShot(PHOTOS, 1), Limits())
    labels = {photo.id: photo.label for photo in PHOTOS}
    items = [_item(f"i{n}", SPECIES[n % 24]) for n in range(800)]
    n_same = sum(labels[prompts.shots(item).examples[0].id] == item.label for item in items)
    assert 60 <= n_same <= 140  # 100 expected, 4 sd


def test_all_that_fit_are_all_of_the_options() -> None:
    prompts = plan_prompts(OF_24, Asking(), FewShot(PHOTOS, -1), Limits())
    assert prompts.shots(_item("i", SPECIES[0])).k_used == 8 * 6
    many = plan_prompts(OF_24, Asking(), FewShot(PHOTOS, 100), Limits())
    shots = many.shots(_item("i", SPECIES[0]))
    assert (shots.k_used, shots.why) == (48, "pool")


def test_a_shared_prefix_shows_all_classes() -> None:
    items = [_item(f"i{n}", SPECIES[n]) for n in range(5)]
    prompts = plan_prompts(OF_24, Asking(), FewShot(PHOTOS, 24, is_shared=True), Limits(), items)
    shown = [prompts.shots(item).examples for item in items]
    assert shown[0] == shown[4] and len({photo.label for photo in shown[0]}) == 24


def test_turns_show_the_same_examples() -> None:
    prompts = plan_prompts(QUESTION, Asking(), FewShot(EXAMPLES, k=4), Limits())
    turns = prompts.turns(_item("i"))
    assert len(turns) == 2
    assert turns[0].examples == turns[1].examples
    assert [each.position_of_truth for each in turns] in ([0, 1], [1, 0])


@pytest.mark.parametrize("sampling", ["balanced", "uniform"])
def test_broken_examples_are_passed_over_and_noted(sampling: Any) -> None:
    def measure(example: Item) -> PromptSize:
        if example.id in ("3", "7"):
            raise DataError(f"{example.id}.jpg  is empty.")
        return PromptSize(1)

    examples = [Item(str(n), (), "ab"[n % 2]) for n in range(12)]
    item, wanted = Item("x", ()), ShotDraw(k=-1, task="t", sampling=sampling)
    whole = choose(Pool.of(examples, lambda _: PromptSize(1)), item, wanted)
    pool = Pool.of(examples, measure)
    found = choose(pool, item, wanted)
    assert pool.broken == {"3": "3.jpg  is empty.", "7": "7.jpg  is empty."}
    assert {each.id for each in whole.examples} - {each.id for each in found.examples} == {"3", "7"}
    few = choose(Pool.of(examples, measure), item, replace(wanted, k=8))
    assert few.examples == found.examples[:8] and not few.why

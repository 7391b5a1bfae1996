"""exact_match and anls against brute force."""

from __future__ import annotations

import itertools
import string
from functools import lru_cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmark.errors import UsageError
from fieldmark.lmms.metrics.registry import anls, exact_match, levenshtein


@pytest.mark.parametrize(
    ("wanted", "said", "options", "expected"),
    [
        ("cat", "cat", {}, 1.0),
        ("cat", "Cat", {}, 0.0),
        ("cat", "Cat", {"ignore_case": True}, 1.0),
        ("a cat.", "a cat", {}, 0.0),
        ("a cat.", "a cat", {"ignore_punctuation": True}, 1.0),
        ("cat 12", "cat ", {"ignore_numbers": True}, 1.0),
        ("$1,000", "1000", {"regexes_to_ignore": [",", r"\$"]}, 1.0),
        ("The Cat", "cat", {"regexes_to_ignore": ["the "], "ignore_case": True}, 0.0),
        (3, "3", {}, 1.0),
        ("«cat»", "cat", {"ignore_punctuation": True}, 0.0),  # ASCII punctuation only
    ],
)
def test_exact_match(wanted, said, options, expected):
    assert exact_match([wanted], [said], **options) == expected


def test_exact_match_of_several():
    assert exact_match(["cat", "dog"], ["dog"]) == 1.0
    assert exact_match(["cat"], ["cat", "dog", "cat", "ox"]) == 0.5
    assert exact_match(["cat"], []) == 0.0


def test_exact_match_tells_a_wrong_pattern():
    with pytest.raises(UsageError, match="regexes_to_ignore: '\\['"):
        exact_match(["a"], ["a"], regexes_to_ignore=["["])


def _distance(a: str, b: str) -> int:
    @lru_cache(None)
    def of(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        same = of(i - 1, j - 1) + (a[i - 1] != b[j - 1])
        return min(same, of(i - 1, j) + 1, of(i, j - 1) + 1)

    return of(len(a), len(b))


@given(st.text("abc", max_size=8), st.text("abc", max_size=8))
def test_levenshtein_is_the_recursive_one(a, b):
    assert levenshtein(a, b) == _distance(a, b)


def _anls(wanted: list[str], said: str, least: float) -> float:
    best = 0.0
    for each in wanted:
        a, b = " ".join(each.lower().split()), " ".join(said.lower().split())
        length = max(len(each), len(said))
        best = max(best, 1 - (_distance(a, b) / length if length else 0))
    return best if best >= least else 0.0


@given(
    st.lists(st.text("aB c", max_size=6), min_size=1, max_size=3),
    st.text("aB c", max_size=6),
    st.sampled_from([0.0, 0.25, 0.5, 0.9]),
)
def test_anls_is_the_definition(wanted, said, least):
    assert anls(wanted, [said], thresh_hold=least) == pytest.approx(_anls(wanted, said, least))


def test_anls_of_known_pairs():
    assert anls(["Passer"], ["passer"]) == 1.0
    assert anls(["passer"], ["parser"]) == pytest.approx(5 / 6)
    assert anls(["passer"], ["lynx"]) == 0.0
    assert anls([], ["a"]) == 0.0


def test_plain_letters_only_are_not_changed_by_options():
    for a, b in itertools.product(string.ascii_lowercase[:3], repeat=2):
        assert exact_match([a], [b], ignore_punctuation=True, ignore_numbers=True) == (a == b)

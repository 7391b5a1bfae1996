"""Is every token of a long text predicted once, with as much before it as there is room for?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

BEGIN = -1


@pytest.fixture(scope="module")
def windows() -> Callable[..., Iterator[Any]]:
    return pytest.importorskip("fieldmark.chat.local.score").windows


@given(n=st.integers(0, 60), room=st.one_of(st.none(), st.integers(1, 70)))
def test_every_token_is_predicted_once_after_what_stands_before_it(
    windows: Callable[..., Iterator[Any]], n: int, room: int | None
) -> None:
    ids = tuple(range(n))
    found = list(windows(BEGIN, ids, room))
    assert [token for each in found for token in each.ids] == list(ids)
    for number, each in enumerate(found):
        read = (*each.head, *each.ids[:-1])
        assert read == tuple(range(read[0], read[0] + len(read))), "one stretch of the text"
        assert read[-1] == each.ids[-1] - 1
        assert each.head[-1] == each.ids[0] - 1
        assert room is None or len(read) <= room
        if number and room is not None:
            assert len(read) == room, "as far back as there is room"
    assert not found or found[0].head == (BEGIN,)


def test_a_text_that_fits_is_one_window(windows: Callable[..., Iterator[Any]]) -> None:
    (only,) = windows(BEGIN, (5, 6, 7), 3)
    assert (only.head, only.ids) == ((BEGIN,), (5, 6, 7))
    first, last = windows(BEGIN, (5, 6, 7, 8), 3)
    assert first.ids == (5, 6, 7)
    assert (last.head, last.ids) == ((5, 6, 7), (8,))

"""Crews of threads: what they change of the interpreter is undone by the last of them."""

from __future__ import annotations

import sys

import pytest

from fieldmark.embed.gpu.crew import SWITCH_S, Crew


@pytest.mark.parametrize("is_first_joined_first", [True, False])
def test_crews_that_overlap_leave_the_switch_interval(is_first_joined_first: bool) -> None:
    usual = sys.getswitchinterval()
    crews = [Crew(), Crew()]
    crews[0].start(lambda: None)
    third = Crew()  # made while the interval is short
    crews[1].start(lambda: None)
    for crew in crews if is_first_joined_first else crews[::-1]:
        assert sys.getswitchinterval() == pytest.approx(SWITCH_S)
        crew.join()
    third.start(lambda: None)
    third.start(lambda: None)
    third.join()
    third.join()
    Crew().join()
    assert sys.getswitchinterval() == pytest.approx(usual)

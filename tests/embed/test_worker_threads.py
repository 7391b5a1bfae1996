"""Crews of threads: what they change of the interpreter is undone by the last of them."""

from __future__ import annotations

import sys

import pytest

from fieldmark.embed.gpu.worker_threads import SWITCH_S, WorkerThreads


@pytest.mark.parametrize("is_first_joined_first", [True, False])
def test_crews_that_overlap_leave_the_switch_interval(is_first_joined_first: bool) -> None:
    usual = sys.getswitchinterval()
    groups = [WorkerThreads(), WorkerThreads()]
    groups[0].start(lambda: None)
    third = WorkerThreads()  # made while the interval is short
    groups[1].start(lambda: None)
    for threads in groups if is_first_joined_first else groups[::-1]:
        assert sys.getswitchinterval() == pytest.approx(SWITCH_S)
        threads.join()
    third.start(lambda: None)
    third.start(lambda: None)
    third.join()
    third.join()
    WorkerThreads().join()
    assert sys.getswitchinterval() == pytest.approx(usual)

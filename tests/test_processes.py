"""Memory that a process keeps while it embeds."""

from __future__ import annotations

import platform

import numpy as np
import pytest

from fieldmark.processes import kept_memory

BLOCK_MB, N_ROUNDS = 48, 20
"""more than glibc ever keeps by itself"""


def n_faults() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def use_and_free() -> int:
    """Page faults of filling a block and freeing it, again and again."""
    before = n_faults()
    for _ in range(N_ROUNDS):
        np.empty(BLOCK_MB << 20, np.uint8).fill(1)
    return n_faults() - before


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_freed_memory_is_used_again() -> None:
    usual = use_and_free()
    with kept_memory():
        use_and_free()
        kept = use_and_free()
    assert kept < usual / 4, "the block is there: nothing is mapped anew"

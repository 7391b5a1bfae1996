"""Eight processes on one results file and one cache, some of them killed: nothing is lost."""

from __future__ import annotations

import pytest

from kit.writers import hammer


@pytest.mark.slow
def test_eight_writers_lose_nothing(tmp_path):
    """`benchmarks/writers.py` does the same for a minute."""
    written = hammer(tmp_path, n_writers=8, seconds=6, kill_every_s=1.0)
    assert written.n_killed >= 3
    assert min(written.n_runs, written.n_contested, written.n_merged, written.n_rows) > 0

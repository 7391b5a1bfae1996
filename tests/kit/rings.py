"""The rings of the suite: which cases of a long test run with the README's command?

Everything fast does, and one representative of each slow kind. `-m slow` runs the other slow ones,
`-m external` what needs Slurm, MediaWiki or another project's files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def mostly_slow(cases: Sequence[Any], *fast: Any) -> list[Any]:
    """The cases, all but a few of them marked as slow."""
    assert set(fast) <= set(cases), "a case that stands for the others is gone"
    return [case if case in fast else _slow(case) for case in cases]


def _slow(case: Any) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.slow)

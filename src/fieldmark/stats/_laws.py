"""The laws of chance that statistics stand on.

scipy's, imported when first needed: loading them takes longer than most tables take to print.
"""

from __future__ import annotations

from typing import Any


def ndtr(x: Any) -> Any:
    """Share of the normal law below x."""
    from scipy.special import ndtr as law

    return law(x)


def stdtr(df: Any, x: Any) -> Any:
    """Share of Student's law with so many degrees of freedom below x."""
    from scipy.special import stdtr as law

    return law(df, x)


def stdtrit(df: Any, share: Any) -> Any:
    """Where Student's law has that share below it."""
    from scipy.special import stdtrit as law

    return law(df, share)


def bdtr(k: Any, n: Any, p: Any) -> Any:
    """Chance of at most k hits in n tries."""
    from scipy.special import bdtr as law

    return law(k, n, p)

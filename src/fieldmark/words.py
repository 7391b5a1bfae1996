"""Words for people: how are counts and long lists put into a sentence?"""

from __future__ import annotations

from collections.abc import Sequence


def counted(n: int, noun: str, plural: str = "") -> str:
    """
    >>> counted(1, "class", "classes"), counted(0, "class", "classes"), counted(1200, "run")
    ('1 class', '0 classes', '1,200 runs')
    """
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def first_few(names: Sequence[str], most: int = 5, between: str = ", ") -> str:
    """
    >>> first_few(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    shown = between.join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"

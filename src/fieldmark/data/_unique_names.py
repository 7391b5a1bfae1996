"""What are classes called whose names are not unique?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping


def unique_names(names: Mapping[str, str]) -> dict[str, str]:
    """Key → name; a name that several keys share carries its key, so that labels stay apart.

    >>> unique_names({"134": "crane", "517": "crane", "0": "tench"})
    {'134': 'crane (134)', '517': 'crane (517)', '0': 'tench'}
    """
    counts = Counter(names.values())
    return {key: name if counts[name] == 1 else f"{name} ({key})" for key, name in names.items()}


def shared_names(names: Mapping[str, str]) -> list[str]:
    """The names that several keys have, sorted."""
    return sorted(name for name, count in Counter(names.values()).items() if count > 1)

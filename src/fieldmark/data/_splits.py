"""Which words mean train, val and test?"""

from __future__ import annotations

SPLITS = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "test": "test",
    "testing": "test",
}
"""A folder's or a table's word → the one tasks use."""


def split_name(text: str) -> str:
    """`Valid` → `val`; words that are not known stay as they are.

    >>> split_name("Valid"), split_name("fold 3")
    ('val', 'fold 3')
    """
    return SPLITS.get(text.strip().lower(), text.strip())

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


def printable(text: str) -> str:
    """The text with its control characters spelled out: a name must not steer the terminal.

    >>> printable("fox\\x1b[2J"), printable("übung 狐")
    ('fox\\\\x1b[2J', 'übung 狐')
    """
    if text.isprintable():
        return text
    return "".join(
        repr(character)[1:-1] if _is_control(character) else character for character in text
    )


def _is_control(character: str) -> bool:
    """C0, DEL and C1; and what turns the direction of writing round."""
    return (
        ord(character) < 32
        or 127 <= ord(character) < 160
        or character in "\u202a\u202b\u202c\u202d\u202e\u2028\u2029\u2066\u2067\u2068\u2069"
    )

"""Words for people: how are counts and long lists put into a sentence?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2028\u2029\u2066-\u2069]")
"""control characters, and what turns the direction of writing"""

SYNTHETIC = "synthetic"
"""stands beside the name of a task whose photos were drawn"""
SYNTHETIC_NOTE = (
    "synthetic: fieldmark drew these photos. Their scores say nothing about real photos."
)


def marked_task(name: str, is_synthetic: bool) -> str:
    """
    >>> marked_task("newt", True), marked_task("newt", False)
    ('newt (synthetic)', 'newt')
    """
    return f"{name} ({SYNTHETIC})" if is_synthetic else name


def counted(n: int, noun: str, plural: str = "") -> str:
    """
    >>> counted(1, "class", "classes"), counted(0, "class", "classes"), counted(1200, "run")
    ('1 class', '0 classes', '1,200 runs')
    """
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def by_number(text: str) -> list[str | int]:
    """Sorts numbers in texts as numbers.

    >>> sorted(["n=10", "n=9", "n"], key=by_number)
    ['n', 'n=9', 'n=10']
    """
    return [int(part) if at % 2 else part for at, part in enumerate(re.split(r"(\d+)", text))]


def score_words(value: float, is_fraction: bool) -> str:
    """A score as tables have it: shares in percent with one decimal.

    >>> score_words(0.7128, True), score_words(3.14159, False)
    ('71.3', '3.14')
    """
    # Noise beyond the sixth decimal must not decide a tie: the page has six figures.
    return f"{round(100 * value, 6):.1f}" if is_fraction else f"{value:.3g}"


def first_few(names: Sequence[str], most: int = 5, between: str = ", ") -> str:
    """
    >>> first_few(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    shown = between.join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def grouped(lines: Iterable[str]) -> list[str]:
    """Lines that say the same of several things as one.

    >>> grouped(["newt: no interval.", "Two runs failed.", "plants: no interval."])
    ['newt, plants: no interval.', 'Two runs failed.']
    """
    subjects: dict[str, list[str]] = {}
    for line in lines:
        subject, colon, text = line.partition(": ")
        subjects.setdefault(f"{colon}{text}" or line, []).append(subject)
    return [
        f"{first_few(list(dict.fromkeys(names)))}{text}" if text.startswith(": ") else text
        for text, names in subjects.items()
    ]


def is_text(name: str) -> bool:
    """Can it be written as UTF-8? Names of files and of a tar's members are bytes."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def printable(text: str, kept: str = "") -> str:
    """The text with its control characters spelled out, all but those to be kept: what others wrote
    must not steer a terminal.

    >>> printable("fox\\x1b[2J\\n"), printable("übung 狐\\n", "\\n")
    ('fox\\\\x1b[2J\\\\n', 'übung 狐\\n')
    """
    return STEERING.sub(lambda one: one[0] if one[0] in kept else repr(one[0])[1:-1], text)

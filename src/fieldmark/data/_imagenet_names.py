"""What are the classes of ImageNet called?

classes.py               of the hub's page: a dictionary of wnid and name; read, never run
LOC_synset_mapping.txt   of Kaggle: `n01440764 tench, Tinca tinca` a line
classes.txt              a name a line
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

from fieldmark.errors import DataError, at

_PAIR = re.compile(r"""["'](n\d{8})["']\s*:\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""")
_LINE = re.compile(r"(n\d{8})\s+(\S.*)")


@dataclass(frozen=True, slots=True)
class ClassName:
    name: str
    wnid: str | None = None


def read_class_names(root: Path) -> list[ClassName]:
    """In the order of their numbers; [] where no file gives them."""
    for name, read in (
        ("classes.py", _from_code),
        ("LOC_synset_mapping.txt", _from_mapping),
        ("classes.txt", _from_lines),
    ):
        if (root / name).is_file():
            return read(root / name)
    return []


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}  cannot be read: {error}.") from error


def _from_code(path: Path) -> list[ClassName]:
    pairs = _PAIR.findall(_text(path))
    if not pairs:
        raise DataError(f"{path}  names no classes: expected lines like 'n01440764': 'tench'.")
    return [ClassName(str(ast.literal_eval(name)), wnid) for wnid, name in pairs]


def _from_mapping(path: Path) -> list[ClassName]:
    names = []
    for number, line in enumerate(_text(path).splitlines(), start=1):
        match = _LINE.fullmatch(line.strip())
        if match:
            names.append(ClassName(match[2], match[1]))
        elif line.strip():
            raise DataError(
                at(path, number, f"{line.strip()!r}: expected `n01440764 tench, Tinca tinca`.")
            )
    return names


def _from_lines(path: Path) -> list[ClassName]:
    return [ClassName(line.strip()) for line in _text(path).splitlines() if line.strip()]

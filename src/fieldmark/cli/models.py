"""List the models that are known by name.

examples:
  fieldmark models
  fieldmark models bioclip
  fieldmark models classical/ --json

Any other checkpoint of a family works too (timm/NAME, open-clip/ARCH/TAG, hf/ORG/NAME, torchvision/NAME), and so
does your own class: path/to/file.py:Class.
"""

from __future__ import annotations

from dataclasses import dataclass

from tyro.conf import Positional

from fieldmark.cli._show import show_rows, talk


@dataclass(frozen=True, slots=True)
class Args:
    query: Positional[str] = ""
    """words to look for in names and titles"""
    json: bool = False
    """print JSON"""
    debug: bool = False
    """tracebacks instead of one-line errors"""


def run(args: Args) -> int:
    from fieldmark.models import known_models

    rows = known_models(args.query)
    if args.json:
        show_rows(rows, True)
        return 0
    if not rows:
        from fieldmark.errors import UnknownName

        names = [row["name"] for row in known_models()]
        raise UnknownName("model", args.query, names, "fieldmark models")
    keys = ("name", "title", "params", "input_px", "licence")
    show_rows([{key: row[key] for key in keys} for row in rows], False, right=("params", "input_px"))
    talk(f"{len(rows)} models. Any other checkpoint of a family, and your own file.py:Class, work too.")
    return 0

"""List the models that are known by name.

examples:
  fieldmark models
  fieldmark models bioclip
  fieldmark models classical/ --json

Any other checkpoint of a family works too (timm/NAME, open-clip/ARCH/TAG, hf/ORG/NAME,
torchvision/NAME), and so does your own class: path/to/file.py:Class.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from tyro.conf import Positional

from fieldmark.cli._show import show_rows, talk

SHOWN = ("name", "title", "params", "input_px", "licence")


@dataclass(frozen=True, slots=True)
class Args:
    query: Positional[str] = ""
    """words to look for in names and titles"""
    json: bool = False
    """print JSON"""
    debug: bool = False
    """tracebacks instead of one-line errors"""


def run(args: Args) -> int:
    from fieldmark.models import Checkpoint, known_models

    found = known_models(args.query)
    if not found:
        from fieldmark.errors import UnknownName

        names = [each.name for each in known_models()]
        raise UnknownName("model", args.query, names, "fieldmark models")
    keys = [each.name for each in fields(Checkpoint)] if args.json else SHOWN
    rows = [{key: getattr(each, key) for key in keys} for each in found]
    show_rows(rows, args.json, right=("params", "input_px"))
    if args.json:
        return 0
    talk(f"{len(found)} models. Other checkpoints of a family and your own file.py:Class work too.")
    return 0

"""List the models that fieldmark knows by name.

examples:
  fieldmark models
  fieldmark models bioclip
  fieldmark models classical/ --json

Any other checkpoint of a family works too (timm/NAME, open-clip/ARCH/TAG, hf/ORG/NAME,
torchvision/NAME), and so does your own class: path/to/file.py:Class.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from tyro.conf import Positional

from fieldmark.cli._show import show_rows, talk

if TYPE_CHECKING:
    from fieldmark.models import Checkpoint


@dataclass(frozen=True, slots=True)
class ModelsArgs:
    query: Positional[str] = ""
    """text to search for in names and titles"""
    json: bool = False
    """print JSON"""
    debug: bool = False
    """show full tracebacks instead of one-line errors"""


def run(args: ModelsArgs) -> int:
    from fieldmark.models import known_models

    models = known_models(args.query)
    if not models:
        from fieldmark.errors import UnknownName

        names = [checkpoint.name for checkpoint in known_models()]
        raise UnknownName("model", args.query, names, "fieldmark models")
    if args.json:
        show_rows(
            [{field.name: getattr(row, field.name) for field in fields(row)} for row in models],
            True,
        )
        return 0
    rows = [_row(checkpoint) for checkpoint in models]
    if any(checkpoint.price for checkpoint in models):
        for row, checkpoint in zip(rows, models, strict=True):
            row["$/M tokens in / out"] = checkpoint.price or "-"
    show_rows(rows, False, right=("params", "px"))
    if models[0].source.startswith("priced as"):
        talk(f"{models[0].name}: {models[0].source}")
    talk(
        f"{len(models)} models. Other checkpoints of a family work too, and your own file.py:Class."
    )
    return 0


def _row(checkpoint: Checkpoint) -> dict[str, str]:
    n = checkpoint.params
    return {
        "model": checkpoint.name,
        "params": "-" if n is None else f"{n / 1e6:,.0f} M" if n else "0",
        "px": str(checkpoint.input_px or "-"),
        "licence": checkpoint.licence,
    }

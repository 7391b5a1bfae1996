"""List models to try, or search all that fieldmark knows by name.

examples:
  fieldmark models
  fieldmark models --all
  fieldmark models bioclip
  fieldmark models classical/ --json

Any other checkpoint of a family works too (timm/NAME, open-clip/ARCH/TAG, hf/ORG/NAME,
torchvision/NAME), and so does your own class: path/to/file.py:Class.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from tyro.conf import Positional

from fieldmark.cli.show import counted, show_rows, talk

if TYPE_CHECKING:
    from fieldmark.models import Checkpoint

FIRST = (
    "open-clip/hf-hub:imageomics/bioclip-2",
    "open-clip/hf-hub:imageomics/bioclip",
    "open-clip/hf-hub:imageomics/biocap",
    "open-clip/hf-hub:BGLab/BioTrove-CLIP",
    "hf/facebook/dinov2-small",
    "hf/facebook/dinov2-base",
    "hf/facebook/dinov2-large",
    "hf/google/siglip-base-patch16-224",
    "classical/all",
    "classical/colour",
    "classical/chance",
)
"""what a biologist would try first, in this order"""
PRICE = "$ in / out"
"""a column: US dollars per million tokens"""


@dataclass(frozen=True, slots=True)
class ModelsArgs:
    query: Positional[str] = ""
    """text to search for in names and titles"""
    all: bool = False
    """list all models, chat models last"""
    json: bool = False
    """print JSON"""
    debug: bool = False
    """show full tracebacks instead of one-line errors"""


def run(args: ModelsArgs) -> int:
    from fieldmark.models import check_model_name, known_models

    models = known_models(args.query)
    if not models:
        from fieldmark.errors import UnknownName

        check_model_name(args.query)  # which says what is alike
        raise UnknownName("model", args.query, (), "fieldmark models")
    if args.json:
        show_rows(
            [{field.name: getattr(row, field.name) for field in fields(row)} for row in models],
            True,
        )
        return 0
    models.sort(key=_order)
    n_more = 0
    if not args.query and not args.all:
        chosen = [checkpoint for checkpoint in models if checkpoint.name in FIRST]
        n_more, models = len(models) - len(chosen), chosen
    if all(_is_chat(checkpoint) for checkpoint in models):
        numbers = ("context", "output", "images", PRICE)
        spare = ("images", "output", "context")
        show_rows([_chat_row(one) for one in models], False, numbers, spare)
    else:
        rows = [_row(checkpoint) for checkpoint in models]
        if any(checkpoint.price for checkpoint in models):
            for row, checkpoint in zip(rows, models, strict=True):
                row[PRICE] = checkpoint.price or "-"
        show_rows(rows, False, ("params", "px"), (PRICE, "licence"))
    if any(checkpoint.price for checkpoint in models):
        talk("$ in / out: US dollars per million tokens. context, output: most tokens.")
    if models[0].source.startswith("priced as"):
        talk(f"{models[0].name}: {models[0].source}")
    more = f" `fieldmark models --all` lists {n_more} more, chat models too." if n_more else ""
    talk(
        f"{counted(len(models), 'model')}.{more} Other checkpoints of a family work too, and your "
        "own file.py:Class."
    )
    return 0


def _order(checkpoint: Checkpoint) -> tuple[bool, int]:
    """Models to try first come first, models that are paid by the question last."""
    place = FIRST.index(checkpoint.name) if checkpoint.name in FIRST else len(FIRST)
    return _is_chat(checkpoint), place


def _is_chat(checkpoint: Checkpoint) -> bool:
    return checkpoint.name.startswith(("chat/", "hf-chat/"))


def _chat_row(checkpoint: Checkpoint) -> dict[str, str]:
    """What decides about a model that is paid by the question: limits and price, "-" = unknown."""
    limits = (checkpoint.context, checkpoint.max_output, checkpoint.max_images)
    context, output, images = (f"{limit:,}" if limit else "-" for limit in limits)
    return {
        "model": checkpoint.name,
        "context": context,
        "output": output,
        "images": images,
        PRICE: checkpoint.price or "-",
    }


def _row(checkpoint: Checkpoint) -> dict[str, str]:
    n = checkpoint.params
    return {
        "model": checkpoint.name,
        "params": "-" if n is None else f"{n / 1e6:,.0f} M" if n else "0",
        "px": str(checkpoint.input_px or "-"),
        "licence": checkpoint.licence,
    }

"""How many tokens does a picture take with a local model?

Measured on blank pictures, which cost nothing here, and said as one of the rules that planning
knows: as many for every picture, or one per square of so many pixels between a least and a most.
Models that cut pictures into tiles follow neither exactly; their prompts are still counted exactly
when they are asked.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable
from typing import Any

from fieldmark.chat._image_tokens import squares
from fieldmark.chat._messages import Picture

Count = Callable[[Picture | None], int]
"""tokens of a prompt with this picture, or with none"""

SIZES = ((16, 16), (64, 48), (128, 96), (256, 192), (512, 384), (1024, 768), (2048, 1536))
_PX = range(4, 129)
_MARKS = 8
"""most tokens around a picture that tell where it begins and ends, plus one"""


def image_rule(count: Count) -> dict[str, Any]:
    """The rule that is nearest to what was counted."""
    bare = count(None)
    found = {size: count(_blank(size)) - bare for size in SIZES}
    least, most = min(found.values()), max(found.values())
    if least == most:
        return {"rule": "fixed", "tokens": most}

    def error(fit: tuple[int, int]) -> int:
        marks, px = fit
        guesses = (squares(*size, px, least - marks, most - marks) + marks for size in SIZES)
        return sum(abs(guess - n) for guess, n in zip(guesses, found.values(), strict=True))

    _, px = min(itertools.product(range(min(least, _MARKS)), _PX), key=error)
    return {"rule": "squares", "px": px, "least": least, "most": most}


def _blank(size: tuple[int, int]) -> Picture:
    from PIL import Image

    target = io.BytesIO()
    Image.new("RGB", size).save(target, "PNG")
    return Picture(target.getvalue())

"""Reference decoding (Pillow): what does a model see of a file, the exact way?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from fieldmark.data import ImageRef, crop_image, open_image
from fieldmark.errors import DataError, naming_model, plain_reason

if TYPE_CHECKING:
    import numpy as np
    from PIL import Image


def see_exactly(
    data: bytes,
    refs: Sequence[ImageRef],
    transform: Callable[[Image.Image], np.ndarray],
    model: str,
) -> list[np.ndarray | str]:
    """What the transform of the model makes of all parts of one file, decoded once; a text says why
    a part cannot be seen.
    """
    image = refs[0].image
    try:
        whole = open_image(data, name=image)
    except DataError as error:
        return [plain_reason(error)] * len(refs)
    seen: list[np.ndarray | str] = []
    for ref in refs:
        try:
            part = whole if ref.crop is None else crop_image(whole, ref.crop, image)
        except DataError as error:
            seen.append(plain_reason(error))
            continue
        with naming_model(model, f"transform of {image}"):
            seen.append(transform(part))
    return seen

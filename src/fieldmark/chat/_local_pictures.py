"""Which pixels does a local model see?

Those of the file, upright, in RGB and cut: nothing is encoded again on the way. A picture that many
requests share (the shots of a prompt) is hashed and decoded once, as long as there is room.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict

from PIL import Image

from fieldmark.chat._messages import Picture, Spot
from fieldmark.chat._pictures import SentPicture
from fieldmark.data import open_image

MOST_PIXELS = 64_000_000
"""decoded pixels kept for later requests: about 200 MB"""
_MOST_HASHES = 100_000


class Album:
    """Pictures of one model, shrunk where its name says so (`max_image_px`)."""

    def __init__(self, long_px: int | None = None, most_pixels: int = MOST_PIXELS) -> None:
        self.long_px, self.most_pixels = long_px, most_pixels
        self._hashes: dict[Spot, str] = {}
        self._images: OrderedDict[Spot, Image.Image] = OrderedDict()
        self._pixels = 0

    def identify(self, picture: Picture) -> SentPicture:
        """What the journal's key knows the picture by; decodes nothing."""
        spot = picture.spot and (*picture.spot[:2], None)
        found = self._hashes.get(spot) if spot else None
        if found is None:
            found = hashlib.sha256(picture.read()).hexdigest()
            if spot and len(self._hashes) < _MOST_HASHES:
                self._hashes[spot] = found
        if picture.crop is not None:
            found = hashlib.sha256(
                f"{found} {tuple(map(float, picture.crop))}".encode()
            ).hexdigest()
        return SentPicture(b"", "pixels", 0, 0, found)

    def open(self, picture: Picture) -> Image.Image:
        """The pixels; `DataError` names a picture that cannot be read."""
        spot = picture.spot
        if spot and spot in self._images:
            self._images.move_to_end(spot)
            return self._images[spot]
        image = self._shrunk(
            open_image(picture.read(), picture.crop, name=picture.name or "picture")
        )
        if spot:
            self._keep(spot, image)
        return image

    def _shrunk(self, image: Image.Image) -> Image.Image:
        scale = (self.long_px or max(image.size)) / max(image.size)
        if scale >= 1:
            return image
        width, height = (max(1, round(side * scale)) for side in image.size)
        return image.resize((width, height), Image.Resampling.LANCZOS)

    def _keep(self, spot: Spot, image: Image.Image) -> None:
        self._images[spot] = image
        self._pixels += image.width * image.height
        while self._pixels > self.most_pixels:
            _, gone = self._images.popitem(last=False)
            self._pixels -= gone.width * gone.height

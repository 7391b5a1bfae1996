"""Which images did a chat model really see, and which of them are broken?

Every read of an image notes what stands for its bytes, and the bytes that were noted are those that
are sent: an image that changes between two reads fails. Whether all can be read is looked at before
the first request is paid for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from fieldmark.chat import Item, Picture
from fieldmark.data import ImageRef, content_key, quick_check, read_bytes
from fieldmark.errors import DataError
from fieldmark.progress import Progress

THREADS = 4


@dataclass(frozen=True, slots=True, eq=False)
class Images:
    """The images of a dataset as one run reads them."""

    root: Path
    contents: dict[str, bytes] = field(default_factory=dict)
    """image → what stands for the bytes that were read"""

    def picture(self, ref: ImageRef) -> Picture:
        return Picture(_Reader(self, ref.image), ref.image, ref.crop)

    def read(self, image: str) -> bytes:
        try:
            data = read_bytes(self.root, image)
        except DataError as error:
            raise DataError(f"{image}  {reason_of(error)}.") from error
        key = content_key(data)
        if self.contents.setdefault(image, key) != key:
            raise DataError(f"{image}  changed while the run went on.")
        return data

    def contents_of(self, items: Collection[Item]) -> dict[ImageRef, bytes]:
        """What stands for each image of the items that was read."""
        every = (picture for item in items for picture in item.pictures)
        return {
            ImageRef(each.name, each.crop): self.contents[each.name]
            for each in every
            if each.name in self.contents
        }

    def find_broken(self, images: Collection[str], progress: Progress) -> dict[str, str]:
        """Image → why it cannot be read."""
        progress.start("checking images", len(images))
        broken: dict[str, str] = {}
        with ThreadPoolExecutor(THREADS) as pool:
            for image, reason in zip(images, pool.map(self._reason, images), strict=True):
                progress.advance()
                if reason:
                    broken[image] = reason
        return broken

    def _reason(self, image: str) -> str | None:
        try:
            return quick_check(self.read(image))
        except DataError as error:
            return reason_of(error)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Equal for the same image of the same run, so that it is prepared once."""

    images: Images
    image: str

    def __call__(self) -> bytes:
        return self.images.read(self.image)


def reason_of(error: DataError | str) -> str:
    """`data/a.jpg  is missing.` → `is missing`."""
    text = str(error)
    return (text.partition("  ")[2] or text).rstrip(".")


def judge_broken(
    root: Path, broken: Mapping[str, str], n: int, bad_images: str, progress: Progress
) -> None:
    """Refuses broken images, or says that they are left out."""
    if not broken:
        return
    shown = "; ".join(f"{image} ({why})" for image, why in list(broken.items())[:3])
    shown += f" and {len(broken) - 3} more" if len(broken) > 3 else ""
    if bad_images == "skip":
        progress.say(f"{root}  {len(broken)} of {n} images left out: {shown}.")
        return
    raise DataError(
        f"{root}  {len(broken)} of {n} images cannot be read: {shown}. Nothing was asked. "
        "Mend or remove them, or pass --bad-images skip to leave them out and count them."
    )

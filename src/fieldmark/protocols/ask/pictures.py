"""Which images does a chat model see, and which of them are broken?

The bytes that are sent are those whose content the run belongs to: an image that was changed since
the run began fails. Whether all can be read is known before the first request is paid for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fieldmark.chat import Picture
from fieldmark.data import Contents, ImageRef, content_key, read_bytes
from fieldmark.embed import checking
from fieldmark.errors import DataError
from fieldmark.progress import Progress


@dataclass(frozen=True, slots=True, eq=False)
class Images:
    """The images of a dataset as one run reads them."""

    root: Path
    contents: Contents = field(default_factory=lambda: Contents(None))

    def picture(self, ref: ImageRef) -> Picture:
        return Picture(_Reader(self, ref.image), ref.image, ref.crop)

    def read(self, image: str) -> bytes:
        try:
            data = read_bytes(self.root, image)
        except DataError as error:
            raise DataError(f"{image}  {reason_of(error)}.") from error
        known = self.contents.known(self.root, [image]).get(image)
        if known is not None and known.key != content_key(data):
            raise DataError(f"{image}  was changed while the run went on.")
        return data

    def find_broken(self, images: Collection[str], progress: Progress) -> dict[str, str]:
        """Image → why it cannot be read."""
        found = self.contents.learn(self.root, images, checking(progress))
        return {image: content.problem for image, content in found.items() if content.problem}


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

"""Text augmentation (random choice of a caption type): which text goes with a sample in a step?

Drawn by a hash of seed, step and sample, with the weights of the recipe, so that nothing depends on
who reads a sample and when. Only the text that was drawn is tokenised, and a text that several
samples of a batch share only once. Nothing here knows of files and images.

draw = "sample"  each sample draws for itself: a batch mixes all types, losses are grouped by
                 projector
draw = "step"    one type for the whole batch of all ranks, as BioCAP's released code does. There
                 each of six types has a sixth of the steps: captions too, although a comment in
                 that code says they come twice as often. A weight of 2 does that here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldmark import draws
from fieldmark.build.train.recipe import REPLAY, TrainRecipe
from fieldmark.errors import DataError

_STEPS_OF_WIDTH = 16
"""tokens are cut to a multiple of this: whole tensor-core tiles, and few widths to compile for"""


@dataclass(frozen=True, slots=True)
class DrawnText:
    text: str
    type_id: int
    """index into the names of the plan; those of the recipe come first, in their order"""


@dataclass(frozen=True, slots=True)
class TextPlan:
    """Text types, how often each is drawn, and which projector its pairs go through."""

    names: tuple[str, ...]
    """as the recipe has them; with replay shards one more, "replay" """
    weights: tuple[float, ...]
    projectors: tuple[int, ...]
    """of each type: index into the projectors of the recipe"""
    draw: str
    seed: int

    @property
    def wanted(self) -> tuple[str, ...]:
        """Types that may be drawn for a main sample."""
        pairs = zip(self.names, self.weights, strict=True)
        return tuple(name for name, weight in pairs if weight > 0)

    def draw_text(self, step: int, sample: int, texts: Mapping[str, str]) -> DrawnText:
        """One of the texts of a sample, which are given by their types.

        A sample that lacks what was drawn draws again among those it has; DataError if none.
        """
        if REPLAY in texts:
            return DrawnText(texts[REPLAY], self.names.index(REPLAY))
        who = (step,) if self.draw == "step" else (step, sample)
        type_id = self._pick(self.weights, "text type", *who)
        if self.names[type_id] not in texts:
            pairs = zip(self.names, self.weights, strict=True)
            weights = [weight if name in texts else 0.0 for name, weight in pairs]
            if not any(weights):
                raise DataError(f"sample {sample} has no text of {', '.join(self.wanted)}.")
            type_id = self._pick(weights, "another text type", step, sample)
        return DrawnText(texts[self.names[type_id]], type_id)

    def _pick(self, weights: Sequence[float], *parts: object) -> int:
        drawn = draws.number(self.seed, *parts) / 2**64 * sum(weights)
        last = 0
        for type_id, weight in enumerate(weights):
            if weight > 0:
                if drawn < weight:
                    return type_id
                drawn, last = drawn - weight, type_id
        return last  # rounding took it past the end


def text_plan(recipe: TrainRecipe) -> TextPlan:
    """What a recipe says of texts."""
    names = recipe.text_types
    return TextPlan(
        names,
        tuple(recipe.texts.types.get(name, 0.0) for name in names),
        tuple(map(recipe.projector_of, names)),
        recipe.texts.draw,
        recipe.train.seed,
    )


# --- what the network reads ---


def text_ids(texts: Sequence[str]) -> NDArray[np.int64]:
    """A number for each text, equal where the texts are: 63 bits of their hash.

    Of a million different texts two get the same number with a chance of 1 in 18 million.
    """
    ids = {text: _hash(text) for text in set(texts)}
    return np.array([ids[text] for text in texts], np.int64)


def _hash(text: str) -> int:
    hashed = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(hashed.digest(), "little") >> 1


class TextTokens:
    """Texts → token numbers; counts the texts that fill all that the network reads."""

    def __init__(
        self,
        tokenise: Callable[[Sequence[str]], Any],
        can_trim: bool = False,
        end: int | None = None,
        n_counted: int = 10_000,
    ) -> None:
        """`tokenise` gives a row of the whole context for each text, as open_clip's tokenisers do.

        `can_trim`: the network pools at the token `end` (None: the one with the highest number) and
        never looks at what follows. `n_counted`: texts that are looked at for `n_full`, the first.
        """
        self._tokenise, self._can_trim, self._end = tokenise, can_trim, end
        self._n_counted = n_counted
        empty = self._rows([""])
        self.context = empty.shape[1]
        self._padding = int(empty[0, -1])
        self.n_seen = self.n_full = 0
        """texts that were looked at, and those of them that fill the context: the rest is cut"""

    def __call__(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """n × length; every distinct text is tokenised once."""
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        rows = self._rows(list(numbers))
        if self.n_seen < self._n_counted:
            self.n_seen += len(rows)
            self.n_full += int((rows[:, -1] != self._padding).sum())
        rows = self._trimmed(rows)
        return np.ascontiguousarray(rows[[numbers[text] for text in texts]])

    def _trimmed(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Without the columns behind the last end of a text.

        Not by the number that pads: 0 is also the exclamation mark of CLIP's vocabulary, and some
        tokenisers pad with the end.
        """
        if not self._can_trim or not len(rows):
            return rows
        marks = rows if self._end is None else rows == self._end
        longest = int(marks.argmax(axis=1).max()) + 1
        return rows[:, : -(-longest // _STEPS_OF_WIDTH) * _STEPS_OF_WIDTH]

    def _rows(self, texts: Sequence[str]) -> NDArray[np.int64]:
        return np.asarray(self._tokenise(texts), dtype=np.int64)


def full_words(n_full: int, n_seen: int, context: int) -> str:
    """A line for the log; "" where no text is cut.

    >>> full_words(3, 400, 77)
    '3 of the first 400 texts reach the 77 tokens that the model reads: longer ones are cut off'
    """
    if not n_full:
        return ""
    return (
        f"{n_full:,} of the first {n_seen:,} texts reach the {context} tokens that the model "
        "reads: longer ones are cut off"
    )

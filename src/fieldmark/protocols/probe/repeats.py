"""How are a hundred small draws from one pool answered in one pass?

A probe with `predict_repeats(x_pool, y_pool, draws, x_test, normalise)` gives the labels of all
draws at once, the same as one fit per draw gives; how sure they are is not known then. Labels go in
as numbers, and so many draws at a time that what comes back stays small.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from fieldmark.protocols.probe.block import ProbeBlock
from fieldmark.protocols.probe.features import RowFeatures

MOST_ANSWERS = 1 << 22
"""draws × test images at a time: 32 MB"""

Drawn = tuple[pl.DataFrame, pl.DataFrame]
"""readable training and test rows of one repeat"""


def ask_together(
    probe: Any, block: ProbeBlock, drawn: Sequence[Drawn], features: RowFeatures
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Labels (and unknown certainties) of each repeat's test rows, in their order."""
    pool, test = (_every(rows) for rows in zip(*drawn, strict=True))
    names, code_n = np.unique(pool["target"].to_numpy(), return_inverse=True)
    in_pool, in_test = (_places(rows) for rows in (pool, test))
    x_pool, x_test = features.matrix(pool), features.matrix(test)
    n_together = max(1, MOST_ANSWERS // max(1, len(test)))
    for start in range(0, len(drawn), n_together):
        some = drawn[start : start + n_together]
        rows = [[in_pool[each] for each in train["id"]] for train, _ in some]
        code_rt = probe.predict_repeats(x_pool, code_n, rows, x_test, block.normalise)
        for code_t, (_, asked) in zip(code_rt, some, strict=True):
            mine = [in_test[each] for each in asked["id"]]
            yield names[code_t[mine]], np.full(len(mine), np.nan)


def _every(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Each row that any repeat has, once."""
    columns = [frame.select("id", "target") for frame in frames]
    same = all(frame is frames[0] for frame in frames)
    return columns[0] if same else pl.concat(columns).unique("id", maintain_order=True)


def _places(rows: pl.DataFrame) -> dict[str, int]:
    return {each: place for place, each in enumerate(rows["id"])}

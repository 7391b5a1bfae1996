"""What will it cost to ask all documents?"""

from __future__ import annotations

from contextlib import suppress

from fieldmark.chat import (
    ChatModel,
    Estimate,
    Estimator,
    LocalModel,
    PictureCache,
    Request,
    estimate,
)
from fieldmark.errors import DataError
from fieldmark.protocols._documents._prompts import Setup, build_prompt
from fieldmark.protocols._documents._wanted import repeats_of

N_LOOKED = 8
"""documents whose prompts are built"""


def estimate_prompts(setup: Setup, model: ChatModel | LocalModel) -> Estimate:
    """From a few prompts, spread over the documents; reads their pictures, sends nothing."""
    rows = setup.part.rows
    looked = rows[:: -(-len(rows) // N_LOOKED)]
    shelf, settings = PictureCache(model.picture_limits), model.settings(setup.generation.settings)
    asked = []
    for row in looked:
        request = Request(str(row), build_prompt(setup, row).messages, settings)
        with suppress(DataError):  # running, not planning, tells which pictures cannot be read
            sizes = [(each.width, each.height) for each in map(shelf.prepare, request.pictures)]
            asked.append((request, sizes))
    found = estimate(asked, Estimator(model.card))
    n = len(rows) * repeats_of(setup.task)
    scale = n / max(found.n, 1)
    usd = None if found.usd is None else found.usd * scale
    return Estimate(n, round(found.tokens_in * scale), round(found.tokens_out * scale), usd)

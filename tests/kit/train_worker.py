"""One process of a training run, for tests/build/train/test_parallel.py: trains tiny networks for a
few steps and writes what came out. Started with the environment that torchrun sets, or alone.

    python -m kit.train_worker OUT CONFIG CASE...
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fieldmark.build.train.losses import LossParts, contrastive_loss
from fieldmark.build.train.network import (
    ClipTrainingModel,
    WeightAverage,
    make_clip_model,
    recompute_blocks,
)
from fieldmark.build.train.parallel import (
    Ranks,
    clip_gradients,
    full_state,
    full_tensors,
    open_ranks,
    set_full_state,
    set_full_tensors,
    spread,
    unsynced,
)
from fieldmark.build.train.recipe import LossRecipe, ModelRecipe

ROWS, STEPS, PIXELS = 8, 3, 16


@dataclass(frozen=True)
class Case:
    """`softmax-2-fsdp-1-float32`, or with a tower that is locked: `…-image`, `…-text`"""

    kind: str
    n_projectors: int
    parallel: str
    pieces: int
    """of the gradient cache; 1: none"""
    precision: str
    locked: str = ""

    @classmethod
    def read(cls, text: str) -> Case:
        kind, n_projectors, parallel, pieces, *rest = text.split("-")
        return cls(kind, int(n_projectors), parallel, int(pieces), *rest)


def drawn_batch(step: int, n_projectors: int) -> tuple[torch.Tensor, ...]:
    """Of all processes: images, tokens, projectors, text ids; with texts that are equal on
    different processes, and in the first step no row of the second projector on the first one.
    """
    draw = torch.Generator().manual_seed(step)
    images = torch.randint(0, 256, (ROWS, 3, PIXELS, PIXELS), generator=draw, dtype=torch.uint8)
    tokens = torch.zeros(ROWS, 8, dtype=torch.int64)
    text_ids = torch.tensor([1, 2, 3, 4, 1, 5, 6, 2])
    for row, text in enumerate(text_ids.tolist()):
        tokens[row, :4] = torch.tensor([2, 10 + text, 20 + step, 63])
    numbers = [0, 0, 0, 0, 0, 1, 1, 1] if step == 0 else [0, 1, 0, 1, 0, 1, 1, 1]
    return images, tokens, torch.tensor(numbers) * (n_projectors - 1), text_ids


def train(case: Case, config: str, ranks: Ranks) -> dict[str, Any]:
    names = ("taxonomic", "caption")[: case.n_projectors]
    model = ModelRecipe(
        architecture=config,
        projectors=names,
        lock_image=case.locked == "image",
        lock_text=case.locked == "text",
    )
    clip_model = make_clip_model(model, case.kind, seed=ranks.rank)  # all become as the first is
    if case.pieces > 1:
        recompute_blocks(clip_model, 0.5)
    dtype = torch.bfloat16 if case.precision == "bf16" else None
    called = spread(clip_model, ranks, case.parallel, dtype)
    optimiser = torch.optim.AdamW(called.parameters(), lr=1e-2, eps=1e-3)
    average = WeightAverage(clip_model, 0.5)
    n, losses, norms = ROWS // ranks.n_ranks, [], []
    for step in range(STEPS):
        mine = slice(ranks.rank * n, (ranks.rank + 1) * n)
        batch = tuple(part[mine] for part in drawn_batch(step, case.n_projectors))
        optimiser.zero_grad()
        backward = backward_plain if case.pieces == 1 else backward_cached
        parts = backward(called, clip_model, batch, case, ranks)
        losses.append(float(ranks.sum(parts.rows.sum())) / ROWS)
        norms.append(float(clip_gradients(called, 0)))
        assert abs(float(clip_gradients(called, 1.0)) / norms[-1] - 1) < 1e-5
        optimiser.step()
        clip_model.clamp_scales()
        average.update()
    assert full_state(clip_model, optimiser, is_kept=False)[0] == {}
    network, moments = full_state(clip_model, optimiser)
    averaged = full_tensors(average.weights)
    return {
        "losses": losses,
        "norms": norms,
        "network": network,
        "moments": moments,
        "average": averaged,
        "again": restored(model, case, (network, moments), averaged, ranks),
    }


def backward_plain(
    called: Any, clip_model: ClipTrainingModel, batch: Any, case: Case, ranks: Ranks
) -> LossParts:
    images, tokens, numbers, ids = batch
    with torch.autocast("cpu", torch.bfloat16, enabled=case.precision == "bf16"):
        features = called(images, tokens, numbers)
    parts = contrastive_loss(
        *features,
        numbers,
        ids,
        clip_model.scales,
        clip_model.biases,
        LossRecipe(kind=case.kind),
        ranks,
    )
    parts.total.backward()
    return parts


def backward_cached(
    called: Any, clip_model: ClipTrainingModel, batch: Any, case: Case, ranks: Ranks
) -> LossParts:
    """Features of all pieces without gradient, the loss of them all, then piece by piece."""
    images, tokens, numbers, ids = batch
    pieces = [part.chunk(case.pieces) for part in (images, tokens, numbers)]
    cuts = list(zip(*pieces, strict=True))
    with torch.no_grad():
        kept = [called(*cut) for cut in cuts]
    leaves = [torch.cat(part).requires_grad_() for part in zip(*kept, strict=True)]
    heads = [head for head in (clip_model.scales, clip_model.biases) if head is not None]
    copies = [head.detach().clone().requires_grad_() for head in heads]
    scales, biases = (*copies, None)[:2]
    settings = LossRecipe(kind=case.kind)
    parts = contrastive_loss(*leaves, numbers, ids, scales, biases, settings, ranks)
    parts.total.backward()
    gradients = [leaf.grad.chunk(case.pieces) for leaf in leaves]
    for place, cut in enumerate(cuts):
        is_last = place == len(cuts) - 1
        with unsynced(called, not is_last):
            again = called(*cut)
            stand_in = sum(
                (value * gradient[place]).sum()
                for value, gradient in zip(again, gradients, strict=True)
            )
            if is_last:
                heads = [
                    head for head in (clip_model.scales, clip_model.biases) if head is not None
                ]
                for head, copied in zip(heads, copies, strict=True):
                    stand_in = stand_in + (head * copied.grad).sum()
            stand_in.backward()
    return parts


def restored(
    model: ModelRecipe, case: Case, states: Any, averaged: dict[str, Any], ranks: Ranks
) -> tuple[Any, Any, Any]:
    """What was saved, through another network."""
    clip_model = make_clip_model(model, case.kind, seed=7)
    called = spread(clip_model, ranks, case.parallel)
    optimiser = torch.optim.AdamW(called.parameters(), lr=1.0)
    set_full_state(clip_model, optimiser, states)
    average = WeightAverage(clip_model, 0.5)
    set_full_tensors(average.weights, averaged)
    return *full_state(clip_model, optimiser), full_tensors(average.weights)


def main(out: str, config: str, *cases: str) -> None:
    torch.set_num_threads(1)
    with open_ranks("cpu") as ranks:
        result: dict[str, Any] = {case: train(Case.read(case), config, ranks) for case in cases}
        result["largest"] = ranks.max(float(ranks.rank))
        result["shared"] = ranks.share(f"from {ranks.rank}")
        result["gathered"] = ranks.gather_plain(torch.tensor([[ranks.rank]]))
        ranks.wait()
        torch.save(result, Path(out).with_suffix(f".{ranks.rank}"))


if __name__ == "__main__":
    main(*sys.argv[1:])

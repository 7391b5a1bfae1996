"""One process of a training run, for test_parallel.py: trains a tiny network for a few steps and
writes what came out. Started with the environment that torchrun sets, or alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from fieldmark.build.train.loss import contrastive_loss
from fieldmark.build.train.network import WeightAverage, make_trainee
from fieldmark.build.train.parallel import (
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


def drawn_batch(step: int, n_projectors: int) -> tuple[torch.Tensor, ...]:
    """Of all processes; with texts that are equal on different processes."""
    draw = torch.Generator().manual_seed(step)
    images = torch.randint(0, 256, (ROWS, 3, PIXELS, PIXELS), generator=draw, dtype=torch.uint8)
    tokens = torch.zeros(ROWS, 8, dtype=torch.int64)
    text_ids = torch.tensor([1, 2, 3, 4, 1, 5, 6, 2])
    for row, text in enumerate(text_ids.tolist()):
        tokens[row, :4] = torch.tensor([49406, 100 + text, 200 + step, 49407])
    if n_projectors == 1:
        return images, tokens, torch.zeros(ROWS, dtype=torch.int64), text_ids
    # In the first step the first process has no row of the second projector.
    numbers = [0, 0, 0, 0, 0, 1, 1, 1] if step == 0 else [0, 1, 0, 1, 0, 1, 1, 1]
    return images, tokens, torch.tensor(numbers), text_ids


def main(out: str, config: str, kind: str, projectors: str, parallel: str, pieces: str) -> None:
    torch.set_num_threads(1)
    names = tuple(projectors.split(","))
    with open_ranks("cpu") as ranks:
        model = ModelRecipe(architecture=config, projectors=names)
        trainee = make_trainee(model, kind, seed=ranks.rank)  # all start as the first does
        called = spread(trainee, ranks, parallel)
        optimiser = torch.optim.AdamW(called.parameters(), lr=1e-2, eps=1e-3)
        average = WeightAverage(trainee, 0.5)
        settings = LossRecipe(kind=kind)
        n, losses, norms = ROWS // ranks.n_ranks, [], []
        for step in range(STEPS):
            whole = drawn_batch(step, len(names))
            images, tokens, numbers, ids = (
                part[ranks.rank * n : (ranks.rank + 1) * n] for part in whole
            )
            optimiser.zero_grad()
            if int(pieces) == 1:
                features = called(images, tokens, numbers)
                parts = contrastive_loss(
                    *features, numbers, ids, trainee.scales, trainee.biases, settings, ranks
                )
                parts.total.backward()
            else:  # a gradient cache
                cuts = list(zip(*(part.chunk(int(pieces)) for part in (images, tokens, numbers))))
                with torch.no_grad():
                    kept = [called(*cut) for cut in cuts]
                leaves = [torch.cat(part).requires_grad_() for part in zip(*kept)]
                scales = trainee.scales.detach().clone().requires_grad_()
                biases = trainee.biases
                if biases is not None:
                    biases = biases.detach().clone().requires_grad_()
                parts = contrastive_loss(*leaves, numbers, ids, scales, biases, settings, ranks)
                parts.total.backward()
                grads = [leaf.grad.chunk(int(pieces)) for leaf in leaves]
                for place, cut in enumerate(cuts):
                    is_last = place == len(cuts) - 1
                    with unsynced(called, not is_last):
                        again = called(*cut)
                        proxy = sum((a * g[place]).sum() for a, g in zip(again, grads))
                        proxy = proxy + is_last * (trainee.scales * scales.grad).sum()
                        if biases is not None:
                            proxy = proxy + is_last * (trainee.biases * biases.grad).sum()
                        proxy.backward()
            losses.append(float(ranks.sum(parts.rows.sum())) / ROWS)
            norms.append(float(clip_gradients(called, 1.0)))
            optimiser.step()
            trainee.clamp_scales()
            average.update()
        states = full_state(trainee, optimiser)
        averaged = full_tensors(average.weights)
        # What was saved goes into a fresh network and comes out unchanged.
        other = make_trainee(model, kind, seed=7)
        again = spread(other, ranks, parallel)
        beside = torch.optim.AdamW(again.parameters(), lr=1e-2, eps=1e-3)
        set_full_state(other, beside, states)
        second = WeightAverage(other, 0.5)
        set_full_tensors(second.weights, averaged)
        back = (full_state(other, beside), full_tensors(second.weights))
        largest = ranks.max(float(ranks.rank))
        shared = ranks.share(f"from {ranks.rank}")
        ranks.wait()
        if ranks.is_first:
            result = {
                "losses": losses,
                "norms": norms,
                "network": states[0],
                "moments": states[1],
                "average": averaged,
                "back": back,
                "largest": largest,
                "shared": shared,
            }
            torch.save(result, Path(out))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Contrastive loss over all processes, by any of `losses`: softmax (CLIP), sigmoid (SigLIP).

Every projector is a contrastive problem of its own: an image is compared with the texts of its
projector only. Rows with equal texts are positives of each other, not negatives: the target of the
softmax is shared among them (as in UniCL, https://arxiv.org/abs/2204.03610), and for the sigmoid
all such pairs are positive. Each process has its rows and compares them with the columns of all;
the average of the processes' losses, and of their gradients, is that of one process with all rows.

No matrix of targets is ever made. The mean of the logits of a row's positives is the logit with the
mean of their features, since a logit is linear in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from fieldmark.build.train.losses import LOSSES
from fieldmark.build.train.parallel import Ranks
from fieldmark.build.train.recipe import LossRecipe
from fieldmark.embed.gpu.cuda_stream import CudaStream

CHUNK_BYTES = 2 << 30
"""largest matrix of float32 logits that is made at once"""


class TrainingLoss(Protocol):
    """What a file of `losses` offers as `LOSS`."""

    is_symmetric: bool
    """texts are compared with all images too, and the two are averaged; then `positives` are means
    of a row's positive columns, else sums"""
    start: tuple[float, float] | None
    """logit scale and bias of a network that has none of this loss; None: it has no bias"""

    def rows(
        self,
        rows: Tensor,
        positives: Tensor,
        n: Tensor,
        columns: Tensor,
        scale: Tensor,
        bias: Tensor,
    ) -> Tensor:
        """(k,): the loss of each of k rows, which have `n` positives each."""
        ...


@dataclass(frozen=True, slots=True)
class LossParts:
    """A loss, and what it consists of."""

    total: Tensor
    """with gradient; its average over processes is the mean over all rows of the batch"""
    rows: Tensor
    """(n,) of this process, without gradient: their mean over all processes is the loss"""


@dataclass(frozen=True, slots=True)
class _Block:
    """Rows of one projector and direction, and what they are compared with."""

    rows: Tensor
    """n × dim"""
    columns: Tensor
    """m × dim"""
    positives: Tensor
    """n × dim: the mean (softmax) or sum (sigmoid) of the columns that a row belongs to"""
    n_positives: Tensor
    """(n,): how many these are"""


def contrastive_loss(
    images: Tensor,
    texts: Tensor,
    projectors: Tensor,
    text_ids: Tensor,
    scales: Tensor,
    biases: Tensor | None,
    settings: LossRecipe,
    ranks: Ranks,
) -> LossParts:
    """`images`, `texts`: n × dim, of length 1; `scales`: logarithms, one per projector.

    Every process calls it with as many rows as the others. `projectors` must be there, not only
    asked of the device: they are counted beside what it is busy with (`_members`).
    """
    with torch.autocast(images.device.type, enabled=False):
        pair = (images.float(), texts.float())
        loss: TrainingLoss = LOSSES.get(settings.kind).LOSS
        members = _members(projectors, len(scales), ranks)  # before what waits for the features
        all_texts = ranks.gather(pair[1])
        all_images = ranks.gather(pair[0]) if loss.is_symmetric else None
        ids = ranks.gather_plain(text_ids) if settings.multi_positive else None
        # Zero, but every scale and bias is in the graph of every process, whatever it has drawn.
        rows = pair[0].new_zeros(len(images)) + 0 * scales.sum()
        if biases is not None and biases.requires_grad:
            rows = rows + 0 * biases.sum()
        for number, (member_rows, columns) in enumerate(members):
            positions = torch.searchsorted(columns, member_rows + ranks.rank * len(images))
            groups = None if ids is None else _group_numbers(ids[columns])
            scale = scales[number].float().exp()
            bias = scale if biases is None else biases[number].float()
            block = _block(
                pair[0][member_rows], all_texts[columns], positions, groups, loss.is_symmetric
            )
            values = _in_chunks(loss, block, scale, bias)
            if all_images is not None:
                back = _block(pair[1][member_rows], all_images[columns], positions, groups, True)
                values = (values + _in_chunks(loss, back, scale, bias)) / 2
            rows = rows.index_add(0, member_rows, values)
        return LossParts(rows.mean(), rows.detach())


def _members(group_of_row: Tensor, n: int, ranks: Ranks) -> list[tuple[Tensor, Tensor]]:
    """For each of n projectors its rows among those of this process and of all, in order.

    How many these are has to be known here. They are counted on a stream of its own, so that only
    the count is waited for, not the features. (With FSDP the gathering queues up behind that of
    weights. Not measured on a GPU yet.) With one projector nothing is waited for.
    """
    if n == 1:
        n_rows = (len(group_of_row), len(group_of_row) * ranks.n_ranks)
        return [tuple(torch.arange(size, device=group_of_row.device) for size in n_rows)]
    with CudaStream(group_of_row.device, is_urgent=True).use():
        gathered = ranks.gather_plain(group_of_row)
        sizes = torch.stack([_counts(group_of_row, n), _counts(gathered, n)]).tolist()
    if group_of_row.is_cuda:  # its memory belongs to the other stream
        gathered.record_stream(torch.cuda.current_stream(group_of_row.device))
    orders = (part.argsort(stable=True) for part in (group_of_row, gathered))
    pieces = (order.split(size) for order, size in zip(orders, sizes, strict=True))
    return list(zip(*pieces, strict=True))


def _counts(projectors: Tensor, n: int) -> Tensor:
    """(n,); torch.bincount would wait for the device."""
    return (projectors == torch.arange(n, device=projectors.device)[:, None]).sum(dim=1)


def _group_numbers(ids: Tensor) -> Tensor:
    """Numbers from 0 that are equal where ids are; torch.unique would wait for the device."""
    ordered, order = ids.sort()
    starts = functional.pad(ordered[1:] != ordered[:-1], (1, 0))
    return torch.empty_like(order).scatter_(0, order, starts.cumsum(0))


def _block(
    rows: Tensor, columns: Tensor, positions: Tensor, groups: Tensor | None, is_mean: bool
) -> _Block:
    """`positions`: the column that is a row's own; `groups`: numbers equal for equal texts, or None
    where a row's own column is its only positive.
    """
    if groups is None:
        return _Block(rows, columns, columns[positions], torch.ones_like(positions))
    # The mean of a row's positive logits is its product with the mean of the positives (L_out of
    # supervised contrastive learning, Khosla et al. 2020): no mask of n × m is made.
    sums = torch.zeros_like(columns).index_add(0, groups, columns)
    sizes = torch.zeros_like(groups).index_add(0, groups, torch.ones_like(groups))
    column_groups = groups[positions]
    positives, n_positives = sums[column_groups], sizes[column_groups]
    mean = positives / n_positives[:, None]
    return _Block(rows, columns, mean if is_mean else positives, n_positives)


def _in_chunks(loss: TrainingLoss, block: _Block, scale: Tensor, bias: Tensor) -> Tensor:
    """The loss of every row. Where the logits are too many to keep, a chunk of rows at a time,
    whose logits are computed again for the gradient.
    """
    n = max(1, CHUNK_BYTES // (4 * max(1, len(block.columns))))
    if len(block.rows) <= n:
        return loss.rows(block.rows, block.positives, block.n_positives, block.columns, scale, bias)
    parts = (block.rows, block.positives, block.n_positives)
    pieces = zip(*(part.split(n) for part in parts), strict=True)
    return torch.cat(
        [
            checkpoint(loss.rows, *piece, block.columns, scale, bias, use_reentrant=False)
            for piece in pieces
        ]
    )

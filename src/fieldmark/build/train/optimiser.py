"""Optimiser (AdamW, learning-rate schedule, gradient cache): how does a batch change the weights?

What a step reports stays on the device until `read_reports` fetches the reports of many steps at
once. Gradient cache: Gao et al. 2021, arXiv 2101.06983.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from fieldmark.build.train.layers import fastest_attention
from fieldmark.build.train.losses import contrastive_loss
from fieldmark.build.train.network import ClipTrainingModel, WeightAverage
from fieldmark.build.train.parallel import Ranks, clip_gradients, unsynced
from fieldmark.build.train.recipe import GuardRecipe, OptimiserRecipe, TrainRecipe
from fieldmark.devices import is_out_of_memory
from fieldmark.errors import ModelError, OutOfMemory, first_line

if TYPE_CHECKING:
    from fieldmark.build.train.feed.loader import TrainBatch


# --- Optimiser (AdamW), learning-rate schedule (linear warm-up, cosine) and guard: how far does
# each update go, and when has a run gone wrong?

_MEDIAN_OF, _LEAST = 200, 20
"""steps that a running median is over; with fewer than the second there is none yet"""


def make_optimiser(clip_model: nn.Module, settings: OptimiserRecipe, device: Any) -> Any:
    """AdamW; as in open_clip, gains, biases and scales do not decay."""
    named = [(name, param) for name, param in clip_model.named_parameters() if param.requires_grad]
    plain = [param for name, param in named if _is_undecayed(name, param)]
    decayed = [param for name, param in named if not _is_undecayed(name, param)]
    groups = [
        {"params": plain, "weight_decay": 0.0},
        {"params": decayed, "weight_decay": settings.weight_decay},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=settings.lr,
        betas=settings.betas,
        eps=settings.eps,
        fused=device.type == "cuda",
    )


def _is_undecayed(name: str, param: Any) -> bool:
    return param.ndim < 2 or any(word in name for word in ("bn", "ln", "bias", "scale"))


def learning_rate(step: int, n_steps: int, settings: OptimiserRecipe) -> float:
    """Of update `step` (from 0): linear warm-up, then half a cosine down to nothing."""
    if step < settings.warmup_steps:
        return settings.lr * (step + 1) / settings.warmup_steps
    if settings.schedule == "constant":
        return settings.lr
    # Loshchilov & Hutter 2017 (SGDR), one cycle, as open_clip and big_vision do.
    done = (step - settings.warmup_steps) / max(1, n_steps - settings.warmup_steps)
    return settings.lr * 0.5 * (1 + math.cos(math.pi * done))


class LossGuard:
    """Says when a run has gone wrong: a number that is not finite, or a loss far above its running
    median for many steps in a row.
    """

    def __init__(self, settings: GuardRecipe, losses: Sequence[float] = ()) -> None:
        """`losses`: of the steps before, where a run goes on; a spike goes on with it."""
        self.settings, self._recent = settings, deque[float](maxlen=_MEDIAN_OF)
        self._n_spikes = 0
        for loss in losses[-2 * _MEDIAN_OF - settings.patience :]:
            self._take(loss)

    def problem(self, numbers: StepNumbers) -> str:
        """What is wrong with a step, in a few words; "" = nothing."""
        for name in ("loss", "grad_norm"):
            if not math.isfinite(value := getattr(numbers, name)):
                return f"{'loss' if name == 'loss' else 'norm of the gradient'} is {value}"
        usual = self._take(numbers.loss)
        if self._n_spikes < self.settings.patience:
            return ""
        return (
            f"loss is {numbers.loss:.3g}, more than {self.settings.spike:g} times its median of "
            f"{usual:.3g}, for {self._n_spikes} steps"
        )

    def _take(self, loss: float) -> float:
        """The median that a loss is compared to, of those before it that were no spikes."""
        usual = median(self._recent) if len(self._recent) >= _LEAST else math.inf
        if loss <= self.settings.spike * usual:
            self._n_spikes = 0
            self._recent.append(loss)
        else:
            self._n_spikes += 1
        return usual


# --- updates


@dataclass(frozen=True, slots=True)
class StepReport:
    """What a step measured; `numbers` lies on the device and is of this process only."""

    step: int
    lr: float
    n_pairs: int
    wait_s: float
    n_bad_images: int
    numbers: Any
    """loss, norm of the gradient, scales, then sums and counts of the losses by text type"""


@dataclass(frozen=True, slots=True)
class StepNumbers:
    """A report that was fetched, over all processes."""

    step: int
    lr: float
    loss: float
    grad_norm: float
    scales: tuple[float, ...]
    """logit scales, one per projector"""
    loss_by_type: dict[str, float]
    """mean loss of the pairs of a text type; types that the batch had none of are left out"""
    n_bad_images: int


class Updater:
    """Optimiser, schedule and precision of a run."""

    def __init__(
        self,
        clip_model: ClipTrainingModel,
        network: nn.Module,
        recipe: TrainRecipe,
        ranks: Ranks,
        n_steps: int,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.clip_model, self.network, self.recipe, self.ranks = clip_model, network, recipe, ranks
        self.n_steps, self._say = n_steps, say
        self.optimiser = make_optimiser(clip_model, recipe.optimiser, ranks.device)
        self.average = WeightAverage(clip_model, recipe.train.ema) if recipe.train.ema else None
        self._precision = autocast_type(recipe.train.precision, ranks.device)
        compiles = self.recipe.train.compile
        self._is_compiled = compiles == "on" or (
            compiles == "auto" and self.ranks.device.type == "cuda"
        )
        self._proven: set[int] = set()
        """lengths of texts that compiled code has done a step with"""
        if self._is_compiled:
            clip_model.compile(
                dynamic=False
            )  # few lengths of text; kernels for any length are slower

    def step(self, batch: TrainBatch) -> StepReport:
        """One update of the weights."""
        try:
            loss, rows = self._gradients(batch)
            return self._update(batch, loss, rows)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            raise OutOfMemory(
                f"step {batch.step + 1}: {len(batch.images):,} pairs do not fit into the memory of "
                f"{self.ranks.device}: raise train.accumulate (now {self.recipe.train.accumulate}) "
                "or train.recompute, or lower train.batch."
            ) from error

    def _update(self, batch: TrainBatch, loss: Any, rows: Any) -> StepReport:
        lr = learning_rate(batch.step, self.n_steps, self.recipe.optimiser)
        for group in self.optimiser.param_groups:
            group["lr"] = lr
        norm = clip_gradients(self.clip_model, self.recipe.optimiser.clip_norm)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.clip_model.clamp_scales()
        if self.average is not None:
            self.average.update(batch.step)
        numbers = torch.cat(
            [loss.detach()[None], norm[None], self._logit_scales(), self._by_type(rows, batch)]
        )
        n_pairs = len(batch.images) * self.ranks.n_ranks
        n_bad = len(batch.replaced)
        return StepReport(batch.step + 1, lr, n_pairs, batch.wait_s, n_bad, numbers)

    # --- gradients ---

    def _gradients(self, batch: TrainBatch) -> tuple[Any, Any]:
        """Loss of the batch and of its rows. The compiler works at the first batch of each length,
        forwards and backwards: where it fails then, the gradients are made again without it.
        """
        n = len(batch.images)
        size = -(-n // self.recipe.train.accumulate)
        pieces = [slice(start, min(n, start + size)) for start in range(0, n, size)]
        n_tokens = batch.tokens.shape[1]
        try:
            made = self._whole(batch) if len(pieces) == 1 else self._cached(batch, pieces)
        except Exception as error:  # whatever the compiler stumbles over
            if not self._is_compiled or n_tokens in self._proven or is_out_of_memory(error):
                raise
            self._give_up_compiler(error)
            return self._gradients(batch)
        self._proven.add(n_tokens)
        return made

    def _give_up_compiler(self, error: Exception) -> None:
        reason = first_line(error)
        if self.ranks.n_ranks > 1:  # the others are in the middle of exchanging gradients
            raise ModelError(
                f"torch.compile failed: {reason}. Run the same command with --set "
                "train.compile=off: it continues from the last checkpoint."
            ) from error
        self._say(f"torch.compile failed, continuing without it (train.compile=off): {reason}.")
        self._is_compiled, self.clip_model._compiled_call_impl = False, None
        self.optimiser.zero_grad(set_to_none=True)

    def _whole(self, batch: TrainBatch) -> tuple[Any, Any]:
        with self._computing():
            images, texts = self.network(batch.images, batch.tokens, batch.projectors)
        parts = self._loss(images, texts, batch, self.clip_model.scales, self.clip_model.biases)
        parts.total.backward()
        return parts.total, parts.rows

    def _cached(self, batch: TrainBatch, pieces: Sequence[slice]) -> tuple[Any, Any]:
        """The gradient of the whole batch, with the activations of one piece in memory.

        Features of all pieces without gradient; the loss and its gradient by the features; then
        piece by piece the network again, with that gradient fed into it. The scales' own gradient
        goes with the last piece, in which every process exchanges the sum of all pieces.
        """
        # Gradient cache: Gao et al. 2021, https://arxiv.org/abs/2101.06983
        images, texts = self._features(batch, pieces)
        leaves = [value.detach().requires_grad_() for value in self._loss_parameters()]
        parts = self._loss(images, texts, batch, leaves[0], leaves[1] if leaves[1:] else None)
        parts.total.backward()
        for number, piece in enumerate(pieces):
            is_last = number == len(pieces) - 1
            with unsynced(self.network, not is_last):
                with self._computing():
                    inputs = batch.images[piece], batch.tokens[piece], batch.projectors[piece]
                    outputs = self.network(*inputs)
                pairs = [(outputs[0], images.grad[piece]), (outputs[1], texts.grad[piece])]
                if is_last:
                    pairs += [
                        (value, leaf.grad)
                        for value, leaf in zip(self._loss_parameters(), leaves, strict=True)
                    ]
                learning = [pair for pair in pairs if pair[0].requires_grad and pair[1] is not None]
                # d(Σ value · grad) / d value = grad: feeds the cached gradient in.
                sum((value * grad).sum() for value, grad in learning).backward()
        return parts.total, parts.rows

    def _loss_parameters(self) -> list[Any]:
        """Parameters that the loss reads itself."""
        biases = self.clip_model.biases
        return [self.clip_model.scales, *([] if biases is None else [biases])]

    def _features(self, batch: TrainBatch, pieces: Sequence[slice]) -> list[Any]:
        columns: tuple[list[Any], list[Any]] = ([], [])
        with torch.no_grad(), self._computing():
            for piece in pieces:
                outputs = self.clip_model(
                    batch.images[piece], batch.tokens[piece], batch.projectors[piece]
                )
                for column, output in zip(columns, outputs, strict=True):
                    column.append(output)
        return [torch.cat(column).requires_grad_() for column in columns]

    def _loss(self, images: Any, texts: Any, batch: TrainBatch, scales: Any, biases: Any) -> Any:
        return contrastive_loss(
            images,
            texts,
            batch.projectors,
            batch.text_ids,
            scales,
            biases,
            self.recipe.loss,
            self.ranks,
        )

    # --- what is reported ---

    def _logit_scales(self) -> Any:
        scales: Any = self.clip_model.scales.detach()
        return (scales.full_tensor() if hasattr(scales, "full_tensor") else scales).exp()

    def _by_type(self, rows: Any, batch: TrainBatch) -> Any:
        """Sums of the pairs' losses by text type, then how many there were."""
        n_types = len(self.recipe.text_types)
        sums = torch.zeros(2 * n_types, device=rows.device)
        sums.index_add_(0, batch.type_ids, rows.detach().float())
        sums.index_add_(0, batch.type_ids + n_types, torch.ones_like(sums[0]).expand(len(rows)))
        return sums

    def read_reports(self, reports: Sequence[StepReport]) -> list[StepNumbers]:
        """Waits for the device, and for the other processes."""
        if not reports:
            return []
        n_scales, types = len(self.recipe.model.projectors), self.recipe.text_types
        table = torch.stack([report.numbers for report in reports]).double()
        bad = torch.tensor([report.n_bad_images for report in reports], device=table.device)
        table = self.ranks.sum(torch.cat([table, bad[:, None]], dim=1))
        table[:, : 2 + n_scales] /= self.ranks.n_ranks
        return [
            _numbers(report, row, n_scales, types)
            for report, row in zip(reports, table.tolist(), strict=True)
        ]

    # --- precision and compilation ---

    @contextmanager
    def _computing(self) -> Iterator[None]:
        device, is_used = self.ranks.device, self._precision is not None
        kind = self._precision or torch.bfloat16
        with fastest_attention(device), torch.autocast(device.type, dtype=kind, enabled=is_used):
            yield


def autocast_type(precision: str, device: Any) -> Any:
    """What matrix products are computed in; None = as the weights are, in float32."""
    if precision == "auto":
        precision = "bf16" if device.type == "cuda" else "float32"
    return torch.bfloat16 if precision == "bf16" else None


def _numbers(
    report: StepReport, row: Sequence[float], n_scales: int, types: Sequence[str]
) -> StepNumbers:
    scales, by_type = row[2 : 2 + n_scales], row[2 + n_scales : -1]
    sums, counts = by_type[: len(types)], by_type[len(types) :]
    losses = {
        name: total / count for name, total, count in zip(types, sums, counts, strict=True) if count
    }
    return StepNumbers(
        step=report.step,
        lr=report.lr,
        loss=row[0],
        grad_norm=row[1],
        scales=tuple(scales),
        loss_by_type=losses,
        n_bad_images=round(row[-1]),
    )

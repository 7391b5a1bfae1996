"""AdamW in batches of settings: how is a whole sweep of small networks trained in one pass?

All runs (settings × seeds) are one batched computation in torch: weights, moments and logits have
the runs as their leading axis. The gradients of one linear layer, or of two with a gate between
them, are written out: for networks this small autograd takes longer than the products. First
weights, batches and dropped values are drawn from a run's seed alone, so they are the same on every
device and whichever runs are beside it.

Memory beyond the features: five arrays of `runs × weights`, and for a batch a few arrays of
`runs × batch × (hidden + outputs)` and one of `seeds × batch × width`, in the precision of the
features. Features that are scaled are copied if they take less than 512 MB.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from fieldmark import draws
from fieldmark.errors import MissingExtra
from fieldmark.probes._arrays import Array, as_numpy, on_accelerator
from fieldmark.probes._gradient.probe import Layer, Scaling, Setting, Targets

_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-8
_COPY_BYTES = 512 << 20
"""features up to this size are scaled once; larger ones batch by batch"""
_SMALL_STEP = 1 << 24
"""products of a forward pass, below which threads wait for each other longer than they work"""

Slope = Callable[[Any], Any]
"""from a batch's logits (runs × batch × outputs) to the loss's derivative in each of them"""


@dataclass(frozen=True, slots=True)
class Training:
    """How networks are trained; `hidden=0` is one linear layer."""

    probe: str
    batch_size: int
    n_steps: int
    rate: Callable[[int], float]
    """the share of the learning rate at a step (from 0)"""
    hidden: int = 0
    activation: str = "none"
    dropout: float = 0.0
    """share of hidden values that are left out at each training step"""
    scaling: Scaling = Scaling()
    is_balanced: bool = False

    def sizes(self, n_inputs: int, n_outputs: int) -> list[tuple[int, int]]:
        """Rows and columns of each layer's weights."""
        if not self.hidden:
            return [(n_inputs, n_outputs)]
        return [(n_inputs, self.hidden), (self.hidden, n_outputs)]


def halving(every_epochs: int, n_batches: int) -> Callable[[int], float]:
    """Half after each `every_epochs` epochs (of `n_batches` steps): never by steps."""
    return lambda step: 0.5 ** (step // n_batches // every_epochs)


def cosine(n_steps: int, last: float = 0.01) -> Callable[[int], float]:
    """From 1 to `last` along half a cosine."""
    return lambda step: last + (1 - last) * (1 + math.cos(math.pi * step / n_steps)) / 2


# --- the loss, seen from the logits


def make_slope(
    targets: Targets, rows: np.ndarray, is_balanced: bool, like: Any
) -> Callable[[Any], Slope]:
    """For row numbers of a batch, the derivative of its mean loss; `rows` give the weights.

    Balanced classes count by their rarity, balanced traits that are present by absent over present.
    """
    make = _trait_slope if targets.has_traits else _class_slope
    return make(targets, rows, is_balanced, like)


def _class_slope(
    targets: Targets, rows: np.ndarray, is_balanced: bool, like: Any
) -> Callable[[Any], Slope]:
    """Of torch's CrossEntropyLoss: softmax minus 1 at the true class, by the weight of the row."""
    import torch

    code_n = torch.as_tensor(targets.value, dtype=torch.int64, device=like.device)
    count_c = np.bincount(targets.value[rows], minlength=len(targets.classes))
    rarity_c = len(rows) / (np.count_nonzero(count_c) * np.maximum(count_c, 1))
    weight_c = like.new_tensor(rarity_c if is_balanced else np.ones(len(count_c)))

    def of_batch(row_ub: Any) -> Slope:
        code_ub1 = code_n[row_ub][..., None]
        weight_ub1 = weight_c[code_ub1]
        weight_ub1 = weight_ub1 / weight_ub1.sum(1, keepdim=True)
        minus_ub1 = -weight_ub1

        def slope(logit_sbc: Any) -> Any:
            slope_sbc, n_runs = logit_sbc.softmax(-1).mul_(weight_ub1), len(logit_sbc)
            at_sb1, minus_sb1 = (a.expand(n_runs, -1, -1) for a in (code_ub1, minus_ub1))
            return slope_sbc.scatter_add_(2, at_sb1, minus_sb1)

        return slope

    return of_batch


def _trait_slope(
    targets: Targets, rows: np.ndarray, is_balanced: bool, like: Any
) -> Callable[[Any], Slope]:
    """Of torch's BCEWithLogitsLoss over the known traits; a batch that knows none has slope 0."""
    is_known_nt = ~np.isnan(targets.value)
    present_nt = np.where(is_known_nt, targets.value, 0.0)
    absent_nt = is_known_nt - present_nt
    if is_balanced:
        n_present_t, n_absent_t = present_nt[rows].sum(axis=0), absent_nt[rows].sum(axis=0)
        has_both_t = (n_present_t > 0) & (n_absent_t > 0)
        present_nt[:, has_both_t] *= n_absent_t[has_both_t] / n_present_t[has_both_t]
    present, counted = like.new_tensor(present_nt), like.new_tensor(present_nt + absent_nt)
    n_known_n = like.new_tensor(is_known_nt.sum(axis=1))

    def of_batch(row_ub: Any) -> Slope:
        n_known_u11 = n_known_n[row_ub].sum(1).clamp(min=1)[:, None, None]
        present_ubt, counted_ubt = present[row_ub] / n_known_u11, counted[row_ub] / n_known_u11
        # d/dz of -(p y log σ(z) + (1 - y) log(1 - σ(z))) is (p y + 1 - y) σ(z) - p y.
        return lambda logit_sbt: logit_sbt.sigmoid().mul_(counted_ubt).sub_(present_ubt)

    return of_batch


# --- training


def train(
    x_nd: Array,
    targets: Targets,
    rows: np.ndarray,
    training: Training,
    settings: Sequence[Setting],
    seeds: Sequence[int],
) -> list[list[list[Layer]]]:
    """For each setting and seed the layers after `n_steps` batches of the given rows.

    They come back in main memory. Weights that grow beyond all bounds end in infinities or NaN:
    whoever asked looks for them.
    """
    torch = need_torch(training.probe)
    scaling = training.scaling
    if scaling.kind != "none" and x_nd.nbytes <= _COPY_BYTES:
        x_nd, scaling = scaling.apply(x_nd), Scaling()
    is_far = on_accelerator(x_nd)
    like = x_nd[:1] if is_far else torch.from_numpy(np.array(x_nd[:1]))
    sizes = training.sizes(x_nd.shape[1], len(targets.classes))
    with torch.inference_mode(), _threads(torch, sizes, training, len(settings) * len(seeds)):
        runs = _Runs(training, sizes, settings, seeds, like)
        make_batch_slope = make_slope(targets, rows, training.is_balanced, like)
        last_ub = None
        for step, (row_ub, gate_ubh) in enumerate(
            _run_batches(rows, training, len(settings), seeds, like)
        ):
            if row_ub is not last_ub:  # one batch of all rows is read once
                x_ubd = x_nd[row_ub] if is_far else torch.from_numpy(x_nd[row_ub.numpy()])
                x_ubd = scaling.apply(x_ubd)
                last_ub, slope = row_ub, make_batch_slope(row_ub)
            runs.step(step, x_ubd, gate_ubh, slope)
        return runs.result()


@contextmanager
def _threads(
    torch: Any, sizes: list[tuple[int, int]], training: Training, n_runs: int
) -> Iterator[None]:
    """One thread on the CPU where a step is small."""
    n_products = n_runs * training.batch_size * sum(rows * columns for rows, columns in sizes)
    before = torch.get_num_threads()
    if n_products >= _SMALL_STEP or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Runs:
    """The weights of all runs in one array (matrices first, then offsets), and AdamW's moments.

    Runs go setting by setting, and within a setting seed by seed.
    """

    def __init__(
        self,
        training: Training,
        sizes: list[tuple[int, int]],
        settings: Sequence[Setting],
        seeds: Sequence[int],
        like: Any,
    ) -> None:
        self.training, self.sizes, self.n_settings = training, sizes, len(settings)
        self.n_weights = sum(rows * columns for rows, columns in sizes)
        first_kp = []
        for seed in seeds:
            weights, offsets = zip(*first_layers(sizes, seed, training.probe), strict=True)
            first_kp.append(np.concatenate([array.ravel() for array in (*weights, *offsets)]))
        self.flat_sp = like.new_tensor(np.tile(first_kp, (len(settings), 1)))
        self.gradient_sp = self.flat_sp.new_zeros(self.flat_sp.shape)
        self.mean_sp, self.square_sp = self.gradient_sp.clone(), self.gradient_sp.clone()
        self.layers, self.slopes = self._views(self.flat_sp), self._views(self.gradient_sp)

        step_t1 = np.arange(1, training.n_steps + 1)[:, None]
        share_t1 = np.array([training.rate(step) for step in range(training.n_steps)])[:, None]
        rate_s, decay_s = (
            np.repeat([setting.get(name, 0.0) for setting in settings], len(seeds))
            for name in ("learning_rate", "weight_decay")
        )
        with np.errstate(over="ignore"):  # a rate without bounds is told by its weights
            rate_ts = share_t1 * rate_s
            move_ts = -rate_ts / (1 - _BETA_1**step_t1) * np.sqrt(1 - _BETA_2**step_t1)
            self.shrink_ts1 = like.new_tensor((1 - rate_ts * decay_s)[..., None]).unbind()
            self.move_ts1 = like.new_tensor(move_ts[..., None]).unbind()
        self.matrices_sp, self.has_decay = self.flat_sp[:, : self.n_weights], bool(decay_s.any())

    def step(self, number: int, x_ubd: Any, gate_ubh: Any, slope: Slope) -> None:
        """One batch forward and back, then AdamW."""
        value_sbh = _outputs(self.layers[0], x_ubd)
        if self.training.hidden:
            # Dropout and relu are a gate: hidden values are multiplied by it, and so are slopes.
            if self.training.activation == "relu":
                gate_ubh = (value_sbh > 0) * (1 if gate_ubh is None else gate_ubh)
            hidden_sbh = value_sbh if gate_ubh is None else value_sbh.mul_(gate_ubh)
            slope_sbt = slope(_outputs(self.layers[1], hidden_sbh))
            _write_slopes(self.slopes[1], hidden_sbh, slope_sbt)
            slope_sbh = slope_sbt @ self.layers[1][0].mT
            slope_sbh = slope_sbh if gate_ubh is None else slope_sbh.mul_(gate_ubh)
        else:
            slope_sbh = slope(value_sbh)
        _write_slopes(self.slopes[0], x_ubd, slope_sbh)
        # AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101) for the gradient g of step t, its
        # running mean m and that of its square v; the decay λ is on matrices only, not on offsets:
        #   w ← w (1 - ηλ) - η m / (1 - β1^t) / (√(v / (1 - β2^t)) + ε)
        # Both parts of the last fraction are multiplied by √(1 - β2^t), which saves a pass.
        self.mean_sp.lerp_(self.gradient_sp, 1 - _BETA_1)
        self.square_sp.mul_(_BETA_2)
        self.square_sp.addcmul_(self.gradient_sp, self.gradient_sp, value=1 - _BETA_2)
        spread_sp = self.square_sp.sqrt().add_(_EPSILON * math.sqrt(1 - _BETA_2 ** (number + 1)))
        if self.has_decay:
            self.matrices_sp.mul_(self.shrink_ts1[number])
        self.flat_sp.addcdiv_(self.mean_sp * self.move_ts1[number], spread_sp)

    def _views(self, flat_sp: Any) -> list[tuple[Any, Any]]:
        """Each layer's weights (s × rows × columns) and offsets (s × 1 × columns) in the array."""
        views, at, offset_at = [], 0, self.n_weights
        for rows, columns in self.sizes:
            weight = flat_sp[:, at : at + rows * columns].view(-1, rows, columns)
            views.append((weight, flat_sp[:, None, offset_at : offset_at + columns]))
            at, offset_at = at + rows * columns, offset_at + columns
        return views

    def result(self) -> list[list[list[Layer]]]:
        """The layers of each seed of each setting, in main memory."""
        views = [(as_numpy(weight), as_numpy(offset)) for weight, offset in self.layers]
        n_runs, n_seeds = len(self.flat_sp), len(self.flat_sp) // self.n_settings
        runs = [[(weight[s], offset[s, 0]) for weight, offset in views] for s in range(n_runs)]
        return [runs[start : start + n_seeds] for start in range(0, n_runs, n_seeds)]


def _outputs(layer: tuple[Any, Any], x_ubd: Any) -> Any:
    """Each run's inputs times its weights, plus its offsets (s × b × c)."""
    weight_sdc, offset_s1c = layer
    n_runs, width, n_out = weight_sdc.shape
    if len(x_ubd) == n_runs:
        return offset_s1c.baddbmm(x_ubd, weight_sdc)
    # One batch for all runs: one wide product takes less time than many narrow ones.
    weight_dw = weight_sdc.transpose(0, 1).reshape(width, n_runs * n_out)
    wide_bw = offset_s1c.reshape(-1).addmm(x_ubd[0], weight_dw)
    return wide_bw.view(-1, n_runs, n_out).transpose(0, 1)


def _write_slopes(layer: tuple[Any, Any], x_ubd: Any, slope_sbc: Any) -> None:
    """The loss's slope in a layer's weights and offsets, from that in its outputs."""
    n_runs, n_rows, n_out = slope_sbc.shape
    if len(x_ubd) == n_runs:
        layer[0].copy_(x_ubd.mT @ slope_sbc)
    else:
        wide = x_ubd[0].T @ slope_sbc.transpose(0, 1).reshape(n_rows, n_runs * n_out)
        layer[0].copy_(wide.view(-1, n_runs, n_out).transpose(0, 1))
    layer[1].copy_(slope_sbc.sum(1, keepdim=True))


# --- draws


def need_torch(probe: str) -> Any:
    """torch, or the line that installs it."""
    try:
        import torch
    except ImportError as error:
        raise MissingExtra(f"probe {probe!r}", "vision", "torch") from error
    return torch


def first_layers(sizes: Sequence[tuple[int, int]], seed: int, probe: str) -> list[Layer]:
    """First values: even in ± 1/√rows, as torch's Linear has them."""
    layers = []
    for number, (rows, columns) in enumerate(sizes):
        generator, bound = draws.generator(seed, probe, "layer", number), 1 / math.sqrt(rows)
        weight = generator.uniform(-bound, bound, (rows, columns))
        layers.append((weight, generator.uniform(-bound, bound, columns)))
    return layers


def batches(
    rows: np.ndarray, seed: int, training: Training, device: Any
) -> Iterator[tuple[Any, Any | None]]:
    """For each step: row numbers, and which hidden values stay."""
    import torch

    size, n_batches = training.batch_size, -(-len(rows) // training.batch_size)
    has_dropout = training.hidden > 0 and training.dropout > 0
    order_n = torch.as_tensor(np.asarray(rows, np.int64), device=device)
    for epoch in range(-(-training.n_steps // n_batches)):
        row_bs, keep_bh = [order_n], None
        if n_batches > 1:  # one batch needs no order
            generator = draws.generator(seed, training.probe, "order", epoch)
            order = torch.as_tensor(generator.permutation(len(rows)), device=device)
            row_bs = order_n[order].split(size)
        if has_dropout:
            key = draws.number(seed, training.probe, "dropout", epoch)
        for batch, row_b in enumerate(row_bs[: training.n_steps - epoch * n_batches]):
            if has_dropout:
                within = range(batch * size, batch * size + len(row_b))
                keep_bh = dropout_mask(key, within, training.hidden, training.dropout, device)
            yield row_b, keep_bh


def _run_batches(
    rows: np.ndarray, training: Training, n_settings: int, seeds: Sequence[int], like: Any
) -> Iterator[tuple[Any, Any | None]]:
    """For each step row numbers and gates: one batch for all runs of one seed, else one a run."""
    import torch

    last: Any = None
    for of_seeds in zip(*(batches(rows, s, training, like.device) for s in seeds), strict=True):
        if last is None or any(now[0] is not old for now, old in zip(of_seeds, last, strict=True)):
            last = [row_b for row_b, _ in of_seeds]
            row_ub = torch.stack(last)
            row_ub = row_ub.repeat(n_settings, 1) if len(seeds) > 1 else row_ub
        gate_ubh = None
        if of_seeds[0][1] is not None:
            gate_kbh = torch.stack([keep_bh for _, keep_bh in of_seeds]).to(like.dtype)
            gate_ubh = gate_kbh.div_(1 - training.dropout)
            gate_ubh = gate_ubh.repeat(n_settings, 1, 1) if len(seeds) > 1 else gate_ubh
        yield row_ub, gate_ubh


_STEP, _FIRST, _SECOND = (
    value - (1 << 64) for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
"""splitmix64's constants, as signed numbers: torch has no products of unsigned ones"""
_LANES = 4


def dropout_mask(key: int, rows: range, width: int, share_dropped: float, device: Any) -> Any:
    """Booleans (rows × width), True with the probability 1 - `share_dropped` (to 1/65536).

    A counter is mixed into 64 bits (the finaliser of splitmix64), and each 16 of them decide about
    one value. Row r of a key is the same whichever range it is asked in, on every device.
    """
    import torch

    def mixed(value: Any, shift: int) -> Any:
        # A shift to the right with zeros coming in: signed numbers would bring their sign.
        return value ^ ((value >> shift) & ((1 << (64 - shift)) - 1))

    n_lanes = -(-width // _LANES)
    row_r1 = torch.arange(rows.start, rows.stop, device=device)[:, None]
    counter_rl = row_r1 * n_lanes + torch.arange(n_lanes, device=device)
    bits_rl = counter_rl * _STEP + (key - (1 << 63))
    bits_rl = mixed(mixed(mixed(bits_rl, 30) * _FIRST, 27) * _SECOND, 31)
    small_rw = bits_rl.view(torch.int16)[:, :width]
    return small_rw >= round(share_dropped * (1 << 16)) - (1 << 15)

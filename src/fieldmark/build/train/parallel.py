"""Data parallel training (DDP, FSDP) under torchrun: which process am I, and how do all of them
train one network, and end together?

Every process has its share of each batch. `Ranks.gather` carries the gradient back to the process
that a row came from; weights are averaged by DDP or, sharded, by FSDP2. States for checkpoints are
always whole and plainly named: what 8 sharded processes have written, one process reads.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import FrameType
from typing import Any

import torch
from torch import Tensor, distributed, nn

from fieldmark.build.train.network import ClipTrainingModel, towers
from fieldmark.devices import choose_device
from fieldmark.errors import ModelError, UsageError

PATIENCE = timedelta(minutes=30)
"""before the others give up on a process that says nothing: a network is compiled, or shards are
indexed by the first alone"""


@dataclass(frozen=True, slots=True)
class Ranks:
    """This process among all that train together."""

    rank: int = 0
    n_ranks: int = 1
    device: Any = "cpu"
    """torch.device"""

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def gather(self, rows: Tensor) -> Tensor:
        """The rows of all processes, in their order; the gradient goes back to all of them.

        All processes call it with the same shape.
        """
        return rows if self.n_ranks == 1 else _Gather.apply(rows, self)

    def gather_plain(self, rows: Tensor) -> Tensor:
        """Without gradient."""
        if self.n_ranks == 1:
            return rows
        gathered = rows.new_empty((self.n_ranks * len(rows), *rows.shape[1:]))
        distributed.all_gather_into_tensor(gathered, rows.detach().contiguous())
        return gathered

    def sum(self, values: Tensor) -> Tensor:
        """Over processes, without gradient; the tensor that was given stays as it is."""
        total = values.detach().clone()
        if self.n_ranks > 1:
            distributed.all_reduce(total)
        return total

    def max(self, value: float) -> float:
        """The largest over processes: with 0 and 1, whether any of them says so."""
        if self.n_ranks == 1:
            return value
        largest = torch.tensor(value, dtype=torch.float64, device=self.device)
        distributed.all_reduce(largest, distributed.ReduceOp.MAX)
        return float(largest)

    def share(self, value: Any) -> Any:
        """What the first process has, for all: any object that can be pickled."""
        if self.n_ranks == 1:
            return value
        box = [value]
        distributed.broadcast_object_list(box, src=0, device=self.device)
        return box[0]

    def wait(self) -> None:
        """Until all processes are here."""
        if self.n_ranks > 1:
            distributed.barrier()


class _Gather(torch.autograd.Function):  # type: ignore[misc]
    """all_gather whose gradient is the sum of what all processes have for a row."""

    @staticmethod
    def forward(context: Any, rows: Tensor, ranks: Ranks) -> Tensor:
        context.ranks = ranks
        return ranks.gather_plain(rows)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        ranks, n = context.ranks, len(gradient) // context.ranks.n_ranks
        if gradient.device.type == "cuda":
            share = gradient.new_empty((n, *gradient.shape[1:]))
            distributed.reduce_scatter_tensor(share, gradient.contiguous())
            return share, None
        return ranks.sum(gradient)[ranks.rank * n : (ranks.rank + 1) * n], None


@contextlib.contextmanager
def open_ranks(device: str = "auto") -> Iterator[Ranks]:
    """Joins the other processes if torchrun started this one; alone otherwise."""
    numbers = {key: os.environ.get(key, "") for key in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    if not all(numbers.values()):
        yield Ranks(device=torch.device(choose_device(device)))
        return
    rank, n_ranks, local = (_number(key, word) for key, word in numbers.items())
    where = torch.device(choose_device(device))
    if where.type == "cuda":
        if local >= torch.cuda.device_count():
            raise UsageError(
                f"torchrun started process {local} on this machine, which has "
                f"{torch.cuda.device_count()} GPUs: give --nproc-per-node one process per GPU."
            )
        where = torch.device("cuda", local)
        torch.cuda.set_device(where)
    backend = "nccl" if where.type == "cuda" else "gloo"
    bound = {"device_id": where} if where.type == "cuda" else {}
    distributed.init_process_group(
        backend, rank=rank, world_size=n_ranks, timeout=PATIENCE, **bound
    )
    try:
        yield Ranks(rank, n_ranks, where)
    finally:
        distributed.destroy_process_group()


def _number(key: str, word: str) -> int:
    if not word.isdigit():
        raise UsageError(f"{key}={word} in the environment, expected a number as torchrun sets it.")
    return int(word)


# --- one network on all processes


def spread(
    clip_model: ClipTrainingModel, ranks: Ranks, parallel: str, dtype: torch.dtype | None = None
) -> Any:
    """Puts the network on the device and makes it one with those of the other processes. Returns
    what is to be called in place of `clip_model`, whose attributes stay in use.

    `dtype`: that of autocast. FSDP gathers the blocks of both towers in it on a GPU; what flows
    between layers, everything else and the sum of gradients stay in float32, as with DDP.
    """
    clip_model.to(ranks.device)
    if ranks.n_ranks == 1:
        return clip_model
    if parallel == "fsdp":
        return _shard(clip_model, dtype if ranks.device.type == "cuda" else None)
    ids = [ranks.device.index] if ranks.device.type == "cuda" else None
    return nn.parallel.DistributedDataParallel(
        clip_model, device_ids=ids, gradient_as_bucket_view=True
    )


def _shard(clip_model: ClipTrainingModel, dtype: torch.dtype | None) -> Any:
    try:
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    except ImportError as error:
        raise ModelError('train.parallel = "fsdp" needs torch 2.6 or newer.') from error
    for value in (*clip_model.parameters(), *clip_model.buffers()):
        distributed.broadcast(value.data, src=0)  # as DDP does
    # The input of a block stays as it is: autocast casts it where a product wants it, so that the
    # residual stream is not rounded in every block. On a CPU autocast does not cast what a layer
    # norm takes, so there weights stay in float32. (The way of a GPU is not measured yet.)
    policy = MixedPrecisionPolicy(
        param_dtype=dtype, reduce_dtype=torch.float32, cast_forward_inputs=False
    )
    for block in (block for blocks in towers(clip_model) for block in blocks):
        fully_shard(block, mp_policy=policy)
    # Not resharded after the forward pass: the loss reads the scales, which the root holds.
    return fully_shard(clip_model, reshard_after_forward=False)


@contextlib.contextmanager
def unsynced(module: Any, is_unsynced: bool = True) -> Iterator[None]:
    """Gradients of a backward pass inside are kept for the next one outside, which sums them over
    processes. The forward pass belongs inside too.
    """
    if not is_unsynced:
        yield
    elif isinstance(module, nn.parallel.DistributedDataParallel):
        with module.no_sync():
            yield
    elif hasattr(module, "set_requires_gradient_sync"):
        module.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            module.set_requires_gradient_sync(True)
    else:
        yield


def clip_gradients(module: nn.Module, largest: float) -> Tensor:
    """The norm of all gradients, before they are scaled down to `largest` (0: never)."""
    if largest:
        norm = nn.utils.clip_grad_norm_(module.parameters(), largest)
    else:
        gradients = [weight.grad for weight in module.parameters() if weight.grad is not None]
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    return norm.full_tensor() if hasattr(norm, "full_tensor") else norm


# --- whole states, for checkpoints. Not by torch.distributed.checkpoint.state_dict: with torch 2.15
# it leaves `module.` in names under DDP, shards under FSDP, and processes waiting for each other.


def full_state(
    clip_model: ClipTrainingModel, optimiser: Any, is_kept: bool = True
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Whole states of network and optimiser on the CPU, by the names in `ClipTrainingModel`: the
    same however many processes there are and whether DDP or FSDP. Every process
    calls it; one that does not keep them (`is_kept`) only helps, and needs no memory for them.
    """
    if hasattr(clip_model, "reshard"):
        clip_model.reshard()
    raw, names = optimiser.state_dict(), _names(clip_model, optimiser)
    moments = {
        "state": {
            names[number]: full_tensors(values, is_kept) for number, values in raw["state"].items()
        },
        "param_groups": [
            {**group, "params": [names[number] for number in group["params"]]}
            for group in raw["param_groups"]
        ],
    }
    return full_tensors(clip_model.state_dict(), is_kept), moments


def set_full_state(
    clip_model: ClipTrainingModel, optimiser: Any, states: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    """The inverse, for an optimiser with the same groups. Every process gives the same states:
    `torch.load(mmap=True)` has them in memory once.
    """
    network, moments = states
    current = clip_model.state_dict()
    sizes, saved = _sizes(current), _sizes(network)
    if differing := [name for name in sorted({**current, **network}) if sizes[name] != saved[name]]:
        raise ModelError(
            f"the checkpoint is of another network: {differing[0]} has {saved[differing[0]]}, "
            f"expected {sizes[differing[0]]} ({len(differing):,} differ in all): give the "
            f"recipe that it was trained with (recipe.toml next to it), or another --out."
        )
    set_full_tensors(current, network)
    number_of = {name: number for number, name in enumerate(_names(clip_model, optimiser))}
    weights = dict(clip_model.named_parameters())
    state = {
        number_of[name]: {key: _like(weights[name], value) for key, value in values.items()}
        for name, values in moments["state"].items()
    }
    groups = [
        {**group, "params": [number_of[name] for name in group["params"]]}
        for group in moments["param_groups"]
    ]
    optimiser.load_state_dict({"state": state, "param_groups": groups})


def _sizes(tensors: Mapping[str, Tensor]) -> defaultdict[str, str]:
    sizes = {name: f"the shape {tuple(value.shape)}" for name, value in tensors.items()}
    return defaultdict(lambda: "no such weight", sizes)


def _names(clip_model: ClipTrainingModel, optimiser: Any) -> list[str]:
    """Of the optimiser's weights, in the order in which its state numbers them."""
    names = {id(weight): name for name, weight in clip_model.named_parameters()}
    return [names[id(weight)] for group in optimiser.param_groups for weight in group["params"]]


def full_tensors(tensors: Mapping[str, Any], is_kept: bool = True) -> dict[str, Any]:
    """Whole copies on the CPU; none where they are not kept. Every process calls it."""
    whole = {}
    for name, value in tensors.items():
        full = value.full_tensor() if hasattr(value, "full_tensor") else value
        if is_kept:
            whole[name] = full.detach().to("cpu", copy=True) if isinstance(full, Tensor) else full
    return whole


def set_full_tensors(tensors: Mapping[str, Tensor], whole: Mapping[str, Tensor]) -> None:
    """Puts whole tensors into those that may be sharded. Every process gives the same."""
    for name, value in tensors.items():
        value.detach().copy_(_like(value, whole[name].to(value.device, value.dtype)))


def _like(weight: Tensor, value: Any) -> Any:
    """A whole tensor, sharded as the weight that it belongs to; a count of steps stays whole."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    if isinstance(weight, DTensor) and isinstance(value, Tensor) and value.shape == weight.shape:
        return distribute_tensor(value.to(weight.device), weight.device_mesh, weight.placements)
    return value


# --- signals (SIGTERM, SIGUSR1, Ctrl-C): what has whoever runs this asked for, since the last step?
# Several processes save together or not at all, so they agree on it after every step: over gloo, on
# the CPU, so that nothing waits for a GPU. torchrun kills 30 s after it has passed on a SIGTERM.
# Slurm may send SIGTERM twice, by itself and through srun: only a second Ctrl-C is impatience.


_ENDS = {signal.SIGINT: 130, signal.SIGTERM: 143}


class StopSignals:
    """Notes which signals came, for the loop to act on between two steps."""

    def __init__(self, ranks: Ranks) -> None:
        """Every process makes one."""
        self.agreed_end = 0
        """exit code that all processes end with after this step; 0 = they go on"""
        self._wanted_end = 0
        self._is_asked = False
        self._before: dict[int, Any] = {}
        self._group: Any = None
        if ranks.n_ranks > 1:
            self._group = distributed.new_group(backend="gloo", timeout=PATIENCE)

    @property
    def exit_code(self) -> int:
        """What this process is to end with as soon as it can; 0 = nobody wants the end."""
        return self.agreed_end or self._wanted_end

    def is_asked(self) -> bool:
        """Whether any process was asked for a checkpoint; all call it after every step.

        A signal that comes while they agree counts in the next step.
        """
        is_asked, self._is_asked = self._is_asked, False
        self.agreed_end = self._wanted_end if is_asked else 0
        if self._group is None:
            return is_asked
        flags = torch.tensor([float(is_asked), float(self.agreed_end)])
        distributed.all_reduce(flags, distributed.ReduceOp.MAX, group=self._group)
        self.agreed_end = int(flags[1])
        return bool(flags[0])

    def _note(self, number: int, _: FrameType | None) -> None:
        self._is_asked = True
        if number in _ENDS:
            self._wanted_end = _ENDS[signal.Signals(number)]
        if number == signal.SIGINT:
            signal.signal(number, self._before[number])  # a second one ends at once

    def __enter__(self) -> StopSignals:
        numbers = [*_ENDS, getattr(signal, "SIGUSR1", None)]
        with contextlib.suppress(ValueError):  # not in the main thread: whoever runs it decides
            for number in (number for number in numbers if number is not None):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

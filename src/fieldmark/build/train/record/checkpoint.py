"""Checkpoints (atomic files): from which state does a run go on after it was stopped?

`step-00001000.pt` holds all that the next step depends on; `step-00001000.json` is written after
it, with its checksum and what the run was made from. A checkpoint without both, or whose bytes
changed, is not one: the one before it is taken, that is said, and its step is saved anew when the
run comes there. No number that is not finite is ever written.
"""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import torch

from fieldmark.build.train.optimiser import autocast_type
from fieldmark.build.train.parallel import (
    Ranks,
    full_state,
    full_tensors,
    set_full_state,
    set_full_tensors,
)
from fieldmark.build.train.recipe import TrainRecipe, refuse_other
from fieldmark.devices import choose_decode
from fieldmark.draws import digest
from fieldmark.errors import DataError, Diverged, UsageError, first_line
from fieldmark.files import hash_file, json_bytes, remove_parts, whole_file, write_file

FORMAT = 1
DECODE = "data.decode"


@dataclass(frozen=True, slots=True)
class CheckpointNote:
    """What stands beside a checkpoint."""

    step: int
    recipe: Mapping[str, Any]
    """its facts, and those of the machine: precision, decoder, digest of the network"""
    data: str
    """digest of the shards and captions"""
    checksum: str

    @property
    def name(self) -> str:
        return checkpoint_name(self.step)


def checkpoint_name(step: int) -> str:
    return f"step-{step:08d}"


class CheckpointFolder:
    """The checkpoints of a run."""

    def __init__(
        self, folder: Path, recipe: TrainRecipe, data: str, machine: Mapping[str, str] | None = None
    ) -> None:
        """`machine`: what "auto" and files have come to here, see `machine_facts`."""
        self.folder, self.recipe, self.data = folder, recipe, data
        self.facts = recipe.facts() | dict(machine or {})
        self.kept: set[int] = set()
        """steps whose checkpoints stay, beside the newest: the best one, and those in evaluation"""

    def path(self, step: int) -> Path:
        return self.folder / f"{checkpoint_name(step)}.pt"

    def has(self, step: int) -> bool:
        return any(note.step == step for note in self.notes())

    def save(self, step: int, state: Mapping[str, Any]) -> Path:
        """The file appears whole or not at all, and the oldest goes. Diverged: a NaN in it."""
        bad = next(not_finite(state), "")
        if bad:
            raise Diverged(f"step {step:,}: {bad} is not finite, so no checkpoint was written.")
        path = self.path(step)
        with whole_file(path, is_durable=True) as file:
            writer = _HashingWriter(file)
            torch.save(dict(state), writer)
        note = {
            "format": FORMAT,
            "step": step,
            "recipe": self.facts,
            "data": self.data,
            "checksum": writer.checksum,
        }
        write_file(path.with_suffix(".json"), json_bytes(note), is_durable=True)
        self._prune()
        return path

    def newest(self, say: Callable[[str], None]) -> CheckpointNote | None:
        """The newest whole checkpoint; None where there is none yet.

        UsageError where the run was made from another recipe or other data. The notes of those that
        were passed over go, as does what a kill left half written: they are no checkpoints.
        """
        remove_parts(self.folder)
        notes = self.notes()
        for note in notes:
            self._check_same(note, say)
        newest = self.newest_whole(say)
        for note in notes:
            if newest is None or note.step > newest.step:
                self.path(note.step).with_suffix(".json").unlink(missing_ok=True)
        return newest

    def newest_whole(
        self, say: Callable[[str], None], preferred: int | None = None
    ) -> CheckpointNote | None:
        """The same for whoever only reads: any recipe and data, and nothing is changed.
        `preferred`: a step that comes before all others.
        """
        for note in sorted(self.notes(), key=lambda note: note.step != preferred):
            try:
                self._check_whole(note)
            except DataError as error:
                instead = "The newest" if note.step == preferred else "The checkpoint before it"
                say(f"{error} {instead} is taken.")
                continue
            return note
        return None

    def notes(self) -> list[CheckpointNote]:
        """Of the checkpoints that were written to the end, newest first."""
        notes = []
        for path in self.folder.glob("step-*.json"):
            try:
                values = json.loads(path.read_text(encoding="utf-8"))
                del values["format"]
                note = CheckpointNote(**values)
            except (OSError, ValueError, KeyError, TypeError):
                continue
            notes.append(note)
        return sorted(notes, key=lambda note: note.step, reverse=True)

    def _prune(self) -> None:
        kept = {note.name for note in self.notes()[: self.recipe.state.keep]}
        kept |= {checkpoint_name(step) for step in self.kept}
        for path in [*self.folder.glob("step-*.json"), *self.folder.glob("step-*.pt")]:
            if path.stem not in kept:
                path.unlink(missing_ok=True)

    def _check_same(self, note: CheckpointNote, say: Callable[[str], None]) -> None:
        run, now, then = self.folder.parent, dict(self.facts), dict(note.recipe)
        if (old := then.pop(DECODE, None)) != (new := now.pop(DECODE, None)):
            # the same photos to a level or two of brightness
            say(f"{note.name}: {DECODE} was {old} and is {new} here")
        refuse_other(run, then, now)
        if note.data != self.data:
            raise UsageError(
                f"{run}  was trained on other data: its shards or captions have changed since. "
                "Give the same ones, or another --out."
            )

    def _check_whole(self, note: CheckpointNote) -> None:
        path = self.path(note.step)
        try:
            checksum = hash_file(path).hex()
        except OSError as error:
            raise DataError(f"{path}  cannot be read: {error.strerror or error}.") from None
        if checksum != note.checksum:
            raise DataError(f"{path}  is damaged: its checksum is wrong.")

    def read(self, step: int) -> dict[str, Any]:
        """All that was saved, on the CPU. DataError where its bytes have changed since."""
        path = self.path(step)
        for note in self.notes():
            if note.step == step:
                self._check_whole(note)
        try:
            state: dict[str, Any] = torch.load(path, "cpu", weights_only=True, mmap=True)
        except (OSError, RuntimeError, ValueError, EOFError, pickle.UnpicklingError) as error:
            raise DataError(f"{path}  cannot be read: {first_line(error)}.") from None
        return state


class _HashingWriter:
    """Hashes what is written through it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._hasher = file, hashlib.blake2b(digest_size=16)

    def write(self, data: Any) -> int:
        self._hasher.update(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    @property
    def checksum(self) -> str:
        return self._hasher.hexdigest()


# --- what the next step depends on ---


def machine_facts(recipe: TrainRecipe, clip_model: Any, device: Any) -> dict[str, str]:
    """What decides the curve of the losses, besides the recipe and the data."""
    is_bf16 = autocast_type(recipe.train.precision, device) is not None
    return {
        "train.precision": "bf16" if is_bf16 else "float32",
        DECODE: choose_decode(recipe.data.decode, device),
        "network": network_digest(clip_model),
    }


def network_digest(clip_model: Any) -> str:
    """Of its configuration: a JSON file may change and keep its name."""
    return digest(json.dumps(clip_model.config, sort_keys=True, default=str)).hex()[:16]


def training_state(clip_model: Any, optimiser: Any, average: Any, ranks: Ranks) -> dict[str, Any]:
    """Weights, moments, random states, on the CPU. Every process calls it; the first gets all."""
    weights, moments = full_state(clip_model, optimiser, ranks.is_first)
    state = {"model": weights, "optimiser": moments, "random": _random_states(ranks)}
    if average is not None:
        state["average"] = full_tensors(average.weights, ranks.is_first)
    return state


def restore_state(
    state: Mapping[str, Any], clip_model: Any, optimiser: Any, average: Any, ranks: Ranks
) -> None:
    """The inverse of `training_state`; every process has the whole state."""
    set_full_state(clip_model, optimiser, (state["model"], state["optimiser"]))
    if average is not None:
        set_full_tensors(average.weights, state["average"])
    for kind, states in state["random"].items():
        if ranks.rank < len(states):  # more processes than before: the new ones keep their own
            # A copy: torch 2.15 reads a row of a table from the table's beginning, and crashes.
            random_state = states[ranks.rank].clone()
            torch.set_rng_state(random_state) if kind == "cpu" else torch.cuda.set_rng_state(
                random_state, ranks.device
            )


def _random_states(ranks: Ranks) -> dict[str, Any]:
    """processes × bytes, of torch's generators on the CPU and on the GPU of each."""
    states = {"cpu": torch.get_rng_state()}
    if ranks.device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(ranks.device)
    return {
        kind: ranks.gather_plain(state[None].to(ranks.device)).cpu()
        for kind, state in states.items()
    }


def not_finite(state: Any, name: str = "") -> Iterator[str]:
    """Names of tensors that hold an infinity or a NaN."""
    if isinstance(state, torch.Tensor):
        if state.is_floating_point() and not torch.isfinite(state).all():
            yield name
    elif isinstance(state, Mapping):
        for key, value in state.items():
            yield from not_finite(value, f"{name}.{key}".lstrip("."))

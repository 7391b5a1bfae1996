"""Whose numbers are in the network?

Random ones that a name always gives alike, those of a local file, and a hash that tells any two
sets apart.
"""

from __future__ import annotations

import contextlib
import hashlib
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from fieldmark import draws
from fieldmark.errors import ModelError

WRAPPINGS = ("state_dict", "model", "teacher", "model_state_dict")
PREFIXES = ("module.", "_orig_mod.")


@contextlib.contextmanager
def seeded(*parts: str) -> Iterator[None]:
    """Whatever torch draws inside depends on the parts only; the global generator stays as it was.

    Networks are always built inside, since building one draws its first weights even where others
    follow.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(draws.number("weights", *parts))
        yield


def read_weights(path: Path) -> dict[str, Any]:
    """Tensors by name from a safetensors or torch file. Never runs code that a file brings."""
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return dict(load_file(path))
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the readers raise whatever a damaged file provokes
        if isinstance(error, pickle.UnpicklingError) and "GLOBAL" in str(error):
            raise ModelError(
                f"{path}  holds more than tensors and would have to run code to load: "
                "save its state_dict() alone, best as safetensors."
            ) from error
        raise ModelError(
            f"{path}  cannot be read as weights, expected a safetensors or torch file "
            f"({type(error).__name__})."
        ) from error
    for key in WRAPPINGS:
        if isinstance(found, dict) and isinstance(found.get(key), dict):
            found = found[key]
    if not isinstance(found, dict) or not found:
        raise ModelError(f"{path}  holds {type(found).__name__}, expected a state_dict.")
    return {_plain(key): value for key, value in found.items() if torch.is_tensor(value)}


def _plain(key: str) -> str:
    for prefix in PREFIXES:
        key = key.removeprefix(prefix)
    return key


def fit_weights(
    module: Any, weights: dict[str, Any], path: Path, head: tuple[str, ...] = ()
) -> None:
    """Puts a file's tensors into a network: all of them, in their shapes. Only the classifier may
    be left over.

    Strict on purpose: a layer that silently kept its random start would still give numbers.
    """
    own = module.state_dict()
    kept = {key: value for key, value in weights.items() if not key.startswith(head) or key in own}
    problems = [f"lacks {key}" for key in own if key not in kept]
    problems += [f"has {key}, which the network lacks" for key in kept if key not in own]
    problems += [
        f"has {key} as {tuple(kept[key].shape)}, the network as {tuple(own[key].shape)}"
        for key in own
        if key in kept and kept[key].shape != own[key].shape
    ]
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise ModelError(
            f"{path}  does not fit this network: it {problems[0]}{more}. "
            "Weights of exactly this architecture and size are expected."
        )
    module.load_state_dict(kept)


def hash_weights(module: Any) -> str:
    """Over name, type, shape and bytes of every parameter and stored buffer, one tensor in memory
    at a time.
    """
    hasher = hashlib.blake2b(digest_size=16)
    for name, value in sorted(module.state_dict().items()):
        if not torch.is_tensor(value):
            hasher.update(f"{name} {value!r}".encode())
            continue
        hasher.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        flat = value.detach().cpu().contiguous().reshape(-1)
        hasher.update(memoryview(flat.view(torch.uint8).numpy()))
    return hasher.hexdigest()

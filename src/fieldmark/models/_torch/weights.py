"""Model weights: fetched from a hub, read from a file, drawn at random, and told apart by a hash.

The hub's own cache is looked at first, and what is found there is used without asking anyone. Only
what is missing is fetched, after one short question with a time limit: the libraries below would
retry for a minute before saying that there is no network. Certificates and global settings are
never touched.
"""

from __future__ import annotations

import contextlib
import hashlib
import pickle
import re
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import torch

from fieldmark import draws
from fieldmark.errors import ModelError
from fieldmark.models._name import ModelRequest
from fieldmark.words import first_few

PATIENCE_S = 10.0
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
TOKENISER = (
    ("tokenizer_config.json",),
    ("tokenizer.json", "tokenizer.model", "spiece.model", "vocab.txt", "vocab.json"),
)
"""files of a tokeniser on the hub: one of each group"""
INSTEAD = "give local weights with ?weights=PATH, or random ones with ?pretrained=false"
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
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the readers raise whatever a damaged file provokes
        if isinstance(error, pickle.UnpicklingError) and "GLOBAL" in str(error):
            raise runs_code(path) from error
        raise ModelError(
            f"{path}  cannot be read as weights, expected a safetensors or torch file "
            f"({type(error).__name__})."
        ) from error
    for key in WRAPPINGS:
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    if not isinstance(content, dict) or not content:
        raise ModelError(f"{path}  contains {type(content).__name__}, expected a state_dict.")
    return {_plain(key): value for key, value in content.items() if torch.is_tensor(value)}


def runs_code(path: Path | str) -> ModelError:
    """For pickled files; torch's own text advises `weights_only=False`, which runs the code."""
    return ModelError(
        f"{path}  contains more than tensors and would have to run code to load: "
        "save its state_dict() alone, best as safetensors."
    )


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
    state = module.state_dict()
    kept = {
        key: value for key, value in weights.items() if not key.startswith(head) or key in state
    }
    lacking = [key for key in state if key not in kept]
    others = [key for key in kept if key not in state]
    shapes = [
        f"{key} as {tuple(kept[key].shape)} (the network: {tuple(state[key].shape)})"
        for key in state
        if key in kept and kept[key].shape != state[key].shape
    ]
    problems = [f"lacks {first_few(lacking, 2)}"] if lacking else []
    problems += [f"has {first_few(others, 2)}, which the network lacks"] if others else []
    problems += [f"has {first_few(shapes, 1)}"] if shapes and not problems else []
    if problems:
        raise ModelError(
            f"{path}  does not fit this network: it {' and '.join(problems)}. "
            "The file must hold weights of exactly this network."
        )
    module.load_state_dict(kept)


def hash_weights(module: Any, is_counted: Callable[[str], bool] = bool) -> str:
    """Over name, type, shape and bytes of every parameter and stored buffer whose name counts, one
    tensor in memory at a time.
    """
    hasher = hashlib.blake2b(digest_size=16)
    for name, value in sorted(module.state_dict().items()):
        if not is_counted(name):
            continue
        if not torch.is_tensor(value):
            hasher.update(f"{name} {value!r}".encode())
            continue
        hasher.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        flat = value.detach().cpu().contiguous().reshape(-1)
        hasher.update(memoryview(flat.view(torch.uint8).numpy()))
    return hasher.hexdigest()


# --- fetching


def hub_folder(request: ModelRequest, repo: str, need: Sequence[Sequence[str]]) -> Path:
    """The local folder with one file of each group, the first of a group that exists; fetched if
    missing.

    `repo` is `org/name` or `org/name@revision`.
    """
    from huggingface_hub import constants

    repo_id, _, revision = repo.partition("@")
    try:
        folders = {_cached_in(repo_id, group, revision) for group in need}
    except ValueError as error:  # a model's configuration may name anything
        text = f"model {request.name.text!r}: {repo!r} is not the name of a repository on the hub."
        raise ModelError(text) from error
    if len(folders) == 1 and (folder := folders.pop()):
        return folder
    host = constants.ENDPOINT.partition("://")[2]
    if request.offline or constants.HF_HUB_OFFLINE:
        refuse_offline(request, f"{host}/{repo}")
    try:
        return _fetch_folder(repo_id, revision, need)
    except ModelError:
        raise
    except Exception as error:  # noqa: BLE001 - which HTTP library raises differs between hub versions
        _explain(request, f"{host}/{repo}", error)


def _cached_in(repo_id: str, group: Sequence[str], revision: str) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    for name in group:
        cached = try_to_load_from_cache(repo_id, name, revision=revision or None)
        if isinstance(cached, str):
            return Path(cached).parent
    return None


def _fetch_folder(repo_id: str, revision: str, need: Sequence[Sequence[str]]) -> Path:
    from huggingface_hub import HfApi

    hub = HfApi()
    info = hub.model_info(repo_id, revision=revision or None, timeout=PATIENCE_S)
    present = {sibling.rfilename for sibling in info.siblings or ()}
    chosen = []
    for group in need:
        names = [name for name in group if name in present]
        if not names:
            raise ModelError(
                f"{repo_id} on the hub contains no {' or '.join(group)}: it cannot be loaded."
            )
        chosen.append(names[0])
    paths = [hub.hf_hub_download(repo_id, name, revision=revision or None) for name in chosen]
    return Path(paths[0]).parent


def fetch_code(request: ModelRequest, repo: str) -> None:
    """The Python files of a repository that the user trusts, beside its weights."""
    from huggingface_hub import snapshot_download

    repo_id, _, revision = repo.partition("@")
    try:
        snapshot_download(
            repo_id,
            revision=revision or None,
            allow_patterns=["*.py"],
            local_files_only=request.offline,
        )
    except Exception as error:  # noqa: BLE001 - as in `hub_folder`
        _explain(request, repo, error)


def url_file(request: ModelRequest, url: str) -> Path:
    """A file that torch's own cache holds, or that is put there from `url`."""
    path = Path(torch.hub.get_dir()) / "checkpoints" / url.rpartition("/")[2]
    address = url.partition("://")[2]
    if path.is_file():
        return path
    if request.offline:
        refuse_offline(request, address)
    try:
        question = urllib.request.Request(url, method="HEAD")
        urllib.request.urlopen(question, timeout=PATIENCE_S).close()
        path.parent.mkdir(parents=True, exist_ok=True)
        stamp = re.search(r"-([0-9a-f]{8,})\.", path.name)
        torch.hub.download_url_to_file(url, str(path), stamp.group(1) if stamp else None)
    except RuntimeError as error:  # torch compares the file with the hash in its name
        raise ModelError(f"{address} arrived damaged and was not kept: try again.") from error
    except OSError as error:
        _explain(request, address, error)
    return path


def refuse_offline(request: ModelRequest, address: str) -> NoReturn:
    raise ModelError(
        f"model {request.name.text!r}: its files from {address} are not in the local cache and "
        f"fetching is switched off: load it once with a connection, {INSTEAD}."
    )


def _explain(request: ModelRequest, source: str, error: Exception) -> NoReturn:
    kind = type(error).__name__
    start = f"model {request.name.text!r}: "
    if kind == "GatedRepoError":
        text = f"{source} needs permission: accept its terms there, then run `hf auth login`"
    elif kind in ("RepositoryNotFoundError", "RevisionNotFoundError"):
        text = f"{source} does not exist or is private: check the name, or run `hf auth login`"
    else:
        text = (
            f"its files could not be fetched from {source} ({_reason(error)}): connect, {INSTEAD}"
        )
    raise ModelError(start + text + ".") from error


def _reason(error: BaseException) -> str:
    lines = str(getattr(error, "reason", "") or error).strip().splitlines()
    return lines[0][:120].rstrip(".") if lines else type(error).__name__

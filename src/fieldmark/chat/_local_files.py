"""Where are a local chat model's files, and which model do they make?

A folder of the user's, or a repository of the Hugging Face hub: its cache is looked at first, and
what is there is used without asking anyone. The fingerprint is over the bytes of every file that
decides an answer (weights, configuration, tokeniser, processor, chat template), so that a moved
folder is the same model and an edited one is not. Code that a repository brings is neither fetched
nor run.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import re
from pathlib import Path
from typing import NoReturn

from fieldmark import draws
from fieldmark.errors import ModelError, UsageError

PATIENCE_S = 10.0
SETTINGS = (
    "config.json", "generation_config.json", "*processor*.json", "chat_template*", "tokenizer*",
    "special_tokens_map.json", "added_tokens.json", "vocab*", "merges.txt", "*.model",
)  # fmt: skip
SAFE = ("*.safetensors", "*.safetensors.index.json")
PICKLED = ("pytorch_model*.bin", "pytorch_model.bin.index.json")


def find_folder(name: str, place: str, offline: bool) -> Path:
    """The folder with the model's files; `place` is a folder or `ORG/NAME[@REVISION]`."""
    own = Path(place).expanduser()
    if own.is_dir():
        if not (own / "config.json").is_file():
            raise UsageError(f"model {name!r}: {own / 'config.json'} does not exist.")
        return own.resolve()
    if place.count("/") != 1 or place.startswith((".", "~", "/")):
        raise UsageError(
            f"model {name!r}: {place} is neither a folder here nor ORG/NAME on the hub."
        )
    repo, _, revision = place.partition("@")
    return _cached(repo, revision) or _fetched(name, repo, revision, offline)


def model_files(folder: Path) -> list[Path]:
    """The files that decide an answer, in the order of their names."""
    names = [path.name for path in folder.iterdir() if path.is_file()]
    return [folder / name for name in sorted(_chosen(names))]


def fingerprint(folder: Path) -> str:
    """32 hexadecimal digits for the bytes of all files that decide an answer."""
    parts = [f"{path.name} {_sha256(path)}" for path in model_files(folder)]
    return draws.digest("hf-chat 1", *parts).hex()


def _chosen(names: list[str]) -> list[str]:
    has_safe = any(name.endswith(".safetensors") for name in names)
    patterns = (*SETTINGS, *(SAFE if has_safe else PICKLED))
    return [name for name in names if any(fnmatch.fnmatchcase(name, each) for each in patterns)]


def _sha256(path: Path) -> str:
    """The hub's cache names large files by their SHA-256, so that they need not be read."""
    real = path.resolve()
    if real.parent.name == "blobs" and re.fullmatch(r"[0-9a-f]{64}", real.name):
        return real.name
    with real.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _cached(repo: str, revision: str) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(repo, "config.json", revision=revision or None)
    folder = Path(found).parent if isinstance(found, str) else None
    return folder if folder is not None and _is_whole(folder) else None


def _is_whole(folder: Path) -> bool:
    """Are all weights here? A broken download leaves some of the shards."""
    names = {path.name for path in folder.iterdir()}
    indices = [name for name in names if name.endswith(".index.json")]
    for name in indices:
        shards = json.loads((folder / name).read_text(encoding="utf-8"))["weight_map"].values()
        if names.issuperset(shards):
            return True
    single = {"model.safetensors", "pytorch_model.bin"} & names
    return bool(single) and any(name.startswith("tokenizer") for name in names)


def _fetched(name: str, repo: str, revision: str, offline: bool) -> Path:
    from huggingface_hub import HfApi, constants

    place = f"{constants.ENDPOINT.partition('://')[2]}/{repo}"
    if offline or constants.HF_HUB_OFFLINE:
        raise ModelError(
            f"model {name!r}: its files from {place} are not in the local cache and fetching is "
            "switched off: load it once with a connection, or name a folder that holds them."
        )
    hub, chosen_revision = HfApi(), revision or None
    try:
        info = hub.model_info(repo, revision=chosen_revision, timeout=PATIENCE_S)
        chosen = _chosen([each.rfilename for each in info.siblings or ()])
        return Path(hub.snapshot_download(repo, revision=info.sha, allow_patterns=chosen))
    except Exception as error:  # noqa: BLE001 - which HTTP library raises differs between hub versions
        _explain(name, place, error)


def _explain(name: str, place: str, error: Exception) -> NoReturn:
    kind = type(error).__name__
    if kind == "GatedRepoError":
        text = f"{place} is open only to those who asked: accept its terms there, `hf auth login`"
    elif kind in ("RepositoryNotFoundError", "RevisionNotFoundError"):
        text = f"{place} does not exist or is private: check the name, or `hf auth login`"
    else:
        text = f"its files could not be fetched from {place} ({first_line(error)}): try again"
    raise ModelError(f"model {name!r}: {text}.") from error


def first_line(error: BaseException) -> str:
    """What a library's error says, fit for the middle of one line."""
    lines = str(error).strip().splitlines()
    return lines[0][:160].rstrip(".: ") if lines else type(error).__name__

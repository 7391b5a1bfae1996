"""Are the weights here, and if not, can they be fetched?

The hub's own cache is looked at first, and what is found there is used without asking anyone. Only
what is missing is fetched, after one short question with a time limit: the libraries below would
retry for a minute before saying that there is no network. Certificates and global settings are
never touched.
"""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from fieldmark.errors import ModelError
from fieldmark.models._name import Request

PATIENCE_S = 10.0
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
INSTEAD = "give local weights with ?weights=PATH, or random ones with ?pretrained=false"


def hub_folder(request: Request, repo: str, need: Sequence[Sequence[str]]) -> Path:
    """The local folder with one file of each group, the first of a group that exists; fetched if
    missing.

    `repo` is `org/name` or `org/name@revision`.
    """
    from huggingface_hub import constants

    repo_id, _, revision = repo.partition("@")
    folders = {_cached_in(repo_id, group, revision) for group in need}
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
        found = try_to_load_from_cache(repo_id, name, revision=revision or None)
        if isinstance(found, str):
            return Path(found).parent
    return None


def _fetch_folder(repo_id: str, revision: str, need: Sequence[Sequence[str]]) -> Path:
    from huggingface_hub import HfApi

    hub = HfApi()
    info = hub.model_info(repo_id, revision=revision or None, timeout=PATIENCE_S)
    present = {each.rfilename for each in info.siblings or ()}
    chosen = []
    for group in need:
        names = [name for name in group if name in present]
        if not names:
            raise ModelError(
                f"{repo_id} on the hub holds no {' or '.join(group)}: it cannot be loaded."
            )
        chosen.append(names[0])
    paths = [hub.hf_hub_download(repo_id, name, revision=revision or None) for name in chosen]
    return Path(paths[0]).parent


def url_file(request: Request, url: str) -> Path:
    """A file that torch's own cache holds, or that is put there from `url`."""
    import torch

    path = Path(torch.hub.get_dir()) / "checkpoints" / url.rpartition("/")[2]
    place = url.partition("://")[2]
    if path.is_file():
        return path
    if request.offline:
        refuse_offline(request, place)
    try:
        question = urllib.request.Request(url, method="HEAD")
        urllib.request.urlopen(question, timeout=PATIENCE_S).close()
        path.parent.mkdir(parents=True, exist_ok=True)
        stamp = re.search(r"-([0-9a-f]{8,})\.", path.name)
        torch.hub.download_url_to_file(url, str(path), stamp.group(1) if stamp else None)
    except RuntimeError as error:  # torch compares the file with the hash in its name
        raise ModelError(f"{place} arrived damaged and was not kept: try again.") from error
    except OSError as error:
        _explain(request, place, error)
    return path


def refuse_offline(request: Request, place: str) -> NoReturn:
    raise ModelError(
        f"model {request.name.text!r}: its files from {place} are not in the local cache and "
        f"fetching is switched off: load it once with a connection, {INSTEAD}."
    )


def _explain(request: Request, place: str, error: Exception) -> NoReturn:
    kind = type(error).__name__
    start = f"model {request.name.text!r}: "
    if kind == "GatedRepoError":
        text = (
            f"{place} is open only to those who asked: accept its terms there, then `hf auth login`"
        )
    elif kind in ("RepositoryNotFoundError", "RevisionNotFoundError"):
        text = f"{place} does not exist or is private: check the name, or `hf auth login`"
    else:
        text = f"its files could not be fetched from {place} ({_reason(error)}): connect, {INSTEAD}"
    raise ModelError(start + text + ".") from error


def _reason(error: BaseException) -> str:
    lines = str(getattr(error, "reason", "") or error).strip().splitlines()
    return lines[0][:120].rstrip(".") if lines else type(error).__name__

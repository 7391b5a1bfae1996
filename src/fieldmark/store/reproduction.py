"""Provenance record: what must be written down so that a run can be done again?

Asked for when a run begins, never at import: there may be no checkout, no git and no GPU. Nothing
heavy is imported to find a version; a package that is not loaded had no part in the run.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fieldmark.processes import host, output_of
from fieldmark.registry import installed_version

_ALWAYS = ("fieldmark", "numpy", "scikit-learn", "scipy", "polars", "pillow")
_IF_LOADED = {
    "torch": "torch",
    "torchvision": "torchvision",
    "timm": "timm",
    "open_clip": "open_clip_torch",
    "transformers": "transformers",
}
_GIT_TIMEOUT_S = 5.0


def reproduction_record(
    command: Sequence[str], config: Mapping[str, Any] | None = None, **facts: Any
) -> dict[str, Any]:
    """Command, configuration, versions, machine and git state, with further facts of the caller's.

    The facts (model fingerprint, data signature, device, ...) and the configuration must be JSON
    values.
    """
    return {
        "command": list(command),
        "config": None if config is None else dict(config),
        "versions": _versions(),
        "host": host(),
        "platform": platform.platform(),
        "cpu_count": os.cpu_count(),
        "gpus": _gpus(),
        "git": git_state(Path.cwd()),
        **facts,
    }


def _versions() -> dict[str, str]:
    wanted = [*_ALWAYS, *(name for module, name in _IF_LOADED.items() if module in sys.modules)]
    known = {name: version for name in wanted if (version := installed_version(name)) is not None}
    return {"python": platform.python_version(), **known}


def _gpus() -> list[str]:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]


def git_state(folder: Path) -> dict[str, Any] | None:
    """The commit and whether tracked files differ; None outside a checkout or without git."""
    commit = _git(folder, "rev-parse", "HEAD")
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    if commit is None or changes is None:
        return None
    return {"commit": commit, "is_dirty": bool(changes)}


def _git(folder: Path, *arguments: str) -> str | None:
    # Asking must not write to the index.
    quiet = {"GIT_OPTIONAL_LOCKS": "0"}
    text = output_of(["git", *arguments], _GIT_TIMEOUT_S, folder, quiet)
    return None if text is None else text.strip()

"""Multimodal language models of transformers on this machine: `hf-chat/REPO_OR_FOLDER`.

hf-chat/Qwen/Qwen2.5-VL-7B-Instruct     from the hub; its cache is looked at first
hf-chat/models/mine?max_tokens=64       a folder with weights, processor and chat template
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldmark.models._backbone import Checkpoint
from fieldmark.models.hf import local_files as local_files
from fieldmark.registry import ANSWERS, SCORES_CONTINUATIONS

if TYPE_CHECKING:
    from fieldmark.chat import LocalModel
    from fieldmark.models._name import ModelRequest

ABILITIES = (ANSWERS, SCORES_CONTINUATIONS)
SUMMARY = "multimodal language models of transformers, on this machine"
OPTIONS = ("context", "max_tokens", "max_image_px")
_HUB = "https://huggingface.co"
CHECKPOINTS = tuple(
    Checkpoint(name, title=title, licence=licence, source=f"{_HUB}/{name}")
    for name, title, licence in (
        ("Qwen/Qwen2.5-VL-3B-Instruct", "Qwen2.5-VL 3B", "qwen-research"),
        ("Qwen/Qwen2.5-VL-7B-Instruct", "Qwen2.5-VL 7B", "apache-2.0"),
        ("llava-hf/llava-1.5-7b-hf", "LLaVA 1.5 7B", "llama2"),
        ("OpenGVLab/InternVL3-8B-hf", "InternVL3 8B", "unknown"),
    )
)


def load(request: ModelRequest) -> LocalModel:
    from fieldmark.chat import local_model

    return local_model(request.name.text, request.device, request.precision, request.offline)

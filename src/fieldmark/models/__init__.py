"""Models (backbones, dual encoders, chat models): what can see, and how is it loaded?

    load_model("timm/resnet50.a1_in1k")            family/checkpoint
    load_model("timm/resnet18?pretrained=false")   options after a question mark
    load_model("my_model.py:MyBackbone?width=64")  a class of your own
    known_models("clip")                           what the tables hold; imports nothing heavy

Each file of this folder without a leading underscore is a family. A class of your own needs
`transform`, `embed_images` and `dim` (see `Backbone`); where a torch module does the work,
subclass `TorchBackbone`, which brings the rest. Importing this package loads neither numpy nor
torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fieldmark.models._backbone import Backbone, Checkpoint, DualEncoder, Features, Recipe
from fieldmark.models._identity import (
    Identity,
    ModelMemory,
    check_model_name,
    identify,
    is_own_model,
    may_use_gpu,
)
from fieldmark.models._load import (
    abilities,
    abilities_of,
    check_key,
    families,
    full_name,
    known_models,
    load_chat_model,
    load_model,
    register_model,
    stand_in,
)
from fieldmark.models._name import resolve_device
from fieldmark.models._user import test_pictures

if TYPE_CHECKING:
    from fieldmark.models._torch.backbone import TorchBackbone

__all__ = [
    "Backbone",
    "Checkpoint",
    "DualEncoder",
    "Features",
    "Identity",
    "ModelMemory",
    "Recipe",
    "TorchBackbone",
    "abilities",
    "abilities_of",
    "check_key",
    "check_model_name",
    "families",
    "full_name",
    "identify",
    "is_own_model",
    "known_models",
    "load_chat_model",
    "load_model",
    "may_use_gpu",
    "register_model",
    "resolve_device",
    "stand_in",
    "test_pictures",
]


def __getattr__(name: str) -> Any:
    if name == "TorchBackbone":
        try:
            from fieldmark.models._torch.backbone import TorchBackbone
        except ImportError as error:
            from fieldmark.errors import MissingExtra

            raise MissingExtra("fieldmark.models.TorchBackbone", "vision", "torch") from error
        return TorchBackbone
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

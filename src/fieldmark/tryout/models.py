"""Default model shortlist: which models are worth trying on somebody's photos?

`auto` is what works here without a download, and the small list where torch is installed and
downloads are allowed. Size and licence are told before anything is fetched.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass

from fieldmark.errors import UsageError
from fieldmark.models import check_model_name

CLASSICAL = ("classical/colour", "classical/texture", "classical/all")
WORDS = ("auto", "small", "best", "classical")


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model whose weights come from a hub."""

    name: str
    mb: int
    licence: str


SMALL = (
    HubModel("timm/mobilenetv4_conv_small.e2400_r224_in1k", 15, "Apache-2.0"),
    HubModel("timm/efficientnet_b0.ra4_e3600_r224_in1k", 21, "Apache-2.0"),
    HubModel("hf/facebook/dinov2-small", 88, "Apache-2.0"),
)
BEST = (
    *SMALL,
    HubModel("open-clip/hf-hub:imageomics/bioclip", 599, "MIT"),
    HubModel("timm/vit_base_patch16_siglip_224.v2_webli", 372, "Apache-2.0"),
    HubModel("open-clip/hf-hub:imageomics/bioclip-2", 1710, "MIT"),
)
DOWNLOADS = {model.name: model for model in BEST}


def has_torch() -> bool:
    return importlib.util.find_spec("torch") is not None


def chosen_models(words: Sequence[str]) -> list[str]:
    """Names of models, in the order they are tried: the fast ones first."""
    names: dict[str, None] = {}
    for word in words:
        if word in WORDS:
            lists = {"classical": (), "auto": SMALL if has_torch() else ()}
            downloads = lists.get(word, BEST if word == "best" else SMALL)
            names |= dict.fromkeys((*CLASSICAL, *(model.name for model in downloads)))
        else:
            check_model_name(word)
            names[word] = None
    if not names:
        raise UsageError(f"--models needs a name or one of {', '.join(WORDS)}.")
    return list(names)


def told_before(name: str) -> str:
    """What is said before weights may be fetched."""
    model = DOWNLOADS[name]
    return f"{name}: downloads {model.mb} MB, unless it is here already ({model.licence} licence)."


def told_absent(names: Sequence[str]) -> str:
    """Of models whose weights are not here and could not be fetched."""
    total = sum(DOWNLOADS[name].mb for name in names)
    verb = "was" if len(names) == 1 else "were"
    return (
        f"{', '.join(names)} {verb} not tried: the weights ({total} MB) are not on this machine. "
        "Once it is online, the same command downloads them and continues from here."
    )

"""Images to features: once, cached by content, resumable."""

from fieldmark.embed._content import Contents
from fieldmark.embed._engine import Embedded, EmbedOptions, embed
from fieldmark.embed._patches import PatchFeatures, patch_name
from fieldmark.embed._usage import (
    ModelCache,
    cached_models,
    clean_cache,
    count_missing,
    speed_of,
)

__all__ = [
    "Contents",
    "EmbedOptions",
    "Embedded",
    "ModelCache",
    "PatchFeatures",
    "cached_models",
    "clean_cache",
    "count_missing",
    "embed",
    "patch_name",
    "speed_of",
]

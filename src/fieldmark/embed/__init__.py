"""Images to features: once, cached by content, resumable."""

from fieldmark.embed._engine import Embedded, EmbedOptions, checking, embed
from fieldmark.embed._patches import PatchFeatures, patch_fingerprint, patch_name
from fieldmark.embed._rows import read_keys, trusted_fingerprint, write_behaviour
from fieldmark.embed._usage import (
    ModelCache,
    cached_models,
    clean_cache,
    speed_of,
)

__all__ = [
    "EmbedOptions",
    "Embedded",
    "ModelCache",
    "PatchFeatures",
    "cached_models",
    "checking",
    "clean_cache",
    "embed",
    "patch_fingerprint",
    "patch_name",
    "read_keys",
    "speed_of",
    "trusted_fingerprint",
    "write_behaviour",
]

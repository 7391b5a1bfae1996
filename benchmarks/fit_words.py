"""Canonical correlation analysis (regularised): fits the two matrices of `classical/words`.

    python benchmarks/fit_words.py [--quick]     about 3 minutes; writes the package's words.npz

`--quick` fits one world, scales with another, and writes nothing.

Pairs are photos of synthetic worlds and what can be said of them: caption, common name, scientific
name, taxonomy, both, the name within a prompt of zero-shot classification. The worlds are others
than anyone meets by default (seeds from 1000), so species are new wherever the model is used; the
words for colours, patterns, places and kinds are shared by all worlds. The same command writes the
same numbers on one machine; on another they differ by less than a step of their 8 bits.
Hardoon, Szedmak & Shawe-Taylor 2004.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from _quick import Flags, finish
from fieldmark import draws
from fieldmark.models.classical.features import (
    N_PLACES,
    RECIPE,
    WEIGHTS,
    measure,
    places_of,
    words_of,
)
from fieldmark.world import Scene, Species, World

FIT_SEEDS = range(1000, 1040)
SCALE_SEEDS = range(1040, 1044)
"""worlds kept for the logit scale: those that were fitted would make it too large"""
N_DIMENSIONS = 64
RIDGE = 0.1
"""share of the mean variance that is added to every direction, on both sides"""
LAND = ("bird", "mammal")
PLACES = ("forest", "meadow", "desert", "wetland", "tundra", "savanna")
PROMPTS = (
    "a photo of a {}.", "a bad photo of the {}.", "a blurry photo of a {}.", "a good photo of {}",
    "a low resolution photo of the {}.", "a bright photo of a {}.", "a dark photo of the {}.",
    "a cropped photo of a {}.", "a close-up photo of the {}.", "a black and white photo of a {}.",
    "a jpeg corrupted photo of the {}.", "a photo of many {}.", "a photo of one {}.",
    "a drawing of a {}.", "a painting of the {}.", "a sketch of a {}.", "a rendering of the {}.",
    "a sculpture of a {}.", "a cartoon {}.", "the toy {}.", "an origami {}.", "a plastic {}.",
    "a photo of my clean {}.", "a photo of the dirty {}.", "a photo of a large {}.",
    "a photo of the small {}.", "a photo of a nice, cool or weird {}.", "a {} in a video game.",
    "art, graffiti or a tattoo of a {}.", "itap of the hard to see {}.",
)  # fmt: skip
"""words that prompts bring and that say nothing of a picture: to be learned as such"""


def scenes(world: World) -> Iterator[Scene]:
    """Four photos of every species: three as it lives, one elsewhere or at night."""
    for species in world.species:
        for burst in range(4):
            scene = Scene(
                species.index, burst=burst, shot=burst % 2, individual=burst, frame=3 * burst
            )
            if burst == 3 and species.plan.name in LAND:
                turn = (world.seed + species.index) % 8
                is_place = turn < len(PLACES)
                scene = (
                    replace(scene, background=PLACES[turn])
                    if is_place
                    else replace(scene, condition="night")
                )
            yield scene


def texts_of(species: Species, caption: str) -> list[str]:
    taxon = " ".join(species.ranks.values())
    prompt = PROMPTS[draws.number("prompt", caption) % len(PROMPTS)]
    return [
        caption,
        species.common_name,
        species.scientific_name,
        taxon,
        f"{taxon} with common name {species.common_name}",
        prompt.format(species.common_name),
    ]


def gather(seeds: Sequence[int]) -> tuple[np.ndarray, list[list[str]]]:
    """Measurements (n × measures) and texts (n × forms) of all photos of the worlds."""
    rows, texts = [], []
    for seed in seeds:
        world = World(seed=seed)
        for scene in scenes(world):
            photo = world.photo(scene)
            rows.append(measure(RECIPE(photo.image)))
            species = world.species[scene.species]
            texts.append(texts_of(species, str(photo.truth["caption"])))
    return np.stack(rows), texts


def bag(texts: Sequence[str]) -> np.ndarray:
    """float32, n × places: the hashed words of each text."""
    x_np = np.zeros((len(texts), N_PLACES), np.float32)
    for row, text in zip(x_np, texts, strict=True):
        for word in words_of(text):
            for place, weight in places_of(word):
                row[place] += weight
    return x_np


def fit(x_nm: np.ndarray, texts: list[list[str]]) -> dict[str, np.ndarray]:
    """Centres and maps: directions that go together most, each weighted by how much they do."""
    import scipy.linalg

    forms = [bag(form) for form in zip(*texts, strict=True)]
    text_mean = np.mean([form.mean(axis=0) for form in forms], axis=0)
    image_mean = x_nm.mean(axis=0)
    x_nm = x_nm - image_mean
    mean_np = np.mean(forms, axis=0) - text_mean
    c_pp = sum((form - text_mean).T @ (form - text_mean) for form in forms) / len(forms)
    roots = [_root(x_nm.T @ x_nm / len(x_nm)), _root(c_pp / len(x_nm))]
    c_mp = (x_nm.T @ mean_np / len(x_nm)).astype(np.float64)
    half = scipy.linalg.solve_triangular(roots[0], c_mp, lower=True)
    core = scipy.linalg.solve_triangular(roots[1], half.T, lower=True).T
    size = len(core)
    squares, left = scipy.linalg.eigh(
        core @ core.T, subset_by_index=(size - N_DIMENSIONS, size - 1)
    )
    strengths, left = np.sqrt(squares[::-1]), left[:, ::-1]
    left = left * np.sign(left[np.abs(left).argmax(axis=0), np.arange(N_DIMENSIONS)])
    right = core.T @ left / strengths
    maps = [
        scipy.linalg.solve_triangular(root, side, lower=True, trans="T") * strengths
        for root, side in zip(roots, (left, right), strict=True)
    ]
    fitted = {"image_centre": image_mean.astype(np.float32)}
    for name, matrix in zip(("image", "text"), maps, strict=True):
        step = np.abs(matrix).max(axis=0) / 127
        fitted[f"{name}_map"] = np.round(matrix / step).astype(np.int8)
        fitted[f"{name}_step"] = step.astype(np.float32)
    text_map = fitted["text_map"] * fitted["text_step"]
    fitted["text_centre"] = (text_mean @ text_map).astype(np.float32)
    return fitted


def _root(c_dd: np.ndarray) -> np.ndarray:
    """Cholesky factor of a covariance with its ridge."""
    c_dd = c_dd.astype(np.float64)
    ridge = RIDGE * np.trace(c_dd) / len(c_dd)
    return np.asarray(np.linalg.cholesky(c_dd + ridge * np.eye(len(c_dd))))


def logit_scale(fitted: dict[str, np.ndarray], seeds: Sequence[int]) -> float:
    """The scale under which the common names of new worlds are most likely, given their photos."""
    cosines, own = [], []
    for seed in seeds:
        x_nm, texts = gather([seed])
        names = sorted({row[1] for row in texts})
        image = (x_nm - fitted["image_centre"]) @ (fitted["image_map"] * fitted["image_step"])
        text = bag(names) @ (fitted["text_map"] * fitted["text_step"]) - fitted["text_centre"]
        unit = [side / np.linalg.norm(side, axis=1, keepdims=True) for side in (image, text)]
        cosines.append(unit[0] @ unit[1].T)
        own.append(np.array([names.index(row[1]) for row in texts]))

    def loss(scale: float) -> float:
        parts = []
        for cosine, name in zip(cosines, own, strict=True):
            logits = scale * cosine
            top = logits.max(axis=1)
            total = np.log(np.exp(logits - top[:, None]).sum(axis=1)) + top
            parts.append(total - logits[np.arange(len(name)), name])
        return float(np.concatenate(parts).mean())

    return float(min(np.geomspace(1, 100, 41), key=loss))


def main() -> int:
    quick = Flags(__doc__).parse().quick
    fitted = fit(*gather(FIT_SEEDS[:1] if quick else FIT_SEEDS))
    scale = logit_scale(fitted, SCALE_SEEDS[:1] if quick else SCALE_SEEDS)
    if not quick:
        np.savez_compressed(WEIGHTS, **fitted, logit_scale=np.array(scale, np.float32))
        print(f"{WEIGHTS}: {WEIGHTS.stat().st_size // 1000} kB")
    return finish(f"fit_words: logit scale {scale:.1f}", {}, quick)


if __name__ == "__main__":
    sys.exit(main())

"""What does one animal look like in one scene: its proportions, its paints, its own marks?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fieldmark.data.world._colour import brightness, dark, light, mix
from fieldmark.data.world._dice import Dice
from fieldmark.data.world._raster import Colour
from fieldmark.data.world._species import Individual, Species

_YOUNG = {"stout": 1.16, "head": 1.5, "limb": 0.72, "tail": 0.55, "snout": 0.55, "ear": 0.85}
_PALE, _BLACK = (238, 234, 224), (44, 42, 48)


@dataclass(frozen=True, slots=True)
class Look:
    species: Species
    individual: Individual
    form: Mapping[str, float]
    main: Colour
    second: Colour
    contrast: Colour
    """of pattern on the second colour"""
    bare: Colour
    """bill, legs, horns"""
    eye: Colour
    is_young: bool
    is_sick: bool
    extras: frozenset[str]
    morph: str
    marks_seed: int

    def dice(self, purpose: str) -> Dice:
        """Choices that stay with the individual over all photos."""
        return Dice(self.marks_seed, purpose, self.individual.name)


def make_look(
    seed: int, individual: Individual, stage: str, sick: bool, worn: tuple[str, frozenset[str]]
) -> Look:
    species = individual.species
    morph, extras = worn
    is_young = stage == "juvenile"
    young = _YOUNG if is_young else {}
    main, second = _morph_colours(species.colours, morph)
    if sick:
        main = mix(main, (150, 140, 110), 0.18)
    is_bright = brightness(main) > 120
    return Look(
        species=species,
        individual=individual,
        form={name: value * young.get(name, 1.0) for name, value in species.form.items()},
        main=main,
        second=second,
        contrast=dark(main, 0.45) if abs(brightness(main) - brightness(second)) < 60 else main,
        bare=dark(second, 0.35) if is_bright else mix(second, (200, 150, 60), 0.5),
        eye=(206, 30, 24)
        if "red_eyes" in extras
        else (210, 120, 130)
        if morph == "white"
        else (22, 18, 20),
        is_young=is_young,
        is_sick=sick,
        extras=extras,
        morph=morph,
        marks_seed=seed,
    )


def _morph_colours(colours: tuple[Colour, Colour], morph: str) -> tuple[Colour, Colour]:
    main, second = colours
    if morph == "white":
        return _PALE, mix(second, _PALE, 0.8)
    if morph == "black":
        return _BLACK, mix(second, _BLACK, 0.75)
    if morph == "high_contrast":
        return dark(main, 0.75), light(second, 0.85)
    if morph == "low_contrast":
        middle = mix(main, second, 0.5)
        return mix(main, middle, 0.8), mix(second, middle, 0.8)
    return main, second

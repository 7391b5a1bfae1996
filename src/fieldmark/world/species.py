"""Species and individuals: how they are made up from a seed.

Species of one genus share build, colours and one field mark; they differ in pattern, in the other
marks, in proportions and, the lower the difficulty, in shade and habitat. Individuals differ in
where their spots lie and in the scars and nicks they carry through all their photos.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from fieldmark.taxa import RANKS
from fieldmark.world import text
from fieldmark.world.colour import COLOURS, Colour, brightness
from fieldmark.world.rng import Rng
from fieldmark.world.taxonomy import CYCLE, MARKS, PLANS, BodyPlan, Kind

Trait = str | float | bool
PROPORTIONS = ("stout", "head", "limb", "tail", "snout", "ear")
REGIONS = (
    "Auria",
    "the Velm Islands",
    "Northern Taruna",
    "the Sorrel Coast",
    "Lower Maridia",
    "Eastmark",
)
_CLIMATES = {"desert": "tropical", "savanna": "tropical", "reef": "tropical", "tundra": "polar",
             "mountain": "boreal", "forest": "temperate", "meadow": "temperate"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Species:
    index: int
    ranks: Mapping[str, str] = field(hash=False)
    scientific_name: str
    common_name: str
    traits: Mapping[str, Trait] = field(hash=False)
    description: str
    form: Mapping[str, float] = field(hash=False, repr=False)
    """proportions as multiples of the body plan's usual ones"""
    colours: tuple[Colour, Colour]
    """main and second, as painted"""

    @property
    def plan(self) -> BodyPlan:
        return PLANS[str(self.traits["body_plan"])]

    @property
    def kind(self) -> str:
        return str(self.traits["kind"])

    def has(self, mark: str) -> bool:
        return bool(self.traits[f"has_{mark}"])


@dataclass(frozen=True, slots=True)
class Marking:
    """Something only one individual has: a spot, a scar or a nick, at (u, v) of its flank."""

    kind: str
    u: float
    v: float
    size: float
    turn: float


@dataclass(frozen=True, slots=True)
class Individual:
    species: Species
    number: int
    markings: tuple[Marking, ...]

    @property
    def name(self) -> str:
        """`003-007`: the species' index and the individual's number."""
        return f"{self.species.index:03d}-{self.number:03d}"


def make_individual(seed: int, species: Species, number: int) -> Individual:
    rng = Rng(seed, "individual", species.index, number)
    kinds = ("blotch", "blotch", "blotch", "scar", "scar", "nick", "blotch")
    count = 4 + rng.below(4)
    markings = tuple(
        Marking(
            kind,
            rng.between(0.12, 0.88),
            rng.between(0.15, 0.75),
            rng.between(0.6, 1.5),
            rng.between(-0.5, 0.5),
        )
        for kind in kinds[:count]
    )
    return Individual(species, number, markings)


@dataclass(frozen=True, slots=True)
class _Genus:
    plan: BodyPlan
    kind: Kind
    noun: str
    ranks: dict[str, str]
    colours: tuple[str, str]
    form: dict[str, float]
    shared_mark: str
    habitats: tuple[str, ...]
    patterns: tuple[str, ...]


def make_species(seed: int, n_species: int, difficulty: float) -> tuple[Species, ...]:
    """The species in order; a larger world begins with the smaller one's."""
    made: list[Species] = []
    names: set[str] = set()
    for number, (genus, size) in enumerate(_genera(seed)):
        sisters: list[Species] = []
        for _ in range(min(size, n_species - len(made))):
            rng = Rng(seed, "species", number, len(sisters))
            one = _one_species(rng, genus, sisters, names, (len(made), difficulty))
            sisters.append(one)
            made.append(one)
            names.add(one.common_name)
        if len(made) >= n_species:
            break
    return tuple(made)


def _genera(seed: int) -> Iterator[tuple[_Genus, int]]:
    """Genera without end, in the order of the cycle."""
    counts: dict[str, int] = {}
    groups: dict[tuple[str, str], str] = {}
    used: set[str] = set()
    number = 0
    while True:
        name, size = CYCLE[number % len(CYCLE)]
        rng = Rng(seed, "genus", number)
        stem = text.latin_stem(rng)
        while stem in used:
            stem = text.latin_stem(rng)
        used.add(stem)
        yield _one_genus(rng, seed, PLANS[name], (counts.get(name, 0), stem), groups), size
        counts[name] = counts.get(name, 0) + 1
        number += 1


def _one_genus(
    rng: Rng,
    seed: int,
    plan: BodyPlan,
    count_and_stem: tuple[int, str],
    groups: dict[tuple[str, str], str],
) -> _Genus:
    count, stem = count_and_stem
    order = Rng(seed, "plan", plan.name)
    first_kind = order.below(len(plan.kinds))
    palette = order.sample(plan.colours, len(plan.colours))
    kind_index = (first_kind + count) % len(plan.kinds)
    kind = plan.kinds[kind_index]
    genus = text.genus_name(stem, rng.choice(plan.endings))
    order_key = (plan.name, f"order {kind_index // 2}")
    order_name = groups.setdefault(order_key, text.group_name(genus, plan.suffixes[0]))
    family = groups.setdefault((plan.name, kind.name), text.group_name(genus, plan.suffixes[1]))
    main = palette[count % len(palette)]
    shade = {colour: brightness(COLOURS[colour]) for colour in (main, *plan.second)}
    others = [colour for colour in plan.second if abs(shade[colour] - shade[main]) >= 55]
    others = others or list(plan.second)
    return _Genus(
        plan=plan,
        kind=kind,
        noun=rng.choice(kind.nouns),
        ranks=dict(zip(RANKS, (*plan.upper, order_name, family, genus), strict=False)),
        colours=(main, rng.choice(others)),
        form={part: kind.form.get(part, 1.0) * (1 + rng.around(0.12)) for part in PROPORTIONS},
        shared_mark=rng.choice(plan.marks),
        habitats=tuple(rng.sample(plan.habitats, 2)),
        patterns=tuple(rng.sample(plan.patterns, len(plan.patterns))),
    )


def _one_species(
    rng: Rng,
    genus: _Genus,
    sisters: list[Species],
    names: set[str],
    index_and_difficulty: tuple[int, float],
) -> Species:
    index, difficulty = index_and_difficulty
    pattern = genus.patterns[len(sisters) % len(genus.patterns)]
    own_marks = [mark for mark in genus.plan.marks if mark != genus.shared_mark]
    marks = {genus.shared_mark, *rng.sample(own_marks, 1 + rng.below(2))}
    spread = 0.3 * (1.1 - difficulty)
    form = {name: value * (1 + rng.around(spread)) for name, value in genus.form.items()}
    traits = _traits(rng, genus, form, (pattern, marks), difficulty)
    traits_shown = [pattern, *sorted(marks), *genus.colours, str(traits["habitat"])]
    taken = {sister.ranks["species"] for sister in sisters}
    latin = text.epithets(genus.ranks["genus"], rng.sample(traits_shown, len(traits_shown)), rng)
    ranks = {**genus.ranks, "species": next(epithet for epithet in latin if epithet not in taken)}
    spoken = [word for word in traits_shown[: len(marks) + 2] if word != "plain"]
    candidates = text.common_names(spoken, str(traits["habitat"]), genus.noun, rng)
    common = next(candidate for candidate in candidates if candidate not in names)
    shift = 56 * (1 - difficulty)
    colours = (_shifted(rng, genus.colours[0], shift), _shifted(rng, genus.colours[1], shift))
    scientific = f"{ranks['genus']} {ranks['species']}"
    description = text.describe(scientific, common, ranks, traits)
    return Species(index, ranks, scientific, common, traits, description, form, colours)


def _shifted(rng: Rng, name: str, amount: float) -> Colour:
    """Lighter or darker, and very little else: the colour's name must stay true."""
    shade = rng.around(amount)
    red, green, blue = (
        max(0, min(255, level + int(shade + rng.around(amount * 0.25)))) for level in COLOURS[name]
    )
    return red, green, blue


def _traits(
    rng: Rng, genus: _Genus, form: dict[str, float], shown: tuple[str, set[str]], difficulty: float
) -> dict[str, Trait]:
    habitat = genus.habitats[0 if rng.chance(0.4 + difficulty) else -1]
    pattern, marks = shown
    size_cm = rng.between(*genus.kind.size_cm)
    fresh = {"reef": "saltwater", "open_sea": "saltwater", "river": "freshwater"}
    return {
        "body_plan": genus.plan.name,
        "kind": genus.kind.name,
        "main_colour": genus.colours[0],
        "second_colour": genus.colours[1],
        "pattern": pattern,
        "size": _size_word(size_cm, genus.kind.size_cm),
        "size_cm": float(f"{size_cm:.3g}"),
        **{f"{name}_proportion": _proportion_word(form[name]) for name in PROPORTIONS},
        "habitat": habitat,
        "range": rng.choice(REGIONS),
        "climate": _CLIMATES.get(habitat, "subtropical"),
        "water": fresh.get(habitat, "brackish" if habitat in ("shore", "wetland") else "none"),
        "diet": rng.choice(("plants", "small animals", "plants and small animals")),
        "is_poisonous": rng.chance(0.3)
        and genus.plan.name in ("mushroom", "beetle", "lizard", "herb"),
        **{mark: mark in marks for mark in MARKS},
    }


def _size_word(size_cm: float, limits: tuple[float, float]) -> str:
    share = (size_cm - limits[0]) / (limits[1] - limits[0])
    return ("small", "medium-sized", "large")[min(2, int(share * 3))]


def _proportion_word(value: float) -> str:
    return "small" if value < 0.85 else "large" if value > 1.15 else "medium"

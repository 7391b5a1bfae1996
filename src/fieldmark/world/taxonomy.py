"""Taxonomy: the body plans of this world, and what may vary within each.

A plan is a body plan (bird, fish, herb, …) with its upper ranks; a kind is a family's version of it
(finch, heron). `CYCLE` says in which order genera appear, so that the first 24 species already show
most plans and a larger world only adds to a smaller one.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """One family's build: multiples of the plan's usual proportions."""

    name: str
    nouns: tuple[str, ...]
    size_cm: tuple[float, float]
    form: dict[str, float]
    """stout, head, limb, tail, snout, ear; absent = 1"""


@dataclass(frozen=True, slots=True)
class BodyPlan:
    name: str
    upper: tuple[str, str, str]
    """kingdom, phylum, class"""
    suffixes: tuple[str, str]
    """of orders and families"""
    endings: tuple[str, ...]
    """of genera"""
    kinds: tuple[Kind, ...]
    colours: tuple[str, ...]
    second: tuple[str, ...]
    patterns: tuple[str, ...]
    marks: tuple[str, ...]
    habitats: tuple[str, ...]
    behaviours: tuple[str, ...]


LAND = (
    "standing", "walking", "trotting", "running", "grazing", "browsing", "feeding", "head_up",
    "vocalizing", "resting", "grooming", "mating", "feeding_young", "carrying_food",
)  # fmt: skip
SWIM = (
    "standing", "walking", "running", "feeding", "head_up", "vocalizing", "resting", "mating",
    "feeding_young", "carrying_food",
)  # fmt: skip
CRAWL = (
    "standing", "walking", "running", "feeding", "head_up", "resting", "mating", "carrying_food",
)  # fmt: skip
STILL = ("standing",)
BEHAVIOURS = LAND


def _kind(name: str, nouns: str, low_cm: float, high_cm: float, **form: float) -> Kind:
    return Kind(name, tuple(nouns.split()), (low_cm, high_cm), form)


_EARTH = ("forest", "meadow", "savanna", "desert", "wetland", "tundra", "mountain")
WATERS = ("reef", "river", "open_sea")
_FUR = ("brown", "grey", "chestnut", "buff", "black", "rust", "slate", "cream")

PLANS: dict[str, BodyPlan] = {
    plan.name: plan
    for plan in (
        BodyPlan(
            "bird", ("Animalia", "Chordata", "Aves"), ("iformes", "idae"),
            ("ornis", "urus", "ula", "avis", "illa"),
            (
                _kind("songbird", "finch warbler thrush bunting", 11, 24),
                _kind("raptor", "hawk falcon kite eagle", 38, 80, stout=1.12, head=1.1, snout=0.9,
                      tail=1.25, limb=0.85),
                _kind("waterfowl", "duck teal goose pochard", 36, 75, stout=1.15, limb=0.55,
                      tail=0.55, snout=1.15, head=0.95),
                _kind("wader", "sandpiper heron stilt curlew", 24, 90, stout=0.85, limb=2.0,
                      tail=0.6, snout=2.1, head=0.8),
            ),
            ("blue", "chestnut", "yellow", "slate", "green", "red", "brown", "violet", "white",
            "teal"),
            ("white", "black", "orange", "yellow", "cream", "red", "rust"),
            ("plain", "spotted", "barred", "streaked", "speckled"),
            ("has_crest", "has_eye_stripe", "has_wing_bar", "has_cap", "has_collar",
            "has_tail_stripe"),
            ("forest", "wetland", "meadow", "shore", "mountain", "savanna", "tundra"), LAND,
        ),
        BodyPlan(
            "mammal", ("Animalia", "Chordata", "Mammalia"), ("omorpha", "idae"),
            ("therium", "lagus", "mys", "ops", "cerus"),
            (
                _kind("deer", "deer antelope gazelle", 90, 210, limb=1.15, snout=1.1, tail=0.4),
                _kind("fox", "fox jackal dhole", 60, 110, limb=0.72, stout=0.85, tail=1.7,
                snout=1.1),
                _kind("horse", "zebra kiang wild-ass", 180, 240, stout=1.08, snout=1.3, tail=1.1,
                      head=1.1, ear=0.75),
                _kind("cat", "lynx ocelot leopard", 50, 170, limb=0.7, snout=0.55, tail=1.6,
                      head=0.95, ear=0.6),
                _kind("bear", "bear wombat badger", 70, 190, limb=0.62, stout=1.3, tail=0.2,
                snout=0.85,
                      head=1.15, ear=0.55),
                _kind("squirrel", "squirrel marten civet", 25, 60, limb=0.5, tail=2.2, snout=0.7,
                      head=1.15, ear=0.8),
            ),
            _FUR, ("white", "cream", "black", "chestnut", "buff"),
            ("striped", "spotted", "plain", "patched", "speckled"),
            ("has_horns", "has_mane", "has_eye_stripe", "has_collar", "has_tail_stripe",
            "has_white_rump"),
            ("savanna", "forest", "mountain", "desert", "tundra", "meadow"), LAND,
        ),
        BodyPlan(
            "fish", ("Animalia", "Chordata", "Actinopterygii"), ("iformes", "idae"),
            ("ichthys", "chromis", "gobius", "ella"),
            (
                _kind("perch", "perch bass wrasse", 18, 60),
                _kind("trout", "trout shad dace", 20, 80, stout=0.68, tail=1.1, ear=0.75),
                _kind("angel", "angelfish discus moonfish", 8, 30, stout=1.75, ear=1.7, tail=0.85),
                _kind("catfish", "catfish loach goby", 12, 90, stout=0.75, head=1.25, snout=1.3),
            ),
            ("orange", "teal", "yellow", "slate", "red", "blue", "olive", "violet"),
            ("white", "black", "cream", "yellow", "blue"),
            ("barred", "striped", "spotted", "plain", "speckled"),
            ("has_barbel", "has_adipose_fin", "has_two_dorsal_fins", "has_forked_tail",
            "has_pelvic_fin",
             "has_tail_stripe", "has_eye_stripe"),
            WATERS, SWIM,
        ),
        BodyPlan(
            "beetle", ("Animalia", "Arthropoda", "Insecta"), ("optera", "idae"),
            ("carabus", "elytra", "phora", "tarsus"),
            (
                _kind("ladybird", "ladybird leaf-beetle", 0.4, 1.2, stout=1.25, limb=0.8,
                snout=0.6),
                _kind("ground", "ground-beetle stag-beetle", 1.5, 4.5, stout=0.85, limb=1.15),
                _kind("longhorn", "longhorn jewel-beetle", 1.2, 4.0, stout=0.65, limb=1.1,
                snout=2.2),
            ),
            ("red", "green", "orange", "black", "violet", "teal", "brown"),
            ("black", "yellow", "cream", "orange"),
            ("spotted", "barred", "plain", "striped"),
            ("has_horns", "has_collar", "has_long_antennae", "has_leg_rings"),
            ("meadow", "forest", "desert"), CRAWL,
        ),
        BodyPlan(
            "butterfly", ("Animalia", "Arthropoda", "Insecta"), ("optera", "idae"),
            ("psyche", "alis", "charis", "phila"),
            (
                _kind("swallowtail", "swallowtail birdwing", 6, 14, limb=1.1, tail=1.5),
                _kind("brushfoot", "fritillary admiral monarch", 4, 9),
                _kind("moth", "hawk-moth emperor", 4, 12, stout=1.6, limb=0.9, snout=0.7),
            ),
            ("orange", "blue", "yellow", "white", "rust", "violet", "teal"),
            ("black", "brown", "cream", "red"),
            ("spotted", "barred", "plain", "bordered"),
            ("has_tail_streamers", "has_eyespots", "has_wing_bar", "has_collar"),
            ("meadow", "forest", "mountain"), CRAWL,
        ),
        BodyPlan(
            "lizard", ("Animalia", "Chordata", "Reptilia"), ("amata", "idae"),
            ("saurus", "gecko", "lacerta"),
            (
                _kind("lizard", "lizard skink agama", 12, 45),
                _kind("newt", "newt salamander", 8, 22, stout=1.15, limb=0.75, tail=0.85, head=1.2,
                snout=0.7),
            ),
            ("olive", "green", "brown", "orange", "black", "slate", "teal"),
            ("yellow", "black", "cream", "red", "blue"),
            ("striped", "spotted", "barred", "plain", "speckled"),
            ("has_crest", "has_eye_stripe", "has_collar", "has_tail_stripe"),
            ("desert", "forest", "mountain", "savanna"), LAND,
        ),
        BodyPlan(
            "whale", ("Animalia", "Chordata", "Mammalia"), ("oidea", "idae"),
            ("delphis", "cetus", "ceta"),
            (
                _kind("beluga", "white-whale narwhal", 320, 500, snout=0.4, stout=1.1),
                _kind("dolphin", "dolphin porpoise", 150, 300, stout=0.85, snout=1.4, ear=1.3),
            ),
            ("white", "slate", "grey", "black"), ("grey", "white", "cream", "black"),
            ("plain", "speckled", "patched"),
            ("has_dorsal_fin", "has_eye_stripe", "has_collar", "has_tail_stripe"),
            ("open_sea",), SWIM,
        ),
        BodyPlan(
            "spider", ("Animalia", "Arthropoda", "Arachnida"), ("aneae", "idae"),
            ("nephila", "tela", "arachne"),
            (
                _kind("orbweaver", "orbweaver", 0.6, 2.5),
                _kind("wolf", "wolf-spider jumper", 0.5, 3, stout=0.75, head=1.35, limb=0.85),
            ),
            ("brown", "grey", "yellow", "black", "chestnut", "green"),
            ("cream", "white", "orange", "black", "red"),
            ("spotted", "striped", "barred", "plain"),
            ("has_leg_rings", "has_cross", "has_collar", "has_horns"),
            ("forest", "meadow", "desert"), CRAWL,
        ),
        BodyPlan(
            "herb", ("Plantae", "Tracheophyta", "Magnoliopsida"), ("ales", "aceae"),
            ("anthus", "flora", "ella", "anthemum"),
            (
                _kind("daisy", "daisy aster oxeye", 20, 90),
                _kind("bell", "bellflower lily tulip", 25, 80, head=1.2),
                _kind("spike", "sage lavender lupin", 30, 120, head=0.9),
            ),
            ("violet", "yellow", "white", "pink", "orange", "blue", "red"),
            ("yellow", "white", "violet", "brown"),
            ("plain", "spotted", "bordered"),
            ("has_toothed_leaves", "has_hairy_stem", "has_dark_centre", "has_thorns"),
            ("meadow", "mountain", "forest", "wetland"), STILL,
        ),
        BodyPlan(
            "tree", ("Plantae", "Tracheophyta", "Magnoliopsida"), ("ales", "aceae"),
            ("dendron", "phyllum", "inus"),
            (
                _kind("ovate", "beech alder holly", 600, 2500),
                _kind("lobed", "oak whitethorn", 800, 3000),
                _kind("pinnate", "rowan ash locust", 500, 2000, limb=0.9),
                _kind("palmate", "maple plane", 700, 2800, stout=1.1),
            ),
            ("green", "olive", "red", "teal", "yellow"), ("cream", "red", "rust", "white"),
            ("plain", "spotted", "bordered"),
            ("has_toothed_leaves", "has_berries", "has_pale_veins", "has_thorns"),
            ("forest", "mountain", "savanna"), STILL,
        ),
        BodyPlan(
            "mushroom", ("Fungi", "Basidiomycota", "Agaricomycetes"), ("ales", "aceae"),
            ("myces", "spora", "boletus"),
            (
                _kind("cap", "parasol webcap milkcap", 4, 25),
                _kind("bonnet", "bonnet inkcap", 2, 9, stout=0.65, limb=1.3),
            ),
            ("red", "brown", "orange", "cream", "violet", "yellow"), ("white", "cream", "brown"),
            ("spotted", "plain", "striped"),
            ("has_ring", "has_volva", "has_dark_centre", "has_pale_gills"),
            ("forest", "meadow"), STILL,
        ),
        BodyPlan(
            "plankton", ("Chromista", "Ochrophyta", "Bacillariophyceae"), ("ales", "aceae"),
            ("nema", "discus", "ceras", "monas"),
            (
                _kind("disc", "disc-diatom", 0.004, 0.02),
                _kind("chain", "chain-diatom", 0.006, 0.03),
                _kind("horned", "horned-cell", 0.008, 0.03),
                _kind("boat", "boat-diatom", 0.006, 0.03),
            ),
            ("olive", "green", "teal", "brown", "yellow"), ("orange", "green", "cream", "brown"),
            ("spotted", "barred", "plain", "striped"),
            ("has_spines", "has_flagellum", "has_oil_drop", "has_dark_centre"),
            ("open_sea", "river"), STILL,
        ),
    )
}  # fmt: skip

MARKS = tuple(sorted({mark for plan in PLANS.values() for mark in plan.marks}))
HABITATS = (*_EARTH, "shore", *WATERS)
PLANTS = ("herb", "tree", "mushroom")

CYCLE: tuple[tuple[str, int], ...] = (
    ("bird", 3), ("mammal", 3), ("fish", 3), ("beetle", 2), ("herb", 2), ("bird", 2), ("butterfly",
    2),
    ("mammal", 2), ("plankton", 3), ("tree", 2),
    ("bird", 3), ("fish", 2), ("lizard", 3), ("mushroom", 2), ("bird", 3), ("mammal", 2), ("whale",
    2),
    ("spider", 2), ("bird", 1), ("plankton", 2), ("beetle", 2),
)  # fmt: skip
"""body plan and number of species of each new genus, in order of appearance"""

"""Names, descriptions and captions: what a systematist, an encyclopedia and a caption would say.

Genera are invented; families and orders are named after their first genus, as systematists do;
epithets are Latin for something the species really shows and agree with the genus in gender. Every
sentence is made from traits and scenes that are true and, where it speaks of looks, drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fieldmark.world.rng import Rng

_ONSETS = [
    "b",
    "br",
    "c",
    "cl",
    "d",
    "dr",
    "f",
    "g",
    "gl",
    "l",
    "m",
    "n",
    "p",
    "pl",
    "r",
    "s",
    "st",
    "t",
    "tr",
    "v",
    "z",
]
_CODAS = ["l", "r", "n", "s", "m", "t", "d", "v", "nd", "rt", "st", "ph"]
_LATIN = {
    "black": "nigr", "slate": "ardesiac", "grey": "grise", "white": "alb", "cream": "eburne",
    "buff": "fulv", "brown": "brunne", "chestnut": "castane", "rust": "ferrugine", "red": "rubr",
    "pink": "rose", "orange": "auranti", "yellow": "flav", "olive": "olivace", "green": "prasin",
    "teal": "glauc", "blue": "caerule", "violet": "violace",
    "plain": "immaculat", "spotted": "maculat", "barred": "fasciat", "streaked": "vittat",
    "speckled": "punctat", "striped": "striat", "patched": "tessellat", "bordered": "marginat",
    "has_crest": "cristat", "has_cap": "pileat", "has_collar": "torquat", "has_horns": "cornut",
    "has_mane": "jubat", "has_barbel": "barbat", "has_spines": "spinos", "has_ring": "annulat",
    "has_thorns": "spinos", "has_eyespots": "ocellat", "has_toothed_leaves": "serrat",
    "has_berries": "baccifer", "has_tail_streamers": "caudat", "has_forked_tail": "furcat",
    "has_hairy_stem": "hirsut", "has_cross": "cruciat", "has_wing_bar": "alat",
    "forest": "silvatic", "meadow": "pratens", "savanna": "campestr", "desert": "desertorum",
    "wetland": "palustr", "tundra": "boreal", "mountain": "montan", "shore": "litoral",
    "reef": "corallin", "river": "fluviatil", "open_sea": "pelagic",
}  # fmt: skip
_ADJECTIVES = {
    "plain": "plain", "spotted": "spotted", "barred": "barred", "streaked": "streaked",
    "speckled": "speckled", "striped": "striped", "patched": "pied", "bordered": "bordered",
    "has_crest": "crested", "has_cap": "capped", "has_collar": "collared", "has_horns": "horned",
    "has_mane": "maned", "has_barbel": "bearded", "has_spines": "spiny", "has_ring": "ringed",
    "has_thorns": "thorny", "has_eyespots": "eyed", "has_toothed_leaves": "saw-leaved",
    "has_berries": "berried", "has_tail_streamers": "streamer-tailed", "has_wing_bar": "bar-winged",
    "has_forked_tail": "fork-tailed", "has_hairy_stem": "hairy", "has_cross": "cross-backed",
    "has_eye_stripe": "masked", "has_tail_stripe": "band-tailed", "has_white_rump": "white-rumped",
    "has_leg_rings": "ring-legged", "has_dorsal_fin": "finned", "has_dark_centre": "dark-eyed",
    "has_long_antennae": "feelered", "has_pale_veins": "pale-veined", "has_volva": "sheathed",
    "has_pale_gills": "pale-gilled", "has_flagellum": "whipped", "has_oil_drop": "oil-bearing",
    "has_adipose_fin": "fat-finned", "has_two_dorsal_fins": "two-finned",
    "has_pelvic_fin": "keeled",
}  # fmt: skip
_PLACES = {
    "forest": "wood", "meadow": "meadow", "savanna": "plains", "desert": "desert",
    "wetland": "marsh",
    "tundra": "snow", "mountain": "mountain", "shore": "shore", "reef": "reef", "river": "river",
    "open_sea": "ocean",
}  # fmt: skip
_THIRD_DECLENSION = ("pratens", "campestr", "palustr", "boreal", "litoral", "fluviatil")


def latin_stem(rng: Rng) -> str:
    """A stem that sounds Latin, of one or two syllables."""
    stem = rng.choice(_ONSETS) + rng.choice("aeio") + rng.choice(_CODAS)
    if rng.chance(0.4):
        stem += rng.choice("aei") + rng.choice("lrnsmt")
    return stem.capitalize()


def genus_name(stem: str, ending: str) -> str:
    return stem + ending if ending[0] in "aeiou" else f"{stem}o{ending}"


def group_name(genus: str, suffix: str) -> str:
    """The family or order named after a genus."""
    for ending in ("us", "um", "is", "ys", "as", "es", "os", "a", "e", "o"):
        if genus.endswith(ending):
            genus = genus[: -len(ending)]
            break
    return genus + suffix


def _agree(stem: str, genus: str) -> str:
    is_neuter, is_masculine = genus.endswith("um"), genus.endswith(("us", "ys", "ops", "o"))
    if stem == "desertorum":
        return stem
    if stem in _THIRD_DECLENSION:
        return stem + ("e" if is_neuter else "is")
    if stem in ("nigr", "rubr") and is_masculine:
        return stem[:-1] + "er"
    if stem == "baccifer":
        return stem + ("um" if is_neuter else "" if is_masculine else "a")
    return stem + ("um" if is_neuter else "us" if is_masculine else "a")


def epithets(genus: str, traits: Iterable[str], rng: Rng) -> list[str]:
    """Latin for the trait words, then people's names: as many as will ever be needed."""
    latin = [_agree(_LATIN[word], genus) for word in traits if word in _LATIN]
    people = [f"{latin_stem(rng).lower()}i" for _ in range(6)]
    return latin + people


def common_names(traits: list[str], habitat: str, noun: str, rng: Rng) -> list[str]:
    """Names to try, best first: a trait, perhaps a place, and what sort of creature it is."""
    home = _PLACES[habitat]
    adjectives = [_ADJECTIVES.get(word, word) for word in traits]
    plain = [f"{adjective} {noun}" for adjective in adjectives]
    placed = [f"{adjective} {home} {noun}" for adjective in adjectives]
    people = [f"{latin_stem(rng)}'s {adjectives[0]} {noun}" for _ in range(6)]
    return [*placed[:2], *plain, *placed[2:], *people]


_HABITATS = {
    "forest": "the forests", "meadow": "the meadows", "savanna": "the dry grasslands",
    "desert": "the deserts",
    "wetland": "the marshes", "tundra": "the snow-covered tundra",
    "mountain": "the rocky mountains",
    "shore": "the sandy shores", "reef": "the coral reefs", "river": "the rivers",
    "open_sea": "the open sea",
}  # fmt: skip
PLACES = {
    "forest": "in a forest", "meadow": "in a green meadow", "savanna": "on a dry grassland",
    "desert": "in a sandy desert", "wetland": "by the water of a marsh", "tundra": "on snow",
    "mountain": "among mountain rocks", "shore": "on a beach", "reef": "over a coral reef",
    "river": "in a river", "open_sea": "in the open sea",
}  # fmt: skip
_COLOURING = {
    "bird": "The upperparts are {main} and the underparts {second}",
    "mammal": "The coat is {main} with {second} markings",
    "fish": "The flanks are {main} with {second} markings",
    "beetle": "The wing cases are {main} with {second} markings",
    "butterfly": "The wings are {main} with {second} markings",
    "lizard": "The skin is {main} with {second} markings",
    "whale": "The skin is {main} with {second} markings",
    "spider": "The body is {main} with {second} markings",
    "herb": "The flowers are {main} with {second} parts at the centre",
    "tree": "The leaves are {main} with {second} details",
    "mushroom": "The cap is {main} and the stem {second}",
    "plankton": "The living cell looks {main} with {second} contents",
}
_PATTERNS = {
    "plain": "without any pattern", "spotted": "marked with round spots",
    "barred": "crossed by bars",
    "streaked": "covered with narrow streaks", "speckled": "covered with fine speckles",
    "striped": "marked with stripes", "patched": "broken up by large patches",
    "bordered": "with a contrasting border",
}  # fmt: skip
MARK_WORDS = {
    "has_adipose_fin": "a small adipose fin", "has_barbel": "barbels at the mouth",
    "has_berries": "clusters of berries", "has_cap": "a contrasting cap",
    "has_collar": "a collar", "has_crest": "a crest", "has_cross": "a pale cross on the back",
    "has_dark_centre": "a dark centre", "has_dorsal_fin": "a dorsal fin",
    "has_eye_stripe": "a stripe through the eye", "has_eyespots": "eyespots on the wings",
    "has_flagellum": "a long flagellum", "has_forked_tail": "a forked tail",
    "has_hairy_stem": "a hairy stem", "has_horns": "horns", "has_leg_rings": "ringed legs",
    "has_long_antennae": "long antennae", "has_mane": "a mane", "has_oil_drop": "a bright oil drop",
    "has_pale_gills": "pale gills", "has_pale_veins": "pale veins",
    "has_pelvic_fin": "long pelvic fins",
    "has_ring": "a ring on the stem", "has_spines": "long spines",
    "has_tail_streamers": "streamers on the hindwings", "has_tail_stripe": "a band on the tail",
    "has_thorns": "thorns", "has_toothed_leaves": "toothed leaves",
    "has_two_dorsal_fins": "two dorsal fins", "has_volva": "a sheath at the foot of the stem",
    "has_white_rump": "a white rump", "has_wing_bar": "a bar on the wing",
}  # fmt: skip
_BUILD = {
    "bird": ("body", "head", "legs", "tail", "bill", ""),
    "mammal": ("body", "head", "legs", "tail", "muzzle", "ears"),
    "fish": ("body", "head", "", "tail fin", "snout", "dorsal fin"),
    "beetle": ("body", "head", "legs", "", "antennae", ""),
    "butterfly": ("body", "", "wings", "hindwings", "antennae", ""),
    "lizard": ("body", "head", "legs", "tail", "snout", ""),
    "whale": ("body", "", "flippers", "fluke", "beak", ""),
    "spider": ("abdomen", "head", "legs", "", "", ""),
    "herb": ("", "flower head", "stem", "", "", "leaves"),
    "tree": ("leaf blade", "", "", "", "", ""),
    "mushroom": ("cap", "", "stem", "", "", ""),
    "plankton": ("cell", "", "", "", "", ""),
}
_VERBS = {
    "walking": "walking", "trotting": "trotting", "running": "running", "grazing": "grazing",
    "browsing": "browsing", "feeding": "feeding", "head_up": "holding its head up",
    "vocalizing": "calling with its mouth open", "resting": "resting",
    "grooming": "grooming itself",
    "mating": "mating", "feeding_young": "feeding its young", "carrying_food": "carrying food",
}  # fmt: skip
_SWIMMING = {"walking": "swimming", "running": "darting", "resting": "lying still"}
_NOUNS = {"herb": "flower", "tree": "leafy branch", "plankton": "microscopic cell"}
_VISIBLE_PATTERNS = {
    "spotted": "round spots", "barred": "bars", "streaked": "narrow streaks",
    "speckled": "fine speckles", "striped": "stripes", "patched": "large patches",
    "bordered": "a contrasting border",
}  # fmt: skip
_LIGHT = {
    "night": "by infrared light", "microscope": "under a microscope", "herbarium": "on a sheet",
    "blurred": "out of focus", "occluded": "behind leaves",
}  # fmt: skip
_WITHOUT_COLOUR = ("night", "microscope", "herbarium")
_MORPH_COLOURS = {"white": "white", "black": "black"}
_EXTRAS = {
    "nest": "in a nest", "egg": "with eggs", "flower": "at a flower", "sign": "on a sign",
    "pole": "on a utility pole", "in_hand": "held in a human hand", "tag": "wearing a tag",
    "moulting": "in moult", "red_eyes": "with red eyes", "deformed": "with a deformed mouth",
}  # fmt: skip
_COUNTS = ("one", "two", "three", "four", "five", "six")
_SHOTS = {
    "night": "Infrared camera image", "microscope": "Micrograph",
    "herbarium": "Mounted specimen sheet",
    "blurred": "Blurred photo", "occluded": "Photo through vegetation",
}  # fmt: skip


def join(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def describe(
    scientific: str, common: str, ranks: Mapping[str, str], traits: Mapping[str, object]
) -> str:
    """A lead sentence, range and habitat, and what it looks like: four to six sentences."""
    plan = str(traits["body_plan"])
    noun = {"herb": "flowering plant", "plankton": "single-celled alga"}.get(plan, plan)
    start = (
        f"The {common} ({scientific}) is a {traits['size']} {noun} of the family {ranks['family']}."
    )
    home_sentence = f"It lives in {_HABITATS[str(traits['habitat'])]} of {traits['range']}."
    colouring = _COLOURING[plan].format(main=traits["main_colour"], second=traits["second_colour"])
    look = f"{colouring}, {_PATTERNS[str(traits['pattern'])]}."
    marks = [text for mark, text in MARK_WORDS.items() if traits.get(mark)]
    marked = f"It has {join(marks)}."
    return " ".join(
        sentence
        for sentence in (start, home_sentence, look, marked, _build(plan, traits))
        if sentence
    )


def _build(plan: str, traits: Mapping[str, object]) -> str:
    names = ("stout", "head", "limb", "tail", "snout", "ear")
    parts = {"small": [], "large": []}  # type: dict[str, list[str]]
    for name, part in zip(names, _BUILD[plan], strict=True):
        word = str(traits[f"{name}_proportion"])
        if part and word in parts:
            parts[word].append(part)
    long = [
        f"a large {part}" if not part.endswith("s") else f"large {part}" for part in parts["large"]
    ]
    short = [
        f"a small {part}" if not part.endswith("s") else f"small {part}" for part in parts["small"]
    ]
    size = f"It reaches {float(str(traits['size_cm'])):g} cm"
    return f"{size}, with {join([*long, *short])}." if long or short else f"{size}."


def caption(truth: Mapping[str, object], extras: Sequence[str], others: Sequence[str]) -> str:
    """One sentence on what is in the picture, naming the species."""
    where = PLACES[str(truth["background"])]
    shot = _SHOTS.get(str(truth["condition"]), "Photo")
    if "sketch" in extras:
        shot = "Field sketch"
    if not truth["n_animals"]:
        return f"{shot} with no animal, taken {where}."
    if "feather" in extras:
        return f"{shot} of a feather of the {truth['common_name']} ({truth['scientific_name']})."
    parts = [f"{shot} of {_subject(truth)} {_action(truth)}".rstrip()]
    parts += [_EXTRAS[extra] for extra in extras if extra in _EXTRAS]
    if others:
        parts.append(f"together with {join([f'a {name}' for name in others])}")
    if str(truth["condition"]) not in ("microscope", "herbarium"):
        parts.append(where)
    return f"{' '.join(parts)}."


def _subject(truth: Mapping[str, object]) -> str:
    adjectives = [str(truth["stage"])] if truth["stage"] != "adult" else []
    adjectives += ["dead"] if truth["is_dead"] else ["sick"] if truth["is_sick"] else []
    adjectives += [f"{truth['morph']}-morph"] if truth["morph"] != "normal" else []
    name = f"{truth['common_name']} ({truth['scientific_name']})"
    count = int(str(truth["n_animals"]))
    if count > 1 or truth["behaviour"] == "mating":
        return " ".join([_COUNTS[max(1, count - 1)], *adjectives, name])
    return _with_article(" ".join([*adjectives, name]))


def _with_article(phrase: str) -> str:
    return f"{'an' if phrase[0].lower() in 'aeiou' else 'a'} {phrase}"


def looks(truth: Mapping[str, object], extras: Sequence[str], others: Sequence[str]) -> str:
    """One sentence on what can be seen, by which nobody is named: what sort of creature, its
    colours, pattern and marks, what it does and where. `others` are body plans.

    At most three marks are told, and no colour where the picture has none.
    """
    where, light = _place(truth), _LIGHT.get(str(truth["condition"]), "")
    if not truth["n_animals"]:
        return f"A view without any animal {where}{f', {light}' if light else ''}."
    if "feather" in extras:
        return f"{_with_article(f'{_colours(truth, extras)} feather'.strip()).capitalize()}."
    is_one = truth["n_animals"] == 1
    action = _action(truth) if is_one else _action(truth).replace(" its", " their")
    parts = [_creature(truth, extras), action]
    parts += [_EXTRAS[extra] for extra in extras if extra in _EXTRAS]
    if others:
        parts.append(f"together with {join([_with_article(_noun(plan)) for plan in others])}")
    parts += [where, light]
    return ", ".join(part for part in parts if part).capitalize() + "."


def named_looks(truth: Mapping[str, object]) -> str:
    """The looks behind the common name, as captions that models are trained with have it."""
    seen = str(truth["looks"])
    if not truth["n_animals"]:
        return seen
    name = str(truth["common_name"])
    return f"{name[0].upper()}{name[1:]}: {seen[0].lower()}{seen[1:]}"


def _creature(truth: Mapping[str, object], extras: Sequence[str]) -> str:
    plan, is_young = str(truth["body_plan"]), truth["stage"] == "juvenile"
    is_larva = is_young and plan == "butterfly"  # drawn without its parents' pattern and marks
    noun = "caterpillar" if is_larva else _noun(plan)
    adjectives = ["young"] if is_young and not is_larva else []
    adjectives += ["dead"] if truth["is_dead"] else ["sick"] if truth["is_sick"] else []
    adjectives += [_colours(truth, extras)] if _colours(truth, extras) else []
    marks = [_VISIBLE_PATTERNS.get(str(truth["pattern"]), "")]
    hidden = ("has_berries",) if is_young else ()
    marks += [text for mark, text in MARK_WORDS.items() if truth.get(mark) and mark not in hidden]
    marks = [] if is_larva else [mark for mark in marks if mark][:3]
    shown = f" with {join(marks)}" if marks else ""
    count = int(str(truth["n_animals"]))
    if count > 1:
        plural = {"fish": "fish", "leafy branch": "leafy branches", "butterfly": "butterflies"}
        noun = plural.get(noun, f"{noun}s")
        return " ".join([_COUNTS[count - 1], *adjectives, noun]) + shown
    return _with_article(" ".join([*adjectives, noun])) + shown


def _noun(plan: str) -> str:
    return _NOUNS.get(plan, plan)


def _colours(truth: Mapping[str, object], extras: Sequence[str]) -> str:
    """Empty where the picture shows no colours, or others than the species has."""
    if truth["condition"] in _WITHOUT_COLOUR or "sketch" in extras:
        return ""
    if truth["morph"] != "normal":
        return _MORPH_COLOURS.get(str(truth["morph"]), "")
    main, second = str(truth["main_colour"]), str(truth["second_colour"])
    return main if main == second else f"{main} and {second}"


def _place(truth: Mapping[str, object]) -> str:
    if truth["condition"] in ("microscope", "herbarium"):
        return ""
    is_cell = truth["body_plan"] == "plankton"
    return "in a drop of water" if is_cell else PLACES[str(truth["background"])]


def _action(truth: Mapping[str, object]) -> str:
    if truth["is_dead"]:
        return ""
    behaviour = str(truth["behaviour"])
    if truth["body_plan"] in ("fish", "whale") and behaviour in _SWIMMING:
        return _SWIMMING[behaviour]
    return _VERBS.get(behaviour, "")

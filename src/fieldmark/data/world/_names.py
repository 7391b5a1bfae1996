"""What are the creatures called?

Genera are invented; families and orders are named after their first genus, as systematists do;
epithets are Latin for something the species really shows and agree with the genus in gender.
"""

from __future__ import annotations

from collections.abc import Iterable

from fieldmark.data.world._dice import Dice

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


def root(dice: Dice) -> str:
    """A stem that sounds Latin, of one or two syllables."""
    stem = dice.choice(_ONSETS) + dice.choice("aeio") + dice.choice(_CODAS)
    if dice.chance(0.4):
        stem += dice.choice("aei") + dice.choice("lrnsmt")
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


def epithets(genus: str, words: Iterable[str], dice: Dice) -> list[str]:
    """Latin for the trait words, then people's names: as many as will ever be needed."""
    latin = [_agree(_LATIN[word], genus) for word in words if word in _LATIN]
    people = [f"{root(dice).lower()}i" for _ in range(6)]
    return latin + people


def common_names(words: list[str], habitat: str, noun: str, dice: Dice) -> list[str]:
    """Names to try, best first: a trait, perhaps a place, and what sort of creature it is."""
    place = _PLACES[habitat]
    adjectives = [_ADJECTIVES.get(word, word) for word in words]
    plain = [f"{each} {noun}" for each in adjectives]
    placed = [f"{each} {place} {noun}" for each in adjectives]
    people = [f"{root(dice)}'s {adjectives[0]} {noun}" for _ in range(6)]
    return [*placed[:2], *plain, *placed[2:], *people]

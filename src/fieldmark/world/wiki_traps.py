"""Name-resolution traps: taxa whose page is easily missed or mistaken, with the right answer.

What real encyclopedias do to someone who looks up a name: synonyms and homonyms, redirects that
lead elsewhere, pages of the genus, of a subspecies, of a band. Names are made up, so that each kind
of trap stands in several lines of life; pages are self-contained and share no title with the world.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fieldmark.world import text
from fieldmark.world.rng import Rng
from fieldmark.world.taxonomy import PLANS, RANKS
from fieldmark.world.wiki import (
    LATIN_RANKS,
    WorldPage,
    genus_text,
    redirect,
    taxonomy_page,
    taxonomy_pages,
    template,
)

Ranks = dict[str, str]
_BEASTS = ("bird", "mammal", "fish", "beetle", "lizard", "butterfly")
_PLANTS = ("herb", "tree")
_ALL = (*_BEASTS, *_PLANTS, "mushroom")
_DAB = "{{Disambiguation}}"


@dataclass(frozen=True, slots=True)
class Trap:
    """A taxon to look up, and what must come of it."""

    kind: str
    ranks: tuple[str, ...]
    """in the order of `RANKS`"""
    common_name: str
    title: str
    """of the right page; "" = there is none"""
    reason: str = ""
    """why there is none, in one word"""


@dataclass(frozen=True, slots=True)
class TrapWiki:
    pages: tuple[WorldPage, ...]
    traps: tuple[Trap, ...]


def trap_wiki(seed: int = 0, n_each: int = 4) -> TrapWiki:
    """Every kind of trap `n_each` times."""
    made = _Traps(seed)
    for kind in _KINDS:
        for number in range(n_each):
            made.begin(kind.__name__.strip("_"), number)
            kind(made)
    return TrapWiki(tuple(made.pages.values()), tuple(made.traps))


class _Traps:
    """Pages and traps made so far."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.pages: dict[str, WorldPage] = {}
        self.traps: list[Trap] = []
        self._genera: set[str] = set()

    def begin(self, kind: str, number: int) -> None:
        self.kind, self.number = kind, number
        self.rng = Rng(self.seed, "wiki trap", kind, number)

    def taxon(self, plans: Sequence[str] = _ALL, like: Ranks | None = None) -> Ranks:
        """A species of a new genus, or another one of the family that `like` belongs to."""
        plan = PLANS[self.rng.choice(plans)]
        genus = ""
        while not genus or genus in self._genera:
            stem = text.latin_stem(self.rng).lower()
            genus = text.genus_name(f"Q{stem}", self.rng.choice(plan.endings))
        self._genera.add(genus)
        order, family = (text.group_name(genus, suffix) for suffix in plan.suffixes)
        upper = list(like.values())[:5] if like else [*plan.upper, order, family]
        ranks = dict(zip(RANKS, (*upper, genus, self.epithet(genus)), strict=True))
        self.add(*taxonomy_pages(ranks))
        return ranks

    def epithet(self, genus: str) -> str:
        words = self.rng.sample(("red", "spotted", "mountain", "white", "forest", "barred"), 6)
        return text.epithets(genus, words, self.rng)[0]

    def add(self, *pages: WorldPage) -> None:
        for page in pages:
            self.pages.setdefault(page.title, page)

    def species_page(self, title: str, ranks: Ranks, **box: str) -> None:
        """A page with a speciesbox."""
        names = {"genus": ranks["genus"], "species": ranks["species"]}
        self.article(title, ranks, template("Speciesbox", {**names, **box}))

    def article(self, title: str, ranks: Ranks, box: str, above: str = "") -> None:
        lead = f"'''''{binomial(ranks)}''''' is a species of the family [[{ranks['family']}]]."
        body = "==Description==\nThe upper side is grey, the lower side white.<ref>Olm</ref>\n"
        self.add(WorldPage(title, f"{above}{box}\n{lead} It feeds at night.\n\n{body}"))

    def expect(self, ranks: Ranks, title: str = "", reason: str = "", common: str = "") -> None:
        values = tuple(ranks[rank] for rank in RANKS)
        self.traps.append(Trap(self.kind, values, common, title, reason))

    def common(self) -> str:
        """A common name that nothing else has."""
        stem = text.latin_stem(self.rng)
        noun = self.rng.choice(("finch", "sage", "beetle", "webcap"))
        return f"{stem}{self.kind.replace('_', '')[:6]}{self.number} grey {noun}"


def binomial(ranks: Mapping[str, str]) -> str:
    return f"{ranks['genus']} {ranks['species']}"


def _with(ranks: Ranks, **changes: str) -> Ranks:
    return {**ranks, **{key.strip("_"): value for key, value in changes.items()}}


def _old_box(ranks: Ranks, **changes: str) -> str:
    names = {LATIN_RANKS[rank]: f"[[{ranks[rank]}]]" for rank in RANKS[:5]}
    short = f"'''''{ranks['genus'][0]}. {ranks['species']}'''''"
    named = {"genus": f"''[[{ranks['genus']}]]''", "species": short}
    return template("Taxobox", {**names, **named, **changes})


# --- boxes: the right page, written in many ways ---


def _speciesbox(made: _Traps) -> None:
    ranks = made.taxon()
    made.species_page(binomial(ranks), ranks, authority="([[Olm]], 1871)<ref>{{cite|a=b}}</ref>")
    made.expect(ranks, binomial(ranks))


def _speciesbox_by_taxon(made: _Traps) -> None:
    ranks = made.taxon()
    box = f"{{{{speciesbox|taxon={binomial(ranks)}<!-- so -->|authority=Olm}}}}"
    made.article(binomial(ranks), ranks, box, "{{Use dmy dates}}\n")
    made.expect(ranks, binomial(ranks))


def _speciesbox_without_names(made: _Traps) -> None:
    """The box then takes the page's title."""
    ranks = made.taxon()
    made.article(binomial(ranks), ranks, template("Speciesbox", {"image": "A.jpg"}))
    made.expect(ranks, binomial(ranks))


def _old_taxobox(made: _Traps) -> None:
    ranks = made.taxon()
    name = f"'''''{binomial(ranks)}'''''<ref name=x>{{{{cite web|url=y}}}}</ref>"
    made.article(binomial(ranks), ranks, _old_box(ranks, binomial=name))
    made.expect(ranks, binomial(ranks))


def _abbreviated_genus(made: _Traps) -> None:
    ranks = made.taxon()
    made.article(binomial(ranks), ranks, _old_box(ranks))
    made.expect(ranks, binomial(ranks))


def _extinct(made: _Traps) -> None:
    ranks = made.taxon()
    name = f"†''{binomial(ranks)}''"
    made.article(binomial(ranks), ranks, _old_box(ranks, species=name, binomial=name))
    other = made.taxon()
    made.species_page(
        binomial(other), other, extinct="yes", name=f"{{{{extinct}}}}{other['genus']}"
    )
    made.expect(ranks, binomial(ranks))
    made.expect(other, binomial(other))


def _subgenus_in_binomial(made: _Traps) -> None:
    ranks = made.taxon(_BEASTS)
    name = f"''{ranks['genus']} (Neo{ranks['genus'].lower()}) {ranks['species']}''"
    made.article(binomial(ranks), ranks, _old_box(ranks, binomial=name))
    made.expect(ranks, binomial(ranks))


def _tautonym(made: _Traps) -> None:
    ranks = made.taxon(_BEASTS)
    ranks = _with(ranks, species=ranks["genus"].lower())
    title = f"Western {ranks['species']}"
    made.species_page(title, ranks)
    made.add(redirect(binomial(ranks), title))
    names = [binomial(ranks), f"{ranks['genus']} orientalis"]
    made.add(WorldPage(ranks["genus"], genus_text(ranks, names)))
    made.expect(ranks, title)
    made.expect(_with(ranks, species=""), ranks["genus"])


def _bacterium(made: _Traps) -> None:
    ranks = made.taxon()
    ranks |= {"kingdom": "Bacteria", "phylum": "Pseudomonadota", "class": "", "order": "",
              "family": f"{ranks['genus']}aceae", "genus": f"{ranks['genus']}monas"}  # fmt: skip
    made.add(
        taxonomy_page(ranks["genus"], "genus", f"{ranks['family']}x"),
        taxonomy_page(f"{ranks['family']}x", "familia", "Pseudomonadota"),
        taxonomy_page("Pseudomonadota", "phylum", "Pseudomonadati"),
        taxonomy_page("Pseudomonadati", "regnum", "Bacteria"),
        taxonomy_page("Bacteria", "domain", "Life"),
    )
    made.species_page(binomial(ranks), ranks)
    made.expect(ranks, binomial(ranks))
    made.expect(_with(ranks, kingdom="Eubacteria", phylum="", family=""), binomial(ranks))


def _virus(made: _Traps) -> None:
    ranks = made.taxon()
    ranks |= {"kingdom": "Viruses", "phylum": "", "class": "", "order": "", "family": "",
              "genus": f"{ranks['genus']}virus"}  # fmt: skip
    title = f"{ranks['species'].capitalize()} mosaic virus {made.number}"
    made.add(
        taxonomy_page(ranks["genus"], "genus", "Orthornavirae"),
        taxonomy_page("Orthornavirae", "regnum", "Riboviria"),
        taxonomy_page("Riboviria", "realm", "Viruses"),
        taxonomy_page("Viruses", "domain", ""),
        redirect(binomial(ranks), title),
    )
    box = template("Virusbox", {"parent": ranks["genus"], "species": binomial(ranks)})
    made.article(title, ranks, box)
    made.expect(ranks, title)


def _kingdom_spelled_otherwise(made: _Traps) -> None:
    ranks = made.taxon((*_BEASTS[:1], *_PLANTS[:1], "plankton"))
    made.species_page(binomial(ranks), ranks)
    other = {"Animalia": "Metazoa", "Plantae": "Viridiplantae", "Chromista": "Protista"}
    bare = dict.fromkeys(RANKS[1:5], "")
    made.expect(_with({**ranks, **bare}, kingdom=other[ranks["kingdom"]]), binomial(ranks))


# --- other spellings of the name ---


def _hybrid(made: _Traps) -> None:
    ranks = made.taxon(_PLANTS)
    title = f"{ranks['genus']} × {ranks['species']}"
    box = {"genus": ranks["genus"], "species": f"× {ranks['species']}"}
    made.article(title, ranks, template("Speciesbox", box))
    made.expect(_with(ranks, species=f"x {ranks['species']}"), title)


def _hybrid_of_genera(made: _Traps) -> None:
    ranks = made.taxon(_PLANTS)
    title = f"× {binomial(ranks)}"
    box = {"taxon": title, "parent_authority": "Olm"}
    made.article(title, ranks, template("Speciesbox", box))
    made.expect(_with(ranks, genus=f"x {ranks['genus']}"), title)


def _diacritics(made: _Traps) -> None:
    ranks = made.taxon(_PLANTS)
    plain = _with(ranks, genus=f"{ranks['genus']}oetes")
    made.add(*taxonomy_pages(plain))
    made.species_page(binomial(plain), plain)
    made.expect(_with(ranks, genus=f"{ranks['genus']}oëtes"), binomial(plain))
    person = _with(plain, species="muelleri")
    made.species_page(binomial(person), person)
    made.add(redirect(f"{plain['genus']} mülleri", binomial(person)))
    made.expect(_with(plain, species="mülleri"), binomial(person))


def _title_of_many_bytes(made: _Traps) -> None:
    ranks, other = made.taxon(), made.taxon()
    longest = f"Ж{made.number}" + "ж" * 126  # 255 bytes, the most a title can have
    made.species_page(longest, ranks)
    made.add(redirect(binomial(ranks), longest))
    made.expect(ranks, longest, common=longest)
    made.expect(other, reason="no_page", common=f"{longest}жж")


def _title_in_another_script(made: _Traps) -> None:
    ranks, other = made.taxon(), made.taxon()
    names = (f"Žluťoučký kůň {made.number}", f"обыкновенная птица {made.number}")
    made.species_page(names[0], ranks)
    made.add(redirect(binomial(ranks), names[0]))
    made.species_page(names[1].capitalize(), other)
    made.expect(ranks, names[0])
    made.expect(other, names[1].capitalize(), common=names[1])


def _common_name(made: _Traps) -> None:
    """Only the common name leads there, in the capitals of a list."""
    ranks, name = made.taxon(), made.common()
    made.species_page(name, ranks)
    made.expect(ranks, name, common=name.title() if made.number else name.replace(" ", "_"))


def _redirect_to_common_name(made: _Traps) -> None:
    ranks, name = made.taxon(), made.common()
    made.species_page(name, ranks)
    made.add(redirect(binomial(ranks), name.replace(" ", "_")))
    made.expect(ranks, name)


def _double_redirect(made: _Traps) -> None:
    ranks, name = made.taxon(), made.common()
    made.species_page(name, ranks)
    made.add(redirect(binomial(ranks), f"{name}s"), redirect(f"{name}s", name))
    made.expect(ranks, name)


# --- synonyms ---


def _synonym_listed(made: _Traps) -> None:
    old = made.taxon()
    new = made.taxon(like=old)
    new["species"] = f"{new['species']}oides"
    forms = (
        f"{{{{Species list\n| ''{binomial(old)}'' | Olm, 1871\n| ''Aus bus''|Vesk}}}}",
        f"* ''{binomial(old)}'' {{{{small|Olm, 1871}}}}\n* ''Aus bus'' Vesk",
        f"{{{{collapsible list|bullets=on\n|''{binomial(old)}'' <small>Olm</small>|''A. bus''}}}}",
        f"''{binomial(old)}'' <small>Olm</small><br />''Aus bus'' Vesk",
    )
    made.species_page(binomial(new), new, synonyms=forms[made.number % 4])
    made.add(redirect(binomial(old), binomial(new)))
    made.expect(old, binomial(new))


def _moved_to_another_genus(made: _Traps) -> None:
    """Not listed, but the epithet stayed, in the gender of the new genus."""
    old = made.taxon()
    new = made.taxon(like=old)
    old["species"], new["species"] = "punctatus", "punctata"
    made.species_page(binomial(new), new)
    made.add(redirect(binomial(old), binomial(new)))
    made.expect(old, binomial(new))


def _moved_to_another_family(made: _Traps) -> None:
    """The same epithet in another family and no list: nothing says that it is the same."""
    old, new = made.taxon(), made.taxon()
    old["species"] = new["species"] = "vulgaris"
    made.species_page(binomial(new), new)
    made.add(redirect(binomial(old), binomial(new)))
    made.expect(old, reason="other_taxon")


def _redirect_to_sister(made: _Traps) -> None:
    ranks = made.taxon()
    sister = _with(ranks, species=f"{ranks['species'][:4]}icola")
    made.species_page(binomial(sister), sister)
    made.add(redirect(binomial(ranks), binomial(sister)))
    made.expect(ranks, reason="other_taxon")


# --- homonyms ---


def _pair(made: _Traps) -> tuple[Ranks, Ranks]:
    """An animal and a plant of one name; taxonomy pages under `Genus (animal)`, `Genus (plant)`."""
    animal, plant = made.taxon(_BEASTS), made.taxon(_PLANTS)
    plant |= {"genus": animal["genus"], "species": animal["species"]}
    made.pages.pop(f"Template:Taxonomy/{animal['genus']}")
    for ranks, word in ((animal, "animal"), (plant, "plant")):
        made.add(*taxonomy_pages(ranks, f"{ranks['genus']} ({word})"))
    return animal, plant


def _hemihomonym_by_disambiguation(made: _Traps) -> None:
    animal, plant = _pair(made)
    name, genus = binomial(animal), animal["genus"]
    lines = [f"'''''{name}''''' may refer to:", f"* ''[[{name} (animal)]]'', a beast"]
    lines += [f"* [[{name} (plant)|''{name}'' (plant)]], a herb", "* [[Olm (crater)]]", _DAB]
    made.add(WorldPage(name, "\n".join(lines), is_disambiguation=True))
    for ranks, word in ((animal, "animal"), (plant, "plant")):
        made.species_page(f"{name} ({word})", _with(ranks, genus=f"{genus} ({word})"))
        made.expect(ranks, f"{name} ({word})")


def _hemihomonym_by_hatnote(made: _Traps) -> None:
    animal, plant = _pair(made)
    name, genus = binomial(animal), animal["genus"]
    notes = (
        f"{{{{about|the beast|the herb|{name} (plant)}}}}\n",
        f"{{{{for|the plant of this name|{name} (plant)}}}}\n",
        f":''For the plant, see [[{name} (plant)]].''\n",
    )
    box = template("Speciesbox", {"genus": f"{genus} (animal)", "species": animal["species"]})
    made.article(name, animal, box, notes[made.number % 3])
    made.species_page(f"{name} (plant)", _with(plant, genus=f"{genus} (plant)"))
    made.expect(animal, name)
    made.expect(plant, f"{name} (plant)")


def _hemihomonym_without_page(made: _Traps) -> None:
    animal, plant = _pair(made)
    key = f"{animal['genus']} (animal)"
    made.species_page(binomial(animal), _with(animal, genus=key))
    made.expect(plant, reason="other_kingdom")
    made.expect(animal, binomial(animal))


def _hemihomonym_genus(made: _Traps) -> None:
    animal, plant = _pair(made)
    genus = animal["genus"]
    lines = [f"'''{genus}''' is the name of:", f"* [[{genus} (animal)|]], {genus} the beast"]
    lines += [f"* ''[[{genus} (plant)]]''", "{{Genus disambiguation}}"]
    made.add(WorldPage(genus, "\n".join(lines), is_disambiguation=True))
    for ranks, word in ((animal, "animal"), (plant, "plant")):
        key = f"{genus} ({word})"
        names = [f"{genus} maior", f"{genus} minor"]
        made.add(WorldPage(key, genus_text(ranks, names, key)))
        made.expect(_with(ranks, species=""), key)


def _homonym_of_same_kingdom(made: _Traps) -> None:
    """Two beasts of one name; the page is that of the first."""
    first, second = made.taxon(("beetle",)), made.taxon(("butterfly",))
    second |= {"genus": first["genus"], "species": first["species"]}
    made.species_page(binomial(first), first)
    made.expect(first, binomial(first))
    made.expect(second, reason="other_taxon")


def _homonym_with_author(made: _Traps) -> None:
    first, second = made.taxon(("beetle",)), made.taxon(("spider",))
    second |= {"genus": first["genus"], "species": first["species"]}
    name = binomial(first)
    titles = f"{name} Olm, 1871", f"{name} (Vesk, 1902)"
    lines = [f"'''{name}''' may be:", *(f"* ''[[{title}]]''" for title in titles), _DAB]
    made.add(WorldPage(name, "\n".join(lines), is_disambiguation=True))
    for ranks, title in zip((first, second), titles, strict=True):
        made.article(title, ranks, _old_box(ranks, binomial=f"''{name}''"))
        made.expect(ranks, title)


def _classified_otherwise(made: _Traps) -> None:
    """One organism in two systems: both rows have the one page."""
    ranks = made.taxon(("fish",))
    made.species_page(binomial(ranks), ranks)
    made.expect(ranks, binomial(ranks))
    made.expect(_with(ranks, class_="Teleostei", order="Perciformes"), binomial(ranks))


# --- other levels ---


def _monotypic_by_redirect(made: _Traps) -> None:
    ranks = made.taxon()
    made.species_page(ranks["genus"], ranks)
    made.add(redirect(binomial(ranks), ranks["genus"]))
    made.expect(ranks, ranks["genus"])
    made.expect(_with(ranks, species=""), ranks["genus"])


def _monotypic_by_genus_page(made: _Traps) -> None:
    """No redirect; the taxobox of the genus lists one species."""
    ranks = made.taxon()
    made.add(WorldPage(ranks["genus"], genus_text(ranks, [binomial(ranks)])))
    made.expect(ranks, ranks["genus"])


def _monotypic_behind_disambiguation(made: _Traps) -> None:
    ranks = made.taxon(_PLANTS)
    genus = ranks["genus"]
    lines = f"'''{genus}''' may be:\n* [[{genus} (plant)]]\n* [[{genus} (band)]]\n{_DAB}"
    made.add(WorldPage(genus, lines, is_disambiguation=True))
    made.add(WorldPage(f"{genus} (band)", f"'''{genus}''' was a band.\n{{{{Infobox band}}}}"))
    made.species_page(f"{genus} (plant)", ranks)
    made.expect(ranks, f"{genus} (plant)")


def _redirect_to_genus(made: _Traps) -> None:
    ranks = made.taxon()
    names = [binomial(ranks), f"{ranks['genus']} maior", f"{ranks['genus']} minor"]
    made.add(WorldPage(ranks["genus"], genus_text(ranks, names)))
    made.add(redirect(binomial(ranks), ranks["genus"]))
    made.expect(ranks, reason="genus_page")


def _genus_page_only(made: _Traps) -> None:
    ranks = made.taxon()
    names = [f"{ranks['genus']} maior", binomial(ranks)]
    made.add(WorldPage(ranks["genus"], genus_text(ranks, names)))
    made.expect(ranks, reason="genus_page")


def _genus_of_another_species(made: _Traps) -> None:
    """The genus' page is that of its only species, which is not ours."""
    ranks = made.taxon()
    made.species_page(ranks["genus"], _with(ranks, species="solitarius"))
    made.expect(ranks, reason="other_taxon")


def _genus_row_to_species(made: _Traps) -> None:
    ranks = made.taxon()
    made.species_page(binomial(ranks), ranks)
    made.add(redirect(ranks["genus"], binomial(ranks)))
    made.expect(_with(ranks, species=""), reason="species_page")


def _family_row(made: _Traps) -> None:
    ranks, name = made.taxon(), made.common()
    box = template("Automatic taxobox", {"taxon": ranks["family"], "subdivision": "''Aus''"})
    made.add(WorldPage(f"{name}s", f"{box}\n'''{name}s''' are a family."))
    made.add(redirect(ranks["family"], f"{name}s"))
    row = _with(ranks, genus="", species="")
    made.expect(row, f"{name}s")
    other = made.taxon()
    made.add(WorldPage(other["genus"], genus_text(other, [f"{other['genus']} a", "B b"])))
    made.add(redirect(other["family"], other["genus"]))
    made.expect(_with(other, genus="", species=""), reason="genus_page")


def _subspecies_to_species(made: _Traps) -> None:
    ranks = made.taxon(_BEASTS)
    made.species_page(binomial(ranks), ranks)
    made.add(redirect(f"{binomial(ranks)} minor", binomial(ranks)))
    made.expect(_with(ranks, species=f"{ranks['species']} minor"), reason="species_page")


def _subspecies_with_page(made: _Traps) -> None:
    ranks = made.taxon(_BEASTS)
    names = {"genus": ranks["genus"], "species": ranks["species"], "subspecies": "minor"}
    title = f"{binomial(ranks)} minor"
    made.article(title, ranks, template("Subspeciesbox", names))
    made.add(redirect(binomial(ranks), title))
    made.expect(_with(ranks, species=f"{ranks['species']} minor"), title)
    made.expect(ranks, reason="subspecies_page")


def _variety_with_page(made: _Traps) -> None:
    ranks = made.taxon(_PLANTS)
    title = f"{binomial(ranks)} var. minor"
    names = {"genus": ranks["genus"], "species": ranks["species"], "variety": "minor"}
    made.article(title, ranks, template("Infraspeciesbox", names))
    made.expect(_with(ranks, species=f"{ranks['species']} var. minor"), title)


# --- pages that are none ---


def _list_page(made: _Traps) -> None:
    ranks = made.taxon()
    title = f"List of {ranks['genus']} species"
    made.add(WorldPage(title, f"The genus ''{ranks['genus']}'' has:\n* ''{binomial(ranks)}''"))
    made.add(redirect(binomial(ranks), title))
    made.expect(ranks, reason="list_page")


def _redirect_to_section(made: _Traps) -> None:
    ranks = made.taxon()
    made.species_page(ranks["genus"], ranks)
    made.add(redirect(binomial(ranks), f"{ranks['genus']}#Species"))
    made.pages[ranks["genus"]] = WorldPage(
        ranks["genus"], genus_text(ranks, [binomial(ranks), f"{ranks['genus']} maior"])
    )
    made.expect(ranks, reason="redirect_to_section")


def _disambiguation_by_property(made: _Traps) -> None:
    ranks = made.taxon()
    lines = f"'''{binomial(ranks)}''' may be [[Olm]] or [[Vesk]]."
    made.add(WorldPage(binomial(ranks), lines, is_disambiguation=True))
    made.expect(ranks, reason="disambiguation")


def _no_taxobox(made: _Traps) -> None:
    ranks = made.taxon()
    text_ = f"''{binomial(ranks)}'' is a species {{{{citation needed}}}}.\n\n==Description==\nRed."
    made.add(WorldPage(binomial(ranks), text_))
    made.expect(ranks, reason="no_taxobox")


def _taxobox_of_another(made: _Traps) -> None:
    ranks = made.taxon()
    made.species_page(binomial(ranks), _with(ranks, species="alienus"))
    made.expect(ranks, reason="other_taxon")


def _two_taxoboxes(made: _Traps) -> None:
    ranks = made.taxon()
    boxes = [
        template("Speciesbox", {"genus": ranks["genus"], "species": species})
        for species in (ranks["species"], "alter")
    ]
    made.article(binomial(ranks), ranks, "\n".join(boxes))
    made.expect(ranks, reason="several_taxa")


def _common_name_is_a_band(made: _Traps) -> None:
    ranks, name = made.taxon(), made.common()
    box = template("Infobox musical artist", {"name": name, "genre": "Rock", "species": "none"})
    made.add(WorldPage(name, f"{box}\n'''{name}''' is a band."))
    made.expect(ranks, reason="no_taxobox", common=name)


def _common_name_of_another(made: _Traps) -> None:
    ranks, name = made.taxon(), made.common()
    made.species_page(name, made.taxon(like=ranks))
    made.expect(ranks, reason="other_taxon", common=name)


def _common_name_of_several(made: _Traps) -> None:
    ranks, name = made.taxon(), made.common()
    other = made.taxon(like=ranks)
    right = f"{name} of {ranks['genus']}"
    made.species_page(right, ranks)
    made.species_page(f"{name} of {other['genus']}", other)
    lines = [f"'''{name}''' is a name of:", f"* [[{name} of {other['genus']}]]"]
    lines += [f"* [[{right}]] (''{binomial(ranks)}'')", "{{Animal common name}}"]
    made.add(WorldPage(name, "\n".join(lines)))
    made.expect(ranks, right, common=name)


def _redirect_to_nothing(made: _Traps) -> None:
    ranks, other = made.taxon(), made.taxon()
    made.add(redirect(binomial(ranks), f"{binomial(ranks)} (deleted)"))
    here, there = binomial(other), f"{binomial(other)} (loop)"
    made.add(redirect(here, there), redirect(there, here))
    made.expect(ranks, reason="no_page")
    made.expect(other, reason="no_page")


def _nothing(made: _Traps) -> None:
    made.expect(made.taxon(), reason="no_page", common=made.common())


_KINDS: tuple[Callable[[_Traps], None], ...] = (
    _speciesbox, _speciesbox_by_taxon, _speciesbox_without_names, _old_taxobox,
    _abbreviated_genus, _extinct, _subgenus_in_binomial, _tautonym, _bacterium, _virus,
    _kingdom_spelled_otherwise, _hybrid, _hybrid_of_genera, _diacritics, _title_of_many_bytes,
    _title_in_another_script, _common_name, _redirect_to_common_name, _double_redirect,
    _synonym_listed, _moved_to_another_genus, _moved_to_another_family, _redirect_to_sister,
    _hemihomonym_by_disambiguation, _hemihomonym_by_hatnote, _hemihomonym_without_page,
    _hemihomonym_genus, _homonym_of_same_kingdom, _homonym_with_author, _classified_otherwise,
    _monotypic_by_redirect, _monotypic_by_genus_page, _monotypic_behind_disambiguation,
    _redirect_to_genus, _genus_page_only, _genus_of_another_species, _genus_row_to_species,
    _family_row, _subspecies_to_species, _subspecies_with_page, _variety_with_page, _list_page,
    _redirect_to_section, _disambiguation_by_property, _no_taxobox, _taxobox_of_another,
    _two_taxoboxes, _common_name_is_a_band, _common_name_of_another, _common_name_of_several,
    _redirect_to_nothing, _nothing,
)  # fmt: skip

"""Traps of pages: homonyms, pages of other levels, and pages that are about no taxon."""

from __future__ import annotations

from collections.abc import Callable

from fieldmark.world.wiki import (
    WorldPage,
    genus_text,
    redirect,
    taxonomy_pages,
    template,
)
from kit.wiki_traps.trap_maker import (
    BEASTS,
    PLANTS,
    Ranks,
    TrapMaker,
    binomial,
    changed,
    old_box,
)

_DAB = "{{Disambiguation}}"


# --- homonyms ---


def _pair(made: TrapMaker) -> tuple[Ranks, Ranks]:
    """An animal and a plant of one name; taxonomy pages under `Genus (animal)`, `Genus (plant)`."""
    animal, plant = made.taxon(BEASTS), made.taxon(PLANTS)
    plant |= {"genus": animal["genus"], "species": animal["species"]}
    made.pages.pop(f"Template:Taxonomy/{animal['genus']}")
    for ranks, word in ((animal, "animal"), (plant, "plant")):
        made.add(*taxonomy_pages(ranks, f"{ranks['genus']} ({word})"))
    return animal, plant


def hemihomonym_by_disambiguation(made: TrapMaker) -> None:
    animal, plant = _pair(made)
    name, genus = binomial(animal), animal["genus"]
    lines = [f"'''''{name}''''' may refer to:", f"* ''[[{name} (animal)]]'', a beast"]
    lines += [f"* [[{name} (plant)|''{name}'' (plant)]], a herb", "* [[Olm (crater)]]", _DAB]
    made.add(WorldPage(name, "\n".join(lines), is_disambiguation=True))
    for ranks, word in ((animal, "animal"), (plant, "plant")):
        made.species_page(f"{name} ({word})", changed(ranks, genus=f"{genus} ({word})"))
        made.expect(ranks, f"{name} ({word})")


def hemihomonym_by_hatnote(made: TrapMaker) -> None:
    animal, plant = _pair(made)
    name, genus = binomial(animal), animal["genus"]
    notes = (
        f"{{{{about|the beast|the herb|{name} (plant)}}}}\n",
        f"{{{{for|the plant of this name|{name} (plant)}}}}\n",
        f":''For the plant, see [[{name} (plant)]].''\n",
    )
    box = template("Speciesbox", {"genus": f"{genus} (animal)", "species": animal["species"]})
    made.article(name, animal, box, notes[made.number % 3])
    made.species_page(f"{name} (plant)", changed(plant, genus=f"{genus} (plant)"))
    made.expect(animal, name)
    made.expect(plant, f"{name} (plant)")


def hemihomonym_by_two_steps(made: TrapMaker) -> None:
    """The note above the animal's page leads to a page that lists the plant."""
    animal, plant = _pair(made)
    name, genus = binomial(animal), animal["genus"]
    box = template("Speciesbox", {"genus": f"{genus} (animal)", "species": animal["species"]})
    made.article(name, animal, box, "{{Other uses}}\n")
    lines = f"'''{name}''' may be:\n* ''[[{name}]]''\n* [[{name} (plant)]]\n{_DAB}"
    made.add(WorldPage(f"{name} (disambiguation)", lines, is_disambiguation=True))
    made.species_page(f"{name} (plant)", changed(plant, genus=f"{genus} (plant)"))
    made.expect(animal, name)
    made.expect(plant, f"{name} (plant)")


def hemihomonym_classified_otherwise(made: TrapMaker) -> None:
    """Kingdoms tell the two apart, so that other families and orders do no harm."""
    animal, plant = _pair(made)
    name, genus = binomial(animal), animal["genus"]
    made.species_page(name, changed(animal, genus=f"{genus} (animal)"))
    made.expect(changed(animal, order="Aliformes", family="Aliidae"), name)
    made.expect(plant, reason="other_kingdom")


def hemihomonym_without_page(made: TrapMaker) -> None:
    animal, plant = _pair(made)
    key = f"{animal['genus']} (animal)"
    made.species_page(binomial(animal), changed(animal, genus=key))
    made.expect(plant, reason="other_kingdom")
    made.expect(animal, binomial(animal))


def hemihomonym_genus(made: TrapMaker) -> None:
    animal, plant = _pair(made)
    genus = animal["genus"]
    lines = [f"'''{genus}''' is the name of:", f"* [[{genus} (animal)|]], {genus} the beast"]
    lines += [f"* ''[[{genus} (plant)]]''", "{{Genus disambiguation}}"]
    made.add(WorldPage(genus, "\n".join(lines), is_disambiguation=True))
    for ranks, word in ((animal, "animal"), (plant, "plant")):
        key = f"{genus} ({word})"
        names = [f"{genus} maior", f"{genus} minor"]
        made.add(WorldPage(key, genus_text(ranks, names, key)))
        made.expect(changed(ranks, species=""), key)


def homonym_of_same_kingdom(made: TrapMaker) -> None:
    """Two beasts of one name; the page is that of the first."""
    first, second = made.taxon(("beetle",)), made.taxon(("butterfly",))
    second |= {"genus": first["genus"], "species": first["species"]}
    made.species_page(binomial(first), first)
    made.expect(first, binomial(first))
    made.expect(second, reason="other_taxon")


def homonym_that_the_list_lacks(made: TrapMaker) -> None:
    """One row, one page of its name; but it is a moss, and the row is about a flower."""
    ranks = made.taxon(PLANTS)
    moss = changed(ranks, phylum="Bryophyta", class_="Bryopsida", order="Aales", family="Aaceae")
    made.article(binomial(ranks), moss, old_box(moss, binomial=f"''{binomial(moss)}''"))
    made.expect(ranks, reason="other_taxon")


def homonym_with_author(made: TrapMaker) -> None:
    first, second = made.taxon(("beetle",)), made.taxon(("spider",))
    second |= {"genus": first["genus"], "species": first["species"]}
    name = binomial(first)
    titles = f"{name} Olm, 1871", f"{name} (Vesk, 1902)"
    lines = [f"'''{name}''' may be:", *(f"* ''[[{title}]]''" for title in titles), _DAB]
    made.add(WorldPage(name, "\n".join(lines), is_disambiguation=True))
    for ranks, title in zip((first, second), titles, strict=True):
        made.article(title, ranks, old_box(ranks, binomial=f"''{name}''"))
        made.expect(ranks, title)


def classified_otherwise(made: TrapMaker) -> None:
    """One organism in two systems: both rows have the one page."""
    ranks = made.taxon(("fish",))
    made.species_page(binomial(ranks), ranks)
    made.expect(ranks, binomial(ranks))
    made.expect(changed(ranks, class_="Teleostei", order="Perciformes"), binomial(ranks))


# --- other levels ---


def monotypic_by_redirect(made: TrapMaker) -> None:
    ranks = made.taxon()
    made.species_page(ranks["genus"], ranks)
    made.add(redirect(binomial(ranks), ranks["genus"]))
    made.expect(ranks, ranks["genus"])
    made.expect(changed(ranks, species=""), ranks["genus"])


def monotypic_by_genus_page(made: TrapMaker) -> None:
    """No redirect; the taxobox of the genus lists one species."""
    ranks = made.taxon()
    made.add(WorldPage(ranks["genus"], genus_text(ranks, [binomial(ranks)])))
    made.expect(ranks, ranks["genus"])


def monotypic_behind_disambiguation(made: TrapMaker) -> None:
    ranks = made.taxon(PLANTS)
    genus = ranks["genus"]
    lines = f"'''{genus}''' may be:\n* [[{genus} (plant)]]\n* [[{genus} (band)]]\n{_DAB}"
    made.add(WorldPage(genus, lines, is_disambiguation=True))
    made.add(WorldPage(f"{genus} (band)", f"'''{genus}''' was a band.\n{{{{Infobox band}}}}"))
    made.species_page(f"{genus} (plant)", ranks)
    made.expect(ranks, f"{genus} (plant)")


def redirect_to_genus(made: TrapMaker) -> None:
    ranks = made.taxon()
    names = [binomial(ranks), f"{ranks['genus']} maior", f"{ranks['genus']} minor"]
    made.add(WorldPage(ranks["genus"], genus_text(ranks, names)))
    made.add(redirect(binomial(ranks), ranks["genus"]))
    made.expect(ranks, reason="genus_page")


def genus_page_only(made: TrapMaker) -> None:
    ranks = made.taxon()
    names = [f"{ranks['genus']} maior", binomial(ranks)]
    made.add(WorldPage(ranks["genus"], genus_text(ranks, names)))
    made.expect(ranks, reason="genus_page")


def genus_of_another_species(made: TrapMaker) -> None:
    """The genus' page is that of its only species, which is not ours."""
    ranks = made.taxon()
    made.species_page(ranks["genus"], changed(ranks, species="solitarius"))
    made.expect(ranks, reason="other_taxon")


def genus_row_to_species(made: TrapMaker) -> None:
    ranks = made.taxon()
    made.species_page(binomial(ranks), ranks)
    made.add(redirect(ranks["genus"], binomial(ranks)))
    made.expect(changed(ranks, species=""), reason="species_page")


def family_row(made: TrapMaker) -> None:
    ranks, name = made.taxon(), made.common()
    box = template("Automatic taxobox", {"taxon": ranks["family"], "subdivision": "''Aus''"})
    made.add(WorldPage(f"{name}s", f"{box}\n'''{name}s''' are a family."))
    made.add(redirect(ranks["family"], f"{name}s"))
    row = changed(ranks, genus="", species="")
    made.expect(row, f"{name}s")
    other = made.taxon()
    made.add(WorldPage(other["genus"], genus_text(other, [f"{other['genus']} a", "B b"])))
    made.add(redirect(other["family"], other["genus"]))
    made.expect(changed(other, genus="", species=""), reason="genus_page")


def subspecies_to_species(made: TrapMaker) -> None:
    ranks = made.taxon(BEASTS)
    made.species_page(binomial(ranks), ranks)
    made.add(redirect(f"{binomial(ranks)} minor", binomial(ranks)))
    made.expect(changed(ranks, species=f"{ranks['species']} minor"), reason="species_page")


def subspecies_with_page(made: TrapMaker) -> None:
    ranks = made.taxon(BEASTS)
    names = {"genus": ranks["genus"], "species": ranks["species"], "subspecies": "minor"}
    title = f"{binomial(ranks)} minor"
    made.article(title, ranks, template("Subspeciesbox", names))
    made.add(redirect(binomial(ranks), title))
    made.expect(changed(ranks, species=f"{ranks['species']} minor"), title)
    made.expect(ranks, reason="subspecies_page")


def variety_with_page(made: TrapMaker) -> None:
    ranks = made.taxon(PLANTS)
    title = f"{binomial(ranks)} var. minor"
    names = {"genus": ranks["genus"], "species": ranks["species"], "variety": "minor"}
    made.article(title, ranks, template("Infraspeciesbox", names))
    made.expect(changed(ranks, species=f"{ranks['species']} var. minor"), title)


# --- pages that are none ---


def list_page(made: TrapMaker) -> None:
    ranks = made.taxon()
    title = f"List of {ranks['genus']} species"
    made.add(WorldPage(title, f"The genus ''{ranks['genus']}'' has:\n* ''{binomial(ranks)}''"))
    made.add(redirect(binomial(ranks), title))
    made.expect(ranks, reason="list_page")


def redirect_to_section(made: TrapMaker) -> None:
    ranks = made.taxon()
    made.species_page(ranks["genus"], ranks)
    made.add(redirect(binomial(ranks), f"{ranks['genus']}#Species"))
    made.pages[ranks["genus"]] = WorldPage(
        ranks["genus"], genus_text(ranks, [binomial(ranks), f"{ranks['genus']} maior"])
    )
    made.expect(ranks, reason="redirect_to_section")


def disambiguation_by_property(made: TrapMaker) -> None:
    """By a template that no list of templates has."""
    ranks = made.taxon()
    lines = f"'''{binomial(ranks)}''' may be [[Olm]] or [[Vesk]].\n{{{{Olmdis}}}}"
    made.add(WorldPage("Template:Olmdis", "One of many names.__DISAMBIG__"))
    made.add(WorldPage(binomial(ranks), lines, is_disambiguation=True))
    made.expect(ranks, reason="disambiguation")


def no_taxobox(made: TrapMaker) -> None:
    ranks = made.taxon()
    text_ = f"''{binomial(ranks)}'' is a species {{{{citation needed}}}}.\n\n==Description==\nRed."
    made.add(WorldPage(binomial(ranks), text_))
    made.expect(ranks, reason="no_taxobox")


def taxobox_of_another(made: TrapMaker) -> None:
    ranks = made.taxon()
    made.species_page(binomial(ranks), changed(ranks, species="alienus"))
    made.expect(ranks, reason="other_taxon")


def two_taxoboxes(made: TrapMaker) -> None:
    ranks = made.taxon()
    boxes = [
        template("Speciesbox", {"genus": ranks["genus"], "species": species})
        for species in (ranks["species"], "alter")
    ]
    made.article(binomial(ranks), ranks, "\n".join(boxes))
    made.expect(ranks, reason="several_taxa")


def common_name_is_a_band(made: TrapMaker) -> None:
    ranks, name = made.taxon(), made.common()
    box = template("Infobox musical artist", {"name": name, "genre": "Rock", "species": "none"})
    made.add(WorldPage(name, f"{box}\n'''{name}''' is a band."))
    made.expect(ranks, reason="no_taxobox", common=name)


def common_name_of_another(made: TrapMaker) -> None:
    ranks, name = made.taxon(), made.common()
    made.species_page(name, made.taxon(like=ranks))
    made.expect(ranks, reason="other_taxon", common=name)


def common_name_of_several(made: TrapMaker) -> None:
    ranks, name = made.taxon(), made.common()
    other = made.taxon(like=ranks)
    right = f"{name} of {ranks['genus']}"
    made.species_page(right, ranks)
    made.species_page(f"{name} of {other['genus']}", other)
    lines = [f"'''{name}''' is a name of:", f"* [[{name} of {other['genus']}]]"]
    lines += [f"* [[{right}]] (''{binomial(ranks)}'')", "{{Animal common name}}"]
    made.add(WorldPage(name, "\n".join(lines)))
    made.expect(ranks, right, common=name)


def redirect_to_nothing(made: TrapMaker) -> None:
    ranks, other = made.taxon(), made.taxon()
    made.add(redirect(binomial(ranks), f"{binomial(ranks)} (deleted)"))
    here, there = binomial(other), f"{binomial(other)} (loop)"
    made.add(redirect(here, there), redirect(there, here))
    made.expect(ranks, reason="no_page")
    made.expect(other, reason="no_page")


def nothing(made: TrapMaker) -> None:
    made.expect(made.taxon(), reason="no_page", common=made.common())


KINDS: tuple[Callable[[TrapMaker], None], ...] = (
    hemihomonym_by_disambiguation,
    hemihomonym_by_hatnote,
    hemihomonym_by_two_steps,
    hemihomonym_classified_otherwise,
    hemihomonym_without_page,
    hemihomonym_genus,
    homonym_of_same_kingdom,
    homonym_that_the_list_lacks,
    homonym_with_author,
    classified_otherwise,
    monotypic_by_redirect,
    monotypic_by_genus_page,
    monotypic_behind_disambiguation,
    redirect_to_genus,
    genus_page_only,
    genus_of_another_species,
    genus_row_to_species,
    family_row,
    subspecies_to_species,
    subspecies_with_page,
    variety_with_page,
    list_page,
    redirect_to_section,
    disambiguation_by_property,
    no_taxobox,
    taxobox_of_another,
    two_taxoboxes,
    common_name_is_a_band,
    common_name_of_another,
    common_name_of_several,
    redirect_to_nothing,
    nothing,
)

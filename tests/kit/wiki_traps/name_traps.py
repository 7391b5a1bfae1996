"""Traps of names: boxes and titles that write one taxon in many ways, and synonyms."""

from __future__ import annotations

from collections.abc import Callable

from fieldmark.taxa import RANKS
from fieldmark.world.wiki import (
    WorldPage,
    genus_text,
    redirect,
    taxonomy_page,
    taxonomy_pages,
    template,
)
from kit.wiki_traps.trap_maker import (
    BEASTS,
    PLANTS,
    TrapMaker,
    binomial,
    changed,
    old_box,
)

# --- boxes: the right page, written in many ways ---


def speciesbox(made: TrapMaker) -> None:
    ranks = made.taxon()
    made.species_page(binomial(ranks), ranks, authority="([[Olm]], 1871)<ref>{{cite|a=b}}</ref>")
    made.expect(ranks, binomial(ranks))


def speciesbox_by_taxon(made: TrapMaker) -> None:
    ranks = made.taxon()
    box = f"{{{{speciesbox|taxon={binomial(ranks)}<!-- so -->|authority=Olm}}}}"
    made.article(binomial(ranks), ranks, box, "{{Use dmy dates}}\n")
    made.expect(ranks, binomial(ranks))


def speciesbox_without_names(made: TrapMaker) -> None:
    """The box then takes the page's title."""
    ranks = made.taxon()
    made.article(binomial(ranks), ranks, template("Speciesbox", {"image": "A.jpg"}))
    made.expect(ranks, binomial(ranks))


def old_taxobox(made: TrapMaker) -> None:
    ranks = made.taxon()
    name = f"'''''{binomial(ranks)}'''''<ref name=x>{{{{cite web|url=y}}}}</ref>"
    made.article(binomial(ranks), ranks, old_box(ranks, binomial=name))
    made.expect(ranks, binomial(ranks))


def abbreviated_genus(made: TrapMaker) -> None:
    ranks = made.taxon()
    made.article(binomial(ranks), ranks, old_box(ranks))
    made.expect(ranks, binomial(ranks))


def extinct(made: TrapMaker) -> None:
    ranks = made.taxon()
    name = f"†''{binomial(ranks)}''"
    made.article(binomial(ranks), ranks, old_box(ranks, species=name, binomial=name))
    other = made.taxon()
    made.species_page(
        binomial(other), other, extinct="yes", name=f"{{{{extinct}}}}{other['genus']}"
    )
    made.expect(ranks, binomial(ranks))
    made.expect(other, binomial(other))


def subgenus_in_binomial(made: TrapMaker) -> None:
    ranks = made.taxon(BEASTS)
    name = f"''{ranks['genus']} (Neo{ranks['genus'].lower()}) {ranks['species']}''"
    made.article(binomial(ranks), ranks, old_box(ranks, binomial=name))
    made.expect(ranks, binomial(ranks))


def tautonym(made: TrapMaker) -> None:
    ranks = made.taxon(BEASTS)
    ranks = changed(ranks, species=ranks["genus"].lower())
    title = f"Western {ranks['species']}"
    made.species_page(title, ranks)
    made.add(redirect(binomial(ranks), title))
    names = [binomial(ranks), f"{ranks['genus']} orientalis"]
    made.add(WorldPage(ranks["genus"], genus_text(ranks, names)))
    made.expect(ranks, title)
    made.expect(changed(ranks, species=""), ranks["genus"])


def bacterium(made: TrapMaker) -> None:
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
    made.expect(changed(ranks, kingdom="Eubacteria", phylum="", family=""), binomial(ranks))


def virus(made: TrapMaker) -> None:
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


def kingdom_spelled_otherwise(made: TrapMaker) -> None:
    ranks = made.taxon((*BEASTS[:1], *PLANTS[:1], "plankton"))
    made.species_page(binomial(ranks), ranks)
    other = {"Animalia": "Metazoa", "Plantae": "Viridiplantae", "Chromista": "Protista"}
    bare = dict.fromkeys(RANKS[1:5], "")
    made.expect(changed({**ranks, **bare}, kingdom=other[ranks["kingdom"]]), binomial(ranks))


# --- other spellings of the name ---


def hybrid(made: TrapMaker) -> None:
    ranks = made.taxon(PLANTS)
    title = f"{ranks['genus']} × {ranks['species']}"
    box = {"genus": ranks["genus"], "species": f"× {ranks['species']}"}
    made.article(title, ranks, template("Speciesbox", box))
    made.expect(changed(ranks, species=f"x {ranks['species']}"), title)


def hybrid_of_genera(made: TrapMaker) -> None:
    ranks = made.taxon(PLANTS)
    title = f"× {binomial(ranks)}"
    box = {"taxon": title, "parent_authority": "Olm"}
    made.article(title, ranks, template("Speciesbox", box))
    made.expect(changed(ranks, genus=f"x {ranks['genus']}"), title)


def diacritics(made: TrapMaker) -> None:
    ranks = made.taxon(PLANTS)
    plain = changed(ranks, genus=f"{ranks['genus']}oetes")
    made.add(*taxonomy_pages(plain))
    made.species_page(binomial(plain), plain)
    made.expect(changed(ranks, genus=f"{ranks['genus']}oëtes"), binomial(plain))
    person = changed(plain, species="muelleri")
    made.species_page(binomial(person), person)
    made.add(redirect(f"{plain['genus']} mülleri", binomial(person)))
    made.expect(changed(plain, species="mülleri"), binomial(person))


def title_of_many_bytes(made: TrapMaker) -> None:
    ranks, other = made.taxon(), made.taxon()
    longest = f"Ж{made.number:03d}" + "ж" * 125  # 255 bytes, the most a title can have
    made.species_page(longest, ranks)
    made.add(redirect(binomial(ranks), longest))
    made.expect(ranks, longest, common=longest)
    made.expect(other, reason="no_page", common=f"{longest}жж")


def title_in_another_script(made: TrapMaker) -> None:
    ranks, other = made.taxon(), made.taxon()
    names = (f"Žluťoučký kůň {made.number}", f"обыкновенная птица {made.number}")
    made.species_page(names[0], ranks)
    made.add(redirect(binomial(ranks), names[0]))
    made.species_page(names[1].capitalize(), other)
    made.expect(ranks, names[0])
    made.expect(other, names[1].capitalize(), common=names[1])


def common_name(made: TrapMaker) -> None:
    """Only the common name leads there, in the capitals of a list."""
    ranks, name = made.taxon(), made.common()
    made.species_page(name, ranks)
    made.expect(ranks, name, common=name.title() if made.number else name.replace(" ", "_"))


def redirect_to_common_name(made: TrapMaker) -> None:
    ranks, name = made.taxon(), made.common()
    made.species_page(name, ranks)
    made.add(redirect(binomial(ranks), name.replace(" ", "_")))
    made.expect(ranks, name)


def double_redirect(made: TrapMaker) -> None:
    ranks, name = made.taxon(), made.common()
    made.species_page(name, ranks)
    made.add(redirect(binomial(ranks), f"{name}s"), redirect(f"{name}s", name))
    made.expect(ranks, name)


# --- synonyms ---


def synonym_listed(made: TrapMaker) -> None:
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


def synonym_misapplied(made: TrapMaker) -> None:
    """Listed as what other authors wrongly called it, and so the name of something else."""
    old = made.taxon()
    new = made.taxon(like=old)
    new["species"] = f"{new['species']}oides"
    made.species_page(binomial(new), new, synonyms=f"* ''{binomial(old)}'' auct. non Olm")
    made.add(redirect(binomial(old), binomial(new)))
    made.expect(old, reason="other_taxon")


def boxes_further_down(made: TrapMaker) -> None:
    """The first box is the page's; one in a section is that of a relative."""
    ranks = made.taxon()
    made.species_page(binomial(ranks), ranks)
    page = made.pages[binomial(ranks)]
    below = template("Speciesbox", {"genus": ranks["genus"], "species": "fossilis"})
    text = f"{page.wikitext}\n==Extinct relatives==\n{below}\nLarger."
    made.pages[page.title] = WorldPage(page.title, text)
    made.expect(ranks, page.title)


def moved_to_another_genus(made: TrapMaker) -> None:
    """Not listed, but the epithet stayed, in the gender of the new genus."""
    old = made.taxon()
    new = made.taxon(like=old)
    old["species"], new["species"] = "punctatus", "punctata"
    made.species_page(binomial(new), new)
    made.add(redirect(binomial(old), binomial(new)))
    made.expect(old, binomial(new))


def moved_to_another_family(made: TrapMaker) -> None:
    """The same epithet in another family and no list: nothing says that it is the same."""
    old, new = made.taxon(BEASTS), made.taxon(BEASTS)
    old["species"] = new["species"] = "vulgaris"
    made.species_page(binomial(new), new)
    made.add(redirect(binomial(old), binomial(new)))
    made.expect(old, reason="other_taxon")


def redirect_to_sister(made: TrapMaker) -> None:
    ranks = made.taxon()
    sister = changed(ranks, species=f"{ranks['species'][:4]}icola")
    made.species_page(binomial(sister), sister)
    made.add(redirect(binomial(ranks), binomial(sister)))
    made.expect(ranks, reason="other_taxon")


KINDS: tuple[Callable[[TrapMaker], None], ...] = (
    speciesbox,
    speciesbox_by_taxon,
    speciesbox_without_names,
    old_taxobox,
    abbreviated_genus,
    extinct,
    subgenus_in_binomial,
    tautonym,
    bacterium,
    virus,
    kingdom_spelled_otherwise,
    hybrid,
    hybrid_of_genera,
    diacritics,
    title_of_many_bytes,
    title_in_another_script,
    common_name,
    redirect_to_common_name,
    double_redirect,
    synonym_listed,
    synonym_misapplied,
    boxes_further_down,
    moved_to_another_genus,
    moved_to_another_family,
    redirect_to_sister,
)

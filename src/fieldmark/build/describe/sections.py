"""Section selection: which sections of a page speak of what the organism looks like?

The section tree is walked from the top. A heading is judged part by part ("Description and
habitat" has two), and together with those above it: "Leaves" below "Uses" is about uses,
"Description" below "Taxonomy" about naming, "Behaviour" below "Description" about neither. All
sections that remain are kept, in page order, each with its sub-sections; without any, the lead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from fieldmark.build.describe.lexicon import word_set
from fieldmark.build.describe.sentences import split_sentences
from fieldmark.build.wiki.wikitext import GAP, Section, clean_text, section_tree


@dataclass(frozen=True, slots=True)
class AppearanceText:
    """What a page says on appearance, before single sentences are chosen."""

    text: str
    """paragraphs separated by a blank line"""
    headings: tuple[str, ...]
    """where the parts come from, in page order: "Description > Leaves"; none for the lead"""
    is_lead: bool
    """no section speaks of appearance, so this is what stands above the first heading"""


def appearance_text(wikitext: str) -> AppearanceText | None:
    """None = neither a section on appearance nor a lead has any text (only a table, say)."""
    page = section_tree(wikitext)
    parts = [
        (" > ".join(path), text)
        for path, section in _appearance_sections(page, (), is_inside=False)
        if (text := _whole_sentences(clean_text(section.wikitext)))
    ]
    if parts:
        headings, texts = zip(*parts, strict=True)
        return AppearanceText("\n\n".join(texts), headings, is_lead=False)
    lead = _whole_sentences(clean_text(page.wikitext))
    return AppearanceText(lead, (), is_lead=True) if lead else None


def _whole_sentences(text: str) -> str:
    """Without sentences that lost words with a template."""
    if GAP not in text:
        return text
    paragraphs = []
    for paragraph in text.split("\n\n"):
        lines = []
        for line in paragraph.split("\n"):
            sentences = (line[span.start : span.end] for span in split_sentences(line))
            lines.append(" ".join(sentence for sentence in sentences if GAP not in sentence))
        paragraphs.append("\n".join(filter(None, lines)))
    return "\n\n".join(filter(None, paragraphs))


def _appearance_sections(
    section: Section, path: tuple[str, ...], is_inside: bool
) -> Iterator[tuple[tuple[str, ...], Section]]:
    for child in section.children:
        verdict = judge_heading(child.heading)
        if verdict is SectionVerdict.CLOSED:
            continue
        is_kept = verdict is SectionVerdict.APPEARANCE or (
            verdict is SectionVerdict.OPEN and is_inside
        )
        here = (*path, child.heading)
        if is_kept:
            yield here, child
        yield from _appearance_sections(child, here, is_kept)


class SectionVerdict(Enum):
    """What a heading says on the section and those below it."""

    APPEARANCE = "appearance"
    OPEN = "as the section above it"
    OTHER = "no, but sections below it may be"
    CLOSED = "no, and nothing below it either"


def judge_heading(heading: str) -> SectionVerdict:
    """By its words alone.

    >>> judge_heading("Population structure").name, judge_heading("Leaves and bark").name
    ('CLOSED', 'APPEARANCE')
    """
    text = re.sub(r"\b(?:natural|life) history\b", "biology", heading.lower())
    parts = [_words(part) for part in re.split(r",|/|;|:|&|\band\b|\bor\b", text)]
    verdicts = [_judge_part(words) for words in parts if words]
    others = {word for words in parts for word in words}
    if SectionVerdict.APPEARANCE in verdicts:
        is_naming = others & _FIRST_DESCRIBED and not others & (_LOOKS - {"description"})
        return SectionVerdict.CLOSED if is_naming else SectionVerdict.APPEARANCE
    for verdict in (SectionVerdict.CLOSED, SectionVerdict.OTHER):
        if verdict in verdicts:
            return verdict
    return SectionVerdict.OPEN


def _words(part: str) -> list[str]:
    return [word.removesuffix("'s") for word in re.findall(r"[^\W\d_]+(?:['’]s)?", part)]


def _judge_part(words: list[str]) -> SectionVerdict:
    bare = set(words) - _PLAIN
    if bare & _ELSEWHERE or ("description" in bare and set(words) & _FORMAL):
        return SectionVerdict.CLOSED
    if bare & _LIFE:
        return SectionVerdict.OTHER
    if bare & _LOOKS or (bare and bare <= _BODY):
        return SectionVerdict.APPEARANCE
    return SectionVerdict.OTHER if set(words) & _LIFE else SectionVerdict.OPEN


_LOOKS = word_set(
    """
    description descriptions appearance morphology characteristics characteristic identification
    identifying plumage plumages pelage coat coloration colouration color colour colors colours
    colouring coloring markings pattern patterning dimorphism polymorphism morphs features marks
    macroscopic macromorphology habit physique anatomy looks diagnosis recognition physical
    morphological moult molt foliage physiognomy wingspan macroscopy characters colourings
    moulting molting
    """
)
"""decide for a part of a heading, whatever else it says"""
_BODY = word_set(
    """
    leaf leaves flower flowers inflorescence inflorescences fruit fruits seed seeds bark stem
    stems trunk root roots cone cones needles petals sepals bracts branches twigs buds bulb
    rhizome frond fronds sori thallus cladodes spines thorns larva larvae caterpillar
    caterpillars adult adults imago imagines pupa pupae chrysalis nymph nymphs egg eggs juvenile
    juveniles immature immatures chick chicks male males female females young worker workers
    queen queens soldier soldiers drone drones size weight measurements dimensions head body
    tail wing wings leg legs feet fins fin scales teeth horns antlers tusks beak bill shell
    shells skin fur hair feathers face eyes ears trunk mane crest carapace plastron abdomen
    thorax antennae forewing forewings hindwing hindwings cap pileus gills hymenium stipe stalk
    flesh sporocarp sporocarps basidiocarp basidiocarps ascocarp polyps polyp structure shape
    form tentacles bell mantle aperture habitus whorls spire operculum instar instars limbs
    snout bodies stage stages rhizomes integument plan fruitbody fruitbodies basidiomata pods
    thorn needle twig branch
    """
)
"""decide if a part holds only these and plain words"""
_PLAIN = word_set(
    """
    the of a an in its flight external general outer overall main upper lower fore hind front
    back big small other visible growth first second third fourth fifth final last early late
    mature summer winter breeding nonbreeding non spring fruiting underside upperside underwing
    upperwing length mass species subspecies variety varieties pollen variation
    """
)
_ELSEWHERE = word_set(
    """
    population populations genetic genetics genome genomics genomic chromosome karyotype
    molecular dna etymology naming name names nomenclature type holotype taxonomy taxonomic
    classification systematics phylogeny phylogenetic phylogenetics evolution evolutionary
    fossil fossils paleobiology history historical discovery distribution habitat habitats range
    behaviour behavior behavioural behavioral behaviours behaviors diet feeding food foraging
    predators predation prey hunting uses use used cultivation cultivars cultivar horticulture
    culinary medicinal medicine culture cultural media film films fiction literature mythology
    folklore symbolism religion art heraldry conservation status threats threat protection
    management invasive pest pests disease diseases parasites pathogens host hosts hostplants
    references reference notes footnotes citations sources bibliography links see gallery images
    further reading videos voice vocalisation vocalization vocalisations vocalizations call
    calls song songs sound sounds microscopic microscopy micromorphology microscopical chemistry
    chemical biochemistry biochemical compounds constituents toxicity toxicology poisoning venom
    edibility edible similar lookalikes relatives comparison economic importance trade human
    humans people pollination dispersal germination propagation production nutrition nutritional
    breeds list synonyms captivity domestication aquarium pets alike alikes pet timber
    """
)
"""decide against a part, and what is below it"""
_LIFE = word_set(
    """
    ecology ecological biology life lifecycle cycle reproduction reproductive breeding
    development growth physiology physiological lifespan longevity mating nesting courtship
    internal circulatory nervous sensory digestive excretory respiratory skeletal muscular
    musculoskeletal immune system systems metabolism locomotion senses vision hearing smell
    sociality social phenology genitalia neuroanatomy flowering hibernation migration flight
    species subspecies genera subgenera varieties hybrids
    """
)
_FORMAL = {"first", "original", "scientific", "formal", "type"}
_FIRST_DESCRIBED = {"discovery", "naming", "nomenclature", "history"}
"""beside these, a description is what gave the species its name"""

"""Lexicon: words by what a sentence with them speaks of, for and against visible appearance.

One word belongs to one group. Plurals and the like are made from the plain form (`forms`), so that
lists stay short enough to be read.
"""

from __future__ import annotations

from functools import cache

GROUPS = {
    "colour": """
        black white grey gray brown red orange yellow green blue purple violet pink magenta
        crimson scarlet maroon chestnut rufous ochre ochraceous buff tan cream creamy fawn tawny
        golden gold silver silvery olive olivaceous cinnamon russet rust rusty lilac lavender
        mauve turquoise azure indigo ivory amber bronze bronzy copper coppery slate sooty dusky
        blackish whitish greyish grayish brownish reddish yellowish greenish bluish purplish
        pinkish orangish colour color coloured colored colouration coloration colourful colorful
        hue tint tinge tinged shade pale paler palest dark darker darkest bright brighter vivid
        dull duller drab albino melanistic vinaceous straw sulphur lemon ferruginous glaucous
        hyaline translucent transparent iridescent metallic iridescence sheen pigmentation
        pigmented colourless colorless tricoloured bicoloured bicolor unmarked darkish rosy rose
        carmine vermilion ashy ash chocolate sandy wine blood beige charcoal plumbeous leaden
        fulvous rufescent violaceous luteous lurid dingy cobalt emerald teal khaki
    """,
    "pattern": """
        spot spotted spotting stripe striped striping band banded banding streak streaked
        streaking bar barred barring mottle mottled mottling blotch blotched blotchy speckle
        speckled speckling patch patchy marking marked marbled dappled freckled flecked fleck
        dot dotted eyespot ocellus ocelli ring ringed collar mask masked eyestripe eyeline
        supercilium edged edging fringe fringed margined rim outlined bordered border tipped tip
        pattern patterned reticulate reticulated vermiculated vermiculation crossband fascia
        line lined lines chevron rosette saddle stipple stippled variegated uniform uniformly
        plain cryptic blackened crescent wash washed suffused suffusion veined venation zigzag
    """,
    "part": """
        plumage feather plume crest crown nape mantle scapular rump vent breast belly flank
        throat chin lore lores cheek face facial forehead eyebrow iris irides eye eyering eyelid
        ear bill beak mandible maxilla cere wing forewing hindwing underwing upperwing coverts
        covert primary primaries secondary secondaries speculum tail rectrices underpart
        upperpart underparts upperparts leg foot feet toe claw talon tarsus tarsi fur coat hair
        pelage mane whisker muzzle snout nose nostril mouth lip jaw tooth teeth tusk canine horn
        antler hoof hooves paw pad neck shoulder back chest abdomen thorax pronotum elytron
        elytra antenna antennae palp palpi proboscis segment carapace plastron shell scute scale
        skin dewlap frill spine spinelet fin dorsal pectoral pelvic anal caudal ventral barbel
        gill operculum head body limb tongue underside upperside upperside whorl spire aperture
        umbilicus suture siphon tentacle arm sucker disc leaf leaves leaflet foliage blade
        petiole stipule petal sepal calyx corolla tepal flower floret bract inflorescence raceme
        panicle umbel spike catkin cone fruit berry capsule pod seed drupe nut achene bark trunk
        stem branch branchlet twig bud thorn prickle root bulb rhizome frond sori sorus thallus
        stamen anther style stigma pistil ovary filament peduncle pedicel rosette cap pileus
        lamella lamellae stipe stalk flesh annulus volva veil crust apothecia tube pore hymenium
        fruitbody forelimb hindlimb foreleg hindleg femur femora tibia tibiae wingspan scutellum
        vertex costa cell vein apex apical basal base termen tornus discal cilia keel carina
        stolon culm ligule glume awn spikelet sheath midrib lobe needle crown canopy pouch hump
        trunk tuft bristle spur ruff casque wattle comb eyestalk pincer chela chelae telson
        uropod rostrum cephalothorax pedipalp chelicera chelicerae spinneret cephalon mantle
        valve hinge umbo polyp bell oral ray test flipper fluke blowhole blubber dorsum venter
        hood tympanum hindquarters forequarters sac shaft facies mesonotum gaster petiole node
        larva caterpillar pupa chrysalis cocoon imago antler carpal culmen gape gonys rictal
        male female adult juvenile sexes immature
    """,
    "shape": """
        oval ovate obovate elliptic elliptical lanceolate oblanceolate linear oblong orbicular
        round rounded roundish circular cylindrical conical cone-shaped spherical globose
        globular ovoid egg-shaped flattened flat compressed depressed elongate elongated slender
        slim stout stocky robust bulky thickset curved recurved decurved hooked straight pointed
        blunt obtuse acute acuminate sharp tapering tapered tapers triangular square rectangular
        heart-shaped cordate reniform palmate pinnate bipinnate trifoliate compound simple lobed
        unlobed dissected toothed dentate serrate serrated crenate entire wavy undulate forked
        notched truncate squared convex concave umbonate campanulate tubular funnel
        funnel-shaped bell-shaped trumpet-shaped star-shaped spatulate spathulate filiform
        fusiform arched domed humped angular keeled ridged ribbed grooved furrowed coiled
        twisted spiral bushy erect prostrate creeping climbing trailing upright spreading
        drooping pendulous pendent decumbent ascending branched unbranched branching tufted
        clumped clump-forming mat-forming whorled opposite alternate terminal axillary solitary
        shape shaped form deeply protruding prominent bulging wedge-shaped shield-shaped
        strap-shaped needle-like sickle-shaped falcate deltoid rhombic rhomboid bilobed trilobed
        crested horned winged tailed legged headed eyed necked billed haired symmetrical
        asymmetrical radially bilateral bilaterally sessile stalked decurrent adnate imbricate
        overlapping rosulate basal laterally dorsoventrally
    """,
    "texture": """
        smooth rough hairy hairless furry fluffy shaggy silky woolly woolen wooly velvety downy
        fuzzy bristly spiny prickly thorny scaly scaled warty tuberculate granular glossy shiny
        shining lustrous matt matte waxy sticky slimy viscid leathery coriaceous papery fleshy
        succulent woody herbaceous corky flaky flaking peeling fissured cracked wrinkled rugose
        pitted punctate punctured striate striated striations ridge groove glabrous pubescent
        tomentose pilose hirsute villous ciliate dense densely sparse sparsely coarse coarsely
        fine finely soft stiff hard brittle thick thin membranous delicate feathery naked bare
        feathered unfeathered bald sculpture sculptured covered coated gelatinous rubbery
        powdery farinose fibrous hispid setose setae puncture tubercle wart nodule
    """,
    "size": """
        large larger largest small smaller smallest medium medium-sized big bigger tiny minute
        huge tall taller short shorter long longer wide wider broad broader narrow narrower
        length height width diameter size sized dwarf giant massive lengthy weight weigh heavier
        lightweight heavy deep thickness breadth robustly slenderly compact low high measure
        measuring stand reach reaching grow growing
    """,
    "look": """
        resemble resembling resembles look looks appear appearing appearance similar distinguish
        distinguished distinguishable distinctive distinguishing conspicuous inconspicuous
        visible recognise recognised recognize recognized recognisable recognizable dimorphic
        dimorphism dimorphic morph identify identified lack lacks lacking bear bearing bears
        possess possesses characterised characterized adorned ornamented ornamentation
        contrasting contrast showy camouflage camouflaged noticeable externally superficially
    """,
    "habit": """
        tree treelet shrub subshrub herb vine liana climber perennial annual biennial evergreen
        deciduous grass fern moss lichen mushroom fungus
    """,
    "behaviour": """
        feed feeding fed eat eaten eating forage foraging hunt hunting prey preying catch nest
        nesting breed breeding mate mating courtship court display migrate migration migratory
        roost lay laid laying incubate incubation hatch hatching fledge clutch brood gestation
        birth territory territorial nocturnal diurnal crepuscular social gregarious pair flock
        herd swim swimming run running jump burrow burrowing dig hibernate hibernation
        aggressive defend defence defense attack bite predator parasite parasitic parasitise
        pollinate pollinated pollinator pollination disperse dispersed dispersal germinate
        behaviour behavior diet food carnivorous herbivorous omnivorous insectivorous consume
        visit emerge emergence hide shelter camp communicate lifespan live lifecycle mature
        maturity reproduce reproduction reproductive host active activity sleep rest perch
        perched perching hover tend courting scavenge graze browse drink learn chase nestling
        weaned pregnancy litter pup spawn spawning fertilisation fertilization metamorphosis
        overwinter overwinters generation sting venom venomous bask basking threatened-display
        glide mimic attract attracts
    """,
    "habitat": """
        forest woodland grassland savanna savannah desert swamp marsh wetland habitat scrub
        scrubland meadow heath heathland moorland mountain hill slope lowland highland montane
        alpine coast coastal reef sea ocean river stream lake pond water freshwater marine soil
        limestone sandstone granite sand rock rocky cliff elevation altitude inhabit occur
        occurs occurring found distributed distribution range native endemic indigenous
        introduced naturalised naturalized widespread common rare locally abundant region area
        province state country island islands county district north south east west northern
        southern eastern western central tropical subtropical temperate climate rainfall
        rainforest depth intertidal record recorded locality africa asia europe america
        australia china india japan brazil mexico madagascar indonesia philippines malaysia
        borneo guinea zealand canada united states california florida texas africa american
        african asian european australian mediterranean atlantic pacific caribbean himalaya
        himalayas andes amazon valley plain plateau bog fen dune garden roadside disturbed
        grow-on epiphyte epiphytic terrestrial arboreal burrows
    """,
    "taxonomy": """
        species genus genera subgenus subspecies family subfamily tribe order class described
        taxonomy taxonomic taxonomist classify classified classification synonym synonymous
        nomenclature phylogeny phylogenetic clade sister molecular monotypic type holotype
        paratype lectotype specimen collected author reclassified split lumped placed
        transferred formerly originally first linnaeus botanist zoologist naturalist
        entomologist ornithologist described-by fossil extinct evolved ancestor hybrid hybridise
        variety varieties accepted valid recognised-as journal published publication monograph
        taxon taxa cultivar
    """,
    "name": """
        name named names naming epithet etymology latin greek derive derived refer refers
        reference honour honor honours honors meaning means word translates vernacular known
        called commemorate commemorates commonly alluding
    """,
    "use": """
        use used uses using cultivate cultivated cultivation ornamental gardener medicinal
        medicine traditional edible cook cooked cooking timber lumber fuel fodder crop harvest
        harvested commercial commercially economic trade market pet aquarium captivity culinary
        tea oil dye fibre fiber rope furniture construction people human humans farmer livestock
        agriculture agricultural folk ritual symbol national stamp hardy pruning propagated
        propagation pest grown sold eaten-by fishery fisheries angler popular zoo
    """,
    "status": """
        endangered vulnerable threatened threat iucn conservation conserve protected protection
        decline declining declined population populations habitat-loss loss extinction
        deforestation concern status redlist survey estimated estimate density densities
        overfishing poaching pollution invasive
    """,
    "hidden": """
        chromosome genome genetic genetics gene dna diploid tetraploid haplotype karyotype spore
        spores basidium basidia cystidia pleurocystidia cheilocystidia hypha hyphae ascus asci
        ascospore conidia conidium clamp microscope microscopic microscopy micrometre micrometer
        micrometres amyloid inamyloid koh reagent septate mitochondrial sequence alkaloid
        compound compounds toxin toxic toxicity poisonous acid enzyme protein terpene flavonoid
        glycoside extract antioxidant antibacterial chemical chemistry oils psilocybin bone
        skull vertebra vertebrae skeleton cranial stomach intestine heart lung liver kidney
        gland genitalia aedeagus internal gonad muscle brain nerve blood-vessel physiology
        metabolism metabolic temperature hormone photosynthesis taste odour odor smell scent
        fragrance fragrant aroma scented
    """,
    "voice": """
        song call calls sing sings singing whistle whistling trill chirp croak note notes vocal
        vocalisation vocalization vocalise sound syllable pitch hoot bark-call growl roar howl
        squeak click repertoire khz hz
    """,
    "time": """
        january february march april may june july august september october november december
        spring summer autumn winter season seasonal seasonally year years month months week
        weeks day days night century flowering fruiting bloom blooms blooming flight-period
        bivoltine univoltine annual-cycle dry-season rainy
    """,
}
"""what a word speaks of → words"""


def word_set(text: str) -> frozenset[str]:
    """Words separated by blanks."""
    return frozenset(text.split())


def forms(word: str) -> set[str]:
    """The word, its plural or third person, and its participles where they are regular."""
    plural = word + "s"
    if word.endswith(("s", "x", "ch", "sh")):
        plural = word + "es"
    elif word.endswith("y") and word[-2] not in "aeiou":
        plural = word[:-1] + "ies"
    return {word, plural}


@cache
def group_of() -> dict[str, str]:
    """Every form of every word, and its group; of two groups with one form the first has it."""
    groups: dict[str, str] = {}
    for group, words in GROUPS.items():
        for word in words.split():
            groups.setdefault(word, group)
    for group, words in GROUPS.items():
        for word in words.split():
            for form in forms(word):
                groups.setdefault(form, group)
    return groups

"""Lexicon: words by what a sentence with them speaks of, for and against visible appearance.

One word belongs to one group. Plurals and regular verb forms are made from the plain word.
"""

from __future__ import annotations

from functools import cache, lru_cache

GROUPS = {
    "colour": """
        black white grey gray brown red orange yellow green blue purple violet pink magenta
        crimson scarlet maroon chestnut rufous ochre ochraceous buff tan cream creamy fawn tawny
        golden gold silver silvery olive olivaceous cinnamon russet rusty lilac lavender mauve
        turquoise azure indigo ivory amber bronze bronzy copper coppery slate sooty dusky
        blackish whitish greyish grayish brownish reddish yellowish greenish bluish purplish
        pinkish orangish colour color coloured colored colouration coloration colourful colorful
        hue tint tinge tinged shade pale paler palest dark darker darkest bright brighter vivid
        dull duller drab albino melanistic vinaceous straw sulphur lemon ferruginous glaucous
        hyaline translucent transparent iridescent metallic iridescence sheen pigmentation
        pigmented colourless colorless tricoloured bicoloured bicolor unmarked darkish rosy rose
        carmine vermilion ashy ash chocolate sandy wine blood beige charcoal plumbeous leaden
        fulvous rufescent violaceous luteous lurid dingy cobalt emerald teal khaki aubergine
        apricot peach ruby garnet burgundy claret brick terracotta umber sienna sepia mahogany
        hazel jet ebony inky snowy pearly opalescent opaline pearl nacreous pallid wan ashen
        smoky steel navy ultramarine cyan aqua aquamarine verdigris lime citrine canary saffron
        mustard honey caramel toffee coffee blush cerise fuchsia plum heliotrope amethyst
        rainbow multicoloured multicolored particolored polychromatic discoloured discolored
        concolorous concolor unicolorous tricolor albinistic leucistic melanic dichromatic
        dichromatism hoary grizzled brindled roan piebald pied skewbald dun sorrel bay palomino
        agouti ruddy florid sallow lighter lightest brightest richly brilliant brilliantly gaudy
        muted subdued gleaming opaque semitransparent
    """,
    "pattern": """
        spot spotted spotting striped striping banded banding streak streaked streaking bar
        barred barring mottle mottled mottling blotch blotched blotchy speckle speckled
        speckling patch patchy marking marked marbled dappled freckled flecked fleck dot dotted
        eyespot ocellus ocelli ring collar mask masked eyeline supercilium edged edging fringed
        margined rim outlined bordered tipped tip pattern patterned reticulate reticulated
        vermiculated vermiculation crossband fascia lined chevron saddle stipple variegated
        uniform uniformly cryptic blackened crescent wash washed suffused suffusion veined
        venation zigzag stained stain dusted powdered spotless pencilled pencilling fade faded
        bleached bruise bruising studded spotty stripy streaky bars checkered chequered
        checkerboard tessellation marbling mottles maculate maculated immaculate macula
        maculation ocellate ocellated lineate vittate fasciate fasciated annulate annulated
        annulation zoned zonation zone concentric halo nimbus spangled spangle sprinkled
        peppered dusting frosting scribble scribbling squiggle herringbone dapple countershaded
        countershading wingbar wingbars malar moustachial moustache bib gorget breastband
        necklace epaulet epaulette blaze stocking sock facemask bandit hourglass triangle
        spotlike unspotted unstriped unbarred unstreaked striae midline netted lattice
    """,
    "shape": """
        oval ovate obovate elliptic elliptical lanceolate oblanceolate linear oblong orbicular
        round rounded roundish circular cylindrical conical spherical globose globular ovoid
        flattened flat compressed depressed elongate elongated slender slim stout stocky robust
        bulky thickset curved recurved decurved hooked straight pointed blunt obtuse acute
        acuminate sharp tapering tapered tapers triangular square rectangular cordate reniform
        palmate pinnate bipinnate trifoliate compound simple lobed unlobed dissected toothed
        dentate serrate serrated crenate entire wavy undulate forked notched truncate squared
        convex concave umbonate campanulate tubular funnel spatulate spathulate filiform
        fusiform arched domed humped angular keeled ridged ribbed grooved furrowed coiled
        twisted spiral bushy erect prostrate creeping climbing trailing upright spreading
        drooping pendulous pendent decumbent ascending branched unbranched branching tufted
        clumped whorled opposite alternate terminal axillary solitary shape shaped deeply
        protruding prominent bulging falcate deltoid rhombic rhomboid bilobed trilobed crested
        horned winged tailed legged headed eyed necked billed haired symmetrical asymmetrical
        radially bilateral bilaterally sessile stalked decurrent adnate imbricate overlapping
        rosulate basal laterally dorsoventrally plump stubby lunate hollow jointed swollen
        inflated cupped crinkled crumpled curled curl flared arranged crowded spaced scattered
        enlarged reduced absent vestigial fused joined enclosed surrounded encircled encased
        suspended borne tiered overhanging diamond tangled packed stumpy lanky graceful dumpy
        squat chunky portly heavyset webbed unwebbed clawless toothless legless wingless
        tailless limbless spineless thornless flightless drawn cup cushion upturned downturned
        upcurved downcurved bent folded pleated horizontal vertical oblique transverse
        longitudinal parallel divergent clasping stemless leafless leafy streamlined turreted
        coiling planispiral bulbous clavate cuspidate mucronate emarginate obcordate sagittate
        hastate peltate perfoliate lenticular discoid cupulate sawtooth subulate acicular
        ensiform oblate prolate pyriform turbinate trigonous terete quadrangular quadrate
        ellipsoid ellipsoidal subglobose cupola domelike hemispherical hemispheric attenuate
        caudate aristate retuse pinnatifid bipinnatifid tripinnate pinnately palmately ternate
        trifoliolate unifoliate digitate pedate incised laciniate lacerate fimbriate erose
        crenulate serrulate denticulate sinuate repand revolute involute inrolled incurved
        upcurled outcurved reflexed recurving deflexed nodding weeping arching ascendent
        procumbent sprawling scrambling twining tussock tussocky multistemmed shrubby treelike
        bushlike columnar pyramidal vaulted hunched hunchbacked stooped gracile spindly gangly
        burly muscular brawny rotund dumpling wormlike vermiform serpentine crablike antlike
        starlike radiating radial symmetric lobulate bilabiate zygomorphic actinomorphic
        cruciform rotate salverform urceolate spurred clawed hooded beaked snouted whiskered
        bearded maned tusked antlered frilled ruffled crimped plicate lobate webbing unforked
        emarginated graduated wedge stepped protuberant protruded sunken flush raised elevated
        projecting outspread splayed interlocking interlaced intertwined loosely tightly
        clustered paired doubled unpaired rudimentary undeveloped underdeveloped eyeless earless
        hornless beardless unarmed armed unwinged brachypterous macropterous apterous
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
        powdery farinose fibrous hispid setose setae puncture tubercle wart nodule milky crinkly
        ragged tough horny stippled frosted mealy chalky stony bony armoured armored plated
        quilled wiry crisp crusty crustose foliose fruticose spongy loose tight wispy
        translucency tessellated polished sleek plush nap furred velutinous sericeous lanate
        floccose arachnoid cobwebby strigose scabrous scabrid scurfy lepidote squamulose
        squamous mucilaginous glutinous tacky greasy clammy lacquered varnished enamelled
        porcelain glassy satin satiny silken burnished unpolished lustreless dullish grainy
        granulate granulose granulated pebbly pebbled knobbly knobby lumpy bumpy blistered
        bullate pimpled pimply warted verrucose papillose papillate muricate echinate aculeate
        barbed thickened thickly thinly cartilaginous calcareous chitinous sclerotised
        sclerotized hardened filmy gauzy gossamer lacy unhaired glabrescent puberulent
        puberulous tomentum indumentum pubescence pruinose exfoliating shredding shreddy fissure
        crevice crackled cracking areolate rimose sulcate costate cancellate nodulose nodose
        tuberculated spinose spinulose spinulous
    """,
    "part": """
        plumage feather plume crest crown nape mantle scapular rump vent breast belly throat
        chin lore lores cheek face facial forehead eyebrow irides eye eyering eyelid ear bill
        beak mandible maxilla cere wing forewing hindwing underwing upperwing coverts covert
        primary primaries secondary secondaries speculum tail rectrices underpart upperpart
        underparts upperparts leg foot feet toe claw talon tarsus tarsi fur coat hair pelage
        mane whisker muzzle snout nose nostril mouth lip jaw tooth teeth tusk canine horn antler
        hoof hooves paw pad neck shoulder back chest abdomen thorax pronotum elytron elytra
        antenna antennae palp palpi proboscis segment carapace plastron scute scale skin dewlap
        frill spine spinelet fin dorsal pectoral pelvic anal caudal ventral barbel gill
        operculum head body limb tongue underside upperside whorl spire aperture umbilicus
        suture siphon tentacle arm sucker disc leaf leaves leaflet foliage blade petiole stipule
        petal sepal calyx corolla tepal flower floret bract inflorescence raceme panicle umbel
        spike catkin cone fruit berry capsule pod seed drupe nut achene bark trunk stem branch
        branchlet twig bud thorn prickle bulb rhizome frond sori sorus thallus stamen anther
        stigma pistil ovary filament peduncle pedicel cap pileus lamella lamellae stipe flesh
        annulus volva veil crust apothecia tube pore hymenium fruitbody forelimb hindlimb
        foreleg hindleg femur femora tibia tibiae wingspan scutellum vertex costa vein apex
        apical base termen tornus discal keel carina stolon culm ligule glume awn spikelet
        sheath midrib lobe needle canopy pouch hump tuft bristle spur ruff casque wattle comb
        eyestalk pincer chela chelae telson uropod rostrum cephalothorax pedipalp chelicera
        chelicerae spinneret cephalon valve hinge umbo polyp bell flipper blowhole blubber
        dorsum venter hood tympanum hindquarters forequarters sac shaft facies mesonotum gaster
        node chrysalis cocoon imago carpal culmen gape gonys rictal pupil eyelash waist plate
        girdle tendril sap cleft tissue rib knob periostracum cerata outline silhouette surface
        margin edge front beard strand thread column fang toenail hand finger thumb knee elbow
        wrist ankle hip thigh heel sole hindfoot forefoot membrane patagium interfemoral
        eyestripe ovipositor cercus cerci maxillary labial nasal lateral flap pinnule axil axils
        rootstock tuber corm cladode areole glochid spathe spadix pappus involucre hypanthium
        receptacle lenticel internode bladder holdfast peristome calyptra seta phyllary lemma
        palea utricle scape hindwings forewings topside undersurface uppersurface earlobe
        rootlet rows bodies centre center middle stripe threads projection appendage cusp lump
        swelling furrow sheet cheekbone eyeball sclera forecrown hindcrown hindneck foreneck
        upperback uppertail undertail underwings axillaries tertial tertials remiges remex
        rectrix tarsal shank hock pastern fetlock withers loin haunch buttock teat udder nipple
        breastplate snood caruncle lappet shield gular plastral marginal vertebral costal nuchal
        supraocular parietal frontal loreal temporal rattle cloaca parotoid tympanic vomerine
        forearm subarticular finlet adipose lateralis opercle preopercle gillcover jawline
        photophore opisthosoma prosoma cephalic carapacial sternite tergite notum mesothorax
        metathorax metanotum propodeum funicle clypeus frons labrum labium ocellar haltere
        halteres tegula coxa trochanter tarsomere pulvilli pterostigma cubitus postmedian
        antemedian submarginal subterminal postdiscal hindmargin cornicle siphuncle clasper
        cerebral byssus periostracal columella columellar varix varices protoconch teleoconch
        nacre ctenidia parapodia rhinophore pallium disk madreporite umbrella medusa zooid
        corallite leafstalk midvein sidevein venule pinna pinnae rachis rachilla stipel ochrea
        phyllode bracteole spikelets flowerhead capitulum capitula corymb cyme thyrse spadices
        labellum standard falls banner pollinia ovule pericarp rind pulp aril husk hull burr
        samara legume follicle silique siliqua silicle pome haw acorn cupule strobilus strobili
        heartwood sapwood bole buttress crownshaft runner offset bulbil pneumatophore indusium
        crozier prothallus cortex rhizine isidia soredia podetia podetium apothecium medulla
        soralia lobules pileipellis cuticle hymenophore sporeprint context gleba peridium
        endoperidium exoperidium stroma perithecia receptacles plumes beaklike whiskers
        tailfeathers hairs leggings eartip ears pleopod pereiopod maxilliped antennule eyestalks
        pleon pelt fleece topknot
    """,
    "size": """
        large larger largest small smaller smallest medium big bigger tiny minute huge tall
        taller short shorter long longer wide wider broad broader narrow narrower length height
        width diameter size sized dwarf giant massive lengthy weight weigh heavier lightweight
        heavy deep thickness breadth robustly slenderly compact measure measuring stand reach
        reaching grow growing miniature diminutive petite sizeable sizable enormous gigantic
        colossal hefty largish smallish longish shortish moderate girth circumference proportion
        proportions proportionally proportionately relatively slimmer stockier bulkier bulk half
        twice thicker thinner deeper elongatedly tallest longest shortest widest narrowest
        broadest heaviest outweigh weighs mass kg
    """,
    "look": """
        resemble resembling resembles look looks appear appearing appearance similar distinguish
        distinguished distinguishable distinctive distinguishing conspicuous inconspicuous
        visible recognised recognize recognized recognisable recognizable dimorphic dimorphism
        morph lack lacks lacking bearing bears possess possesses characterised characterized
        adorned ornamented ornamentation contrasting showy camouflage camouflaged noticeable
        externally superficially reminiscent remind mistaken confusable lookalike unmistakable
        unmistakeable diagnostic characteristic characteristically striking strikingly
        attractive ornate handsome beautiful decorative indistinct obvious discernible evident
        apparent indistinguishable alike viewed seen
    """,
    "arrange": """
        surround surrounds cover covers encircle encircles extend extends stretch stretches run
        runs project projects protrude protrudes hang hangs arise arises overhang overhangs end
        ends curve curves carry carries consist consists turn turns become becomes becoming show
        shows form forms spread spreads overlap overlaps merge merges point points flank flanks
        adorn adorns marks sit sits lie lies sweep sweeps contrast contrasts give giving border
        borders fringe fringes line spring springs sport sports wear wears feature features
    """,
    "person": """
        male female adult juvenile sexes sex immature young hatchling chick tadpole larva larvae
        caterpillar pupa pupae nymph individual specimen insect fish shell plant animal bird
    """,
    "habit": """
        tree treelet shrub subshrub herb vine liana climber perennial annual biennial evergreen
        deciduous grass fern lichen mushroom
    """,
    "behaviour": """
        feeding fed eat eaten eating forage foraging hunting prey preying nest nesting breed
        breeding mate mating courtship court migrate migration migratory roost lay laid laying
        incubate incubation hatch hatching fledge clutch brood gestation birth territory
        territorial nocturnal diurnal crepuscular social gregarious flock herd swimming running
        jump burrow burrowing dig hibernate hibernation aggressive defence defense bite predator
        parasite parasitic pollinated pollinator pollination disperse dispersed dispersal
        behaviour behavior diet food carnivorous herbivorous omnivorous insectivorous consume
        visit emerge emergence hide shelter camp lifespan lifecycle mature maturity reproduce
        reproduction reproductive host active activity sleep perch perched perching hover tend
        courting scavenge browse drink learn chase nestling weaned pregnancy litter pup spawn
        spawning fertilisation fertilization metamorphosis overwinter overwinters generation
        venomous bask basking glide mimic attract attracts gregariously forager browser grazer
        scavenger predatory insectivore herbivore carnivore omnivore diurnally nocturnally
        roosting roosts nestbuilding burrower den dens lair copulate copulation spermatophore
        oviposit oviposition viviparous oviparous ovoviviparous parthenogenesis larviparous
        polygynous polygamous monogamous monogamy lek lekking fledging fledged altricial
        precocial parental care wean suckle suckling lactation puberty migrates wander nomadic
        sedentary resident aestivate torpor dormant dormancy vagile flee escape freeze feign
        bluff groom preen bathe dustbathe yawn scratch gnaw nibble peck drill pounce lunge
        strike constrict regurgitate spit spray squirt stink emit lure aggregate swarm school
        shoal rut rutting spar joust fights fighting dominance hierarchy cooperate cooperative
        symbiosis symbiotic mutualism commensal mycorrhizal mycorrhiza saprotrophic saprobic
        decompose decomposer parasitoid hyperparasite kleptoparasite ectoparasite endoparasite
        photosynthesise nectar mine mines gall galls frass track tracks footprint footprints
        droppings dung scat pellet web webs retreat mound sociable solitarily agile fast slow
        speed sprint gallop trot hop bound slither wriggle soar glider flights
    """,
    "habitat": """
        forest woodland grassland savanna savannah desert swamp marsh wetland habitat scrub
        scrubland meadow heath heathland moorland mountain hill slope lowland highland montane
        alpine coast coastal reef ocean stream lake pond freshwater marine soil sandstone
        granite sand rock rocky cliff elevation altitude inhabit occur occurs occurring found
        distributed distribution range native endemic indigenous introduced naturalised
        naturalized widespread rare locally abundant region province country island islands
        district north south east west northern southern eastern western central tropical
        subtropical temperate climate rainfall rainforest depth intertidal record recorded
        locality africa asia europe america australia china india japan brazil mexico madagascar
        indonesia philippines malaysia borneo guinea zealand canada united states california
        florida texas american african asian european australian mediterranean atlantic pacific
        caribbean himalaya himalayas andes amazon valley plateau bog fen dune garden roadside
        disturbed epiphyte epiphytic terrestrial arboreal burrows woodlands mangrove estuary
        estuarine lagoon gulf fjord strait canal ditch pool puddle brook creek waterfall
        floodplain riverbank bank banks shore shoreline beach seabed seafloor substrate
        substrates gravel silt mud muddy loam peat humus log logs stump stumps deadwood
        understorey understory undergrowth thicket hedgerow hedge pasture field farmland orchard
        plantation urban suburban city town village steppe prairie tundra taiga boreal arctic
        antarctic subarctic polar equatorial arid semiarid humid moist wet sunny shady shaded
        exposed acidic alkaline saline brackish pelagic benthic demersal abyssal littoral
        sublittoral neritic oceanic offshore inshore cave caves crevices quarry lava volcanic
        ultramafic gypsum chalk basalt latitude longitude hemisphere continent peninsula
        archipelago basin watershed russia siberia mongolia korea taiwan thailand vietnam laos
        cambodia myanmar burma nepal bhutan pakistan iran iraq turkey israel egypt libya morocco
        algeria ethiopia kenya tanzania uganda congo cameroon nigeria ghana senegal angola
        namibia botswana zimbabwe zambia mozambique spain portugal france germany italy greece
        poland ukraine sweden norway finland denmark iceland ireland britain england scotland
        wales netherlands belgium austria switzerland hungary romania bulgaria balkans caucasus
        alps pyrenees carpathians chile peru bolivia ecuador colombia venezuela guyana suriname
        argentina uruguay paraguay panama nicaragua honduras guatemala belize cuba jamaica
        hispaniola bahamas bermuda hawaii alaska oregon washington arizona nevada utah colorado
        georgia carolina virginia york queensland victoria tasmania sulawesi java sumatra lanka
        seychelles mauritius galapagos azores sahara kalahari baltic adriatic aegean arabian
        bengal
    """,
    "taxonomy": """
        species genus genera subgenus subspecies family subfamily tribe described taxonomy
        taxonomic taxonomist classify classified classification synonym synonymous nomenclature
        phylogeny phylogenetic clade sister molecular monotypic type holotype paratype lectotype
        collected author reclassified split lumped placed transferred formerly originally
        linnaeus botanist zoologist naturalist entomologist ornithologist fossil extinct evolved
        ancestor hybrid hybridise variety varieties accepted valid journal published publication
        monograph taxon taxa cultivar remains eocene miocene pliocene pleistocene cretaceous
        jurassic congener relatives subtribe superfamily infraorder suborder subclass phylum
        kingdom cladistic cladogram monophyletic paraphyletic polyphyletic lineage lineages
        divergence radiation ancestral speciation synonymy synonymised synonymized homonym nomen
        dubium nudum basionym neotype syntype isotype allopatric sympatric conspecific
        congeneric superspecies revised revision circumscribed circumscription reinstated
        erected delimited carl linné linnean herbarium collector explorer expedition naturalists
        paleontologist palaeontologist ichthyologist herpetologist mycologist arachnologist
        malacologist ecologist biologist researcher scientists scientist authority authors paper
        monographed checklist dated dating million mya oligocene paleocene permian triassic
        devonian cambrian ordovician silurian carboniferous stratum formation subfossil skeletal
    """,
    "name": """
        name named names naming epithet etymology latin greek derive derived refer refers
        reference honour honor honours honors meaning means word translates vernacular known
        called commemorates commonly alluding nickname nicknamed moniker denote denotes alludes
        allusion signify signifies translation translated etymological eponym namesake honouring
        honoring tribute memory colloquially aka alias french german spanish portuguese italian
        dutch russian chinese japanese sanskrit hindi arabic maori hawaiian aboriginal afrikaans
        malay spelled spelling pronounced adjective noun
    """,
    "use": """
        use used uses using cultivate cultivated cultivation ornamental gardener medicinal
        medicine traditional edible cook cooked cooking timber lumber fuel fodder crop harvested
        commercial commercially economic pet aquarium captivity culinary oil dye fibre fiber
        rope furniture construction people human humans farmer livestock agriculture
        agricultural folk ritual symbol national stamp hardy pruning propagated propagation pest
        grown fishery fisheries angler popular zoo art flag arms emblem official museum award
        dyes tattoo perfumery recipe dish meat flavour flavor price quantities seafood wool
        pickled dried baked folklore legend myth mythology sacred superstition omen proverb poem
        novel painting painted logo mascot currency coin banknote coins heraldic emblematic
        embroidered jewellery jewelry trinket leather pillow soap candle ink pulpwood firewood
        carpentry joinery boatbuilding shipbuilding sleeper plywood handle tool weapon bow arrow
        bait raw fried roasted grilled smoked salted fermented brewed beverage beer liquor jam
        juice syrup spice seasoning salad vegetable flour bread porridge snack delicacy
        nutritious vitamin vitamins calorie remedy remedies cure treatment tonic poultice
        decoction infusion herbalist ethnobotany ayurvedic homeopathy pharmaceutical drug
        antimicrobial insecticide repellent landscaping houseplant bonsai bedding hedging
        nursery nurseries gardening horticulturist horticultural breeder breeders hybridizer
        exhibition pedigree domesticated domestication tame tamed farmed farming ranching
        husbandry aquaculture hatchery fishing fisherman fishermen fished hunter hunters trapper
        trapping bounty angling tourism tourist birdwatcher birder hobbyist keeper keepers
        terrarium vivarium zoos biocontrol weed weeds weedy infestation damage damages losses
        cuttings sowing transplant fertiliser fertilizer mulch compost irrigation drainage
        hardiness
    """,
    "status": """
        endangered vulnerable threatened threat iucn conservation conserve protected protection
        decline declining declined population populations loss extinction deforestation concern
        status survey estimated density densities overfishing poaching pollution invasive park
        reserve critically least cites appendix legislation law illegal banned ban poach
        poachers bycatch fragmentation logging overgrazing urbanisation urbanization drought
        wildfire bushfire reintroduction reintroduce translocation recovery sanctuary refuge
        monitored census remaining extirpated rediscovered
    """,
    "hidden": """
        chromosome genome genetic genetics dna diploid tetraploid haplotype karyotype spore
        spores basidium basidia cystidia pleurocystidia cheilocystidia hypha hyphae ascus asci
        ascospore conidia conidium clamp microscope microscopic microscopy micrometre micrometer
        micrometres amyloid inamyloid koh reagent septate mitochondrial alkaloid compounds toxin
        toxic toxicity poisonous acid enzyme protein terpene flavonoid glycoside extract
        antioxidant antibacterial chemical chemistry oils psilocybin bone skull vertebra
        vertebrae skeleton cranial stomach intestine heart lung liver kidney gland genitalia
        aedeagus internal gonad muscle brain nerve physiology metabolism metabolic hormone
        photosynthesis taste odour odor smell scent fragrance fragrant aroma scented baculum
        hemipenis hemipenes chloroplast pyrenoid xylem vessel stoma stomata epidermis pollen
        grain gut organ gonads inner nuclei nucleus flagellum flagella cilia mitochondria
        plasmid ribosomal µm nm chambers chamber dental incisor molar premolar zygomatic
        sagittal septa otolith raker rakers statolith radula embryo isotopes pigment carotenoid
        carotenoids melanin anthocyanin eugenol resin latex strain bacterium cyst photobiont
        mycobiont bioluminescence fluorescence formula venom hyphal allele heterozygous
        homozygous homozygote recessive phenotype genotype locus loci polyploid polyploidy
        hexaploid aneuploid autosome heterogametic nucleotide barcoding microsatellite
        transcriptome proteome paralog antigen antibody serum plasma haemoglobin hemoglobin
        oxygen carbon nitrogen calcium magnesium sodium lipid lipids fatty sugar sugars glucose
        starch cellulose lignin tannin tannins saponin saponins steroid sterol quinone
        polysaccharide peptide peptides neurotoxin cytotoxin hallucinogenic carcinogenic fatal
        lethal poisoning symptoms vomiting pain necrosis necrotic anaphylaxis allergen allergic
        dermatitis ligament tendon cartilage joint ribcage sternum scapula humerus ulna fibula
        pelvis sacrum dentary premaxilla palatine pterygoid cranium braincase foramen condyle
        gallbladder spleen pancreas esophagus oesophagus trachea syrinx bronchi diaphragm artery
        arteries capillary aorta ventricle atrium neuron ganglion retina cochlea photoreceptor
        rods ovaries testes testis oviduct uterus penis sperm spermatheca gonopore ovum blastula
        embryonic mesoderm ectoderm endoderm hypodermis parenchyma tracheid tracheids phloem
        cambium mesophyll palisade sporangium sporangia zygospore sporidia zoospore conidiophore
        teliospore urediniospore paraphyses asexual sterigmata sterigma gloeocystidia
        caulocystidia dermatocystidia trama subhymenium dextrinoid cyanophilous melzer
        biguttulate guttulate spherocysts sphaerocysts gram agar culture hertz electrophoresis
        spectrometry histology histological micrograph sem tem ultrastructure ultrastructural
    """,
    "voice": """
        song calls sings singing whistle whistling trill chirp croak note notes vocal
        vocalisation vocalization vocalise sound syllable pitch hoot growl roar howl squeak
        click repertoire khz hz singer songs birdsong warble warbling twitter chatter chattering
        squawk screech scream shriek cackle cluck coo cooing caw buzz buzzing hum humming
        drumming stridulation hiss hissing snarl grunt moan whine yelp bellow bugle bleat bray
        purr meow duet chorus melodious harsh raucous loud loudly audible acoustic ultrasonic
        ultrasound echolocation echolocate vocally
    """,
    "time": """
        january february march april june july august september october november december summer
        autumn winter season seasonal seasonally year years month months week weeks day days
        night century flowering fruiting bloom blooms blooming bivoltine univoltine rainy
        daytime nighttime dawn dusk morning evening afternoon hour hours minutes seconds decade
        decades monsoon solstice equinox daylight midsummer midwinter phenology perennially
        biennially age aged ages old older oldest
    """,
    "act": """
        kill compete join draw drew depict paint cross sell sold trade export detect regard
        estimate collect examine attach cause produce enable allow help bring insert seize offer
        wait strip swallow treat contain control determine correlate introduce release establish
        destroy build built mistake reflect nurse recognise fetch pickle dry bake peel inject
        enhance begin began drift settle tolerate prefer resist lead led guard fan perform dance
        wave exude infect infest attack invade colonise colonize breathe protect warn deter hunt
        hold move walk crawl climb leap dive wade gather store deposit secrete excrete absorb
        digest grind chew crush grip grasp probe filter suck lick swim sting spin weave ambush
        stalk steal feed kept sow prune graft fertilise harvest graze ship transport discover
        hear observe compare analyse analyze sequence count catch caught shoot shot net
        photograph film win won receive commemorate dedicate publish report propose suggest
        consider believe think thought assign belong comprise evolve diverge survive die died
        require need germinate sprout ripen rooting propagate pollinate parasitise encourage
        rely depend serve adapt fight defend communicate call sing drum stridulate utilise
        utilize employ assist aid ensure prevent reduce increase decrease improve affect
        influence indicate imply reveal confirm demonstrate conclude argue claim speculate
        hypothesise hypothesize investigate document monitor capture recapture translocate
        import expand contract recover vanish disappear persist thrive flourish colonised arrive
        depart return alight pass passes undergo undergoes transform pupate eclose shed sheds
        burst scatter eject discharge respond react avoid approach pursue mob harass intimidate
        startle confuse fool deceive conceal crossed segregate inherit mutate select bore bores
        tunnel tunnels devour transmit vector afflict suffer succumb injure wound heal boil
        steam stew grill roast fry brew distil distill process manufacture carve carved burn
        burned decorate celebrate worship portray illustrate mention commemorated wrote print
        issue issued gives gave
    """,
    "research": """
        study sample trap experiment mutant genes gene offspring ratio temperature tag ringed
        radar statistical correlated correlation average mean sensitive frequency surveyed
        statistic statistically significant significantly percent percentage hypothesis
        hypotheses theory evidence data dataset laboratory lab trial trials telemetry
        transmitter gps microchip photographs radiograph isotope analysis analyses sampled
        sampling model models simulation rate rates level levels amount amounts
    """,
    "named": """
        wolf fox deer antelope rhinoceros elephant lion tiger hyena whale seal dolphin otter
        monkey ape bat mouse mice rat squirrel rabbit hare dog cat cattle cow sheep goat horse
        pig frog toad newt salamander snake lizard skink gecko iguana mamba turtle tortoise
        crocodile eagle hawk owl duck goose geese gull tit warbler finch sparrow crow penguin
        parrot ant bee wasp fly flies gnat mosquito beetle butterfly butterflies moth spider
        mite tick crab shrimp krill lobster snail slug clam oyster mussel squid octopus
        jellyfish coral sponge worm earthworm leech fluke salmon trout shark eel cod tuna carp
        pine oak birch maple willow spruce fir beech poplar clover iris loosestrife medick
        nettle thistle dandelion bramble fig apple grape wheat rice maize corn cotton potato
        tomato algae alga pondweed seaweed moss bacteria virus fungus gnats rot mould mold
        mildew clay limestone pan market sea river hills county light recluse rhinoceroses
        berries tea rust disease panther leopard cheetah jaguar puma cougar lynx bobcat coyote
        jackal dingo badger weasel stoat mink ferret marten skunk raccoon panda sloth anteater
        armadillo pangolin hedgehog shrew mole vole lemming hamster gerbil porcupine beaver
        marmot chipmunk kangaroo wallaby koala possum wombat platypus echidna bison buffalo ox
        yak elk moose caribou reindeer gazelle zebra giraffe hippopotamus boar camel llama
        donkey walrus manatee dugong porpoise orca lemur gorilla chimpanzee orangutan baboon
        macaque crane heron stork ibis egret pelican cormorant albatross petrel tern puffin swan
        grebe loon rail coot plover sandpiper snipe curlew pigeon dove cuckoo swift martin
        kingfisher hornbill toucan woodpecker flycatcher thrush robin wren lark pipit wagtail
        shrike starling magpie jay raven vulture kite falcon kestrel buzzard grouse partridge
        quail pheasant chicken ostrich emu hummingbird sunbird viper cobra python boa
        rattlesnake adder chameleon alligator treefrog bullfrog axolotl sturgeon herring anchovy
        sardine mackerel bass pike catfish minnow goby wrasse grouper snapper seahorse skate
        lamprey cicada aphid aphids locust grasshopper cricket mantis termite termites dragonfly
        damselfly mayfly lacewing ladybird ladybug weevil hornet bumblebee honeybee sawfly
        horsefly midge louse lice flea cockroach centipede millipede scorpion tarantula barnacle
        crayfish prawn copepod amphipod isopod woodlouse limpet whelk cockle scallop nautilus
        cuttlefish anemone urchin starfish cucumber nematode tapeworm trematode flatworm mussels
        zooplankton phytoplankton plankton diatom diatoms cyanobacteria protozoa amoeba yeast
        elm alder aspen hawthorn rowan cherry pear citrus banana mango papaya coconut palm
        bamboo eucalyptus acacia mimosa juniper cypress cedar larch hemlock yew redwood sequoia
        ivy holly heather rhododendron azalea lily tulip daffodil orchid daisy sunflower
        buttercup primrose poppy mint thyme sage basil barley oat oats rye sorghum sugarcane
        soybean bean beans pea peas lentil cabbage carrot onion lettuce spinach pepper pumpkin
        melon squash strawberry raspberry blackberry blueberry cranberry mistletoe cactus
        bracken sedge reed cattail mangroves kelp sargassum carrion carcass carcasses cheese
        beetles mountains woodpeckers
    """,
}
"""what a word speaks of → words"""


_VERBS = ("arrange", "behaviour", "habitat", "use", "act")
"""groups whose words may also end as verbs do"""
_ENDINGS = {
    **dict.fromkeys(("shaped", "like", "bodied", "winged", "legged", "tailed", "headed"), "shape"),
    **dict.fromkeys(("necked", "billed", "flowered", "leaved", "lobed", "toothed"), "shape"),
    **dict.fromkeys(("stemmed", "throated", "eyed", "eared", "footed", "fingered"), "shape"),
    **dict.fromkeys(("edged", "tipped", "spotted", "striped", "banded", "ringed"), "pattern"),
    **dict.fromkeys(("coloured", "colored", "tinged"), "colour"),
    **dict.fromkeys(("haired", "scaled", "skinned"), "texture"),
    **dict.fromkeys(("layered", "spored", "celled"), "hidden"),
}
"""what the last part of a compound makes of it"""


def word_set(text: str) -> frozenset[str]:
    """Words separated by blanks."""
    return frozenset(text.split())


@lru_cache(maxsize=1 << 16)
def group_of(word: str) -> str:
    """The group of a word in small letters, of a compound by its last part; "" = it has none.

    >>> group_of("wings"), group_of("heart-shaped"), group_of("the")
    ('part', 'shape', '')
    """
    groups = _groups()
    if word in groups or "-" not in word:
        return groups.get(word, "")
    first, _, last = word.rpartition("-")
    return _ENDINGS.get(last) or groups.get(last) or groups.get(first, "")


@cache
def _groups() -> dict[str, str]:
    """Every form of every word, and its group; a word that is listed is no form of another."""
    listed = {word: group for group, words in GROUPS.items() for word in words.split()}
    formed = {
        form: group
        for word, group in reversed(listed.items())
        for form in (_plural(word), *(_verb_forms(word) if group in _VERBS else ()))
    }
    return formed | listed


def _plural(word: str) -> str:
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    return word[:-1] + "ies" if _ends_in_y(word) else word + "s"


def _verb_forms(word: str) -> tuple[str, str]:
    stem = word.removesuffix("e")
    return (word[:-1] + "ied" if _ends_in_y(word) else stem + "ed"), stem + "ing"


def _ends_in_y(word: str) -> bool:
    return word.endswith("y") and word[-2:-1] not in tuple("aeiou")

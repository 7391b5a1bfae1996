"""Statement rules: which words show that a caption says what its photo cannot show?

Small tables of what language models add from what they know of a species, or of photos, by kind and
with the words that show it. They are read on the caption without the species' name, where `NAME`
stands instead: a song sparrow says nothing of songs. A word that may as well describe ("flowers in
clusters", "found on a leaf", "a slender frame") is here only together with what makes it a
statement. What a caption must have, a look, is found by the lexicon of descriptions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fieldmark.build.describe.lexicon import group_of, lexicon, word_set

NAME = "§"
"""stands for the species' name"""


def _phrases(*alternatives: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(alternatives)})(?!\w)", re.IGNORECASE)


_TIMES = (
    r"(?:early |late |mid-?)?(?:spring|summer|autumn|winter|january|february|march|april|may|june|"
    r"july|august|september|october|november|december)"
)
_ONE = r"(?: (?!(?:a|an|the|one|two|its|from|at|upside|this|that)\b)|\W*$)"
"""what is eaten now is a nut, or the nut; what is eaten at all times is nuts"""
_GROUND = r"(?:[\w-]+,? ){0,3}backgrounds?"

KINDS: tuple[tuple[str, str, re.Pattern[str]], ...] = (
    (
        "echo",  # of the prompt
        "repeats the instructions",
        _phrases(
            r"(?:describe|write|name|caption|answer) (?:the|one|a|only|it|with)", "one sentence",
            r"at most \d+ words", "(?:scientific|common|latin) names?", "(?:a|the) biologist",
            "only what is visible", "shape, colou?r", "reference text", "species:",
        ),
    ),
    (
        "image_talk",
        "speaks of the photo itself",
        _phrases(
            "images?", "photos?", r"photograph\w*", "pictures?", "pictured", "captions?",
            "close-?ups?",
            "close view", "camera", "(?:trail|web) ?cam", r"depict(?:s|ed|ing|ion)", "viewer",
            r"watermark\w*", "stock", r"(?:snap|screen|head)?shots?", r"blur\w*", "bokeh",
            "(?:in|out of|of|sharp|soft|the|crisp) focus", "depth of field", "macro", "portrait",
            "lighting", "(?:beautifully|softly|well|warmly|dramatically|evenly)[ -]lit",
            "(?:out of|in|of|within) (?:the )?frame", "cropped", "foreground", "screen",
            r"(?:low|high)[ -](?:resolution|quality)", r"pixel\w*", "4k", "8k", "hd", "zoomed",
            "illustrations?", "drawings? of", "sketch", "render(?:ing)?", "scene", "copyright", "©",
            rf"(?:in|against|with|on) the {_GROUND}", rf"against an? {_GROUND}",
            r"(?:blurr\w*|soft|plain|neutral|studio|unfocused|clean|simple) (?:[\w-]+ )?background",
            "background (?:is|of|blur|showing)", "captured (?:by|in|on|at|with|mid)",
            r"\d?\d:\d\d",
        ),
    ),
    (
        "absent",
        "says that the species, or what it looks like, is not there",
        _phrases(
            rf"(?:no|not|neither|without|isn't|never|lacks?|instead of|rather than)"
            rf"(?: (?:an?|the|any|single|visible|true|real))*(?: [\w-]+)? {NAME}",
            rf"{NAME} (?:is|are|was|can|could|does|do)(?:n't| not|not) (?!\w+ed\b)",
            rf"{NAME} (?:is |are )?(?:absent|missing|hidden|out of sight)", "there (?:is|are) no",
            r"no (?:\w+ )?(?:features?|organisms?|animals?|subject|specimen|sign|traits?|details?)",
            "not (?:a true|visible|present|in sight|shown|seen|clearly|identifiable)", "nothing",
            "does(?:n't| not) (?:match|show|appear|look|contain)",
        ),
    ),
    (
        "guess",
        "is unsure",
        _phrases(
            "probably", "possibly", "perhaps", "maybe", "likely", "presumably", "apparently",
            "(?:may|might|could|must) be", "(?:appears?|seems?) to be", "seems?", "unknown",
            "unidentified", "unclear", "uncertain", "cannot", "can't", "unable", "sorry",
            "i (?:think|believe|see|guess|assume|can|am|do)", "i'm", "an ai", "ai model",
            "suggest(?:s|ing) (?:it|that|an?)",
        ),
    ),
    (
        "general",  # what is true of the species on other days
        "speaks of the species in general",
        _phrases(
            "typically", "usually", "often", "commonly", "generally", "sometimes", "occasionally",
            "rarely", "seldom", "known (?:for|as|to|by)", "named (?:after|for)",
            "also (?:called|known)",
            r"\w+ (?:years?|months|weeks)(?: old)?", "aged", "centur(?:y|ies)", "one of the",
            r"the \w+est (?:\w+ )*(?:species|animal|plant|tree|bird|of all|on earth|in the world)",
            "capable of", "able to", "harmless", "dangerous", "smart",
            rf"(?:in|during) (?:the )?{_TIMES}(?! (?:coat|plumage|dress|foliage|colou?rs?))",
        ),
    ),
    (
        "kinship",
        "tells its kinship, which its name tells already",
        re.compile(
            r"\bbelong(?:s|ing) to\b|\b(?:family|order|class|genus|phylum|tribe) [A-Z]\w+"
            r"|\b(?:of|in) the [\w-]+ (?:family|order|genus)\b"
            r"|\b[A-Z]\w+(?:idae|inae|aceae|formes)\b|\bLinnaeus\b|\bsubspecies\b|\brelatives?\b"
            r"|\b[Aa] species\b|\bspecies of\b|\bdescribed by\b"
        ),
    ),
    (
        "lore",  # what people think of it and do with it
        "tells what the species means to people",
        _phrases(
            "symbols?", r"symboli[sz]\w*", "(?:many|some|ancient|human) cultures", "folklore",
            "legend(?:s|ary)?", "myth\\w*",
            "iconic", "famous", "popular", "prized", "valued", r"(?:much |highly )?sought",
            "associated with",
            "ready (?:for|to be) (?:picking|harvest|eating|picked|eaten)", "considered",
            "regarded", "believed",
            "(?:king|queen|lord) of", "used (?:for|as|in|by|to)",
            "(?:raised|bred|kept) (?:for|as|by)", "grown (?:for|as|in gardens)",
            "cultivated", r"ornamental\w*", r"medicin\w+", "herbal", "weeds?", "pests?", "crops",
            "cooks?", "gardeners?", "farmers?", "important", "intelligent", "intelligence",
            "love of",
            "reputation", "sacred", "national", "good luck", "loved", "beloved",
        ),
    ),
    (
        "range",
        "tells where the species lives, or how rare it is",
        _phrases(
            "endemic", "native", "indigenous",
            "found (?:in|throughout|across|only|along|from|near|mainly|all over)",
            "distribut(?:ed|ion) (?:in|across|throughout|from|over)", "widespread", "occurs?",
            "occurring (?:in|across|on|from)", r"inhabit\w*", "habitats?", "natural environment",
            "lives", "live (?:in|on|for|at)", "living (?:in|on|for|among)",
            "worldwide", r"thriv\w+", r"dwell\w*", "roams?",
            "residents?", "originat(?:es?|ing)", "introduced", "invasive", "endangered",
            "threatened", r"protected(?! by (?!law))", "extinct", "rare", "conservation",
            "(?:common|abundant) (?:in|across|throughout|to|on)",
        ),
    ),
    (
        "place",
        "names a place or a date, which a photo does not tell",
        re.compile(
            r"\b(?:in|of|from|across|throughout|near|to|around|along|at) (?:the |[a-z-]+ ){0,2}"
            r"(?!V\b|Y\b|T\b)[A-Z][a-z]{2,}"
        ),
    ),
    (
        "measurement",
        "tells sizes or weights, which a photo without a scale does not show",
        re.compile(
            r"\b\d+(?:[.,]\d+)?[\s-]*(?:mm|cm|m|km|µm|um|g|kg|mg|inch(?:es)?|ft|lbs?|°)\b"
            r"|\b(?:\d+|two|three|four|five|six|ten|several)[ -](?:in|feet|foot)"
            r" (?:long|tall|wide|high|across|in)\b"
            r"|\b(?:millimet|centimet|met)(?:re|er)s?\b|\binch(?:es)?\b|\bwingspan of\b"
            r"|\b(?:weigh(?:s|ing)|grow(?:s|ing) (?:up )?to|measur(?:es|ing))\b"
            r"|\bup to \d|\b\d\d\d",
            re.IGNORECASE,
        ),
    ),
    (
        "sense",
        "tells what is heard, smelt or tasted",
        _phrases(
            r"sounds?", r"vocali[sz]\w*", r"(?<!in )(?<!in full )songs?",
            "(?:its|a|the) [\\w-]+ calls?",
            r"hoot\w*", r"chirp\w*", r"croak\w*", "sings", "voice", r"smell\w*", "scent(?:ed)?",
            "odou?r", "fragrant", "fragrance", "aroma(?:tic)?", "tastes?", "tasting", "flavou?rs?",
            "edible", "inedible", "juicy", "tasty", "sweet", "delicious", "poisonous", "toxic",
            "venomous",
        ),
    ),
    (
        "habit",
        "tells habits, which one moment does not show",
        _phrases(
            "nocturnal", "diurnal", "crepuscular", "migrat(?:es|ory|ing)", r"hibernat\w+",
            rf"(?:eats|hunts|stores|catches|consumes|feeds on|feeding on)(?={_ONE})",
            "feeds mainly", "attracts", "returns", "prefers", "requires", "survives", "reproduces",
            "infects", "adapted (?:for|to)", "hunted", r"(?:will|can|may|could) (?!be\b)\w+",
            "preys", "predators?",
            "diet", "lifespan", "breeds", "spawns", "mates", "monogamous",
            "(?:builds?|makes) (?:[\\w-]+ )?(?:nests?|dams?|burrows?|mounds?)", "nests (?:in|on)",
            "lays (?:its )?eggs", "solitary by nature", r"pollinat(?:ed|es|ors?)", "perennial",
            rf"(?:bloom|flower|fruit)(?:s|ing)? (?:in|from|between|during) (?:the )?{_TIMES}",
            "annual", "biennial",
            "to (?:attract|avoid|deter|defend|hunt|capture|lure|breed|mate|warn|protect|survive)",
        ),
    ),
)  # fmt: skip
"""kind, what it is called, the words that show it"""

_WHAT = {kind: what for kind, what, _ in KINDS}
_KNOWLEDGE = {
    "use": "lore",
    "status": "range",
    "taxonomy": "kinship",
    "name": "general",
    "research": "general",
    "voice": "sense",
}
"""groups of the lexicon that speak of what no photo shows, and the kind of statement they make"""
_SEEN_THINGS = word_set(
    """
    fossil wood arms aquarium fiber fibers fibre fibres dish dried coin coins arrow ink flag painted
    wool leather oil bow handle raw rope stamp tool tools using furniture timber vegetable salad
    bread human people hunter cuttings embroidered handles meat formation type paper remains variety
    erected placed family hybrid collected ringed tag tagged tags sample trap traps level levels
    mean average ratio significant amount sensitive model note notes harsh pitch click song songs
    hum singing whistling loud remaining park density loss least pronounced damage damaged damages
    grown use uses crop threat skeletal significantly transmitter amounts rate roar roaring howl
    howling snarl hissing drumming mulch terrarium zoo painting pillow weapon
    """
)
"""words of these groups that may stand for what is seen"""
_LIKENESS = re.compile(
    r"\b(?:similar to|resembl\w+|unlike|than) (?:an? |the |other |most )?((?:\w+ ?){1,3})"
)
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_LOOKS = frozenset({"colour", "pattern", "shape", "texture"})
_PLACE = re.compile(
    r"\b(?:on|onto|in|inside|near|under|beside|behind|among|amid|through|across|at|over|by|around|"
    r"toward|towards|above|below|from|visiting|watching|against)\s+(?:[\w'-]+\s*){1,4}"
)
"""where it is, as far as a comma; its colours are those of the place"""
_DEEDS = ("behaviour", "voice", "use", "research", "habitat", "status", "hidden")
_SEEN_DEEDS = word_set(
    "leads contains holds attaches expands reflects crosses drifts waves fans grips perches walks"
)
"""of the lexicon's doings: what parts do, or one moment shows"""
_NOT_A_LOOK = word_set("light bright back front middle center centre standard base edge")
"""words of the lexicon that also tell light and direction"""


def statements(text: str) -> Iterator[str]:
    """What a caption says that no photo shows, as `kind: what is wrong`."""
    for kind, what, pattern in KINDS:
        if match := pattern.search(text):
            yield f"{kind}: {what} ({match[0].replace(NAME, 'the name').strip()!r})"
    for word in _WORD.findall(text):
        if kind := _knowledge(word.lower()):
            yield f"{kind}: {_WHAT[kind]} ({word!r})"
    if habit := _habit(text):
        yield f"habit: {_WHAT['habit']} ({habit!r})"
    if other := _compared(text):
        yield f"compared: compares with other species ({other!r})"


def _knowledge(word: str) -> str:
    """The kind of statement that a word of the lexicon makes by itself; "" = none."""
    group = group_of(word)
    if group not in _KNOWLEDGE or word in _SEEN_THINGS:
        return ""
    is_formed = word.endswith(("ed", "ing")) and word not in lexicon()[group]  # a dished face
    return "" if is_formed else _KNOWLEDGE[group]


def _habit(text: str) -> str:
    """A relative clause in the simple present ("that hunts", "which builds"); "" = none."""
    for match in re.finditer(r"\b(?:that|which|who) ([a-z]+s)\b", text):
        if group_of(match[1]) in _DEEDS and match[1] not in _SEEN_DEEDS:
            return match[0]
    return ""


def _compared(text: str) -> str:
    """A likeness to another organism ("similar to a blue tit"); "" = none."""
    for match in _LIKENESS.finditer(text):
        if any(group_of(word) == "named" for word in match[1].lower().split()):
            return match[0]
    return ""


def tells_looks(text: str) -> bool:
    """Does a caption without its name say what the organism looks like?

    Something about its parts, colours, marks, shape or surface is said outside of where it is, or
    two things anywhere.

    >>> tells_looks("A § with a black cap."), tells_looks("A § sits on a green leaf.")
    (True, False)
    """
    words = _WORD.findall(text.lower())
    if sum(group_of(word) in _LOOKS and word not in _NOT_A_LOOK for word in words) > 1:
        return True
    rest = _WORD.findall(_PLACE.sub(" ", text.lower()))
    return any(group_of(word) in _LOOKS | {"part"} and word not in _NOT_A_LOOK for word in rest)

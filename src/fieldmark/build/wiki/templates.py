"""Template expansion by name: what a template of Wikipedia stands for, where that is known.

Answers one question: which words does a reader see in place of "{{convert|5|-|8|cm|in}}"? Only
templates that carry words of a sentence are listed, and notes that stand apart from the word they
belong to. All others have no known text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

SUPERSCRIPT = str.maketrans("0123456789+-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻")
SUBSCRIPT = str.maketrans("0123456789+-−", "₀₁₂₃₄₅₆₇₈₉₊₋₋")


@dataclass(frozen=True, slots=True)
class _Arguments:
    """The arguments of a template: by place, and by name."""

    places: tuple[str, ...]
    names: dict[str, str]

    @classmethod
    def read(cls, parts: Sequence[str]) -> Self:
        positional: list[str] = []
        names: dict[str, str] = {}
        for part in parts:
            name, equals, value = part.partition("=")
            key = name.strip().lower()
            if equals and re.fullmatch(r"[\w -]{1,30}", key):
                names[key] = value.strip()
            else:
                positional.append(part.strip())
        for number in range(1, 5):
            if str(number) in names and len(positional) == number - 1:
                positional.append(names[str(number)])
        return cls(tuple(positional), names)

    def at(self, number: int) -> str:
        """From 1 on, -1 is the last; "" = it has none."""
        index = number - 1 if number > 0 else number
        return self.places[index] if -len(self.places) <= index < len(self.places) else ""


def template_text(parts: Sequence[str]) -> str | None:
    """The words of a template, given its name and its arguments as text; "" = it has none that a
    reader misses; None = not known.
    """
    name = " ".join(parts[0].replace("_", " ").lower().split()).removeprefix("template:").lstrip()
    if ":" in name:
        function, _, value = parts[0].partition(":")
        return _function_text(function.strip().lower(), value.strip(), parts[1:])
    if name in _SIGNS:
        return _SIGNS[name]
    if _NOTES.fullmatch(name):
        return ""
    if re.fullmatch(r"\d+/\d+", name):
        return name
    arguments = _Arguments.read(parts[1:])
    number = next((number for number, names in _SHOWN if re.fullmatch(names, name)), None)
    if number is not None:
        given = [arguments.names.get(key, "") for key in ("text", "quote", "lt")]
        return next(filter(None, given), arguments.at(number)) or None
    special = _SPECIAL.get(name)
    return special(arguments) if special else None


def _function_text(name: str, value: str, others: Sequence[str]) -> str | None:
    """A parser function: "formatnum:1234", "#tag:ref|…"."""
    match name:
        case "formatnum" | "lc" | "uc" | "lcfirst" | "ucfirst":
            return value
        case "#tag":
            return "" if value.lower() == "ref" else next(iter(others), None)
        case "defaultsort" | "displaytitle":
            return ""
    return None


_SIGNS = {
    **dict.fromkeys(("ndash", "en dash", "endash", "nsndns"), "–"),
    **dict.fromkeys(("mdash", "em dash", "emdash", "mdashb"), "—"),
    **dict.fromkeys(("snd", "snds", "spnd", "sndash", "spaced ndash", "spaced en dash"), " – "),
    **dict.fromkeys(("spaced en dash space", "dash"), " – "),
    **dict.fromkeys(("smd", "spaced mdash", "spaced em dash"), " — "),
    **dict.fromkeys(("nbsp", "space", "thinsp", "hair space", "spaces", "sp", "ensp"), " "),
    **dict.fromkeys(("'", "apostrophe", "hamza", "okina", "`"), "’"),
    **dict.fromkeys(("'s",), "’s"),
    **dict.fromkeys(('"', "' \"", "\" '", "'-"), '"'),
    **dict.fromkeys(("shy", "wbr", "zwsp", "zwj", "zwnj", "void"), ""),
    **dict.fromkeys(("nowrap begin", "nowrap end", "nobr begin", "nobr end", "nwr"), ""),
    **dict.fromkeys(("times", "×", "hybrid"), "×"),
    **dict.fromkeys(("·", "dot", "middot", "•", "bull", "bullet"), " · "),
    **dict.fromkeys(("male", "♂"), "♂"),
    **dict.fromkeys(("female", "♀"), "♀"),
    **dict.fromkeys(("extinct", "dagger", "†", "clear", "-", "clr"), ""),
    "!": " ",
    "=": "=",
    "(": "(",
    ")": ")",
    "pm": "±",
    "±": "±",
    "+-": "±",
    "degree": "°",
    "deg": "°",
    "mu": "µ",
    "micro": "µ",
    "half": "1/2",
    "ell": "l",
}
"""Templates that are one sign."""

_NOTES = re.compile(
    r"cite .*|citation.*|cn|fact|facts|sfnp?|sfnm|harv\w*|r|rp|ref|refn|efn(-\w+)?|notetag|"
    r"ref label|note|note label|clarify.*|clarification needed.*|who|whom|when|where|which|why|how|"
    r"by whom|according to whom|vague|dubious.*|disputed.*|better source.*|failed verification.*|"
    r"verification needed|verify.*|page needed|page number.*|dead link|full citation needed|"
    r"specify|elucidate|original research.*|or|pov.*|update.*|unreliable.*|medical citation.*|"
    r"primary source.*|non-primary.*|third-party.*|not in citation.*|needs? (ref|cite|source).*|"
    r"synthesis.*|opinion|relevance.*|examples?( needed)?|citequote|retracted|obsolete source|"
    r"color ?box|colou?r sample|legend.*|colorsample|colorswatch|color swatch|anchors?|"
    r"ipa.*|respell|pron.*|usdict|audio.*|listen|inline audio|coord|webarchive|isbn|doi|"
    r"short description|use \w+ \w+|defaultsort|about|redirect.*|distinguish.*|for|hatnote|"
    r"other uses.*|main.*|see also.*|further.*|details.*|main article|image.*|multiple image|"
    r"taxobox|.*taxobox|speciesbox|subspeciesbox|infobox.*|clear.*|portal.*|commons.*|.*-stub|stub"
)
"""Templates without words of the sentence around them."""

_SHOWN = (
    (
        1,
        r"nowrap|nobr|nobreak|nowr|j|small(er|caps)?|sm|sc|big|larger?|resize|midsize|em|"
        r"strong|bold|nobold|italics?|noitalics?|underline|overline|u|mono|code|kbd|samp|text|sic|"
        r"m?var|math|abbr|abbrv|tooltip|hover|visible anchor|vanchor|angbr|center|div|"
        r"ill|illm|interlanguage link.*|not ?a? ?typo|as written|proper name|ruby|nihongo|"
        r"blockquote|[bc]?quote|bq|quotation|quote box|pull ?quote|plainlist|flatlist|"
        r"unbulleted list|ubl|lang-.*",
    ),
    (2, r"lang|(font|background)? ?colou?r|bg"),
    (-1, r"wikt-lang|wt|wikt|wiktionary|section link|langx|transl(iteration)?"),
)
"""Templates that show one of their arguments: its place, their names."""


def _fraction(arguments: _Arguments) -> str | None:
    """{{frac|3|1|2}} is 3 1/2, {{frac|1|2}} is 1/2, {{frac|2}} is 1/2."""
    match arguments.places:
        case (whole, above, below):
            return f"{whole} {above}/{below}"
        case (above, below):
            return f"{above}/{below}"
        case (below,):
            return f"1/{below}"
    return None


def _value(arguments: _Arguments) -> str | None:
    """{{val|1.5|0.2|u=cm}} is 1.5±0.2 cm, {{val|5|-|8}} is 5–8."""
    if not arguments.places:
        return None
    number, *others = arguments.places
    unit = arguments.names.get("u") or arguments.names.get("ul") or ""
    if others and others[0] in _RANGES:
        text = "".join((number, _RANGES[others[0]], *others[1:2]))
    else:
        text = "±".join(filter(None, (number, *others[:1])))
    return f"{text} {_UNITS.get(unit, unit)}".strip()


_RANGES = {"to": " to ", "and": " and ", "or": " or ", "by": " by ", "+/-": "±", "±": "±"}
_RANGES |= dict.fromkeys(("-", "–", "--", "—", "to(-)", "and(-)"), "–")
_RANGES |= dict.fromkeys(("x", "×", "*", "xx", "x "), " × ")
_RANGES |= {"to about": " to about ", "+": " + ", ",": ", ", "and about": " and about "}
_UNITS = {"um": "µm", "C": "°C", "F": "°F", "K": "K", "m2": "m²", "cm2": "cm²", "km2": "km²"}
_UNITS |= {"sqm": "m²", "sqkm": "km²", "sqft": "sq ft", "sqmi": "sq mi", "kph": "km/h", "m3": "m³"}
_UNITS |= {"inch": "in", "inches": "in", "foot": "ft", "feet": "ft", "lbs": "lb", "meter": "m"}
_NUMBER = re.compile(r"[-−+]?[\d.,]+(?:[ +]?\d*[/⁄]\d+)?(?:e-?\d+)?")


def _measure(arguments: _Arguments) -> str | None:
    """{{convert|5|-|8|cm|in}} is 5–8 cm: what was measured, without the other unit."""
    pieces: list[str] = []
    texts = [argument for argument in arguments.places[:12] if len(argument) <= 20]
    while texts and _NUMBER.fullmatch(texts[0]):
        pieces.append(texts.pop(0).replace("+", " "))
        if texts and texts[0] in _RANGES:
            pieces.append(_RANGES[texts.pop(0)])
        elif len(texts) >= 3 and _NUMBER.fullmatch(texts[1]):
            pieces.append(f" {texts.pop(0)} ")  # 5 ft 3 in
        else:
            break
    if not pieces or not texts:
        return None
    unit = _UNITS.get(texts[0], texts[0])
    is_adjective = arguments.names.get("adj") in ("on", "mid")
    middle = next((text for text in texts[1:] if text.startswith("-")), "")
    return "".join(pieces) + ("-" if is_adjective else " ") + unit + middle


def _since(arguments: _Arguments) -> str | None:
    start = "as of" if arguments.names.get("lc") else "As of"
    return " ".join((start, *reversed(arguments.places))) if arguments.places else None


def _joined(arguments: _Arguments) -> str | None:
    return ", ".join(filter(None, arguments.places)) or None


_SPECIAL: dict[str, Callable[[_Arguments], str | None]] = {
    **dict.fromkeys(("convert", "cvt", "convinfobox"), _measure),
    **dict.fromkeys(("frac", "fraction", "sfrac"), _fraction),
    **dict.fromkeys(
        ("circa", "c.", "ca", "ca.", "approx"),
        lambda arguments: f"c. {'–'.join(arguments.places)}".strip(),
    ),
    **dict.fromkeys(("hlist", "cslist", "comma separated entries"), _joined),
    **dict.fromkeys(("linktext", "gaps"), lambda arguments: "".join(arguments.places) or None),
    **dict.fromkeys(
        ("sub", "chem", "chem2", "ce"),
        lambda arguments: "".join(arguments.places).translate(SUBSCRIPT) or None,
    ),
    "sup": lambda arguments: arguments.at(1).translate(SUPERSCRIPT) or None,
    "val": _value,
    "as of": _since,
    "gloss": lambda arguments: f"‘{arguments.at(1)}’",
    "literal translation": lambda arguments: f"lit. ‘{arguments.at(1)}’",
    "lit": lambda arguments: f"lit. ‘{arguments.at(1)}’",
}

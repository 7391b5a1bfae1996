"""Negation, hedging and declining: does a text stand by an option that it names?

"not a male", "a male would have a red crown", "similar to a male": the words around a mention in
its sentence decide. What is said in doubt is taken for rejected: who reads running text leaves an
answer open rather than guess. Declining to answer is told apart from answering badly.
"""

from __future__ import annotations

import re
from typing import Literal

from fieldmark.chat.parse.mentions import Mention
from fieldmark.chat.parse.text import Passage, level


def _any_of(words: str) -> str:
    """A pattern of words and phrases: "_" is a blank, "*" any ending."""
    terms = [word.replace("*", r"\w*").replace("_", " ") for word in words.split()]
    return f"(?:{'|'.join(terms)})"


_IDIOMS = _any_of(
    r"no_doubt no_question without_doubt without_a_doubt without_question not_only not_just if_not "
    r"nothing_but more_likely_than_not most_like looks?(?:_\w+)?_like (?:seems|appears)_like "
    r"at_least in_other_words "
    r"(?:i_would|i'd)(?:_\w+)?_(?:say|choose|go|pick|call|guess|lean|select|answer)"
)
"""hold words that negate or weigh elsewhere"""
_CONCLUSIONS = _any_of(
    "so but which because therefore thus hence indicat* suggest* however since making means? then "
    "confirm* points_to pointing_to aber sondern pero sino mais donc"
)
_SUBJECTS = r"(?:it|this|these|they|that|i|we|the \w+)"
_SCOPE_ENDS = re.compile(
    rf";|\b{_CONCLUSIONS}\b|(?:,|:|\band)\s*{_SUBJECTS}(?:'[sd]|\s+(?:\w+\s+)?"
    r"(?:is|are|would say|appears?|looks?|seems?|must|shows?|depicts?|belongs?))\b",
    re.IGNORECASE,
)
"""what is negated before is no longer after"""
_DENIED = _any_of(
    r"not no never neither nor cannot \w+n't none without except* exclud* rul\w+_(?:\w+_)?out "
    r"eliminat* dismiss* reject* lack* absen* missing unlike unlikely than instead_of versus vs "
    r"opposed against apart_from false wrong* incorrect* least worst second doubt* hardly barely "
    r"fail* few past nicht kein* pas sin nao нет не"
)
_WEIGHED = _any_of(
    r"if were whether would could might may possibl* possibility perhaps maybe either between "
    r"others? similar* resembl* reminiscent confus* mistak* compar* differ* distinguish* hard "
    r"difficult unclear unsure unknown typically usually often such_as like also at_first "
    r"(?:first|initially|originally)_\w+ suspect* alternativ* approach* almost nearly become "
    r"hybrid imitat* mimic* too_\w+_to until when once many some people guides believes says half "
    r"partial* partly one_of one_option background parents? mother father man woman person "
    r"observers? (?:left|right|bigger|larger|smaller|upper|lower)(?:_\w+)?"
)
_REJECTED = re.compile(
    rf"\b(?:{_DENIED}|{_WEIGHED})\b|\b(?:or|nor)\W+(?:an? |the )?$|不|没", re.IGNORECASE
)
_GENERAL = _any_of(
    "would should could might may typically usually often generally normally tends? has have had "
    "having lacks? isn't aren't wasn't doesn't don't"
)
_FALSE = _any_of(
    "not cannot unlikely wrong incorrect excluded eliminated ruled_out impossible absent missing "
    "false less least unclear uncertain possible plausible out"
)
_COMPOUND = _any_of(
    "look-?alikes? specialist vision mimic hybrid relatives? features? characteristics plumage "
    "pattern colou?r* cross like stretch"
)
_UNDONE = re.compile(
    rf"[\s*_`\"')-]*(?:,? ?(?:or|vs|versus|nor)\b|{_COMPOUND}\b|(?:\w+ )?{_GENERAL}\b|"
    rf":[\s*_`]*(?:no|{_FALSE})\b|"
    rf"(?:[\w-]+ ){{0,3}}(?:is|are|was|were|can|seems?|does|do|looks?)\b[^.,;]{{0,24}}?"
    rf"(?:\b{_FALSE}\b|n't\b)|[^.,;:]{{0,30}}\b(?:ruled out|excluded|eliminated|absent|missing)\b|"
    r".*\b(?:but|however|although|until|at first|unless|if|apart from|except)\b)",
    re.IGNORECASE | re.DOTALL,
)
"""what follows a name takes it back: "B is wrong", "a male would have", "healthy at first" """

_VERBS = _any_of(
    r"is are must_be (?:has|seems?|appears?|likely|believed|considered)_to_be it's this i'm "
    r"looks?(?:_like)? looks_most_like seems? appears? shows? depicts? depicting represents? "
    r"likely probably definitely clearly certainly obviously without_a_doubt without_doubt "
    r"(?:classif|identif|recogni|categor|label|describ)\w+_(?:\w+_)?as call say guess choose pick "
    r"select go_with going_with lean(?:ing)?(?:_towards?)? conclude suggests? suggesting "
    r"indicates? indicating confirms? mak(?:es?|ing)(?:_it|_this)? means? favou?rs? so thus hence "
    r"therefore leaves reads? located_at assign*_(?:\w+_){0,3}to see think believe "
    r"answer based_on_[^,]{1,80}, es est ist e sind sont son donc entonces deshalb"
)
_KEYS = _any_of("sex gender age stage species habitat behaviou?r activity condition health type")
_NO_ADJECTIVES = _any_of("of to by with from in on at for near behind and or than as like that")
_GAP = r"[\s,*_`\"'(]"
_STATED = re.compile(
    r"(?<!\bthere )(?<!\bthat )(?<!\bwho )"
    rf"(?:\b{_VERBS}|(?:\b{_KEYS}|(?:\S+\s+){{4,}}\S+):|→|->|[选選是为は])"
    rf"(?:{_GAP}+(?:\w+ly|most|very|best|likely|indeed|still|about|around|that|it|this))*"
    rf"(?:{_GAP}+(?:an?|the|one|eine?|une?|una?)(?:[\s*_`]+(?!{_NO_ADJECTIVES}\b)[\w'-]+){{0,2}})?"
    rf"{_GAP}*$",
    re.IGNORECASE,
)
"""the verb that a name follows, with no more than an article and adjectives between"""
_CONFIRMED = re.compile(
    r"[\s*_`\"')]*(?:(?:is|seems|looks|appears)(?: to be)? (?:the |my )?(?:correct|right|best|most|"
    r"answer|choice)|it is(?=\W*$)|fits best|matches best)\b",
    re.IGNORECASE,
)

_IN_STAGE = (
    re.compile(
        r"\b(?:is|are|(?:seems?|appears?) to be)(?: \w+ly| still)? (?:in|at) (?:the|its|an?)"
        rf"{_GAP}+$",
        re.IGNORECASE,
    ),
    re.compile(
        r"[\s*_`\"')]*(?:(?:life|growth|developmental) )?(?:stage|phase)"
        r"(?=[\s*_`\"')]*(?:[.,;!]|$))",
        re.IGNORECASE,
    ),
)
"""what stands before and after a name: "is in the juvenile stage" """

_CANNOT = _any_of(
    r"cannot can't can_not could_not couldn't unable_to not_able_to impossible_to possible_to "
    r"difficult_to hard_to don't do_not too_\w+_to no_way_to won't not_comfortable"
)
_SORRY = re.compile(
    rf"\b(?:i'?m sorry|i am sorry|i apologi[sz]e|my apologies|as an ai|as a language model|"
    rf"{_CANNOT} (?:assist|help|comply|provide|answer|engage|fulfill?|process|view|see|analy[sz]e|"
    r"identifying|discuss)|against my (?:policy|guidelines)|i must decline|i have to decline|"
    r"no image (?:was |is |has been )?(?:provided|attached|visible)|don't see (?:an|any) image|"
    r"tut mir leid|lo siento|desole|mi dispiace|抱歉|无法协助)",
    re.IGNORECASE,
)
_CANNOT_TELL = re.compile(
    rf"\b(?:{_CANNOT} (?:(?:\w+ly|be|me) ){{0,2}}"
    r"(?:tell|say|determined?|identif(?:y|ied)|know|discern|distinguish(?:ed)?|judge|decide|make|"
    r"conclude|see enough|confirm|ascertain|count|choose|assign|assess|pick|differentiate|sure|"
    r"certain)|(?:not|isn't|insufficient|lacks?|without) (?:enough |sufficient )?"
    r"(?:enough|sufficient|information|detail|evidence|clear enough)|"
    r"inconclusive|indeterminate|undetermined|unidentifiable|unknown|unclear|not sure|unsure|"
    r"(?:none|neither) of (?:the|these|them)|uncertain|no idea|n/a|not applicable|"
    r"does(?: not|n't) (?:match|fit) any|not (?:among|one of|in) the (?:\w+ )?(?:options|choices)|"
    r"kann (?:ich )?(?:es )?nicht (?:sagen|erkennen)|no (?:lo )?se|no puedo|je ne (?:sais|peux)|"
    r"non (?:lo )?so)\b|无法|不确定|分からない|わかりません",
    re.IGNORECASE,
)
_TOLD_DOUBT = re.compile(rf"(?:{_CANNOT_TELL.pattern})[^.;!?\n]*", re.IGNORECASE)
_DOUBT = re.compile(
    r"\b(?:(?:(?:cannot|can't) be|not|(?:hard|difficult|impossible) to be|without being) "
    r"(?:[\w%]+ )?(?:sure|certain)|uncertain|unsure|(?:hard|difficult) to (?:say|tell),? but)\b",
    re.IGNORECASE,
)
_RETRACTED = re.compile(
    r"\b(?:wait|actually|correction|scratch that|on second thought|on reflection|on closer|hold on|"
    r"reconsider\w*|i was wrong|my mistake|let me re\w+|i take that back|i meant|my mind)\b|"
    r"\bno,",
    re.IGNORECASE,
)


def declines(
    text: str, *, is_doubt_allowed: bool = False
) -> Literal["", "declined", "cannot tell"]:
    """Does the text refuse to answer, or say that it cannot know (or, unless allowed, that it is
    not sure)?

    >>> declines("I’m sorry, I can't help with that.")
    'declined'
    """
    plain = _DOUBT.sub(" ", level(text)) if is_doubt_allowed else level(text)
    if _SORRY.search(plain):
        return "declined"
    return "cannot tell" if _CANNOT_TELL.search(plain) else ""


def beside_doubt(text: str) -> str:
    """The text without what it says it cannot tell: what is left may weigh some answers.

    >>> beside_doubt("Lynx or puma, hard to say. I cannot tell whether it is a lynx.")
    'Lynx or puma, .  .'
    """
    return _TOLD_DOUBT.sub(" ", level(text))


def retracts(plain: str) -> bool:
    """Does the text take something back?"""
    return _RETRACTED.search(plain) is not None


def is_rejected(passage: Passage, mention: Mention) -> bool:
    """Is the option ruled out, or only weighed, where it is named?"""
    before, after = passage.around(mention.first, mention.last)
    scope = re.sub(rf"\b{_IDIOMS}\b", " ", before, flags=re.IGNORECASE)
    ends = [match.end() for match in _SCOPE_ENDS.finditer(scope)]
    scope = scope[ends[-1] :] if ends else scope
    return bool("?" in after or _REJECTED.search(scope) or _UNDONE.match(after))


def is_stated(passage: Passage, mention: Mention) -> bool:
    """Does the text say that this is the answer, not only name it?"""
    before, after = passage.around(mention.first, mention.last)
    if mention.is_letter:
        return mention.is_sure or _CONFIRMED.match(after) is not None
    is_in_stage = _IN_STAGE[0].search(before) and _IN_STAGE[1].match(after)
    is_said = is_in_stage or _STATED.search(before) or _CONFIRMED.match(after)
    return mention.is_sure and bool(is_said)

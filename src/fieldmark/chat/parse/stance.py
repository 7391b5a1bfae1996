"""Negation, hedging and declining: does a text stand by an option that it names?

"not a male", "a male would have a red crown", "similar to a male": the words around a mention in
its sentence decide. Whoever wants certainty asks that nothing in the text is `is_rejected` and
something `is_committed`. Declining to answer is told apart from answering badly.
"""

from __future__ import annotations

import re
from typing import Literal

from fieldmark.chat.parse.mentions import Mention
from fieldmark.chat.parse.text import Passage, level

_IDIOMS = re.compile(
    r"\b(?:no doubt|no question|without (?:a |any )?(?:doubt|question)|not only|not just|"
    r"nothing but|more likely than not|look(?:s|ing)? (?:\w+ )?like|most like|"
    r"(?:seems|appears) like|if not|at least|in other words|"
    r"(?:i would|i'd) (?:\w+ )?(?:say|choose|go|pick|call|guess|lean|select|answer|conclude|classify|identify))\b",
    re.IGNORECASE,
)
"""hold words that negate or weigh elsewhere"""
_SCOPE_ENDS = re.compile(
    r";|\b(?:so|but|which|because|therefore|thus|hence|indicat\w+|suggest\w+|however|since|making|"
    r"means?|then|confirm\w*|point(?:s|ing) to|aber|sondern|pero|sino|mais|donc)\b"
    r"|(?:,|:|\band)\s*(?:it|this|these|they|that|i|the \w+|we)(?:'[sd]|\s+(?:\w+\s+)?"
    r"(?:is|are|would say|appears?|looks?|seems?|must|shows?|depicts?|belongs?))\b",
    re.IGNORECASE,
)
"""what is negated before is no longer after"""
_DENIED = re.compile(
    r"\b(?:not|no|never|neither|nor|cannot|\w+n't|none|without|except\w*|exclud\w+|"
    r"rul(?:e|es|ed|ing) (?:\w+ ){0,2}out|eliminat\w+|dismiss\w*|reject\w*|lack\w*|absen\w+|"
    r"missing|unlike|unlikely|than|instead of|versus|vs|opposed|against|apart from|false|wrong\w*|"
    r"incorrect\w*|least|worst|second|doubt\w*|hardly|barely|fail\w*|few|past|"
    r"nicht|kein\w*|pas|sin|nao|нет|не)\b|不|没",
    re.IGNORECASE,
)
_WEIGHED = re.compile(
    r"\b(?:if|were|whether|would|could|might|may|possibl[ye]|possibility|perhaps|maybe|either|between|"
    r"others?|similar\w*|resembl\w+|reminiscent|confus\w+|mistak\w+|compar\w+|differ\w*|"
    r"distinguish\w*|hard|difficult|unclear|unsure|unknown|typically|usually|often|such as|like|also|"
    r"(?:first|initially|originally) \w+|at first|suspect\w*|alternativ\w+|approach\w+|almost|"
    r"nearly|become|hybrid|see also|ob|imitat\w+|mimic\w*|too \w+ to)\b",
    re.IGNORECASE,
)
_UNDONE = re.compile(
    r"^[\s*_`\"')]*(?:,? ?(?:or|vs|versus|nor)\b|"
    r"(?:\w+ )?(?:would|should|could|might|may|typically|usually|often|generally|normally|tends?|"
    r"has|have|had|having|lacks?|isn't|aren't|wasn't|doesn't|don't)\b|"
    r":[\s*_`]*(?:no|unlikely|incorrect|wrong|false|excluded|impossible|not)\b|"
    r"(?:[\w-]+ ){0,3}(?:is|are|was|were|can|seems?|does|do|looks?)\b[^.,;]{0,24}?"
    r"(?:\b(?:not|cannot|unlikely|wrong|incorrect|excluded|eliminated|ruled|impossible|absent|"
    r"missing|false|less|least|unclear|uncertain|possible|plausible|out)\b|n't\b)|"
    r"[^.,;:]{0,30}\b(?:ruled out|excluded|eliminated|absent|missing|unlikely)\b)"
    r"|.*\b(?:but|however|although|until|at first|unless|if)\b",
    re.IGNORECASE | re.DOTALL,
)
_VERBS = (
    r"is|are|must be|(?:has|seems?|appears?|likely|believed|considered) to be|it's|this|looks?(?: (?:most )?like)?|seems?|appears?|shows?|depict(?:s|ing)|"
    r"represents?|likely|probably|definitely|clearly|certainly|obviously|without (?:a )?doubt|"
    r"(?:classif|identif|recogni|categor|label|describ|count)\w*(?: \w+)? as|call|say|guess|choose|"
    r"pick|select|go(?:ing)? with|lean(?:ing)?(?: towards?)?|conclude|suggests?|suggesting|indicates?|"
    r"indicating|confirms?|mak(?:es|ing)(?: it| this)?|means?|favou?rs?|so|thus|hence|therefore|"
    r"leaves|reads?|located at|assign\w*(?: \w+){0,3} to|see|think|believe|answer|based on [^,]{1,80},|i'm|belongs to|"
    r"es|est|ist|e|sind|sont|son|donc|entonces|deshalb"
)
_KEYS = "sex|gender|age|stage|species|habitat|behaviou?r|activity|condition|health|type|morph|donc"
_PREPOSITIONS = "of|to|by|with|from|in|on|at|for|near|behind|and|or|than|as|like|that|being"
_STATED = re.compile(
    rf"(?<!\bthere )(?:\b(?:{_VERBS})|(?:\b(?:{_KEYS})|(?:\S+\s+){{4,}}\S+):|→|->|[选選是为は])"
    r"(?:[\s,*_`\"'(]+(?:\w+ly|most|very|best|likely|indeed|still|simply|about|around|that|it|this))*"
    rf"(?:[\s,*_`\"'(]+(?:an?|the|one|eine?|une?|una?)(?:[\s*_`]+(?!(?:{_PREPOSITIONS})\b)[\w'-]+){{0,2}})?"
    r"[\s,*_`\"'(]*$",
    re.IGNORECASE,
)
"""the verb that a name follows, with no more than an article and adjectives between"""
_CONFIRMED = re.compile(
    r"[\s*_`\"')]*(?:(?:is|seems|looks|appears)(?: to be)? (?:the |my )?(?:correct|right|best|most|"
    r"answer|choice)|it is(?=\W*$)|fits best|matches best)\b",
    re.IGNORECASE,
)

_SORRY = re.compile(
    r"\b(?:i'?m sorry|i am sorry|i apologi[sz]e|my apologies|as an ai|as a language model|"
    r"(?:cannot|can't|can not|unable to|won't|not able to|not comfortable) "
    r"(?:assist|help|comply|provide|answer|engage|fulfil|fulfill|process|view|see|analy[sz]e|"
    r"identifying|discuss)|against my (?:policy|guidelines)|i must decline|i have to decline|"
    r"no image (?:was |is |has been )?(?:provided|attached|visible)|don't see (?:an|any) image|"
    r"tut mir leid|lo siento|desole|mi dispiace|抱歉|无法协助)",
    re.IGNORECASE,
)
_CANNOT_TELL = re.compile(
    r"\b(?:(?:cannot|can't|can not|could not|couldn't|unable to|not able to|impossible to|"
    r"not possible to|isn't possible to|difficult to|hard to|don't|do not|too \w+ to|no way to) "
    r"(?:(?:\w+ly|be|me|reliably|really) ){0,2}"
    r"(?:tell|say|determine|determined|identify|identified|know|discern|distinguish|judge|decide|"
    r"make out|conclude|see enough|confirm|ascertain|count|choose|assign|assess|pick|"
    r"distinguished|differentiate|sure|certain|make)|"
    r"(?:not|isn't|insufficient|lacks?|without) (?:enough |sufficient )?"
    r"(?:enough|sufficient|information|detail|evidence|clear enough)|"
    r"inconclusive|indeterminate|undetermined|unidentifiable|unknown|unclear|"
    r"none of (?:the|these|them)\b|neither of (?:the|these|them)|not sure|unsure|"
    r"uncertain|no idea|n/a|not applicable|cannot be (?:sure|certain|determined)|"
    r"does(?: not|n't) (?:match|fit) any|not (?:among|one of|in) the (?:\w+ )?(?:options|choices)|"
    r"kann (?:ich )?(?:es )?nicht (?:sagen|erkennen)|no (?:lo )?se|no puedo|je ne (?:sais|peux)|"
    r"non (?:lo )?so)\b|无法|不确定|分からない|わかりません",
    re.IGNORECASE,
)
_DOUBT = re.compile(
    r"\b(?:(?:cannot|can't) be|not|hard to be|difficult to be|impossible to be|without being) "
    r"(?:[\w%]+ )?(?:sure|certain)\b|\buncertain\b|\bunsure\b|"
    r"\b(?:hard|difficult) to (?:say|tell),? but\b",
    re.IGNORECASE,
)
_RETRACTED = re.compile(
    r"\b(?:wait|actually|correction|scratch that|on second thought|on reflection|reconsider\w*|"
    r"i was wrong|my mistake|let me re\w+|i take that back|sorry, i meant|i meant|changed? my mind)"
    r"\b",
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


def retracts(plain: str) -> bool:
    """Does the text take something back?"""
    return _RETRACTED.search(plain) is not None


def is_rejected(passage: Passage, mention: Mention) -> bool:
    """Is the option ruled out, or only weighed, where it is named?"""
    before, after = passage.around(mention.first, mention.last)
    scope = _IDIOMS.sub(" ", before)
    ends = [match.end() for match in _SCOPE_ENDS.finditer(scope)]
    scope = scope[ends[-1] :] if ends else scope
    return bool(
        "?" in after
        or _DENIED.search(scope)
        or _WEIGHED.search(scope)
        or re.search(r"\b(?:or|nor)\W+(?:an? |the )?$", scope)
        or _UNDONE.match(after)
    )


def is_stated(passage: Passage, mention: Mention) -> bool:
    """Does the text say that this is the answer, not only name it?"""
    before, after = passage.around(mention.first, mention.last)
    if mention.is_letter:
        return mention.is_sure or _CONFIRMED.match(after) is not None
    return mention.is_sure and bool(_STATED.search(before) or _CONFIRMED.match(after))

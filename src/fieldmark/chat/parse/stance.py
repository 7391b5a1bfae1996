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
    r"nothing but|more likely than not|most likely|look(?:s|ing)? (?:\w+ )?like|most like|"
    r"(?:seems|appears) like|if not|rule of|at least|in other words|i would|i'd)\b",
    re.IGNORECASE,
)
"""hold words that negate or weigh elsewhere"""
_SCOPE_ENDS = re.compile(
    r"[;:]|\b(?:so|but|which|because|therefore|thus|hence|indicat\w+|suggest\w+|however|since|"
    r"making|means?|then|confirm\w*|point(?:s|ing) to|aber|sondern|pero|sino|mais|donc)\b"
    r"|(?:,|\band)\s*(?:it|this|these|they|that|i|the \w+|we)(?:'[sd]|\s+(?:\w+\s+)?"
    r"(?:is|are|'s|would say|appears?|looks?|seems?|must|shows?|depicts?|belongs?))\b",
    re.IGNORECASE,
)
"""what is negated before is no longer after"""
_DENIED = re.compile(
    r"\b(?:not|no|never|neither|nor|cannot|\w+n't|none|without|except\w*|"
    r"exclud\w+|rul(?:e|es|ed|ing) (?:\w+ ){0,2}out|eliminat\w+|dismiss\w*|reject\w*|lack\w*|"
    r"absen\w+|missing|unlike|unlikely|than|instead of|versus|vs|opposed|against|apart from|"
    r"false|wrong\w*|incorrect\w*|nicht|kein\w*|pas|sin|nao|нет|не)\b|不|没",
    re.IGNORECASE,
)
_WEIGHED = re.compile(
    r"\b(?:if|whether|would|could|might|may|possibl[ye]|possibility|perhaps|maybe|either|between|"
    r"others?|similar\w*|resembl\w+|reminiscent|confus\w+|mistak\w+|compar\w+|differ\w*|distinguish\w*|"
    r"hard|difficult|unclear|unsure|unknown|typically|usually|often|such as|like|"
    r"(?:first|initially|originally) \w+|at first|suspect\w*|alternativ\w+|approach\w+|almost|"
    r"nearly|not yet|toward adult|ob|imitat\w+|mimic\w*)\b",
    re.IGNORECASE,
)
_DENIED_LIST = re.compile(
    r"\b(?:absent|missing|lacking|without|excluded|eliminated|ruled out|unlikely|incorrect|wrong|"
    r"no|(?:not|isn't|aren't) \w+)\W*:[^\n]*$",
    re.IGNORECASE,
)
_UNDONE = re.compile(
    r"^[\s*_`\"')]*(?:,? ?(?:or|vs|versus|nor)\b|"
    r"(?:\w+ )?(?:would|should|could|might|may|typically|usually|often|generally|normally|tends?|"
    r"has|have|had|having|lacks?|isn't|aren't|wasn't|doesn't|don't)\b|"
    r":[\s*_`]*(?:no|unlikely|incorrect|wrong|false|excluded|impossible|not)\b|"
    r"(?:[\w-]+ ){0,3}(?:is|are|was|were|can|seems?|does|do|looks?)\b[^.,;]{0,24}?"
    r"(?:\b(?:not|cannot|unlikely|wrong|incorrect|excluded|eliminated|ruled|impossible|absent|"
    r"missing|false|less|unclear|uncertain|possible|plausible|out)\b|n't\b)|"
    r"[^.,;:]{0,30}\b(?:ruled out|excluded|eliminated|absent|missing|unlikely)\b)",
    re.IGNORECASE,
)
_COMMITTED = re.compile(
    r"\b(?:is|are|be|being|was|it's|that's|i'm|this|as|answer|choice|likely|probably|definitely|"
    r"clearly|certainly|believe|choose|chose|classif\w+|conclude|confirms?|depict\w*|guess|"
    r"identif\w+|label|pick|predict|say|select\w*|seems?|shows?|shown|suggests?|suggesting|"
    r"indicat\w+|appears?|looks?|think|favou?rs?|lean\w*|points? to\w*|consistent with|"
    r"match(?:es)?|reads?|leaves|makes?|making|call|go with|going with|"
    r"therefore|thus|so|hence|overall|finally|conclusion|based|given|see|"
    r"es|est|ist|e|son|sind|sont|donc|entonces|deshalb|doubt)\b|(?::|→|->)[\s*_`]*$|"
    r"[选選是为は][\s*_`]*$",
    re.IGNORECASE,
)
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
    scope = _in_scope(before)
    return bool(
        "?" in after
        or _DENIED.search(scope)
        or _DENIED_LIST.search(before)
        or _WEIGHED.search(scope)
        or re.search(r"\b(?:or|nor)\W+(?:an? |the )?$", scope)
        or _UNDONE.match(after)
    )


def is_committed(passage: Passage, mention: Mention) -> bool:
    """Does the text say that this is the answer, not only name it?"""
    before, after = passage.around(mention.first, mention.last)
    is_stated = _COMMITTED.search(_in_scope(before, is_led=True)) or _CONFIRMED.match(after)
    return mention.is_sure and (mention.is_letter or bool(is_stated))


def _in_scope(before: str, *, is_led: bool = False) -> str:
    """What still holds where a sentence comes to its mention; led: with the word that led to it."""
    plain = before if is_led else _IDIOMS.sub(" ", before)
    ends = [match.start() if is_led else match.end() for match in _SCOPE_ENDS.finditer(plain)]
    return plain[ends[-1] :] if ends else plain

"""Does a text stand by an option it names, or does it rule it out?

"not a male, it is a female", "A rather than B", "a male would have a red crown": the words around a
mention decide. A negation reaches to the end of its clause, and only over a few words. Declining
to answer is told apart from answering badly.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Literal

from fieldmark.chat._parse_index import Mention
from fieldmark.chat._parse_text import ARTICLES, Passage, Word, level, word_set

_REACH = 5
"""words over which a negation holds"""
_FAR = 60
"""words back that are looked at at all"""
_NEGATORS = word_set(
    "aint arent cannot cant didnt doesnt dont eliminate eliminates eliminating exclude excluded "
    "excludes excluding isnt kein keine ne neither never no non nor not nicht rule ruled rules "
    "ruling than unlike unlikely versus vs wasnt werent without wont wouldnt"
)
_COMPARISONS = word_set("from over opposed against")
"""rule out what follows them closely: "chosen over B", "distinguished from B" """
_OPEN_QUESTIONS = word_set(
    "absence absent between confused differentiate difficult distinguish hard if impossible lack "
    "lacking lacks missing mistaken similar unable unclear unsure uncertain unknown whether ob si"
)
_UNDONE_AFTER = word_set(
    "isnt arent wasnt incorrect wrong unlikely excluded eliminated impossible not cannot cant "
    "doesnt lacks"
)
_GENERAL = word_set("has have typically usually often tend tends generally normally")
"""say what such a one is like, not that this is one"""
_VERDICTS = word_set("no unlikely incorrect wrong false excluded impossible")
_PRAISE = word_set("my the best correct right answer choice")
_NOT_NEGATIONS = re.compile(
    r"\b(?:no doubt|no question|without (?:a |any )?(?:doubt|question)|not only|not just|"
    r"cannot be (?:anything|other)|nothing but)\b",
    re.IGNORECASE,
)
_COMMITMENTS = word_set(
    "answer are be believe choose chose choice classify classified conclude confirm confirms "
    "depicts guess identify identified im is its indicate indicates indicating label likely looks "
    "most option pick predict probably say select selected seems shows suggest suggests suggesting "
    "favor favors favour favours go going lean toward towards went "
    "appears think thats was es est ist e sont sind son"
)
_CONCLUSIONS = word_set(
    "therefore thus so hence overall finally conclusion conclude consequently final based given "
    "also donc entonces deshalb"
)
_HEDGES = word_set("could might may can possibly perhaps maybe either")

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
    r"not possible to|difficult to|hard to|don't|do not) (?:\w+ly )?(?:be )?"
    r"(?:tell|say|determine|determined|identify|know|discern|distinguish|judge|decide|make out|"
    r"conclude|see enough|confirm|ascertain|count)|"
    r"(?:not|isn't|insufficient|lacks?|without) (?:enough |sufficient )?"
    r"(?:enough|sufficient|information|detail|evidence|clear enough)|"
    r"inconclusive|indeterminate|undetermined|unidentifiable|unknown|unclear|"
    r"none of (?:the|these) (?:above|options|choices)|neither of (?:the|these)|not sure|unsure|"
    r"uncertain|no idea|n/a|not applicable|cannot be (?:sure|certain|determined)|"
    r"kann (?:ich )?(?:es )?nicht (?:sagen|erkennen)|no (?:lo )?se|no puedo|je ne (?:sais|peux)|"
    r"non (?:lo )?so)\b|无法|不确定|分からない|わかりません",
    re.IGNORECASE,
)


def declines(text: str) -> Literal["", "declined", "cannot tell"]:
    """Does the text refuse to answer, or say that it cannot know?

    >>> declines("I’m sorry, I can't help with that.")
    'declined'
    """
    plain = level(text)
    if _SORRY.search(plain):
        return "declined"
    return "cannot tell" if _CANNOT_TELL.search(plain) else ""


def is_rejected(passage: Passage, mention: Mention) -> bool:
    """Is the option ruled out, or only weighed, where it is named?"""
    before = _before(passage, mention)
    if any(word.text in _OPEN_QUESTIONS for word in before):
        return True
    if is_negated(passage, mention):
        return True
    if any(word.text in _COMPARISONS for word in before[-3:]):
        return True
    if any(one.text == "instead" and two.text == "of" for one, two in _pairs(before[-4:])):
        return True
    return _is_undone(passage, mention)


def is_negated(passage: Passage, mention: Mention) -> bool:
    """Does a "not" stand before it?"""
    near = [w for w in _before(passage, mention)[-_REACH:] if not _is_idiom(passage, w)]
    return any(word.text in _NEGATORS for word in near)


def is_committed(passage: Passage, mention: Mention) -> bool:
    """Does the text say that this is the answer, not only name it?"""
    before = _before(passage, mention)
    if any(word.text in _HEDGES for word in before):
        return False
    if any(word.text in _COMMITMENTS for word in before[-6:]):
        return True
    sentence = passage.words[mention.first].sentence
    far = passage.words[max(0, mention.first - _FAR) : mention.first]
    opening = [word for word in far if word.sentence == sentence]
    return any(word.text in _CONCLUSIONS for word in opening)


def _before(passage: Passage, mention: Mention) -> list[Word]:
    """The words before a mention in its clause."""
    clause = passage.words[mention.first].clause
    start = mention.first
    least = max(0, start - _FAR)
    joint = start - 1
    while joint > 0 and passage.words[joint].text in ARTICLES:
        joint -= 1
    if joint > 0 and passage.words[joint].text == "and":
        # "can't choose between A and B": the second is part of what was begun before
        clause, start = passage.words[joint - 1].clause, joint
    while start > least and passage.words[start - 1].clause == clause:
        start -= 1
    return list(passage.words[start : mention.first])


def _pairs(words: list[Word]) -> list[tuple[Word, Word]]:
    return list(pairwise(words))


def _is_idiom(passage: Passage, word: Word) -> bool:
    """Is this the "no" of "no doubt"?"""
    around = passage.plain[max(0, word.start - 12) : word.end + 24]
    offset = word.start - max(0, word.start - 12)
    return any(match.start() <= offset < match.end() for match in _NOT_NEGATIONS.finditer(around))


def _is_undone(passage: Passage, mention: Mention) -> bool:
    """ "B is incorrect", "a male would have", but not "B would be my answer"."""
    last = _after_others(passage, mention.last)
    clause = passage.words[last].clause
    after = [w.text for w in passage.words[last + 1 : last + 5] if w.clause == clause]
    if not mention.is_letter and after[:1] and after[0] in _GENERAL:
        return True
    if after[:1] == ["would"] or after[:1] == ["should"]:
        return after[1:2] != ["be"] or not _PRAISE.intersection(after)
    if ":" in passage.gap_after(mention.last) and _is_verdict_no(passage, mention.last + 1):
        return True
    is_verb = after[:1] and after[0] in ("is", "are", "was", "can", "seems", "does", "could")
    if is_verb:
        return any(word in _UNDONE_AFTER for word in after[1:3]) or "ruled" in after
    return bool(after) and after[0] in _UNDONE_AFTER - {"not"}


def _after_others(passage: Passage, place: int) -> int:
    """ "A and B are wrong": what is said of B is said of A."""
    words = passage.words
    while place + 2 < len(words) and words[place + 1].text in ("and", "or"):
        if len(words[place + 2].text) > 1 or words[place + 2].is_after_break:
            break
        place += 2
    return place


def _is_verdict_no(passage: Passage, place: int) -> bool:
    """The "no" of "male: no.", not of "male: no red crown"."""
    if place >= len(passage.words) or passage.words[place].text not in _VERDICTS:
        return False
    return place + 1 == len(passage.words) or bool(passage.gap_after(place).strip(" *_"))

"""Tokenising an answer: how does a model's text become words that can be compared?

Reasoning is cut away, typography is levelled (curly quotes, full-width letters, accents, dashes),
and the words are numbered by sentence and clause, so that later steps can say what a negation
reaches. Names of options go through the same steps, so both sides always agree.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

_TAGS = "think|thinking|thought|thoughts|reasoning|reason|analysis|reflection|scratchpad"
_REASONING = re.compile(
    rf"(?P<open><(?:{_TAGS})\b[^<>]*>|\[THINK\]|◁think▷|<\|channel\|>\s*analysis\b)"
    rf"|(?P<close></(?:{_TAGS})\s*>|\[/THINK\]|◁/think▷|<\|channel\|>\s*final\s*<\|message\|>)",
    re.IGNORECASE,
)
_CONTROL = re.compile(
    r"<\|[a-z_]{1,24}\|>|</?s>|<(?:eos|end_of_turn|eot_id)>|</?(?:b|i|em|strong|u|p|br|span)/?>",
    re.IGNORECASE,
)

_LATIN = re.compile(r"\b(?:i\.\s?e|e\.\s?g)\b\.?")

_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
_NUMBER = r"(?<!\w)-?\d+(?:[.,]\d+)*(?![^\W_])"
"""with its sign and its decimals: 10.5 is not a name that ends in 5"""
_WORD = re.compile(
    rf"[{_CJK}]|{_NUMBER}|(?:(?![{_CJK}])[^\W_])+(?:'(?:(?![{_CJK}])[^\W_])+)*", re.UNICODE
)
_ELIDED = re.compile(r"(?:[lLdDcCnNjJsSmMtT]|[qQ]u|[uU]n|[dD]ell|[aA]ll|[nN]ell|[sS]ull)'(?=\w{3})")

_LEVEL = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛ʼʻ´′＇", "'"),
        **dict.fromkeys("“”„‟«»″", '"'),
        **dict.fromkeys("‐‑‒–−", "-"),
        **dict.fromkeys("—―", " - "),
        **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad", ""),
        "。": ". ", "、": ", ", "ø": "o", "Ø": "O", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe",
        "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ð": "d", "þ": "th", "ı": "i",
    }
)  # fmt: skip


def word_set(text: str) -> frozenset[str]:
    """The words of a line, as a set."""
    return frozenset(text.split())


_SENTENCE = re.compile(r"\n|[!?]|\.(?=\W*\s)|\.\W*\Z")
_CLAUSE = re.compile(r"[,;:()\[\]{}→]|\s-+\s|->")
ARTICLES = frozenset(("a", "an", "the"))
_FAR = 60
"""words to either side that are looked at: long texts must not take long"""


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    """case-folded, apostrophes gone"""
    raw: str
    start: int
    end: int
    sentence: int
    """numbered through the whole text"""
    is_after_break: bool
    """punctuation that no name contains stands before it"""


@dataclass(frozen=True, slots=True)
class Passage:
    plain: str
    """levelled, in its own case"""
    words: tuple[Word, ...]

    def around(self, first: int, last: int) -> tuple[str, str]:
        """What stands before and after some words in their sentence, its last mark included."""
        words, sentence = self.words, self.words[first].sentence
        start, end = first, last
        while start and words[start - 1].sentence == sentence and first - start < _FAR:
            start -= 1
        while end + 1 < len(words) and words[end + 1].sentence == sentence and end - last < _FAR:
            end += 1
        stop = words[end + 1].start if end + 1 < len(words) else len(self.plain)
        before = self.plain[words[start].start : words[first].start]
        return before, self.plain[words[last].end : stop]


def strip_reasoning(text: str) -> str | None:
    """The text without its reasoning blocks; None when a block was opened and never closed.

    A closing tag without its opening one ends a block that began before the text.

    >>> strip_reasoning("<think>A? No.</think>B")
    'B'
    """
    kept, depth, position = [], 0, 0
    for match in _REASONING.finditer(text):
        if match["open"]:
            kept += [text[position : match.start()]] if depth == 0 else []
            depth += 1
        else:
            kept = kept if depth else []
            depth = max(0, depth - 1)
        position = match.end()
    if depth:
        return None
    return _CONTROL.sub(" ", "".join([*kept, text[position:]]))


def end_of_thought(text: str) -> int:
    """Where what follows the last closed block of reasoning begins; 0 where there is none."""
    return max((match.end() for match in _REASONING.finditer(text) if match["close"]), default=0)


def level(text: str) -> str:
    """One spelling of quotes, dashes, widths and accents; case is kept."""
    parts = unicodedata.normalize("NFKD", text.translate(_LEVEL))
    bare = "".join(char for char in parts if unicodedata.category(char) != "Mn")
    return _LATIN.sub(",", unicodedata.normalize("NFC", bare).translate(_LEVEL))


def fold(text: str) -> tuple[str, ...]:
    """The words of a name, without articles; one that ends it, as in "Point A", is none.

    >>> fold("the Cooper’s_Hawk"), fold("Point A")
    (('coopers', 'hawk'), ('point', 'a'))
    """
    words = tuple(word.text for word in read(text).words)
    return tuple(word for word in words[:-1] if word not in ARTICLES) + words[-1:]


def read(text: str) -> Passage:
    """The words of a text, with the sentence that each stands in."""
    plain = level(text)
    words: list[Word] = []
    sentence = last = 0
    # Where words begin and end; French and Italian articles are words of their own.
    spans = []
    for match in _WORD.finditer(plain):
        elided = _ELIDED.match(plain, match.start(), match.end())
        if elided:
            spans.append((match.start(), elided.end() - 1))
        spans.append((elided.end() if elided else match.start(), match.end()))
    for start, end in spans:
        gap, raw = plain[last:start], plain[start:end]
        folded = raw.replace("'", "").casefold()
        # "P. leo" is no end of a sentence
        is_short = bool(words) and gap == ". " and len(words[-1].raw) == 1 and raw[0].islower()
        is_new_sentence = bool(words) and not is_short and _SENTENCE.search(gap) is not None
        is_after_break = bool(words) and (is_new_sentence or _CLAUSE.search(gap) is not None)
        sentence += is_new_sentence
        words.append(Word(folded, raw, start, end, sentence, is_after_break))
        last = end
    return Passage(plain, tuple(words))


def is_cjk(text: str) -> bool:
    """Is this a character of a script that puts no spaces between words?"""
    return re.fullmatch(f"[{_CJK}]", text) is not None

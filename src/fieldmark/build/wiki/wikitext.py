"""Wikitext parser: the section tree of a page, and the text a reader sees.

A scanner with one stack, and not mwparserfromhell, whose tokenizer backtracks: 20 kB of unclosed
"{{a|" keep its version 0.7 busy for more than ten seconds, in which it cannot be interrupted. Here
every stage reads the text once. Templates are not expanded: those that stand for words are
known by name (`templates.py`), all others are dropped. Where a dropped one, or a formula, stood as
a word of a sentence, `GAP` is left, so that whoever uses the text can leave the sentence out.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from fieldmark.build.wiki.templates import SUBSCRIPT, SUPERSCRIPT, template_text

GAP = "\N{OBJECT REPLACEMENT CHARACTER}"
"""stands in clean text where words are missing"""

_LOST, _NOTHING, _COMMENT = "\x00", "\x01", "\x02"
"""while a text is cleaned: words are missing, nothing is, a comment was here"""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands below it."""

    heading: str
    """as a reader sees it; "" = the page itself"""
    level: int
    wikitext: str
    """its own text, without that of its children"""
    children: tuple[Section, ...] = ()


def section_tree(wikitext: str) -> Section:
    """The page as a section of level 1, whose own text is the lead."""
    headings = list(_headings(wikitext))
    starts = [start for start, *_ in headings] + [len(wikitext)]
    flat = [
        (level, heading, wikitext[body:end])
        for (_, body, level, heading), end in zip(headings, starts[1:], strict=True)
    ]
    return Section("", 1, wikitext[: starts[0]], _children(flat, 0, len(flat)))


def _children(flat: list[tuple[int, str, str]], start: int, stop: int) -> tuple[Section, ...]:
    """Sections of `flat[start:stop]`; those that follow one with a higher level are below it."""
    sections = []
    while start < stop:
        level, heading, text = flat[start]
        end = next((i for i in range(start + 1, stop) if flat[i][0] <= level), stop)
        sections.append(Section(heading, level, text, _children(flat, start + 1, end)))
        start = end
    return tuple(sections)


_HEADING = re.compile(rf"^{_COMMENT}*(=.*=)[ \t{_COMMENT}]*$\n?", re.MULTILINE)


def _headings(wikitext: str) -> Iterator[tuple[int, int, int, str]]:
    """(start of its line, start of what follows, level, text), in page order."""
    for line in _HEADING.finditer(_masked(wikitext)):
        marks = line[1]
        left, right = (len(marks) - len(rest) for rest in (marks.lstrip("="), marks.rstrip("=")))
        level = min(left, right, (len(marks) - 1) // 2, 6)  # of "=====" the middle is the text
        if not level:
            continue
        raw = wikitext[line.start(1) + level : line.end(1) - level]
        text = clean_text(raw).replace(GAP, "") if _MARKUP.search(raw) else raw
        yield line.start(), line.end(), level, " ".join(text.split())


_MARKUP = re.compile(r"[\[\]{}<>&|'_*#:;~\x00-\x1f]")


def _masked(wikitext: str) -> str:
    """The text, every character in its place, with templates and raw elements filled in."""
    pieces: list[str] = []
    here = 0
    for start, end, name, _ in _raw_elements(wikitext):
        is_comment = not name and wikitext.endswith("-->", start, end)
        pieces += (wikitext[here:start], (_COMMENT if is_comment else _NOTHING) * (end - start))
        here = end
    text = "".join((*pieces, wikitext[here:]))
    pieces.clear()
    here = 0
    for start, end in _template_spans(text):
        pieces += (text[here:start], _NOTHING * (end - start))
        here = end
    return "".join((*pieces, text[here:]))


def _template_spans(text: str) -> list[tuple[int, int]]:
    """The outermost pairs of braces; one that is not closed holds nothing."""
    opened: list[int] = []
    spans: list[tuple[int, int]] = []
    for brace in re.finditer(r"\{\{|\}\}", text):
        if brace[0] == "{{":
            opened.append(brace.start())
        elif opened:
            start = opened.pop()
            while spans and spans[-1][0] >= start:
                spans.pop()
            spans.append((start, brace.end()))
    return spans


_DROPPED = (
    "ref|references|gallery|timeline|score|imagemap|syntaxhighlight|source|style|script|graph|"
    "mapframe|maplink|hiero|templatedata|templatestyles|indicator|inputbox|categorytree|table|"
    "section|includeonly"
)
_LITERAL = "nowiki|pre"
_FORMULA = "math|chem|ce"
_RAW_START = re.compile(
    rf"<!--|<({_DROPPED}|{_LITERAL}|{_FORMULA})(?=[\s/>])[^<>]*>", re.IGNORECASE
)


def _raw_elements(text: str) -> Iterator[tuple[int, int, str, str]]:
    """Elements whose content is no wikitext to be read: (start, end, name, content).

    A comment has no name and runs to the end if it is not closed; other tags then stay alone.
    """
    here, unclosed = 0, set[str]()
    while start := _RAW_START.search(text, here):
        name = (start[1] or "").lower()
        if start[0].endswith("/>") or name in unclosed:
            yield start.start(), start.end(), name, ""
            here = start.end()
            continue
        mark = re.compile(rf"</{name}\s*>" if name else "-->", re.IGNORECASE)
        end = mark.search(text, start.end())
        if end is None and name:
            unclosed.add(name)
            continue
        stop, here = (end.start(), end.end()) if end else (len(text), len(text))
        yield start.start(), here, name, text[start.end() : stop]


def clean_text(wikitext: str) -> str:
    """Plain text, paragraphs separated by a blank line, items of lists on lines of their own.

    Tables, galleries, images, notes and categories are gone. It never fails: markup that is broken
    is read as far as it goes.
    """
    text = _CONTROL.sub("", wikitext).replace(GAP, "")
    pieces: list[str] = []
    here = 0
    for start, end, name, content in _raw_elements(text):
        pieces += (text[here:start], _raw_text(name, content))
        here = end
    text = "".join((*pieces, text[here:]))
    text = _without_tables(_TAG.sub(_tag_text, text))
    text = _resolve_brackets(text)
    return "\n\n".join(_paragraphs(text))


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


def _raw_text(name: str, content: str) -> str:
    if name in _LITERAL.split("|"):
        return re.sub(r"[\[\]{}|<>=*#:;]", "", content.replace("'", "’")) or _NOTHING
    if name in _FORMULA.split("|"):
        # A formula that is as simple as "5 \times 3"; words are missing for any other.
        text = re.sub(r"\\(?:mathrm|text|textrm|mbox|rm)\b|\\[,;: ]|~", " ", content)
        text = re.sub(r"\\([a-z]+)", lambda word: _TEX_WORDS.get(word[1], "\\"), text)
        text = re.sub(r"\^\{?(\d+)\}?", lambda power: power[1].translate(SUPERSCRIPT), text)
        text = re.sub(r"[{}\s]+", " ", text).strip()
        return _LOST if re.search(r"[\\_^&<>|\[\]]", text) or not text else text
    return _NOTHING


_TEX_WORDS = {"times": "×", "pm": "±", "mu": "µ", "cdot": "·", "sim": "~", "approx": "≈"}
_TEX_WORDS |= {"circ": "°", "alpha": "α", "beta": "β", "le": "≤", "ge": "≥", "leq": "≤"}


_TAG = re.compile(
    r"<(sup|sub)\b[^<>]*>([-+−\d]{1,9})</\1\s*>|<(/?[a-zA-Z][a-zA-Z0-9]*)\b[^<>]*>", re.IGNORECASE
)
_BLOCKS = re.compile(r"/?(?:p|div|center|blockquote|ul|ol|dl|hr|h[1-6])")


def _tag_text(tag: re.Match[str]) -> str:
    if tag[2]:
        return tag[2].translate(SUPERSCRIPT if tag[1].lower() == "sup" else SUBSCRIPT)
    name = tag[3].lower()
    if _BLOCKS.fullmatch(name):
        return "\n\n"
    return {"br": " ", "li": "\n* ", "dt": "\n* ", "dd": "\n* "}.get(name, "")


def _without_tables(text: str) -> str:
    """Without "{| … |}", nested or not; a table that is not closed runs to the end."""
    lines, depth = [], 0
    for line in text.split("\n"):
        mark = line.lstrip(" \t:")
        if mark.startswith("{|") and not mark.startswith("{|}"):
            depth += 1
        if not depth:
            lines.append(line)
        elif mark.startswith("|}") and not mark.startswith("|}}"):
            depth -= 1
            lines.append(_NOTHING + mark[2:] if not depth else _NOTHING)
    return "\n".join(lines)


_BRACKET = re.compile(r"\{\{|\}\}|\[\[|\]\]|\|")
_MAX_DEPTH = 40
"""MediaWiki's own limit for templates in templates"""


@dataclass(slots=True)
class _Open:
    """A template or link that is not closed yet."""

    mark: str
    template: int
    """where on the stack the innermost open template is; 0 = there is none"""
    parts: list[list[str]] = field(default_factory=lambda: [[]])

    def texts(self) -> list[str]:
        return ["".join(part) for part in self.parts]


def _resolve_brackets(text: str) -> str:
    """Every template and link as the text it stands for, the innermost first."""
    stack, here = [_Open("", 0)], 0
    for bracket in _BRACKET.finditer(text):
        stack[-1].parts[-1].append(text[here : bracket.start()])
        here = bracket.end()
        match bracket[0]:
            case "{{" | "[[" as mark:
                stack.append(_Open(mark, len(stack) if mark == "{{" else stack[-1].template))
            case "|" if len(stack) > 1:
                stack[-1].parts.append([])
            case "|":
                stack[-1].parts[-1].append("|")
            case "}}":
                _close(stack, stack[-1].template, _template_text)
            case _ if stack[-1].mark == "[[":
                _close(stack, len(stack) - 1, _link_text)
    stack[-1].parts[-1].append(text[here:])
    _give_up(stack, 1)
    return "".join(stack[0].parts[-1])


def _close(stack: list[_Open], level: int, render: Callable[[list[str]], str]) -> None:
    """Put the text of an open bracket in its place; a template's end without a start is nothing."""
    if level:
        _give_up(stack, level + 1)
        bracket = stack.pop()
        stack[-1].parts[-1].append(_LOST if level > _MAX_DEPTH else render(bracket.texts()))


def _give_up(stack: list[_Open], level: int) -> None:
    """Brackets from a level on are never closed: their content belongs to the one below.

    What would have been a template's name, or a link's target, is lost.
    """
    pieces = stack[level - 1].parts[-1]
    for bracket in stack[level:]:
        opening, *others = bracket.texts()
        if bracket.mark == "{{" or others:
            pieces += (_LOST, opening[opening.find("\n") :] if "\n" in opening else "")
        else:
            pieces.append(opening)
        pieces += ("|" + other for other in others)
    del stack[level:]


def _template_text(parts: list[str]) -> str:
    text = template_text([part.replace(_NOTHING, "") for part in parts])
    if text is None or _LOST in text:
        return _LOST
    return text or _NOTHING


_HIDDEN_LINK = re.compile(
    r"(?:file|image|media|category|datei|bild|kategorie|fichier|catégorie|archivo|categoría|"
    r"ficheiro|bestand|файл|категория)\s*:",
    re.IGNORECASE,
)
_OTHER_LANGUAGE = re.compile(r"(?!doi)[a-z]{2,3}(?:-[a-z]+){0,2}:")


def _link_text(parts: list[str]) -> str:
    """The label; nothing for images, categories and links to other languages."""
    target, *labels = (part.replace(_NOTHING, "") for part in parts)
    target = " ".join(target.replace("_", " ").split())
    if _HIDDEN_LINK.match(target) or (not labels and _OTHER_LANGUAGE.match(target)):
        return _NOTHING
    if labels:
        return " ".join(labels).strip("\n") or re.sub(r" ?\([^()]*\)$", "", target)
    return target.removeprefix(":")


_ITEM = re.compile(r"[ \t]*[*#:;]+[ \t]*")


def _paragraphs(text: str) -> Iterator[str]:
    """Lines that follow one another are one paragraph; an item of a list is a line of its own."""
    lines: list[list[str]] = []
    is_item = False
    for line in [*text.split("\n"), ""]:
        if _is_emptied(line) or line.lstrip().startswith(("|", "!!")):
            continue
        if not line.strip() or line.startswith("----"):
            if paragraph := "\n".join(filter(None, (_tidy(" ".join(parts)) for parts in lines))):
                yield paragraph
            lines = []
        elif (mark := _ITEM.match(line)) or is_item or not lines:
            lines.append([_item_text(line, mark[0]) if mark else line])
        else:
            lines[-1].append(line)
        is_item = bool(_ITEM.match(line))


def _is_emptied(line: str) -> bool:
    """Held markup only, all of which is dropped: the line is not there for a reader."""
    return (_LOST in line or _NOTHING in line) and not line.strip(f" \t.,;{_LOST}{_NOTHING}")


def _item_text(line: str, mark: str) -> str:
    """Without its mark; "; term : what it is" with one colon, as a reader sees it."""
    term, colon, rest = line[len(mark) :].partition(":")
    return f"{term.rstrip()}: {rest.lstrip()}" if ";" in mark and colon else line[len(mark) :]


_WEB_LINK = re.compile(r"\[(?:https?:|ftp:|mailto:|news:|irc:)?//[^\s\[\]]*+([^\[\]]*+)\]")
_ADDRESS = re.compile(r"\b(?:https?|ftp)://\S+")
_MAGIC_WORD = re.compile(r"__[A-Z]{3,30}__")
_QUOTES = re.compile(r"'{2,}")
_INVISIBLE = re.compile(
    r"[\x02-\x08\x0b-\x1f\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff]"
)
_ASIDE = re.compile(r" ?\([^()]*\)| ?\[[^\[\]]*\]")
_NOTE = re.compile(rf"(?<=[^\s(\[–—{_LOST}]){_LOST}+")
_BETWEEN_SENTENCES = re.compile(rf"(^|[.!?][\"”’)]*) ?(?:{_LOST} ?)+(?=[A-Z]|$)")
_STRAY = str.maketrans("{}|", "   ")
_LEAKED = re.compile(
    r"\[\[+|\]\]+|'{2,}|<(?! ?\d)(?:/?[a-zA-Z]+(?: [^<>=]{1,40}=[^<>]{0,80})?/?>)?"
)


def _tidy(line: str) -> str:
    """One line of text: markup that stays within a line, entities, and what dropping left.

    A template glued to a word is a note to it; one that stands as a word of its own is a word
    that is lost, unless it stands between two sentences.
    """
    line = _ADDRESS.sub(_NOTHING, _WEB_LINK.sub(r"\1", " ".join(line.split())))
    line = html.unescape(_MAGIC_WORD.sub("", _without_quotes(line)))
    line = _INVISIBLE.sub("", line).replace(GAP, "").translate(_STRAY)
    line = _ASIDE.sub(_aside_text, _ASIDE.sub(_aside_text, line))  # brackets in brackets
    line = " ".join(line.replace(_NOTHING, "").split())
    line = _BETWEEN_SENTENCES.sub(r"\1 ", _NOTE.sub("", line))
    line = re.sub(r"([,;:])(?: ?[,;:])+", r"\1", line).strip(" ,;")
    line = re.sub(r"(?<=\()[ ,;:]+|[ ,;]+(?=\))| (?=[,;.:!?](?: |$))", "", line)
    line = " ".join(_without_leaks(line).split())
    return line.replace(_LOST, GAP) if re.search(r"\w", line) else ""


def _without_leaks(line: str) -> str:
    """Without markup that was too broken to be read, or that entities hid."""
    for _ in range(3):
        if not _LEAKED.search(line):
            return line
        line = _LEAKED.sub("", line)
    return re.sub(r"['\[\]<]", "", line)


def _without_quotes(line: str) -> str:
    """Without marks of bold and italics. In ''Canis'''s the third one is an apostrophe."""
    runs = [len(run) for run in _QUOTES.findall(line)]
    if sum(n in (2, 5) for n in runs) % 2 and sum(n in (3, 5) for n in runs) % 2:
        line = re.sub(r"(?<=\w)'''(?=s\b)", "’", line)
    return _QUOTES.sub("", line)


def _aside_text(aside: re.Match[str]) -> str:
    """Brackets go with what was lost or dropped inside them: the sentence is whole without."""
    text = aside[0]
    return "" if _LOST in text or not re.search(r"\w", text) else text

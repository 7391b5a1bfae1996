"""Wikitext against MediaWiki itself: the same headings, and the same words."""

from __future__ import annotations

import json
import random
import re
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from lxml import html

from fieldmark.build.wiki.wikitext import Section, clean_text, section_tree
from kit.mediawiki import MediaWiki

MARKUP = """
== === = A B {{a}} {{b|c}} [[a]] [[b|c]] ''i'' <!--c--> <b>x</b> &amp; <nowiki>==n==</nowiki>
<pre>==p==</pre> <nowiki> </nowiki> {| |} * : <!--c-->
"""
HIDDEN = ["{{d|\n==e==\n}}", "<!--\n==f==\n-->", "{{d\n|x=\n== e ==\n}}"]
PIECES = [*MARKUP.split(), *HIDDEN, " ", "\n", *["\n== ", " ==\n", "\n=== ", " ===\n"] * 3]


TEXTS = [
    "'''Wolves''' (''Canis lupus'') have [[fur|coats]] that are [[grey]]ish &ndash; 5&nbsp;cm.",
    "Has:\n* red [[wing]]s\n** dark red\n# blue\n; Tail : long\n: and thin\nEnd of it.",
    "A<!-- no --> b <span style='color:red'>c</span> m<sup>2</sup>, H<sub>2</sub>O<br>d",
    "{| class=x\n! a !! b\n|-\n| c || d\n|}\nAfter the table.",
    "[http://example.org A label] and <nowiki>[[no link]]</nowiki> ''Canis'''s tail",
    "<div>One</div>\n\n<blockquote>Two</blockquote> Three __NOTOC__ [[:Category:Dogs]] &lt; 5",
    "[[Category:Dogs]] [[Wolf (animal)|wolf]] [[wolf#Fur]] <s>old</s> <u>new</u> {x} a|b",
    "----\nLine one\nline two\n\n\nNext <ul><li>a</li><li>b</li></ul> last",
    "'''''both''''' '''b''i'' b''' ''i'''b''' i'' it's ''it''",
]


def parse(wiki: MediaWiki, text: str) -> dict[str, Any]:
    query = {
        "action": "parse", "text": text, "contentmodel": "wikitext", "prop": "sections|text",
        "format": "json", "formatversion": 2, "disablelimitreport": 1, "disableeditsection": 1,
    }  # fmt: skip
    data = urllib.parse.urlencode(query).encode()
    with urllib.request.urlopen(wiki.endpoint, data, timeout=60) as answer:
        parsed: dict[str, Any] = json.load(answer)["parse"]
        return parsed


def levels(section: Section) -> Iterator[int]:
    for child in section.children:
        yield child.level
        yield from levels(child)


def test_headings_are_those_of_mediawiki(mediawiki: MediaWiki) -> None:
    draw = random.Random(17)
    n_headings = 0
    for _ in range(60):
        text = "".join(draw.choices(PIECES, k=draw.randint(5, 30)))
        expected = [int(section["level"]) for section in parse(mediawiki, text)["sections"]]
        assert list(levels(section_tree(text))) == expected, text
        n_headings += len(expected)
    assert n_headings > 50


@pytest.mark.parametrize("text", TEXTS)
def test_words_are_those_of_mediawiki(mediawiki: MediaWiki, text: str) -> None:
    page = html.fromstring(f"<div>{parse(mediawiki, text)['text']}</div>")
    for element in page.xpath("//table"):
        element.drop_tree()
    for element in page.iter("p", "li", "dd", "dt", "br", "div"):
        element.text, element.tail = f" {element.text or ''}", f" {element.tail or ''}"
    assert words(clean_text(text)) == words(page.text_content())


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.translate(str.maketrans("²₂", "22")))

"""Wikitext: the tree of sections, and text as a reader sees it."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmark.build.wiki.wikitext import GAP, Section, clean_text, section_tree


def outline(section: Section) -> list[object]:
    """Headings, nested as the sections are."""
    return [
        (child.heading, outline(child)) if child.children else child.heading
        for child in section.children
    ]


def test_the_tree_follows_levels() -> None:
    page = section_tree("Lead.\n== A ==\na\n=== B ===\nb\n==== C ====\nc\n=== D ===\n== E ==\ne")
    assert (page.heading, page.level, page.wikitext) == ("", 1, "Lead.\n")
    assert outline(page) == [("A", [("B", ["C"]), "D"]), "E"]
    assert [child.wikitext for child in page.children] == ["a\n", "e"]


def test_a_level_may_be_left_out_and_a_heading_may_come_twice() -> None:
    page = section_tree("==A==\n====Deep====\n===B===\n==A==\n=Top=\n== F ==")
    assert outline(page) == [("A", ["Deep", "B"]), "A", ("Top", ["F"])]


@pytest.mark.parametrize(
    ("line", "heading"),
    [
        ("== ''Canis lupus'' ==", "Canis lupus"),
        ("== [[Leaf|Leaves]] & [[bark]] ==", "Leaves & bark"),
        ("=={{anchor|Old}} Description ==", "Description"),
        ("== Size<ref>A.</ref> == <!-- keep -->", "Size"),
        ("<!-- x -->== Size ==  ", "Size"),
        ("== Head&nbsp;and tail ==", "Head and tail"),
        ("== A = B ==", "A = B"),
        ("== Uneven ===", "Uneven ="),
        ("=====", "="),
    ],
)
def test_headings_are_read_as_they_are_seen(line: str, heading: str) -> None:
    assert outline(section_tree(f"Lead.\n{line}\nText.")) == [heading]


@pytest.mark.parametrize(
    "text",
    [
        "<!--\n== A ==\n-->",
        "<nowiki>\n== A ==\n</nowiki>",
        "<pre>\n== A ==\n</pre>",
        "x<ref name=a>\n== A ==\n</ref>",
        "{{Infobox\n| x = {{y}}\n== A ==\n}}",
        "== A == text",
        " text == A ==",
        "==",
        "<!-- never closed\n== A ==",
    ],
)
def test_what_only_looks_like_a_heading_is_none(text: str) -> None:
    assert outline(section_tree(text)) == []


def test_a_template_that_is_never_closed_hides_no_heading() -> None:
    assert outline(section_tree("{{Speciesbox\n| a = 1\n\nLead.\n== A ==\n{{b}}\n== B ==")) == [
        "A",
        "B",
    ]


SEEN = [
    ("[[wolf]] and [[Canis lupus|grey wolves]]", "wolf and grey wolves"),
    ("[[dog]]s, [[:Category:Dogs]]", "dogs, Category:Dogs"),
    ("A[[File:A.jpg|thumb|A [[wolf]] {{cvt|5|m}}.]] b. [[Category:C]] [[de:Wolf]]", "A b."),
    ("Red.<ref name=a/> Big.<ref>{{cite book|title=X}}</ref> Old.<!-- no -->", "Red. Big. Old."),
    ("'''''Canis''''' is '''bold''' and ''slanted''.", "Canis is bold and slanted."),
    ("''Canis'''s tail", "Canis’s tail"),
    ("Five&nbsp;cm &ndash; 5&#8201;m &amp; more", "Five cm – 5 m & more"),
    ("a<br />b<small>c</small> m<sup>2</sup> H<sub>2</sub>O", "a bc m² H₂O"),
    ("Wings <math>5 \\times 3</math> cm.", "Wings 5 × 3 cm."),
    ("One\nline.\n\nTwo.", "One line.\n\nTwo."),
    ("Has:\n* red\n** dark red\n# blue\nEnd.", "Has:\nred\ndark red\nblue\nEnd."),
    ("; Leaf : green\n: broad", "Leaf: green\nbroad"),
    ("Before.\n{| class=x\n| a\n{|\n| b\n|}\n|}\nAfter.", "Before. After."),
    ("{|\n| only\n|}", ""),
    ("<gallery>\nA.jpg|red\n</gallery>", ""),
    ("See [http://a.b label] [http://a.b] http://a.b/c now", "See label now"),
    ("__NOTOC__Text", "Text"),
    ("A <nowiki>[[b]]</nowiki> c", "A b c"),
    ("Size &lt; 5 mm", "Size < 5 mm"),
    ("Hairs &lt;one mm, white; spines red.", "Hairs one mm, white; spines red."),
    ("<div>One</div><p>Two</p>", "One\n\nTwo"),
    ("{{convert|5|-|8|cm|in}} long", "5–8 cm long"),
    ("{{cvt|1.5|to|2|m|ftin|abbr=on}} x", "1.5 to 2 m x"),
    ("{{convert|10|x|20|mm}}, {{convert|5|ft|3|in|m}}", "10 × 20 mm, 5 ft 3 in"),
    (
        "a {{convert|10|cm|in|adj=on}} tail, {{convert|2|cm|adj=mid|-long}}",
        "a 10-cm tail, 2-cm-long",
    ),
    (
        "{{convert|1+1/2|in|cm}} {{frac|1|2}} {{frac|3|1|4}} {{val|1.5|0.2|u=cm}}",
        "1 1/2 in 1/2 3 1/4 1.5±0.2 cm",
    ),
    (
        "{{nowrap|5 m}} {{lang|la|lupus}} {{abbr|cm|centimetre}} {{lang-la|canis}}",
        "5 m lupus cm canis",
    ),
    ("5{{ndash}}8{{nbsp}}cm{{snd}}a{{mdash}}b{{'}}s", "5–8 cm – a—b’s"),
    (
        "{{circa|1900}} {{ill|Ötzi|de}} {{linktext|wolf}} {{gloss|dog}} {{as of|2010}}",
        "c. 1900 Ötzi wolf ‘dog’ As of 2010",
    ),
    ("{{color box|red}} red {{color|red|wing}}", "red wing"),
    ("{{nowrap|[[wolf|{{lang|la|Lupus}}]] {{cvt|5|kg}}}}.", "Lupus 5 kg."),
    ("{{Taxobox\n| name = Wolf\n}}\n'''Wolf''' is.", "Wolf is."),
    ("{{Main|Wolf}}\n{{unheard of}}\nText.{{unheard of}} More.", "Text. More."),
    (
        "The wolf ({{IPAc-en|w}}; {{lang|la|lupus}}) is grey {{citation needed|date=May}}.",
        "The wolf (lupus) is grey.",
    ),
    ("It is red. {{unheard of}} It is big.", "It is red. It is big."),
    ("It (called {{unheard of|x}}) is red.", "It is red."),
    ("{{formatnum:1234}} {{#tag:ref|x}}", "1234"),
    ("m{{sup|2}} {{chem|H|2|O}} {{gaps|12|345}} {{1/2}}", "m² H₂O 12345 1/2"),
    ("{{val|5|-|8|u=cm}}, {{Template:Nowrap|a}}, {{nowrap begin}}b{{nowrap end}}", "5–8 cm, a, b"),
    ("{{convert|5|to|8|cm|in|1|abbr=on}} {{convert|{{frac|1|2}}|in}}", "5 to 8 cm 1/2 in"),
    ("{{convert<!-- x -->|5|cm}} {{As of|2010|lc=y}}", "5 cm as of 2010"),
    (
        "[[DNA: a life|life]] [[War: it]] [[s:de:Wolf|text]] [[Wolf (animal)|]]",
        "life War: it text Wolf",
    ),
    ("<ul><li>a</li><li>b</li></ul>", "a\nb"),
    ("<poem>A [[wolf|dog]]\nruns</poem>", "A dog runs"),
    ("A ({{x1}} ({{x2}})) b (, 5 cm) c ( ; )", "A b (5 cm) c"),
    ("Red.\n[[File:A.jpg|thumb]]\n{{clear}}\n<!-- c -->\nBig.", "Red. Big."),
]


@pytest.mark.parametrize(("wikitext", "text"), SEEN)
def test_text_is_what_a_reader_sees(wikitext: str, text: str) -> None:
    assert clean_text(wikitext) == text


@pytest.mark.parametrize(
    "wikitext",
    [
        "It has {{unheard of|5}} legs.",
        "{{unheard of}} is red.",
        "Its <math>\\frac{a}{b}</math> is red.",
        "It is {{Speciesbox | red\n",
        "A [[wolf|wolves are",
    ],
)
def test_lost_words_leave_a_mark(wikitext: str) -> None:
    assert GAP in clean_text(wikitext)


MARKUP = r"""
{{ }} {{{ }}} [[ ]] [ ] | || ' '' ''' '''''' < > <b> </b> <ref> </ref> <ref/> <!-- --> <nowiki>
</nowiki> <math> </math> {| |} |- ! = == === * # : ; & &lt; &#91; &#123; &#124; &#39; &amp; &#0;
&#xfffc; convert| cvt|5|-|8|cm nowrap| lang|la| frac| File: Category: de: http://a [http://a wolf
red 5 ( ) . , <table> <gallery> __TOC__ ~~~~ - – é 漢
"""
PIECES = st.sampled_from([*MARKUP.split(), " ", "\n", "\n\n", "\t", "\x00", "\x01", "\x02", GAP])
LEAKED = re.compile(r"\{|\}|\[\[|\]\]|''|\||<(?! ?\d)|[\x00-\x09\x0b-\x1f]| {2}|^\s|\s$")


@given(st.lists(PIECES, max_size=40).map("".join) | st.text(max_size=80))
def test_no_markup_leaks_however_broken_it_is(wikitext: str) -> None:
    assert not LEAKED.search(clean_text(wikitext))
    page = section_tree(wikitext)
    assert not LEAKED.search(page.heading)


@given(st.lists(PIECES, max_size=40).map("".join))
def test_sections_hold_all_text_but_the_headings(wikitext: str) -> None:
    def own(section: Section) -> str:
        return section.wikitext + "".join(map(own, section.children))

    page = section_tree(wikitext)
    rest = iter(wikitext)
    assert all(letter in rest for letter in own(page))  # in order
    assert page.children or own(page) == wikitext


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        "1",
        "1|-|",
        "{{",
        "{{a|",
        "[[",
        "[[a|",
        "}}",
        "]]",
        "{{a}}",
        "{{a}} ",
        "[[}}",
        "<b ",
        "<b>",
        "<ref>",
        "<!--",
        "{|\n",
        "''",
        "'''a''",
        "|\n",
        "==\n",
        "== a ==\n",
        "[http://a ",
        "[//",
        "(",
        "( {{a}} ",
        ",",
        ", ",
        " ",
        "\n",
        ".",
        "\n* ",
        "&#",
        "__",
        "{{nowrap|",
        "['",
        "<math>",
        "x\n",
        ";",
        "a: ",
        "<nowiki>",
        "{{{",
        "= ",
        "=\t",
        ".\x00",
    ],
)
def test_time_grows_with_length_only(piece: str) -> None:
    """Ten times the text may take about ten times as long, whatever it holds; closed or not."""
    rest = "x" + "]]" * 6_000 + "'[" * 6_000
    for before, after in (
        ("", ""),
        ("{{convert|", "x|cm}}"),
        ("[[", "|]]"),
        ("", "}}" * 6_000 + rest),
    ):
        start = time.process_time()
        wikitext = before + piece * (60_000 // len(piece)) + after
        clean_text(wikitext)
        section_tree(wikitext)
        assert time.process_time() - start < 3

"""Rule filter: sentences on looks are kept, as parts of the text; others are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmark.build.describe.lexicon import group_of, lexicon
from fieldmark.build.describe.rules import BIAS, MAX_COUNT, WEIGHTS, score, signs, visible_spans
from fieldmark.build.describe.sections import appearance_text
from fieldmark.build.describe.sentences import split_sentences
from fieldmark.world import World
from fieldmark.world.wiki import article, visual_sentences

KEPT = [
    "The upperparts are olive brown, and the breast is streaked with black.",
    "It has a short, stout bill and long yellow legs.",
    "Leaves are ovate, glossy above and hairy beneath.",
    "The cap is convex, slimy and bright red with white warts.",
    "The shell is globular with four inflated whorls and a wide umbilicus.",
    "Males have a black mask and a forked tail.",
    "The wings span 30–35 mm and are pale grey with two dark lines.",
    "It is a small, spiny shrub with smooth grey bark.",
    "The dorsal fin is tall and sickle-shaped.",
    "Juveniles resemble the female but lack the white eye-ring.",
]
DROPPED = [
    "It feeds on red ants and the seeds of grasses.",
    "The species is endemic to the mountains of Borneo.",
    "It was first described by Linnaeus in 1758.",
    "The specific epithet means red-footed in Latin.",
    "The wood is used to make furniture.",
    "Its chromosome number is 2n = 24.",
    "The spores are smooth, ellipsoid and 7–9 µm long.",
    "The song is a series of clear whistles.",
    "It is listed as endangered because of deforestation.",
    "The wingspan is 30–35 mm.",
    "Adults weigh 3 to 5 kg.",
    "Red foxes and grey wolves hunt it in winter.",
    "Flowering takes place from May to June.",
    "The female lays two eggs in a nest of twigs.",
    "The heart has three chambers.",
    "",
    "...",
]


@pytest.mark.parametrize("sentence", KEPT)
def test_looks_are_kept(sentence: str) -> None:
    assert score(sentence) > 0


@pytest.mark.parametrize("sentence", DROPPED)
def test_anything_else_is_dropped(sentence: str) -> None:
    assert score(sentence) <= 0


def test_what_is_kept_is_a_part_of_the_text() -> None:
    text = f"{DROPPED[0]} {KEPT[0]}\n\n{KEPT[1]} {DROPPED[2]}"
    assert [text[span.start : span.end] for span in visible_spans(text)] == KEPT[:2]


def test_the_order_of_sentences_does_not_matter() -> None:
    sentences = KEPT + DROPPED[:-2]
    for text in (" ".join(sentences), " ".join(reversed(sentences))):
        assert len(visible_spans(text)) == len(KEPT)


def test_every_sign_has_a_weight_and_every_word_one_group() -> None:
    words = [word for group in lexicon().values() for word in group]
    assert len(words) == len(set(words))
    assert set(lexicon()) < set(WEIGHTS)
    for sentence in KEPT + DROPPED:
        assert set(signs(sentence)) <= set(WEIGHTS)


def test_words_are_known_in_their_forms() -> None:
    assert {group_of(word) for word in ("wing", "wings")} == {"part"}
    assert {group_of(word) for word in ("feed", "feeds", "feeding", "prey")} == {"behaviour"}
    assert [group_of(word) for word in ("heart-shaped", "black-tipped", "blue-grey", "xyzzy")] == [
        "shape",
        "pattern",
        "colour",
        "",
    ]


@given(st.text(max_size=200) | st.lists(st.sampled_from(KEPT + DROPPED)).map(" ".join))
def test_spans_are_sentences_and_scores_are_bounded(text: str) -> None:
    assert set(visible_spans(text)) <= set(split_sentences(text))
    assert all(0 <= n <= MAX_COUNT for n in signs(text).values())
    assert abs(score(text)) <= abs(BIAS) + MAX_COUNT * sum(map(abs, WEIGHTS.values()))


def test_pages_of_the_world_give_their_visual_sentences() -> None:
    """From wikitext on: every page also holds sentences with colours that are not its own."""
    world = World(seed=0)
    n_visual = n_kept = 0
    for species in world.species:
        appearance = appearance_text(article(world, species))
        assert appearance
        kept = {appearance.text[span.start : span.end] for span in visible_spans(appearance.text)}
        visual = set(visual_sentences(world, species))
        assert kept <= visual
        n_visual += len(visual)
        n_kept += len(kept)
    assert n_kept >= 0.95 * n_visual > 0

"""Is the labelled set that ships large, mixed, and split by nothing but chance?"""

from __future__ import annotations

import hashlib
from collections import Counter

from fieldmark.build.describe.judge import SHIPPED, judge, read_labelled
from fieldmark.build.describe.rules import score


def test_the_set_is_large_and_mixed() -> None:
    rows = read_labelled(SHIPPED)
    assert len(rows) >= 420 and len({row.sentence for row in rows}) == len(rows)
    assert 0.45 <= sum(row.is_visible for row in rows) / len(rows) <= 0.52
    counts = Counter((row.group, row.is_visible) for row in rows)
    groups = {row.group for row in rows}
    assert len(groups) >= 14 and all(
        counts[group, is_so] >= 5 for group in groups for is_so in (0, 1)
    )


def test_a_hash_of_the_sentence_decides_its_split() -> None:
    for row in read_labelled(SHIPPED):
        digest = hashlib.sha256(f"labelled:{row.sentence}".encode()).hexdigest()
        assert row.split == ("test" if int(digest[:8], 16) % 2 else "dev")


def test_sentences_stand_as_in_articles() -> None:
    for row in read_labelled(SHIPPED):
        assert row.sentence[0].isupper() and row.sentence.endswith(".")
        assert "  " not in row.sentence and "\n" not in row.sentence


def test_the_rules_are_good_on_sentences_their_author_had_not_seen() -> None:
    report = judge(read_labelled(SHIPPED), lambda texts: [score(text) > 0 for text in texts])
    unseen = report.by_split["test"]
    assert unseen.n >= 290 and min(unseen.precision, unseen.recall) >= 0.85
    assert unseen.precision_interval.low > 0.8 and unseen.recall_interval.low > 0.8

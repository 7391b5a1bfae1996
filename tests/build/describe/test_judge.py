"""Are precision, recall and their limits what a labelled file says of a filter?"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from fieldmark.build.describe.judge import (
    FilterFigures,
    LabelledSentence,
    format_report,
    judge,
    read_labelled,
)
from fieldmark.errors import DataError

ROWS = [
    LabelledSentence("The wings are blue.", True, "bird"),
    LabelledSentence("The blue whale sings.", False, "mammal"),
    LabelledSentence("The tail is long.", True, "mammal"),
    LabelledSentence("It sings.", False, "bird"),
    LabelledSentence("It eats.", False, "bird"),
]


def blue(sentences: Sequence[str]) -> list[bool | None]:
    return [None if "eats" in sentence else "blue" in sentence for sentence in sentences]


def test_figures_and_wrong_sentences() -> None:
    report = judge(ROWS, blue)
    assert report.overall == FilterFigures(1, 1, 1, 1, 1)
    assert report.overall.precision == report.overall.recall == report.overall.f1 == 0.5
    assert [row.sentence for row in report.false_kept] == ["The blue whale sings."]
    assert [row.sentence for row in report.missed] == ["The tail is long."]
    assert [row.sentence for row in report.undecided] == ["It eats."]
    assert report.by_group["bird"] == FilterFigures(1, 0, 0, 1, 1)
    assert list(report.by_group) == ["bird", "mammal"]


def test_the_report_is_text_and_json() -> None:
    report = judge(ROWS, blue)
    text = format_report(report, "rules", n_wrong=1)
    assert "rules: 4 sentences, 2 visible, 1 undecided" in text
    assert "precision 50.0 %  95 % interval" in text and "  The blue whale sings." in text
    assert json.loads(json.dumps(report.facts()))["recall"]["value"] == 0.5
    assert "The tail" not in format_report(report, n_wrong=0)


def test_splits_are_told_apart() -> None:
    rows = [
        LabelledSentence(row.sentence, row.is_visible, "", "ab"[n % 2])
        for n, row in enumerate(ROWS)
    ]
    report = judge(rows, blue)
    assert report.by_split == {"a": FilterFigures(1, 0, 1, 0, 1), "b": FilterFigures(0, 1, 0, 1)}
    assert "split b: 2 sentences, 0 visible" in format_report(report) and report.by_group == {}


def test_nothing_kept_has_no_precision() -> None:
    report = judge(ROWS, lambda sentences: [False] * len(sentences))
    assert np.isnan(report.overall.precision) and report.overall.recall == 0.0
    assert "precision –" in format_report(report)


def test_a_filter_that_loses_sentences_is_refused() -> None:
    with pytest.raises(ValueError, match="4 of 5"):
        judge(ROWS, lambda sentences: [True] * (len(sentences) - 1))


def test_limits_of_f1_hold_it_19_times_out_of_20() -> None:
    rng = np.random.default_rng(7)
    for probabilities in ([0.45, 0.05, 0.08, 0.42], [0.3, 0.15, 0.2, 0.35]):
        kept, false_kept, missed, _ = probabilities
        truth = 2 * kept / (2 * kept + false_kept + missed)
        counts = rng.multinomial(250, probabilities, 2000)
        intervals = [FilterFigures(*map(int, row)).f1_interval for row in counts]
        coverage = np.mean([limits.low <= truth <= limits.high for limits in intervals])
        assert 0.935 < coverage < 0.965
    perfect = FilterFigures(20, 0, 0, 20).f1_interval
    assert perfect.low < 0.95 and perfect.high == 1.0


def test_a_labelled_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["group", "sentence", "visible", "split"])
        lines.writerow(["bird", 'A "red" bill, long.', 1, "dev"])
        lines.writerow(["bird", "It sings.", 0, "test"])
    assert read_labelled(path)[1:] == [LabelledSentence("It sings.", False, "bird", "test")]
    assert len(read_labelled(path)) == 2


@pytest.mark.parametrize(("text", "line"), [
    (None, "cannot be read as a labelled file: No such file or directory."),
    (b"", ":1  has no column 'sentence'"),
    (b"sentence\nA.\n", ":1  has no column 'visible'"),
    (b"sentence,visible\n", "has no sentences."),
    (b"sentence,visible\nA.,1\nB.,yes\n", ":3  visible is 'yes', expected 0 or 1."),
    (b"sentence,visible\n ,1\n", ":2  has no sentence."),
    (b"sentence,visible\n\xff,1\n", "cannot be read as a labelled file"),
])  # fmt: skip
def test_a_file_that_is_not_labelled(tmp_path: Path, text: bytes | None, line: str) -> None:
    path = tmp_path / "own.csv"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(DataError) as error:
        read_labelled(path)
    assert line in str(error.value) and str(path) in str(error.value)
    assert "\n" not in str(error.value)

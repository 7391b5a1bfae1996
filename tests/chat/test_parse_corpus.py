"""Real-looking answers and what each of them says, one line each in `parse_corpus.jsonl`.

A line with `form` names a set of options; the others are answers: `label` is what a person reads
(null = nothing that was offered), `why` the expected reason where it matters. `abstains`: a person
can tell, the parser leaves it open.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fieldmark.chat.parse.answer import Form, parse_text
from fieldmark.chat.parse.mentions import Option
from fieldmark.chat.parse.names import NamedTaxon, TaxonNames, index_taxa

LINES = [
    json.loads(line)
    for line in Path(__file__).with_name("parse_corpus.jsonl").read_text("utf-8").splitlines()
]
ANSWERS = [line for line in LINES if "text" in line]


def _offered(line: dict[str, Any]) -> Sequence[Option] | TaxonNames:
    if line["form"] == "open":
        return index_taxa(
            NamedTaxon(label, scientific, tuple(common), tuple(synonyms), tuple(lineage))
            for label, scientific, common, synonyms, lineage in line["options"]
        )
    return tuple(Option(*each[:3], aliases=tuple(each[3:] and each[3])) for each in line["options"])


SETS: dict[str, tuple[Sequence[Option] | TaxonNames, Form]] = {
    line["set"]: (_offered(line), line["form"]) for line in LINES if "form" in line
}


@pytest.mark.parametrize("line", ANSWERS, ids=[f"{e['set']}: {e['text'][:40]!r}" for e in ANSWERS])
def test_answer_is_read_as_a_person_reads_it(line: dict[str, Any]) -> None:
    found = parse_text(line["text"], *SETS[line["set"]])
    expected = None if line.get("abstains") else line["label"]
    assert found.label == expected, found
    assert line.get("why") in (None, found.why), found
    assert (found.label is None) == (found.outcome != "parsed")
    assert found.how if found.label is not None else found.why


def test_corpus_is_large_and_has_every_form() -> None:
    assert len(ANSWERS) >= 180
    assert {form for _, form in SETS.values()} == {"choice", "yes_no", "labels", "count", "open"}
    assert sum(line["label"] is None for line in ANSWERS) >= 60

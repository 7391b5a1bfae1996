"""Families without code: templates rendered by Jinja alone, scores by plain Python."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jinja2

from lmms.families.kit import TASKS, Document, Family, Utils, mean, read_plainly
from lmms.families.yes_no import choice_values

_JINJA = jinja2.Environment(undefined=jinja2.StrictUndefined)


def _rendered(file: str, key: str) -> Callable[[Utils, Document, Any], str]:
    return lambda _, doc, __: _JINJA.from_string(read_plainly(file)[key]).render(**doc)


_ARC = "arc/arc_easy.yaml"
ARC = Family(
    row=26,
    file="arc/arc_challenge.yaml",
    task="arc_challenge",
    split="test",
    documents=tuple(
        {
            "id": f"arc_{number}",
            "question": f"Which {thing} hatches from an egg?\n",
            "choices": {"text": texts, "label": labels},
            "answerKey": answer,
        }
        for number, (thing, texts, labels, answer) in enumerate(
            [
                ("animal", ["frog", "a very large bat", "seal", "dog"], list("ABCD"), "A"),
                ("bird", ["any", "no bird at all, ever"], ["1", "2"], "1"),
                ("fish", ["some", "none", "that one's"], list("ABC"), "C"),
                ("plant", ["none", "'all'", "oak"], list("ABC"), "A"),
            ]
        )
    ),
    answers=(
        ((-4.0, False), (-5.0, True), (-4.5, False), (-9.0, False)),
        ((-2.0, True), (-2.0, True)),
        ((-1.0, True), (-6.0, False), (-3.0, False)),
        ((-3.0, False), (-3.5, False), (-2.5, True)),
    ),
    text=_rendered(_ARC, "doc_to_text"),
    target=lambda _, doc: doc["choices"]["label"].index(doc["answerKey"]),
    choices=lambda _, doc: doc["choices"]["text"],
    values=lambda _, doc, answer: choice_values(
        ("acc", "acc_norm"),
        doc["choices"]["label"].index(doc["answerKey"]),
        doc["choices"]["text"],
        answer,
    ),
    aggregates={"acc": mean, "acc_norm": mean},
    output_type="multiple_choice",
    tags=("ai2_arc",),
)

_MMLU_TEMPLATE = "mmlu/continuation/_continuation_template_yaml"


def _described(file: str) -> Callable[[Utils, Document, Any], str]:
    """Description and question, each a template of its own."""
    head, question = _rendered(file, "description"), _rendered(_MMLU_TEMPLATE, "doc_to_text")
    return lambda code, doc, kwargs: head(code, doc, kwargs) + question(code, doc, kwargs)


_MMLU = Family(
    row=27,
    file="",
    task="",
    split="test",
    documents=tuple(
        {
            "question": f" How many {bones} has a newt? ",
            "subject": "made",
            "choices": choices,
            "answer": answer,
        }
        for bones, choices, answer in [
            ("toes", ["18", "20", "four on each of its four feet", "0"], 0),
            ("tails", ["one", "two", "it's none", 'the "third"'], 0),
            ("wings", ["one pair", "none", "two", "three"], 1),
            ("eyes", ["1", "2", "3", "4"], 3),
        ]
    ),
    answers=(
        ((-1.0, True), (-1.2, False), (-20.0, False), (-3.0, False)),
        ((-2.0, False), (-1.9, True), (-9.0, False), (-9.0, False)),
        ((-4.0, False), (-2.2, True), (-2.1, False), (-7.0, False)),
        ((-1.0, True), (-1.0, True), (-1.0, True), (-1.0, True)),
    ),
    text=_described(""),
    choices=lambda _, doc: doc["choices"],
    values=lambda _, doc, answer: choice_values(
        ("acc", "acc_norm"), doc["answer"], doc["choices"], answer
    ),
    aggregates={"acc": mean, "acc_norm": mean},
    output_type="multiple_choice",
)


def _mmlu(file: str) -> Family:
    raw = read_plainly(file)
    return replace(
        _MMLU,
        file=file,
        task=raw["task"],
        text=_described(file),
        description=raw["description"],
        tags=(raw["tag"],),
    )


MMLU = tuple(
    _mmlu(f"mmlu/continuation/{path.name}")
    for path in sorted((TASKS / "mmlu" / "continuation").glob("mmlu_*.yaml"))
)
"""57 subjects that include the same file"""

_N_SAID = 64
_IGNORED = (r",", r"\$", r"(?s).*#### ", r"\.$")


def _number_said(text: str) -> str:
    found = re.search(r"The answer is (\-?[0-9\.\,]*[0-9]+)", text)
    return found.group(1).strip() if found else "[invalid]"


def _plain(text: str) -> str:
    for pattern in _IGNORED:
        text = re.sub(pattern, "", text)
    return text.lower()


def _gold(doc: Document) -> str:
    return str(doc["answer"].split("####")[-1].strip())


def _self_consistency(_: Utils, doc: Document, answer: tuple[str, ...]) -> dict[str, float]:
    numbers = [_number_said(each) for each in answer]
    chosen = {
        "score-first": numbers[0],
        "maj@64": Counter(numbers).most_common(1)[0][0],
        "maj@8": Counter(numbers[:8]).most_common(1)[0][0],
    }
    gold = _plain(_gold(doc))
    return {f"exact_match,{name}": float(_plain(each) == gold) for name, each in chosen.items()}


def _say(*runs: tuple[int, str]) -> tuple[str, ...]:
    """So many times this text, then so many times that one; 64 in all."""
    said = tuple(text for times, text in runs for _ in range(times))
    assert len(said) == _N_SAID
    return said


_GSM8K = "gsm8k/gsm8k-cot.yaml"


def _shown(doc: Document) -> str:
    """The eight worked examples of the file, then the question."""
    samples = read_plainly(_GSM8K)["fewshot_config"]["samples"]
    examples = [f"Q: {each['question']}\nA: {each['target']}\n\n" for each in samples]
    return "".join(examples) + f"Q: {doc['question']}\nA:"


GSM8K = Family(
    row=28,
    file="gsm8k/gsm8k-cot-self-consistency.yaml",
    task="gsm8k_cot_self_consistency",
    split="test",
    documents=tuple(
        {"question": question, "answer": f"So many.\n#### {answer}"}
        for question, answer in [
            ("Two owls catch 3 voles each. How many?", "6"),
            ("A hive has 1,000 bees and gains 200. How many?", "1,200"),
            ("Nine geese, four leave. How many?", "5"),
            ("A tit lays 8 eggs, all but -8?", "-8"),
        ]
    ),
    answers=(
        _say((1, "The answer is 6."), (63, "The answer is 7.")),
        _say((3, "Hm."), (5, "The answer is 1200"), (56, "The answer is $1,200.")),
        _say((8, "The answer is 4."), (56, "2 + 3. The answer is 5. The answer is 9.")),
        _say((4, "The answer is 8"), (4, "The answer is -8"), (56, "It is -8")),
    ),
    text=lambda _, doc, __: _shown(doc),
    target=lambda _, doc: _gold(doc),
    values=_self_consistency,
    aggregates={f"exact_match,{name}": mean for name in ("score-first", "maj@64", "maj@8")},
    generation={"": {"until": ["Q:", "\n\n"], "do_sample": True, "temperature": 0.2}},
    tags=("chain_of_thought", "self_consistency"),
)
WRITTEN = (ARC, *MMLU, GSM8K)

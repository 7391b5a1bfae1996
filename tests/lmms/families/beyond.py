"""Families beyond the table: targets per model, filters as classes, repeats that stay together,
documents that are prepared, pictures in scoring."""

from __future__ import annotations

import string
from typing import Any

from lmms.families.kit import (
    Document,
    Family,
    Utils,
    beams,
    greedy,
    mean,
    one_argument,
    picture,
    scores,
    shows,
    stub_packages,
    sums,
    two_arguments,
)
from lmms.families.several import BOX_METRICS


def _bare_word(text: str) -> str:
    return text.lower().translate(str.maketrans("", "", string.punctuation))


def _extracted(code: Utils, doc: Document, answer: str) -> dict[str, float]:
    """The family's own filter, then equality but for case and punctuation."""
    with stub_packages():
        (found,) = code.MultiChoiceRegexFilter().apply([[answer]], [doc])
    gold = code.ai2d_doc_to_target(doc, "mcq")
    return {"exact_match,flexible-extract": float(_bare_word(found) == _bare_word(gold))}


AI2D = Family(
    row=0,
    file="ai2d/ai2d.yaml",
    task="ai2d",
    split="test",
    utils="ai2d/utils.py",
    documents=tuple(
        {
            "question": f"What eats the {prey}?",
            "options": ["owl", "vole", "oak", "moth"],
            "answer": answer,
            "image": picture(410 + number),
        }
        for number, (prey, answer) in enumerate(
            [("vole", "0"), ("leaf", "3"), ("moth", "1"), ("acorn", "1")]
        )
    ),
    answers=("A. owl", "d", "The answer is B. vole", "b."),
    text=two_arguments("ai2d_doc_to_text"),
    visuals=shows("ai2d_doc_to_visual"),
    target=lambda code, doc: code.ai2d_doc_to_target(doc, "mcq"),
    values=_extracted,
    aggregates={"exact_match,flexible-extract": mean},
    kwargs_file="ai2d/ai2d.yaml",
    keys=("", "gpt4v", "xcomposer2_4khd"),
    generation=greedy(max_new_tokens=16),
    tags=("public_eval_qwen3_5_family",),
)


def _of_all(code: Utils, doc: Document, answers: tuple[str, ...]) -> dict[str, Any]:
    found = code.process_results(doc, [each.strip() for each in answers])
    return {f"{name},all": value for name, value in found.items()}


_FIRSTS = (2, 4, 8)
AIME = Family(
    row=0,
    file="aime/aime25_nofigures_agg8.yaml",
    task="aime25_nofigures_agg8",
    split="train",
    utils="aime/utils.py",
    documents=tuple(
        {"problem": f"How many nests has tree {number}?", "solution": "Count.", "answer": answer}
        for number, answer in enumerate(["023", "7", "110"])
    ),
    answers=(
        ("\\boxed{23}", "Answer: 23", "24", "23", "", "nothing", "\\boxed{23}", "Answer: 5"),
        ("8", "8", "8", "8", "7", "7", "7", "7"),
        ("one", "two", "three", "110", "four", "five", "six", "seven"),
    ),
    text=one_argument("doc_to_text"),
    values=_of_all,
    aggregates={
        "exact_match,all": mean,
        **{f"{kind}@{n},all": mean for kind in ("cov", "maj", "avg") for n in _FIRSTS},
        "extracted_answers,all": lambda _, items: 999,
        "exact_matches,all": lambda _, items: 999,
    },
    generation={"": {"until": [], "do_sample": True, "temperature": 1.0, "max_new_tokens": 32768}},
    tags=("math_word_problems",),
)

REFCOCO = Family(
    row=0,
    file="refcoco_grounding/refcoco_grounding_test.yaml",
    task="refcoco_grounding_test",
    split="test",
    utils="refcoco_grounding/utils.py",
    documents=tuple(
        {
            "question_id": str(number),
            "image": picture(420 + number, size=(40 + 10 * number, 30)),
            "answer": said,
            "bbox": box,
        }
        for number, (said, box) in enumerate(
            [
                (["left hare", "brown one"], [0.0, 0.0, 20.0, 15.0]),
                (["owl"], [10.0, 5.0, 30.0, 20.0]),
                (["reed", " "], [2.5, 2.5, 5.0, 5.0]),
            ]
        )
    ),
    answers=(
        '```json\n[{"bbox_2d": [0, 0, 500, 500], "label": "hare"}]\n```',
        "It is at [11, 6, 41, 24].",
        "nowhere",
    ),
    text=one_argument("refcoco_grounding_doc_to_text"),
    visuals=shows("refcoco_grounding_doc_to_visual"),
    target=lambda _, doc: doc["bbox"],
    values=scores("refcoco_grounding_process_result"),
    aggregates={
        f"refcoco_grounding_{name}": sums(f"refcoco_grounding_{function}")
        for name, function in BOX_METRICS.items()
    },
    generation=beams(512),
    scores_pictures=True,
)
BEYOND = (AI2D, AIME, REFCOCO)

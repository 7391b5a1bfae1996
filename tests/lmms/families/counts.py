"""Families that are answered with a number or a short word."""

from __future__ import annotations

from lmms.families.kit import (
    Family,
    beams,
    greedy,
    mean,
    picture,
    scores,
    shows,
    sums,
    two_arguments,
)

CHARTQA = Family(
    row=5,
    file="chartqa/chartqa.yaml",
    task="chartqa",
    split="test",
    utils="chartqa/utils.py",
    documents=tuple(
        {
            "type": kind,
            "question": f"How many terns bred in year {number}?",
            "answer": answer,
            "image": picture(110 + number),
        }
        for number, (kind, answer) in enumerate(
            [
                ("human_test", "40"),
                ("human_test", "Blue"),
                ("augmented_test", "0.5"),
                ("augmented_test", "12%"),
                ("augmented_test", "0"),
                ("human_test", "2019"),
            ]
        )
    ),
    answers=("41.5", "blue", "0.53", "0.12", "0", "2019."),
    text=two_arguments("chartqa_doc_to_text"),
    visuals=shows("chartqa_doc_to_visual"),
    values=scores("chartqa_process_results"),
    aggregates={f"relaxed_{name}": mean for name in ("overall", "human_split", "augmented_split")},
    kwargs_file="chartqa/chartqa.yaml",
    keys=("", "qwen_vl"),
    generation=greedy(max_new_tokens=16),
)

_COUNTED = tuple(
    {
        "image": picture(120 + number, "RGBA" if number == 1 else "RGB"),
        "text": text,
        "question": f" How many {thing} are there? ",
        "number": count,
    }
    for number, (text, thing, count) in enumerate(
        [("A flock.", "geese", 7), ("", "eggs", 3), ("A pond.", "newts", 20), ("", "owls", 0)]
    )
)
COUNTBENCH = Family(
    row=8,
    file="countbench/countbench.yaml",
    task="countbench",
    split="test",
    utils="countbench/utils.py",
    documents=_COUNTED,
    answers=("Seven", "4", "twenty ", "none"),
    text=two_arguments("countbench_doc_to_text"),
    visuals=shows("countbench_doc_to_visual"),
    target=shows("countbench_doc_to_target"),
    values=scores("countbench_process_results"),
    aggregates={"acc": mean},
    kwargs_file="countbench/countbench.yaml",
    generation=greedy(max_new_tokens=16),
)
COUNTBENCHQA = Family(
    row=9,
    file="countbenchqa/countbenchqa.yaml",
    task="countbenchqa",
    split="test",
    utils="countbenchqa/utils.py",
    documents=_COUNTED,
    answers=("7", " 3\n", "twenty", "0"),
    text=two_arguments("countbenchqa_doc_to_text"),
    visuals=shows("countbenchqa_doc_to_visual"),
    target=lambda _, doc: doc["number"],
    values=scores("countbenchqa_process_results"),
    aggregates={"acc": mean},
    kwargs_file="countbenchqa/countbenchqa.yaml",
    generation=greedy(max_new_tokens=32),
)
PIXMO_COUNT = Family(
    row=10,
    file="pixmo_count/pixmo_count.yaml",
    task="pixmo_count",
    split="test",
    utils="pixmo_count/utils.py",
    documents=tuple(
        {
            "image": picture(130 + number),
            "question": f"<image>\nHow many {thing} do you see?",
            "answer": answer,
        }
        for number, (thing, answer) in enumerate(
            [("crabs", "4"), ("gulls", "There are 12."), ("seals", " 2 "), ("whelks", "none")]
        )
    ),
    answers=("I see 4 crabs", "12", "3, or 2", "None"),
    text=two_arguments("pixmo_count_doc_to_text"),
    visuals=shows("pixmo_count_doc_to_visual"),
    values=scores("pixmo_count_process_results"),
    aggregates={"acc": mean},
    kwargs_file="pixmo_count/pixmo_count.yaml",
    generation=greedy(max_new_tokens=32),
)

BLIND = Family(
    row=11,
    file="vlmsareblind/vlmsareblind.yaml",
    task="vlmsareblind",
    split="valid",
    utils="vlmsareblind/utils.py",
    documents=tuple(
        {"image": picture(140 + number), "task": task, "prompt": prompt, "groundtruth": answer}
        for number, (task, prompt, answer) in enumerate(
            [
                ("Touching Circles", "Do they touch? Yes or No.", "Yes"),
                ("Touching Circles", "Do they touch?", "No"),
                ("Counting Grid - Blank Grids", "Rows and columns, as {3}{4}?", "4,5"),
                ("Counting Grid - Word Grids", "Rows and columns?", "3,3"),
                ("Circled Letter", "Which letter, in {}?", "q"),
                ("Nested Squares", "How many squares, in {}?", "5"),
                ("Subway Connections", "How many paths?", "2"),
            ]
        )
    ),
    answers=("yes", "No!", "rows={4} columns={5}", "(3, 3)", "{Q}", "{5}", "three"),
    text=two_arguments("vlmsareblind_doc_to_text"),
    visuals=shows("vlmsareblind_doc_to_visual"),
    target=lambda _, doc: doc["groundtruth"],
    values=scores("vlmsareblind_process_results"),
    aggregates={"accuracy": mean, "accuracy_by_task": sums("vlmsareblind_aggregate_by_task")},
    kwargs_file="vlmsareblind/vlmsareblind.yaml",
    generation=beams(32),
)
BIASED = Family(
    row=12,
    file="vlms_are_biased/vlms_are_biased.yaml",
    task="vlms_are_biased",
    split="main",
    utils="vlms_are_biased/utils.py",
    documents=tuple(
        {
            "image": picture(150 + number),
            "prompt": "How many legs does this animal have? Answer in curly brackets.",
            "ground_truth": truth,
            "expected_bias": bias,
            "topic": topic,
        }
        for number, (truth, bias, topic) in enumerate(
            [
                ("5", "4", "Animals"),
                ("3", "2", "Animals"),
                ("Yes", "No", "Optical Illusion"),
                ("No", "Yes", "Optical Illusion"),
                ("4", "3", "Logos"),
            ]
        )
    ),
    answers=("{5}", "2", "{no}", "No.", "four or 4"),
    text=two_arguments("vlms_are_biased_doc_to_text"),
    visuals=shows("vlms_are_biased_doc_to_visual"),
    target=lambda _, doc: doc["ground_truth"],
    values=scores("vlms_are_biased_process_results"),
    aggregates={
        "accuracy": mean,
        "bias_ratio": mean,
        "accuracy_by_topic": sums("vlms_are_biased_aggregate_by_topic"),
    },
    kwargs_file="vlms_are_biased/vlms_are_biased.yaml",
    generation=beams(32),
    lower_is_better=("bias_ratio",),
)
FSC147 = Family(
    row=17,
    file="fsc147/fsc147.yaml",
    task="fsc147",
    split="train",
    utils="fsc147/utils.py",
    documents=tuple(
        {
            "image": picture(160 + number),
            "pos_caption": caption,
            "annotated_pos_count": count,
        }
        for number, (caption, count) in enumerate(
            [("The limpets.", 31), ("bees ", 8), (" ", 120), ("the ants", 1), ("Mussels", 2)]
        )
    ),
    answers=("31", "about 9 bees", "1,200", "-1", "many"),
    text=two_arguments("fsc147_doc_to_text"),
    visuals=shows("fsc147_doc_to_visual"),
    target=shows("fsc147_doc_to_target"),
    values=scores("fsc147_process_results"),
    aggregates={
        "fsc147_exact_match": sums("fsc147_aggregate_exact_match"),
        "fsc147_mae": sums("fsc147_aggregate_mae"),
    },
    kwargs_file="fsc147/fsc147.yaml",
    generation=greedy(max_new_tokens=32),
    lower_is_better=("fsc147_mae",),
)
COUNTS = (CHARTQA, COUNTBENCH, COUNTBENCHQA, PIXMO_COUNT, BLIND, BIASED, FSC147)

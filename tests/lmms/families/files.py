"""Families that read plain files of their own, and the group of worlds."""

from __future__ import annotations

from dataclasses import replace

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

OFFICEQA = Family(
    row=29,
    file="officeqa/officeqa.yaml",
    task="officeqa",
    split="train",
    utils="officeqa/utils.py",
    builder="csv",
    documents=tuple(
        {"uid": f"u{number}", "question": question, "answer": answer, "difficulty": "easy"}
        for number, (question, answer) in enumerate(
            [
                ("How many traps were bought?", "1,250"),
                ("Which warden signed, and when?", "May Wren"),
                ("What share was spent?", "12.5%"),
                ("How many were returned?", "0"),
                ('Which site is "wet"?', "Site B, lower"),
            ]
        )
    ),
    answers=("1300", "may  wren", "0.127", "0.0", "Site C"),
    text=two_arguments("officeqa_doc_to_text"),
    visuals=shows("officeqa_doc_to_visual"),
    target=shows("officeqa_doc_to_target"),
    values=scores("officeqa_process_results"),
    aggregates={"officeqa_relaxed_accuracy": mean},
    kwargs_file="officeqa/officeqa.yaml",
    keys=("", "qwen_vl"),
    generation=greedy(max_new_tokens=64),
)

PLATES = tuple(f"plates/plate_{number}.png" for number in range(4))
"""pictures that documents name; the family looks for them in a folder the environment names"""
PLATES_ROOT = "MMLONGBENCH_IMAGE_ROOT"
MMLONGBENCH = Family(
    row=29,
    file="mmlongbench/mmlongbench.yaml",
    task="mmlongbench",
    split="train",
    utils="mmlongbench/utils.py",
    builder="json",
    documents=tuple(
        {
            "id": number,
            "category": category,
            "question": f"How many bees are on each plate? ({number})",
            "answer": answer,
            "ctxs": [
                {"type": "text", "text": "A page of the field book.", "image": None},
                {"type": "image", "text": None, "image": PLATES[number]},
            ],
            "image_list": shown,
            "needle_image_list": [PLATES[3]],
        }
        for number, (category, answer, shown) in enumerate(
            [
                ("counting", [1, 2], [PLATES[0], PLATES[1]]),
                ("counting", [3], [PLATES[1]]),
                ("finding", [0, 4], [PLATES[2], "plates/not_there.png", PLATES[2]]),
            ]
        )
    ),
    answers=("Answer: [2, 1]", "there are 4", "[4] or [0, 3]"),
    text=two_arguments("mmlongbench_doc_to_text"),
    visuals=shows("mmlongbench_doc_to_visual"),
    values=scores("mmlongbench_process_results"),
    aggregates={"mmlongbench_acc": sums("mmlongbench_aggregate_results")},
    kwargs_file="mmlongbench/mmlongbench.yaml",
    generation=greedy(max_new_tokens=128),
)

_WORLD = Family(
    row=30,
    file="wm_abench/wm_abench_visualattribute_color_subset.yaml",
    task="wm_abench_visualattribute_color_subset",
    split="test",
    utils="wm_abench/utils.py",
    documents=tuple(
        {
            "source": [picture(360 + 2 * number + each) for each in range(1 + number % 2)],
            "prompt": f"What colour is beak {number}? 1. red\n2. blue\n3. grey",
            "choices_str_letter": "A. red\nB. blue\nC. grey",
            "answer": answer,
        }
        for number, answer in enumerate(["1", "B", "3", "a"])
    ),
    answers=("A", "(B) blue", "[SAFETY_BLOCKED: no]", "I would say b"),
    text=two_arguments("wm_abench_doc_to_text"),
    visuals=shows("wm_abench_doc_to_visual"),
    target=shows("wm_abench_doc_to_target"),
    values=scores("wm_abench_process_results"),
    aggregates={
        "wm_abench_acc": sums("wm_abench_aggregate_results"),
        "wm_abench_acc_clean": sums("wm_abench_aggregate_results_clean"),
        "wm_abench_blocked_rate": sums("wm_abench_aggregate_blocked_rate"),
    },
    kwargs_file="wm_abench/_default_template_yaml",
    generation=beams(16),
    lower_is_better=("wm_abench_blocked_rate",),
    tags=("wm_abench_subtasks",),
)
WORLDS = (
    _WORLD,
    replace(
        _WORLD,
        file="wm_abench/wm_abench_motiondirection_tdw_subset.yaml",
        task="wm_abench_motiondirection_tdw_subset",
        documents=tuple(
            {
                "source": [picture(370 + number)],
                "image_choices": [picture(380 + 4 * number + each) for each in range(3)],
                "prompt": "Which picture comes next?",
                "answer": answer,
            }
            for number, answer in enumerate([0, 1, 2])
        ),
        answers=("0", "B", " 2 "),
    ),
    replace(
        _WORLD,
        file="wm_abench/wm_abench_speed_tdw_subset.yaml",
        task="wm_abench_speed_tdw_subset",
        documents=tuple(
            {"source": picture(400 + number, "L"), "prompt": "Is it fast?", "answer": answer}
            for number, answer in enumerate(["Yes", "no ", "yes"])
        ),
        answers=("yes", "No", "[SAFETY_BLOCKED: tired]"),
    ),
)
FILES = (OFFICEQA, MMLONGBENCH, *WORLDS)

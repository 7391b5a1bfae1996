"""Families that are answered with the letter of a choice."""

from __future__ import annotations

from dataclasses import replace

from lmms.families.kit import (
    BLANK_LINE,
    TASKS,
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

CV_BENCH = Family(
    row=13,
    file="cv_bench/cv_bench.yaml",
    task="cv_bench",
    split="test",
    utils="cv_bench/utils.py",
    documents=tuple(
        {
            "idx": number,
            "type": kind,
            "task": task,
            "image": picture(170 + number),
            "question": "Which is nearer?",
            "choices": ["the owl", "the wren", "the crow", "the tit"][:n_choices],
            "answer": answer,
            "prompt": "Which is nearer? Select from the following choices. ({letters})",
            "source": source,
        }
        for number, (kind, task, n_choices, answer, source) in enumerate(
            [
                ("2D", "Count", 4, "(C)", "ADE20K"),
                ("2D", "Relation", 2, "(A)", "COCO"),
                ("3D", "Depth", 2, "(B)", "Omni3D"),
                ("3D", "Distance", 3, "(A)", "Omni3D"),
                ("2D", "Count", 4, "(D)", "COCO"),
            ]
        )
    ),
    answers=("(C) the crow", "a", "B.", "the owl", ""),
    text=two_arguments("cv_bench_doc_to_text"),
    visuals=shows("cv_bench_doc_to_visual"),
    values=scores("cv_bench_process_results"),
    aggregates={"cv_bench_acc": sums("cv_bench_aggregate_results")},
    kwargs_file="cv_bench/_default_template_yaml",
    generation={"": {"max_new_tokens": 1024, "until": BLANK_LINE}},
)
CV_BENCHES = (
    CV_BENCH,
    replace(CV_BENCH, file="cv_bench/cv_bench_2d.yaml", task="cv_bench_2d"),
    replace(CV_BENCH, file="cv_bench/cv_bench_3d.yaml", task="cv_bench_3d"),
)

PUZZLES = Family(
    row=14,
    file="VisualPuzzles/VisualPuzzles_cot.yaml",
    task="VisualPuzzles_cot",
    split="train",
    utils="VisualPuzzles/utils.py",
    documents=tuple(
        {
            "id": number,
            "category": "Analogical",
            "image": picture(180 + number, mode),
            "question": f" Which feather comes next? ({number}) ",
            "options": options,
            "answer": answer,
        }
        for number, (options, answer, mode) in enumerate(
            [
                (["barred", "plain", "spotted", "white"], "A", "RGB"),
                (None, "B", "L"),
                (["one", "two", "three", "four"], "C", "RGBA"),
                (["up", "down", "left", "right"], "D", "RGB"),
                (None, "A", "RGB"),
            ]
        )
    ),
    answers=(
        "First look at the bars.\n\nThen count.\nAnswer: A",
        "Answer: (c), or (B)",
        "So it must be three",
        "It is {D}",
        "$b$",
    ),
    text=two_arguments("VisualPuzzles_doc_to_text"),
    visuals=shows("VisualPuzzles_doc_to_visual"),
    values=scores("VisualPuzzles_process_result"),
    aggregates={"exact_match": mean},
    kwargs_file="VisualPuzzles/VisualPuzzles_cot.yaml",
    generation=beams(4096),
)
GEOMETRY3K = Family(
    row=16,
    file="geometry3k/geometry3k.yaml",
    task="geometry3k",
    split="test",
    utils="geometry3k/utils.py",
    documents=tuple(
        {
            "images": [picture(190 + 2 * number + each) for each in range(n_pictures)],
            "problem": f"<image>Find the wing angle {number}.",
            "choices": ["12.5", "90", "8 \\sqrt { 3 }", "45"],
            "ground_truth": answer,
        }
        for number, (n_pictures, answer) in enumerate([(1, "A"), (2, "B"), (1, "C"), (1, "D")])
    ),
    answers=("Answer: A", "Let us see: A) no, so B.", "It is 8 \\sqrt { 3 }", "wings"),
    text=two_arguments("geometry3k_doc_to_text"),
    visuals=shows("geometry3k_doc_to_visual"),
    target=lambda _, doc: doc["ground_truth"],
    values=scores("geometry3k_process_results"),
    aggregates={"exact_match": mean},
    kwargs_file="geometry3k/geometry3k.yaml",
    keys=("", "cot"),
    generation=greedy(max_new_tokens=1024),
)
VMCBENCH = Family(
    row=19,
    file="vmcbench/vmcbench.yaml",
    task="vmcbench",
    split="dev",
    utils="vmcbench/utils.py",
    documents=tuple(
        {
            "index": number,
            "image": picture(200 + number),
            "question": f"What is on leaf {number}?",
            "answer": answer,
            "category": category,
            "A": "an aphid",
            "B": "a gall",
            "C": "dew",
            "D": "rust",
        }
        for number, (category, answer) in enumerate(
            [
                ("SEEDBench", "A"),
                ("MMMU", "B"),
                ("TextVQA", "C"),
                ("ChartQA", "D"),
                ("VQAv2", "A"),
                ("OCRVQA", "B"),
            ]
        )
    ),
    answers=(
        "A",
        "(B)",
        "D. rust",
        "(A) looks wrong, so (D)",
        "there is an aphid on the leaf",
        "B!",
    ),
    text=two_arguments("vmcbench_doc_to_text"),
    visuals=shows("vmcbench_doc_to_visual"),
    values=scores("vmcbench_process_results"),
    aggregates={
        name: sums("vmcbench_aggregate_results")
        for name in ("general", "reason", "doc", "ocr", "average")
    },
    kwargs_file="vmcbench/vmcbench.yaml",
    generation={"": {"until": BLANK_LINE, "do_sample": False}},
)

_VISRES = Family(
    row=24,
    file="",
    task="",
    split="test",
    utils="visres_bench/utils.py",
    documents=tuple(
        {
            "id": f"v{number}",
            "images": [picture(210 + 3 * number + each, mode) for each in range(2)],
            "guided_question": f"Blur hides a part of panel {number}. Which patch fits?",
            "generic_question": f"Which patch fits panel {number}?",
            "answer": answer,
        }
        for number, (answer, mode) in enumerate([("A", "RGB"), ("B", "L"), ("C", "RGB")])
    ),
    answers=("A) the first", "b", "C"),
    text=two_arguments("visres_bench_doc_to_text"),
    visuals=shows("visres_bench_doc_to_visual"),
    values=scores("vp_process_results"),
    aggregates={"exact_match": mean},
    kwargs_file="visres_bench/_default_template_visres_bench_yaml",
    keys=("", "generic"),
    generation={"": {"until": BLANK_LINE, "do_sample": False}},
)
VISRES = tuple(
    replace(_VISRES, file=f"visres_bench/{path.name}", task=path.stem)
    for path in sorted((TASKS / "visres_bench").glob("visres_bench_*.yaml"))
)
"""28 tiny files that include the same one"""
LETTERS = (*CV_BENCHES, PUZZLES, GEOMETRY3K, VMCBENCH, *VISRES)

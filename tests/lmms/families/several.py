"""Families with several pictures, boxes, messages of their own, or many metrics."""

from __future__ import annotations

from typing import Any

from lmms.families.kit import (
    BLANK_LINE,
    Document,
    Family,
    Utils,
    greedy,
    mean,
    one_argument,
    picture,
    scores,
    shows,
    sums,
    two_arguments,
)


def _edits(a: str, b: str) -> int:
    """Levenshtein's distance, by its recursion."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row, before = [i], row
        for j, y in enumerate(b, 1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y)))
    return row[-1]


def _anls(_: Utils, doc: Document, answer: str) -> dict[str, float]:
    """The best likeness to any reference; below one half it is nothing."""
    likeness = [
        1 - _edits(" ".join(each.lower().split()), " ".join(answer.lower().split())) / longest
        for each in doc["answers"]
        if (longest := max(len(each), len(answer)))
    ]
    best = max(likeness)
    return {"anls": best if best >= 0.5 else 0.0}


ICONQA = Family(
    row=15,
    file="iconqa/iconqa_test.yaml",
    task="iconqa_test",
    split="test",
    utils="iconqa/utils.py",
    documents=tuple(
        {
            "question_id": str(number),
            "question": f"Which icon is a beetle ({number})",
            "choices": choices,
            "answers": answers,
            "ques_type": kind,
            "query_image": picture(220 + 3 * number),
            "choice_image_0": picture(221 + 3 * number, "L") if kind == "choose_img" else None,
            "choice_image_1": picture(222 + 3 * number) if kind == "choose_img" else None,
        }
        for number, (kind, choices, answers) in enumerate(
            [
                ("choose_img", "", ["A", "The first image."]),
                ("choose_txt", "stag beetle,weevil,ladybird", ["stag beetle"]),
                ("fill_in_blank", "", ["forty two", "42"]),
                ("choose_txt", "wasp,fly", ["Wasp"]),
                ("fill_in_blank", "", ["moth"]),
            ]
        )
    ),
    answers=("the first image", "stag  beatle", "42", "A fly", "mother"),
    text=two_arguments("doc_to_text"),
    visuals=shows("doc_to_visual"),
    target=lambda _, doc: doc["answers"],
    values=_anls,
    aggregates={"anls": mean},
    kwargs_file="iconqa/_default_template_docvqa_yaml",
    generation=greedy(max_new_tokens=32),
)

_MIRB = (
    ("food", "A", "A. the left one"),
    ("sightseeing", "paris", "I think it is Paris."),
    ("codeu", "B", "B"),
    ("plot_code", "line", "a line plot"),
    ("analogy", "seed", "So the answer is seed"),
    ("3d_scene", "4", "There are 4 of them."),
    ("image_jigsaw", "C", "(C)"),
    ("count", "1,200", "1200"),
    ("attribute", "red", "blue"),
    ("visual_chain", "7", "3 + 4 = 7"),
    ("arxiv", "On Bees", "on bees"),
)
MIRB = Family(
    row=18,
    file="mirb/mirb.yaml",
    task="mirb",
    split="test",
    utils="mirb/utils.py",
    documents=tuple(
        {
            "question_id": number,
            "subset": subset,
            "questions": f" Question {number} about these nests?",
            "answers": answer,
            "image_list": [picture(240 + 4 * number + n, "LA") for n in range(1 + number % 3)],
        }
        for number, (subset, answer, _) in enumerate(_MIRB)
    ),
    answers=tuple(each[2] for each in _MIRB),
    text=two_arguments("mirb_doc_to_text"),
    visuals=shows("mirb_doc_to_visual"),
    target=shows("mirb_doc_to_target"),
    values=scores("mirb_process_results"),
    aggregates={"mirb_score": sums("mirb_aggregation")},
    kwargs_file="mirb/mirb.yaml",
    generation=greedy(max_new_tokens=64),
)

_MMSI_KINDS = (
    *(f"Positional Relationship ({each})" for each in ("Obj.–Obj.", "Cam.–Obj.", "Cam.–Cam.")),
    *(f"Positional Relationship ({each})" for each in ("Obj.–Reg.", "Cam.–Reg.", "Reg.–Reg.")),
    *("Attribute (Meas.)", "Attribute (Appr.)", "Motion (Obj.)", "Motion (Cam.)", "MSR"),
)
_NEO: dict[str, Any] = {
    "patch_size": 16,
    "min_pixels": 691200,
    "max_pixels": 691200,
    "downsample_ratio": 0.5,
    "system_prompt": "",
    "max_new_tokens": 4096,
    "temperature": None,
    "top_p": None,
    "repetition_penalty": None,
}
MMSI = Family(
    row=20,
    file="mmsi_bench/msr_bench.yaml",
    task="mmsi_bench",
    split="test",
    utils="mmsi_bench/utils.py",
    documents=tuple(
        {
            "id": number,
            "images": [picture(290 + 4 * number + each) for each in range(n_pictures)],
            "question_type": kind,
            "question": f" Where is the hive seen from tree {number}? ",
            "answer": answer,
        }
        for number, (kind, answer, n_pictures) in enumerate(
            [
                ("Positional Relationship (Obj.-Obj.)", "A", 2),
                ("Positional Relationship (Obj.–Obj.)", "B", 3),
                ("Attribute (Meas.)", "C", 1),
                ("Motion (Cam.)", "D", 2),
                ("MSR", "A", 2),
                ("MSR", "B", 1),
            ]
        )
    ),
    answers=("``A``", "`c`", "{C}", "It is D.", "no letter", "the answer is B"),
    text=two_arguments("msr_doc_to_text"),
    visuals=shows("msr_doc_to_visual"),
    messages=lambda code, doc, kwargs: code.msr_doc_to_messages(doc, kwargs),
    values=scores("msr_process_results"),
    aggregates={name: sums("msr_aggregate_results") for name in (*_MMSI_KINDS, "average")},
    kwargs_file="mmsi_bench/msr_bench.yaml",
    keys=("", "neo_ov"),
    generation={
        **greedy(max_new_tokens=2048),
        "neo_ov": {"do_sample": False, "until": BLANK_LINE, **_NEO},
    },
    unheard=(*_MMSI_KINDS[1:6], "Attribute (Appr.)", "Motion (Obj.)"),
)

_VIEW_KINDS = {
    "Camera perspective - Relative Direction": "camera_perspective_relative_direction",
    "Camera perspective - Object View Orientation": "camera_perspective_object_view_orientation",
    "Person perspective - Relative Direction": "person_perspective_relative_direction",
    "Person perspective - Object View Orientation": "person_perspective_object_view_orientation",
    "Person perspective - Scene Simulation Relative Direction": (
        "person_perspective_scene_simulation_relative_direction"
    ),
}
VIEWSPATIAL = Family(
    row=21,
    file="viewspatial/viewspatial.yaml",
    task="viewspatial",
    split="test",
    utils="viewspatial/utils.py",
    documents=tuple(
        {
            "question_type": kind,
            "images": [picture(320 + number)],
            "question": "Where does the hare look?",
            "choices": "A. left\nB. right\nC. up\nD. down",
            "answer": answer,
        }
        for number, (kind, answer) in enumerate(
            zip(_VIEW_KINDS, ("A. left", "B. right", "C. up", "D. down", "A. left"), strict=True)
        )
    ),
    answers=("A", "It looks\nB. right", "d", "(D)", "left"),
    text=two_arguments("viewspatial_doc_to_text"),
    visuals=shows("viewspatial_doc_to_visual"),
    messages=lambda code, doc, kwargs: code.viewspatial_doc_to_messages(doc, kwargs),
    values=scores("viewspatial_process_results"),
    aggregates={
        "overall_accuracy": sums("viewspatial_aggregate_results"),
        **{
            f"{name}_accuracy": sums(f"viewspatial_aggregate_{name}")
            for name in _VIEW_KINDS.values()
        },
    },
    kwargs_file="viewspatial/viewspatial.yaml",
    keys=("", "neo_ov"),
    generation={
        "": {"until": BLANK_LINE, "do_sample": False},
        "neo_ov": {"until": BLANK_LINE, "do_sample": False, **_NEO},
    },
)

BOX_METRICS = {
    "IoU": "iou",
    "ACC@0.1": "acc01",
    "ACC@0.3": "acc03",
    "ACC@0.5": "acc05",
    "ACC@0.7": "acc07",
    "ACC@0.9": "acc09",
    "Center_ACC": "center_acc",
}
SCREENSPOT = Family(
    row=22,
    file="screenspot/screenspot_rec_test.yaml",
    task="screenspot_rec_test",
    split="test",
    utils="screenspot/utils_rec.py",
    documents=tuple(
        {
            "file_name": f"screen_{number}.png",
            "bbox": box,
            "instruction": f"open the nest box {number}",
            "data_type": kind,
            "data_source": source,
            "image": picture(330 + number, "RGBA"),
        }
        for number, (box, kind, source) in enumerate(
            [
                ([0.1, 0.1, 0.5, 0.5], "text", "ios"),
                ([0.0, 0.0, 0.25, 1.0], "icon", "windows"),
                ([0.4, 0.2, 0.9, 0.8], "icon", "gitlab"),
                ([0.3, 0.3, 0.6, 0.6], "text", "macos"),
            ]
        )
    ),
    answers=("[0.1, 0.1, 0.5, 0.5]", "(0, 0, 500, 1000)", "nowhere", "near [0.35,0.3,0.6,0.7]."),
    text=one_argument("screenspot_rec_doc_to_text"),
    visuals=shows("screenspot_rec_doc_to_visual"),
    target=lambda _, doc: doc["bbox"],
    values=scores("screenspot_rec_process_result"),
    aggregates={
        f"screenspot_{name}": sums(f"screenspot_rec_{function}")
        for name, function in BOX_METRICS.items()
    },
    generation={"": {"until": ["ASSISTANT:"]}},
    tags=("screenspot_rec",),
)

_SHARES = ("precision", "recall", "f1")
SALBENCH = Family(
    row=23,
    file="salbench/o3.yaml",
    task="o3",
    split="test",
    utils="salbench/utils.py",
    documents=tuple(
        {
            "image_id": f"o{number}",
            "image": picture(340 + number),
            "question": " What is odd about one of the beetles? ",
            "answer": answer,
        }
        for number, answer in enumerate(
            ["Color", "Orientation, Size", "Shape", "Size", "Color,Pattern"]
        )
    ),
    answers=("[Color]", "size", "colour", "Size, Color", "pattern, color"),
    text=one_argument("p3o3_doc_to_text"),
    visuals=shows("p3o3_doc_to_visual"),
    values=scores("o3_process_results"),
    aggregates={
        **{
            name: sums("aggregate_per_sample_score")
            for name in ("exact_match", *(f"sample_{share}" for share in _SHARES))
        },
        **{f"all_cat_{share}": sums(f"p3_aggregate_all_category_{share}") for share in _SHARES},
        **{
            f"{trait}_{share}": sums(f"aggregate_per_category_{share}")
            for trait in ("orientation", "color", "size")
            for share in _SHARES
        },
    },
    generation={"": {"max_new_tokens": 128, "until": BLANK_LINE}},
)
SEVERAL = (ICONQA, MIRB, MMSI, VIEWSPATIAL, SCREENSPOT, SALBENCH)

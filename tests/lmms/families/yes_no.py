"""Families that are answered with yes, no or a letter, and scored in pairs, groups or splits."""

from __future__ import annotations

from typing import Any

from lmms.families.kit import (
    BLANK_LINE,
    Document,
    Family,
    Unscored,
    Utils,
    beams,
    greedy,
    mean,
    one_argument,
    picture,
    scores,
    shows,
    sums,
    two_arguments,
)

_MME_PAIRS = (
    ("existence", "m1", "Is there a heron in this image?"),
    ("count", "m2", "Are there two swans in the image?"),
    ("code_reasoning", "m3", "Is 'nest' printed by the code?"),
    ("text_translation", "m4", "Is 'wren' the right word here?"),
)
MME = Family(
    row=1,
    file="mme/mme.yaml",
    task="mme",
    split="test",
    utils="mme/utils.py",
    documents=tuple(
        {
            "question_id": name,
            "image": picture(number, mode),
            "question": f" {question} Please answer yes or no.",
            "answer": answer,
            "category": category,
        }
        for number, (category, name, question) in enumerate(_MME_PAIRS)
        for answer, mode in (("Yes", "RGB"), ("No", "L"))
    ),
    answers=("Yes", "no.", "Yes, two of them", "perhaps", "N", "n", " yes\n", "I know it is not"),
    text=two_arguments("mme_doc_to_text"),
    visuals=shows("mme_doc_to_visual"),
    values=scores("mme_process_results"),
    aggregates={
        "mme_perception_score": sums("mme_aggregate_results"),
        "mme_cognition_score": sums("mme_aggregate_results"),
    },
    kwargs_file="mme/mme.yaml",
    keys=("", "gpt4v", "qwen_vl", "xcomposer2_4khd", "plm", "no_such_model"),
    generation=beams(16),
)

POPE = Family(
    row=2,
    file="pope/pope.yaml",
    task="pope",
    split="test",
    utils="pope/utils.py",
    documents=tuple(
        {
            "id": str(number),
            "question_id": str(100 + number),
            "question": f"Is there a {thing} in the image? ",
            "answer": answer,
            "image_source": f"plate_{number}",
            "image": picture(20 + number),
            "category": "adversarial" if number % 2 else "random",
        }
        for number, (thing, answer) in enumerate(
            zip(
                ("fern", "toad", "moth", "vole", "newt", "crow", "yew"),
                ("yes", "no", "yes", "no", "yes", "yes", "no"),
                strict=True,
            )
        )
    ),
    answers=("Yes", "yes", "no", "No", "<think>no\nor\n</think>\nYES \n", "Hard to say.", "no."),
    text=two_arguments("pope_doc_to_text"),
    visuals=shows("pope_doc_to_visual"),
    values=scores("pope_process_results"),
    aggregates={
        f"pope_{name}": sums(f"pope_aggregate_{name}")
        for name in ("accuracy", "precision", "recall", "f1_score", "yes_ratio")
    },
    kwargs_file="pope/pope.yaml",
    keys=("", "plm"),
    generation=beams(128),
)


def _seed(number: int, kind: str, answer: str, n_pictures: int) -> Document:
    return {
        "question_id": f"s{number}",
        "question": f"What does bird {number} do?",
        "choice_a": "It flies",
        "choice_b": "It sits",
        "choice_c": "It swims over a wide lake",
        "choice_d": "It sings",
        "answer": answer,
        "data_type": kind,
        "image": [picture(40 + 10 * number + each) for each in range(n_pictures)],
    }


_SEED = (
    _seed(0, "image", "A", 1),
    _seed(1, "image", "B", 1),
    _seed(2, "video", "C", 3),
    _seed(3, "image", "D", 1),
    _seed(4, "video", "A", 2),
)
SEEDBENCH = Family(
    row=3,
    file="seedbench/seedbench.yaml",
    task="seedbench",
    split="test",
    utils="seedbench/utils.py",
    documents=_SEED,
    answers=("A", "C. It swims", "c", "D", "None of them"),
    text=one_argument("seed_doc_to_text"),
    visuals=shows("seed_doc_to_visual"),
    values=scores("seed_process_result"),
    aggregates={
        name: sums("seed_aggregation_result") for name in ("seed_image", "seed_video", "seed_all")
    },
    generation={"": {"until": ["ASSISTANT:"], "image_aspect_ratio": "original"}},
)


def choice_values(
    metrics: tuple[str, ...], gold: int, choices: list[str], answer: Any
) -> dict[str, float]:
    """Summed log-probabilities, the best wins, the first of equals; by plain Python."""
    sums_of = [logprob for logprob, _ in answer]
    per_character = [each / len(choice) for each, choice in zip(sums_of, choices, strict=True)]
    found = {
        "acc": float(sums_of.index(max(sums_of)) == gold),
        "acc_norm": float(per_character.index(max(per_character)) == gold),
    }
    return {name: found[name] for name in metrics}


SEEDBENCH_PPL = Family(
    row=4,
    file="seedbench/seedbench_ppl.yaml",
    task="seedbench_ppl",
    split="test",
    utils="seedbench/utils.py",
    documents=_SEED,
    answers=(
        ((-1.5, True), (-2.0, False), (-9.0, False), (-4.0, False)),
        ((-3.0, False), (-2.5, False), (-2.4, True), (-7.0, False)),
        ((-3.0, False), (-3.0, False), (-2.9, True), (-3.1, False)),
        ((-1.0, False), (-1.0, False), (-8.0, False), (-1.0, False)),
        ((-0.5, True), (-0.5, True), (-0.5, True), (-0.5, True)),
    ),
    text=one_argument("seed_doc_to_text_mc"),
    visuals=shows("seed_doc_to_visual"),
    target=shows("seed_doc_to_mc_target"),
    choices=shows("seed_doc_to_choice"),
    values=lambda code, doc, answer: choice_values(
        ("acc",),
        code.seed_doc_to_choice(doc).index(code.seed_doc_to_mc_target(doc)),
        code.seed_doc_to_choice(doc),
        answer,
    ),
    aggregates={"acc": mean},
    output_type="multiple_choice",
)

SCIENCEQA = Family(
    row=6,
    file="scienceqa/scienceqa.yaml",
    task="scienceqa",
    split="test",
    utils="scienceqa/utils.py",
    documents=tuple(
        {
            "image": shown,
            "question": f"Which trait is inherited? ({number})",
            "choices": ["blue eyes", "a scar", "a hat"][:n_choices],
            "answer": answer,
            "hint": hint,
            "subject": "natural science",
        }
        for number, (shown, n_choices, answer, hint) in enumerate(
            [
                (picture(71), 3, 0, "Parents pass on genes."),
                (None, 2, 1, ""),
                (picture(72, "L"), 3, 2, ""),
                (None, 3, 1, "Look at the table."),
                (picture(73), 2, 0, ""),
            ]
        )
    ),
    answers=("A", "b", "C. a hat", "A. blue eyes", "The answer is A"),
    text=two_arguments("sqa_doc_to_text"),
    visuals=shows("sqa_doc_to_visual"),
    target=shows("sqa_doc_to_target"),
    values=scores("sqa_process_results"),
    aggregates={"exact_match": mean},
    kwargs_file="scienceqa/scienceqa.yaml",
    keys=("", "qwen_vl", "llava"),
    generation={
        **greedy(max_new_tokens=16),
        "llava": {**greedy(max_new_tokens=16)[""], "image_aspect_ratio": "original"},
    },
)

_N_NATURAL = 1900 * 4
"""documents without which the family's own aggregations refuse to work"""


def _natural(function: str) -> Any:
    def aggregate(code: Utils, items: list[Any]) -> Any:
        if len(items) != _N_NATURAL:
            raise Unscored
        return getattr(code, function)(items)

    return aggregate


NATURALBENCH = Family(
    row=7,
    file="naturalbench/naturalbench.yaml",
    task="naturalbench",
    split="test",
    utils="naturalbench/utils.py",
    documents=tuple(
        {
            "Index": str(number),
            "Image": picture(80 + number % 2),
            "Question": f"Is the fox asleep? Option: A: it is; B: it is not ({number // 2})",
            "Answer": "Yes" if number % 3 else "No",
            "Question_Type": kind,
            "Source": "made",
        }
        for number, kind in enumerate(["yes_no"] * 4 + ["multiple_choice"] * 4)
    ),
    answers=("Yes.", "no", "Yes or no?", "It sleeps.", "A", "(B)", "B, not A", "neither"),
    text=one_argument("naturalbench_doc_to_text"),
    visuals=shows("naturalbench_doc_to_visual"),
    target=lambda _, doc: "answer",  # the column is called Answer: the word is all there is
    values=scores("naturalbench_process_results"),
    aggregates={
        f"naturalbench_{name}": _natural(f"naturalbench_aggregate_results_{name}")
        for name in ("G_ACC", "Q_ACC", "I_ACC", "ACC")
    },
    generation=beams(16),
    unheard=("naturalbench_ACC",),
)

MMSTAR = Family(
    row=25,
    file="mmstar/mmstar.yaml",
    task="mmstar",
    split="val",
    utils="mmstar/utils.py",
    documents=tuple(
        {
            "index": number,
            "question": f"A bird? Please answer yes or no. ({number})\nOptions: A: wren, B: owl ",
            "image": picture(90 + number, mode),
            "answer": answer,
            "category": category,
            "l2_category": finer,
        }
        for number, (category, finer, answer, mode) in enumerate(
            [
                ("coarse perception", "image emotion", "A", "RGB"),
                ("coarse perception", "image emotion", "B", "L"),
                ("coarse perception", "image scene and topic", "A", "RGB"),
                ("science & technology", "biology & chemistry & physics", "B", "RGBA"),
                ("math", "geometry", "C", "RGB"),
                ("math", "geometry", "D", "RGB"),
            ]
        )
    ),
    answers=("A", "The answer is (A).", "A: wren", "I pick B", "C.", "no idea"),
    text=two_arguments("mmstar_doc_to_text"),
    visuals=shows("mmstar_doc_to_visual"),
    values=scores("mmstar_process_results"),
    aggregates={
        name: sums("mmstar_aggregate_results")
        for name in (
            "coarse perception",
            "fine-grained perception",
            "instance reasoning",
            "logical reasoning",
            "science & technology",
            "math",
            "average",
        )
    },
    kwargs_file="mmstar/_default_template_yaml",
    keys=("", "qwen3_vl"),
    generation={"": {"until": BLANK_LINE, "do_sample": False}},
    tags=("public_eval_qwen3_5_family",),
    unheard=("fine-grained perception", "instance reasoning", "logical reasoning"),
)
YES_NO = (MME, POPE, SEEDBENCH, SEEDBENCH_PPL, SCIENCEQA, NATURALBENCH, MMSTAR)

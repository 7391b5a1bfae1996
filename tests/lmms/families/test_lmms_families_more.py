"""What single documents do not show: other models' prompts, examples, order, files, chance."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from fieldmark.lmms.ask.fields import Fields
from fieldmark.lmms.ask.prompts import build_prompt
from fieldmark.lmms.ask.settings import prompt_kwargs, target_kwargs
from fieldmark.lmms.code.trust import Function
from fieldmark.lmms.data.documents import OpenTask, draw_part, open_documents
from fieldmark.lmms.read.groups import load_document_task
from fieldmark.lmms.run import make_setup
from fieldmark.lmms.score.encoding import encode
from fieldmark.lmms.score.scores import score_document_run
from fieldmark.models import load_chat_model
from fieldmark.protocols import AskSettings, Draw
from lmms.families.beyond import AI2D
from lmms.families.kit import CHECKOUT, TASKS, Document, Family
from lmms.families.letters import GEOMETRY3K, PUZZLES, VISRES, VMCBENCH
from lmms.families.made_data import load, trusted, write_parquet
from lmms.families.scripted import run
from lmms.families.several import MMSI, VIEWSPATIAL
from lmms.families.written import GSM8K, MMLU
from lmms.families.yes_no import MME, NATURALBENCH, SCIENCEQA, SEEDBENCH

pytestmark = pytest.mark.skipif(not CHECKOUT, reason="FIELDMARK_LMMS_EVAL names no checkout")


@pytest.mark.parametrize(
    ("family", "key"),
    [
        (MME, "gpt4v"),
        (MME, "xcomposer2_4khd"),
        (SCIENCEQA, "qwen_vl"),
        (GEOMETRY3K, "cot"),
        (VISRES[0], "generic") if VISRES else (MME, "plm"),
        (MMSI, "neo_ov"),
        (VIEWSPATIAL, "neo_ov"),
    ],
    ids=lambda each: each if isinstance(each, str) else each.task,
)
def test_prompts_of_another_model(family: Family, key: str, tmp_path: Path) -> None:
    _, script = run(family, tmp_path, key)
    assert script.strange == []
    wanted = family.generation.get(key, family.generation[""])
    for body in script.bodies:
        assert wanted.get("max_new_tokens", 1024) in (
            body.get("max_tokens"),
            body.get("max_completion_tokens"),
        )


def test_target_of_another_model(tmp_path: Path) -> None:
    """The letter of the choice for most, its words for one."""
    task = load(AI2D, tmp_path)
    test = open_documents(task, tmp_path / "cache").test
    for key, kind in (("openai", "mcq"), ("qwen_vl", "qa")):
        fields = Fields(task, prompt_kwargs(task, [key]), target_kwargs(task, [key]), test.columns)
        for number in range(len(test)):
            wanted = AI2D.code().ai2d_doc_to_target(AI2D.bare(number), kind)
            assert fields.target(test.document(number)) == wanted


def test_examples_are_the_first_of_their_split(tmp_path: Path) -> None:
    """Description, then examples as text, blank, answer; two newlines after each."""
    family = MMLU[1]
    shown = tuple(
        {"question": f"Which {each}?", "subject": "made", "choices": list("wxyz"), "answer": place}
        for place, each in enumerate(("hoof", "fin", "claw"))
    )
    write_parquet(tmp_path / "dev.parquet", shown)
    write_parquet(tmp_path / "test.parquet", family.documents)
    files = {name: str(tmp_path / f"{name}.parquet") for name in ("test", "dev")}
    data = {
        "dataset_path": "parquet",
        "dataset_name": None,
        "dataset_kwargs": {"data_files": files},
    }
    task = load_document_task(TASKS / family.file, trusted(tmp_path), data)
    for number, text in enumerate(_prompts(task, tmp_path, n_train=2)):
        alone = family.expected_text(number)
        head, _, question = alone.partition("Question:")
        examples = "Question: Which hoof?\nAnswer: w\n\nQuestion: Which fin?\nAnswer: x\n\n"
        assert text == f"{head}{examples}Question:{question}"


def test_examples_that_the_file_lists(tmp_path: Path) -> None:
    task = load(GSM8K, tmp_path)
    assert task.num_fewshot == 8
    wanted = [GSM8K.expected_text(number) for number in range(len(GSM8K.documents))]
    assert _prompts(task, tmp_path, n_train=8) == wanted


def test_repeats_tell_how_often_each_is_right(tmp_path: Path) -> None:
    """Of 64 answers to a question, each scored by itself."""
    found, _ = run(GSM8K, tmp_path)
    ours = {score.metric: score.value for score in found.scores}
    shares = []
    for number, answers in enumerate(GSM8K.answers):
        alone = [GSM8K.values(None, GSM8K.bare(number), (each,)) for each in answers]
        shares.append(sum(each["exact_match,score-first"] for each in alone) / len(answers))
    assert ours["exact_match/mean_accuracy,score-first"] == pytest.approx(sum(shares) / len(shares))
    assert 0 < min(shares) < max(shares) < 1


def _prompts(task: Any, folder: Path, n_train: int) -> list[str]:
    draw = Draw(n_train=n_train, n_test=-1, seed=0)
    part = draw_part(OpenTask(f"{folder} {n_train}", task, folder / "cache"), draw)
    setup = make_setup(part, load_chat_model("chat/mock/wren"), draw, AskSettings())
    return [build_prompt(setup, row).text for row in part.rows]


def test_aggregations_see_documents_in_their_order() -> None:
    """7,600 documents, fours of one question pair; the family's code checks their order.

    The store gives rows in the order of their ids as texts: 0, 1, 10, 100, …
    """
    code = NATURALBENCH.code()
    said = ["yes", "no", "no", "yes", "Yes", "yes", "no", "maybe", "no", "no", "no", "yes"]
    rows: list[Document] = []
    for number in range(1900 * 4):
        doc = {"Index": str(number), "Question_Type": "yes_no"}
        values = code.naturalbench_process_results(doc, [said[number % len(said)]])
        rows.append({"id": str(number), "values": values})
    task = load_document_task(TASKS / NATURALBENCH.file, trusted())
    scores = score_document_run(task, _as_stored(rows), 0, None)
    ours = {score.metric: score.value for score in scores}
    for name in ("G_ACC", "Q_ACC", "I_ACC"):
        items = [each["values"][f"naturalbench_{name}"] for each in rows]
        wanted = getattr(code, f"naturalbench_aggregate_results_{name}")(items)
        assert ours[f"naturalbench_{name}"] == pytest.approx(wanted)
        assert 0 < wanted < 1
    assert math.isnan(ours["naturalbench_ACC"]), "no document has it: the function writes Acc"
    for score in scores:
        assert score.low is None, "resamples of these documents are refused by the function"


def _as_stored(rows: list[Document]) -> pl.DataFrame:
    kept = [
        {
            "id": row["id"],
            "outcome": "ok",
            "unit": None,
            "info": json.dumps(
                {"values": {"none": {k: encode(v) for k, v in row["values"].items()}}}
            ),
        }
        for row in sorted(rows, key=lambda row: row["id"])
    ]
    return pl.DataFrame(kept, schema_overrides={"unit": pl.String})


def test_files_of_an_aggregation_go_to_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One function of the family writes `./seed_submission.json`."""
    monkeypatch.chdir(tmp_path)
    function = "utils.seed_aggregation_result_all"
    writing = {
        "metric": "seed_all",
        "aggregation": Function(function, TASKS / SEEDBENCH.file),
        "higher_is_better": True,
    }
    task = load(SEEDBENCH, tmp_path, metric_list=[writing])
    every = [SEEDBENCH.expected_values(number) for number in range(len(SEEDBENCH.documents))]
    rows = [{"id": str(number), "values": values} for number, values in enumerate(every)]
    (score,) = score_document_run(task, _as_stored(rows), 0, tmp_path / "results")
    assert score.value == pytest.approx(SEEDBENCH.expected_aggregates()["seed_all"])
    written = json.loads((tmp_path / "results" / "seed_submission.json").read_text())
    assert [each["prediction"] for each in written] == [each["seed_all"]["pred"] for each in every]
    assert not (tmp_path / "seed_submission.json").exists()


@pytest.mark.parametrize("family", [PUZZLES, VMCBENCH], ids=lambda family: family.task)
def test_guesses_of_task_code_do_not_depend_on_the_run(family: Family, tmp_path: Path) -> None:
    """Where no letter is found the family's code draws one from the global random state."""
    unclear = tuple("..." for _ in family.documents)
    found = []
    for number in range(2):
        (tmp_path / str(number)).mkdir()
        kept, _ = run(replace(family, answers=unclear), tmp_path / str(number))
        found.append(kept.predictions["score"].to_list())
    assert found[0] == found[1]

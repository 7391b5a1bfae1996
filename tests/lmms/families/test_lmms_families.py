"""Are prompts, requests, values and aggregates those of the tasks' own functions?"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fieldmark.lmms.ask.fields import Fields
from fieldmark.lmms.ask.settings import generation_kwargs, prompt_kwargs, target_kwargs
from fieldmark.lmms.code.call import load_function
from fieldmark.lmms.data.documents import open_documents
from fieldmark.lmms.data.pictures import to_picture
from fieldmark.lmms.metrics.registry import aggregation, document_metric
from fieldmark.lmms.metrics.values import choice_values
from fieldmark.lmms.read.groups import load_document_task
from lmms.families.families import EVERY, FAMILIES
from lmms.families.files import PLATES_ROOT
from lmms.families.kit import CHECKOUT, TASKS, Family
from lmms.families.made_data import load, same_pixels, trusted, write_plates

pytestmark = pytest.mark.skipif(not CHECKOUT, reason="FIELDMARK_LMMS_EVAL names no checkout")
each_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.task)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("families")
    write_plates(made)
    return made


@pytest.fixture(autouse=True)
def _plates(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PLATES_ROOT, str(folder))


def fields_of(family: Family, task: Any, columns: Any, key: str) -> Fields:
    keys = [key] if key else []
    return Fields(task, prompt_kwargs(task, keys), target_kwargs(task, keys), columns)


@each_family
def test_documents_are_read_as_they_were_made(family: Family, folder: Path) -> None:
    test = open_documents(load(family, folder), folder / "cache").test
    assert len(test) == len(family.documents)
    assert set(test.columns) == set(family.documents[0])
    for number in range(len(test)):
        assert test.document(number) == family.bare(number)


@each_family
def test_texts_targets_and_choices(family: Family, folder: Path) -> None:
    task = load(family, folder)
    test = open_documents(task, folder / "cache").test
    code = family.code()
    for key in family.keys:
        fields = fields_of(family, task, test.columns, key)
        for number in range(len(test)):
            doc, bare = test.document(number), family.bare(number)
            head = fields.description(doc)
            if "fewshot_config" not in task.model_fields_set or not task.num_fewshot:
                assert head + fields.text(doc) == family.expected_text(number, key)
            assert fields.target(doc) == family.target(code, bare)
            assert fields.has_choices == (family.choices is not None)
            if family.choices is not None:
                assert fields.choices(doc) == family.choices(code, bare)


@each_family
def test_pictures(family: Family, folder: Path) -> None:
    task = load(family, folder)
    test = open_documents(task, folder / "cache").test
    fields = fields_of(family, task, test.columns, "")
    assert fields.has_visuals == (family.visuals is not None)
    for number in range(len(test)):
        ours = fields.visuals(test.document(number, media=True))
        theirs = family.expected_visuals(number)
        assert len(ours) == len(theirs)
        for mine, wanted in zip(ours, theirs, strict=True):
            assert same_pixels(mine, wanted)
            sent = Image.open(io.BytesIO(to_picture(mine).read())).convert("RGB")
            shown = Image.open(wanted) if isinstance(wanted, str) else wanted
            assert np.array_equal(np.asarray(sent), np.asarray(shown.convert("RGB")))


@pytest.mark.parametrize(
    "family", [each for each in FAMILIES if each.messages], ids=lambda family: family.task
)
def test_messages_of_the_task_itself(family: Family, folder: Path) -> None:
    assert family.messages is not None
    task = load(family, folder)
    test = open_documents(task, folder / "cache").test
    for key in family.keys:
        fields = fields_of(family, task, test.columns, key)
        for number, doc in enumerate(family.documents):
            ours = fields.messages(test.document(number, media=True))
            theirs = family.messages(family.code(), doc, family.kwargs(key))
            assert len(ours) == len(theirs)
            assert _plain(ours) == _plain(theirs)


def _plain(value: Any) -> Any:
    if isinstance(value, Image.Image):
        return value.mode, np.asarray(value).tolist()
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


@each_family
def test_what_the_file_says(family: Family, folder: Path) -> None:
    task = load(family, folder)
    assert (task.task, task.eval_split) == (family.task, family.split)
    assert task.output_type == family.output_type
    assert task.tag + task.group == family.tags
    for item in task.metric_list or ():
        assert (item.higher_is_better is False) == (item.name in family.lower_is_better)
    for key in family.keys if family.generation else ():
        wanted = family.generation.get(key, family.generation[""])
        assert generation_kwargs(task, [key] if key else []) == wanted


@pytest.mark.parametrize(
    "family", [each for each in FAMILIES if each.choices], ids=lambda family: family.task
)
def test_values_of_choices(family: Family, folder: Path) -> None:
    assert family.choices is not None
    task = load(family, folder)
    named = [item.name for item in task.metric_list or ()]
    if task.metric_list is None:
        named = ["acc", "acc_norm"]
    every = []
    for number, answer in enumerate(family.answers):
        bare, code = family.bare(number), family.code()
        sums, greedy = zip(*answer, strict=True)
        gold, choices = family.target(code, bare), family.choices(code, bare)
        every.append(choice_values(named, sums, greedy, gold, choices))
        assert every[-1] == family.expected_values(number)
    for name, wanted in family.expected_aggregates().items():
        how = str(document_metric(name).aggregation)
        assert aggregation(how)([each[name] for each in every]) == pytest.approx(wanted)


@pytest.mark.parametrize("family", EVERY, ids=lambda family: family.task)
def test_first_prompt_of_every_file(family: Family) -> None:
    """Files that differ in a name or a description: 28 of one family, 57 of another."""
    task = load_document_task(TASKS / family.file, trusted())
    doc = family.bare(0)
    fields = fields_of(family, task, tuple(family.documents[0]), "")
    assert task.task == family.task
    if not task.num_fewshot:
        assert fields.description(doc) + fields.text(doc) == family.expected_text(0)
    if task.process_results is not None:
        load_function(task.process_results, task.trust)

"""Which of a task's sets of arguments a model gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from fieldmark.errors import UsageError
from fieldmark.lmms.ask.settings import (
    generation_kwargs,
    prompt_key,
    prompt_kwargs,
    target_kwargs,
)
from kit.documents import write_task

WITH_DEFAULT = """
    lmms_eval_specific_kwargs:
      default: {pre_prompt: "", post_prompt: "Answer."}
      qwen_vl: {pre_prompt: "Q"}
"""


def test_a_models_own_set_stands_alone(tmp_path: Path) -> None:
    task = write_task(tmp_path, WITH_DEFAULT)
    assert prompt_kwargs(task, ["qwen_vl", "openai"]) == {"pre_prompt": "Q"}
    assert prompt_key(task, ["qwen_vl"]) == "qwen_vl"


def test_default_is_laid_over_the_whole_mapping(tmp_path: Path) -> None:
    task = write_task(tmp_path, WITH_DEFAULT)
    assert prompt_kwargs(task, ["openai"]) == {
        "default": {"pre_prompt": "", "post_prompt": "Answer."},
        "qwen_vl": {"pre_prompt": "Q"},
        "pre_prompt": "",
        "post_prompt": "Answer.",
    }
    assert prompt_key(task, ["openai"]) == "default"


def test_keys_are_tried_in_order(tmp_path: Path) -> None:
    text = "lmms_eval_specific_kwargs: {a: {x: 1}, b: {x: 2}}"
    task = write_task(tmp_path, text)
    assert prompt_kwargs(task, ["b", "a"]) == {"x": 2}


def test_dataset_stands_in_and_without_either_it_is_the_mapping(tmp_path: Path) -> None:
    task = write_task(tmp_path, "lmms_eval_specific_kwargs: {dataset: {x: 1}, y: 2}")
    assert prompt_kwargs(task, []) == {"dataset": {"x": 1}, "y": 2, "x": 1}
    task = write_task(tmp_path, "lmms_eval_specific_kwargs: {pre_prompt: P}")
    assert prompt_kwargs(task, ["openai"]) == {"pre_prompt": "P"}
    assert prompt_key(task, ["openai"]) == ""


def test_no_mapping_is_none_and_an_empty_default_adds_nothing(tmp_path: Path) -> None:
    assert prompt_kwargs(write_task(tmp_path, ""), ["openai"]) is None
    task = write_task(tmp_path, "lmms_eval_specific_kwargs: {default: , x: 1}")
    assert prompt_kwargs(task, []) == {"default": None, "x": 1}


def test_what_one_caller_changes_no_other_sees(tmp_path: Path) -> None:
    task = write_task(tmp_path, WITH_DEFAULT)
    prompt_kwargs(task, [])["default"]["pre_prompt"] = "changed"
    assert prompt_kwargs(task, [])["default"]["pre_prompt"] == ""


def test_a_set_that_is_no_mapping_is_named(tmp_path: Path) -> None:
    task = write_task(tmp_path, "lmms_eval_specific_kwargs: {default: words}")
    with pytest.raises(UsageError, match=r"task\.yaml:2  .*default = 'words': expected a mapping"):
        prompt_kwargs(task, [])


def test_silent_tasks_stop_at_the_delimiter_and_do_not_sample(tmp_path: Path) -> None:
    assert generation_kwargs(write_task(tmp_path, ""), []) == {
        "until": ["\n\n"],
        "do_sample": False,
    }
    own = write_task(tmp_path, 'fewshot_delimiter: "###"')
    assert generation_kwargs(own, [])["until"] == ["###"]
    assert generation_kwargs(write_task(tmp_path, "output_type: multiple_choice"), []) == {}


def test_given_kwargs_keep_their_stops_and_get_them_where_missing(tmp_path: Path) -> None:
    task = write_task(tmp_path, 'generation_kwargs: {max_new_tokens: 16, temperature: "0"}')
    assert generation_kwargs(task, []) == {
        "max_new_tokens": 16, "temperature": 0.0, "until": ["\n\n"],
    }  # fmt: skip
    assert isinstance(generation_kwargs(task, [])["temperature"], float)
    task = write_task(tmp_path, 'generation_kwargs: {until: ["."]}')
    assert generation_kwargs(task, []) == {"until": ["."]}


def test_a_models_generation_is_laid_over_the_tasks(tmp_path: Path) -> None:
    text = """
        generation_kwargs: {max_new_tokens: 16, until: ["."]}
        model_specific_generation_kwargs:
          default: {max_new_tokens: 8}
          llava: {num_beams: 2}
    """
    task = write_task(tmp_path, text)
    assert generation_kwargs(task, ["llava"]) == {
        "max_new_tokens": 16, "until": ["."], "num_beams": 2,
    }  # fmt: skip
    assert generation_kwargs(task, ["openai"]) == {"max_new_tokens": 8, "until": ["."]}


def test_a_temperature_that_is_no_number_is_named(tmp_path: Path) -> None:
    task = write_task(tmp_path, "generation_kwargs: {temperature: warm}")
    with pytest.raises(UsageError, match="temperature = 'warm': expected a number"):
        generation_kwargs(task, [])


def test_targets_get_the_models_entry_or_default_or_none(tmp_path: Path) -> None:
    task = write_task(tmp_path, "model_specific_target_kwargs: {default: {x: 1}, llava: gen}")
    assert target_kwargs(task, ["llava"]) == "gen"
    assert target_kwargs(task, ["openai"]) == {"x": 1}
    assert target_kwargs(write_task(tmp_path, "model_specific_target_kwargs: {a: 1}"), []) is None
    assert target_kwargs(write_task(tmp_path, ""), []) is None

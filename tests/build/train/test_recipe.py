"""Recipes: those that are shipped, what may be changed, and the line of each mistake."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fieldmark.build.train.recipe import (
    RECIPES,
    TrainRecipe,
    load_recipe,
    recipe_names,
    recipe_toml,
)
from fieldmark.errors import UsageError


@pytest.mark.parametrize("name", recipe_names())
def test_shipped_recipes_say_what_to_expect_and_survive_being_written(
    name: str, tmp_path: Path
) -> None:
    header = (RECIPES / f"{name}.toml").read_text().partition("[model]")[0]
    assert all(word in header for word in ("command", "expected time", "expected score"))
    assert f"fieldmark train {name}" in header
    recipe = load_recipe(name)
    (tmp_path / "again.toml").write_text(recipe_toml(recipe))
    again = load_recipe(tmp_path / "again.toml")
    assert again == recipe and again.digest == recipe.digest


def test_published_recipes_have_the_published_numbers() -> None:
    biocap, bioclip2 = load_recipe("biocap"), load_recipe("bioclip2")
    assert (biocap.train.batch, biocap.train.epochs, biocap.optimiser.warmup_steps) == (
        32768,
        50,
        500,
    )
    assert biocap.model.projectors == ("taxonomic", "caption") and len(biocap.text_types) == 6
    assert bioclip2.train.batch == (2816 + 320) * 32
    assert round(bioclip2.train.batch * bioclip2.data.replay_share) == 320 * 32


def test_text_types_find_their_projector() -> None:
    recipe = load_recipe("bioclip2")
    assert recipe.text_types[-1] == "replay"
    assert [recipe.projector_of(name) for name in recipe.text_types] == [0, 0, 0, 0, 0, 1]
    assert load_recipe("bioclip").projector_of("caption") == 0


def test_overrides_are_checked_like_the_file() -> None:
    recipe = load_recipe("tiny", ["train.batch=256", "optimiser.lr=1e-3", "texts.draw=step"])
    assert (recipe.train.batch, recipe.optimiser.lr, recipe.texts.draw) == (256, 1e-3, "step")


def test_a_weight_of_nothing_takes_a_type_out() -> None:
    names_only = ["texts.types.caption=0", 'model.projectors=["taxonomic"]']
    assert "caption" not in load_recipe("tiny", names_only).text_types


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["train.batc=3"], "--set  key 'batc' is not known. Did you mean 'batch'?"),
        (["train.batch=many"], "--set  train.batch = 'many': expected a whole number."),
        (["train.batch=0"], "--set  train.batch = 0: expected 1 or more."),
        (["train=3"], "--set train=3: expected TABLE.KEY=VALUE, such as train.batch=256."),
        (["trian.batch=3"], "--set  key 'trian' is not known. Did you mean 'train'?"),
        (["train.batch.x=3"], "--set train.batch.x=3: 'batch' is not a table."),
        (
            ["texts.draw=steps"],
            "--set  texts.draw = 'steps': expected 'sample' or 'step'. Did you mean 'step'?",
        ),
        (
            ["texts.types.caption=0"],
            "--set  model.projectors: no text type goes through 'caption': give one a weight in "
            "texts.types, or leave the projector out.",
        ),
        (
            ["data.scale=[0.9, 0.1]"],
            "--set  data.scale = [0.9, 0.1]: expected [smallest, largest] with 0 < smallest ≤ "
            "largest ≤ 1.",
        ),
        (["optimiser.betas=[0.9, 1.0]"], "--set  optimiser.betas[1] = 1.0: expected less than 1."),
        (["optimiser.lr=inf"], "--set  optimiser.lr = inf: expected a finite number."),
        (["evaluate.best=accuracy"], "--set  evaluate.best = 'accuracy': expected TASK@METRIC."),
    ],
)
def test_wrong_overrides_are_one_line(words: list[str], line: str) -> None:
    with pytest.raises(UsageError) as error:
        load_recipe("tiny", words)
    assert str(error.value) == line


BROKEN = {  # text of the file → the line
    'model = "ViT"': "{path}:1  model = 'ViT': expected a table.",
    '[model]\nprojectors = "caption"': ("{path}:2  model.projectors = 'caption': expected a list."),
    "[train]\nbatch = 12.5": "{path}:2  train.batch = 12.5: expected a whole number.",
    '[loss]\nkind = "softmx"': (
        "{path}:2  loss.kind = 'softmx': expected 'siglip' or 'softmax'. Did you mean 'softmax'?"
    ),
    "[optimizer]\nlr = 1": "{path}:1  key 'optimizer' is not known. Did you mean 'optimiser'?",
    "[texts]\ntypes = {taxon = -1}": ("{path}:2  texts.types.taxon = -1: expected 0.0 or more."),
    "[texts]\ntypes = {taxon = 0}": (
        "{path}:2  texts.types = {{'taxon': 0}}: expected at least one type with a weight above 0."
    ),
    "[train\nbatch = 1": (
        "{path}:1  is not valid TOML: expected ']' at the end of a table declaration."
    ),
    "[train]\nema = 1": "{path}:2  train.ema = 1: expected less than 1.",
}


@pytest.mark.parametrize("text", BROKEN)
def test_broken_recipes_are_told_by_their_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        load_recipe(path)
    assert str(error.value) == BROKEN[text].format(path=path)


def test_unknown_recipe_names_the_closest() -> None:
    with pytest.raises(UsageError, match=r"recipe 'biocup' is not known. Did you mean 'biocap'"):
        load_recipe("biocup")


def test_what_decides_nothing_is_not_part_of_the_digest() -> None:
    """Among it all that an error message advises: a run goes on with it."""
    words = ["state.keep=9", "train.log_steps=3", "data.readers=2", "data.licence=CC0-1.0"]
    words += ["train.accumulate=4", "train.recompute=1.0", "train.compile=off"]
    same = load_recipe("tiny", [*words, "train.parallel=fsdp"])
    other = load_recipe("tiny", ["train.seed=1"])
    assert same.digest == load_recipe("tiny").digest != other.digest


def test_the_best_is_chosen_by_a_task_that_is_evaluated() -> None:
    good = load_recipe("tiny", ["evaluate.best=a@b@accuracy", "evaluate.tasks=['a@b']"])
    good.evaluate.check_best()
    bad = load_recipe("tiny", ["evaluate.best=a@accuracy", "evaluate.tasks=['b']"])
    with pytest.raises(UsageError) as error:
        bad.evaluate.check_best()
    assert str(error.value) == (
        "evaluate.best names 'a', which is not evaluated: add it to evaluate.tasks (now b)."
    )


def test_a_guard_that_is_off_can_be_written(tmp_path: Path) -> None:
    recipe = load_recipe("tiny", ["guard.spike=inf"])
    (tmp_path / "off.toml").write_text(recipe_toml(recipe))
    assert load_recipe(tmp_path / "off.toml") == recipe


def test_the_order_of_the_text_types_is_part_of_the_digest() -> None:
    """It decides which text a drawn number stands for."""
    one = ["model.projectors=['taxonomic']", "texts.types={taxon=1, sci=1}"]
    other = ["model.projectors=['taxonomic']", "texts.types={sci=1, taxon=1}"]
    assert load_recipe("tiny", one).digest != load_recipe("tiny", other).digest


def test_a_network_file_is_known_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.json").write_text("{}")
    (tmp_path / "mine.toml").write_text('[model]\narchitecture = "net.json"\n')
    assert load_recipe("mine.toml").model.architecture == str(tmp_path.resolve() / "net.json")


def test_recipes_need_no_torch() -> None:
    code = (
        "import sys; from fieldmark.build.train.recipe import load_recipe; load_recipe('tiny'); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_defaults_are_a_recipe() -> None:
    assert TrainRecipe().text_types == ("taxon",)

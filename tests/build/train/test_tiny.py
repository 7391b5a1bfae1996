"""Are species that were never met placed above chance, and do captions teach what names do not?

`tiny` in small: fewer species, photos and steps. docs/train.md has the whole, and what it does not
show: it is the genus that carries over, not the species within it.
"""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from fieldmark.build.train.suite import SuiteScore, read_scores
from fieldmark.cli import main
from fieldmark.data import load_dataset

pytest.importorskip("open_clip")
STEPS, BATCH = 100, 64
SEED = "0"
NAMES_ONLY = ["texts.types.caption=0", 'model.projectors=["taxonomic"]']


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos of 120 species and their shards."""
    folder = tmp_path_factory.mktemp("tiny")
    made = ["--data-root", str(folder / "data")]
    assert main(["data", "make", "world_train", "--size", "1440", "--seed", SEED, *made]) == 0
    options = ["--split", "train", "--caption", "named_looks", "--max-px", "80"]
    out = ["--per-shard", "200", "--out", str(folder / "shards"), *made]
    assert main(["shards", "make", "world_train", *options, *out]) == 0
    return folder


def flags(folder: Path) -> list[str]:
    where = {"--data-root": "data", "--cache": "cache", "--results": "results"}
    words = [word for flag, name in where.items() for word in (flag, str(folder / name))]
    return [*words, "--device", "cpu", "--quiet"]


def trained(place: Path, name: str, tasks: list[str], *changes: str) -> dict[str, SuiteScore]:
    """Scores of a model that was trained with these changes to the recipe, by task."""
    out = place / "runs" / name
    settings = [f"train.steps={STEPS}", f"train.batch={BATCH}", "optimiser.warmup_steps=20"]
    settings += [f"train.seed={SEED}"]
    given = ["--shards", str(place / "shards"), "--out", str(out), *flags(place)]
    changed = ["--set", *settings, *changes]
    assert main(["train", "tiny", *given, "--evaluate", *tasks, *changed]) == 0
    folder = out / "model-two"
    model = f"open-clip/local-dir:{(folder if folder.is_dir() else out / 'model').resolve()}"
    scores = read_scores(model, place / "results" / "fieldmark.db")
    return {score.task: score for score in scores if score.is_primary}


@pytest.mark.slow
def test_unseen_species_are_above_chance_and_captions_teach_looks(place: Path) -> None:
    both = trained(place, "both", ["world-unseen", "world-looks"])
    names = trained(place, "names", ["world-looks"], *NAMES_ONLY)
    n_rows = [json.loads(line)["step"] for line in (place / "runs/both/log.jsonl").open()]
    assert n_rows == list(range(1, STEPS + 1))
    table = load_dataset("world_train").table(place / "data" / "world_train")
    n_unseen = table.filter(pl.col("split") == "unseen")["label"].n_unique()
    unseen = both["world-unseen"]
    assert unseen.low is not None and unseen.low > 3 / n_unseen, "chance is 1 / n"
    one, other = both["world-looks"], names["world-looks"]
    assert one.low is not None and other.high is not None
    assert one.low > other.high and one.value > 1.5 * other.value

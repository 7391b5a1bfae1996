"""Zero-shot classification: whole runs against ten lines of brute force, and the lines of slips."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fieldmark import evaluate
from fieldmark.errors import FieldmarkError
from fieldmark.taxa import names_of
from kit.duals import Album, HashDual

RANKS = ("kingdom", "phylum", "class", "order", "family", "genus", "species")
LINEAGES = {
    "lion": ("Animalia", "Chordata", "Mammalia", "Carnivora", "Felidae", "Panthera", "leo"),
    "tiger": ("Animalia", "Chordata", "Mammalia", "Carnivora", "Felidae", "Panthera", "tigris"),
    "lynx": ("Animalia", "Chordata", "Mammalia", "Carnivora", "Felidae", "Lynx", "lynx"),
    "wolf": ("Animalia", "Chordata", "Mammalia", "Carnivora", "Canidae", "Canis", "lupus"),
    "bird": ("Animalia", "Chordata", "Aves", "", "", "", ""),
    "oak": ("Plantae", "Tracheophyta", "Magnoliopsida", "Fagales", "Fagaceae", "Quercus", "robur"),
    "moss": ("Plantae", "Bryophyta", "", "", "", "", ""),
    "thing": ("", "", "", "", "", "", ""),
}
BLOCK = {"text": "taxon_com", "common": "common", "lineage": list(RANKS), "templates": "none"}


def rows_of(n: int = 64) -> list[dict[str, str]]:
    """A class has one row only."""
    labels = list(LINEAGES)
    every = [labels[number % 7] for number in range(n - 1)] + ["thing"]
    return [
        {"id": f"{number:03}", "image": f"{number}.png", "label": label, "split": "test",
         "common": f"the {label}", **dict(zip(RANKS, LINEAGES[label], strict=True))}
        for number, label in enumerate(every)
    ]  # fmt: skip


@pytest.fixture
def album(tmp_path: Path) -> Album:
    return Album(tmp_path)


def texts_of(kind: str) -> dict[str, str]:
    return {
        label: names_of(
            label, "", f"the {label}", dict(zip(RANKS, LINEAGES[label], strict=True))
        ).text(kind)  # type: ignore[arg-type]
        for label in sorted(LINEAGES)
    }


def brute_force(
    album: Album, model: HashDual, rows: list[dict[str, str]], text_cd: np.ndarray
) -> dict[str, list[Any]]:
    """Softmax (or sigmoid over its sum) in float64; sums up the taxonomy class by class."""
    labels = sorted(LINEAGES)
    logit_nc = model.logit_scale * (model.image_rows(album.paths(rows)) @ text_cd.T)
    if model.logit_bias is None:
        prob_nc = np.exp(logit_nc)
    else:
        prob_nc = 1 / (1 + np.exp(-(logit_nc + model.logit_bias)))
    prob_nc /= prob_nc.sum(axis=1, keepdims=True)
    values: dict[str, list[Any]] = {"prediction": [], "score": [], "top3_accuracy": []}
    values |= {"top5_accuracy": [], **{f"{rank}_accuracy": [] for rank in RANKS}}
    for row, prob_c in zip(rows, prob_nc, strict=True):
        order = [labels[c] for c in np.argsort(-prob_c)]
        values["prediction"].append(order[0])
        values["score"].append(prob_c.max())
        for k in (3, 5):
            values[f"top{k}_accuracy"].append(float(row["label"] in order[:k]))
        for place, rank in enumerate(RANKS):
            total: dict[str, float] = {}
            for label, prob in zip(labels, prob_c, strict=True):
                if name := LINEAGES[label][place]:
                    total[name] = total.get(name, 0.0) + prob
            truth = LINEAGES[row["label"]][place]
            best = max(total, key=lambda name: total[name])
            values[f"{rank}_accuracy"].append(float(best == truth) if truth else None)
    return values


@pytest.mark.parametrize("bias", [None, -10.0, 0.0, 3.0])
def test_a_run_is_what_brute_force_in_float64_says(album: Album, bias: float | None) -> None:
    rows = rows_of()
    album.write(rows)
    model = HashDual(logit_bias=bias, logit_scale=6.0)
    task = album.task(metric="accuracy", zero_shot=BLOCK)
    result = evaluate(model, task, settings=album.settings)
    wanted = brute_force(album, model, rows, model.text_rows(list(texts_of("taxon_com").values())))
    assert result.predictions["id"].to_list() == [row["id"] for row in rows]
    assert result.predictions["prediction"].to_list() == wanted["prediction"]
    assert result.predictions["score"].to_list() == pytest.approx(wanted["score"], abs=1e-5)
    infos = [json.loads(info) for info in result.predictions["info"]]
    scores = {score.metric: score for score in result.scores}
    for name in wanted.keys() - {"prediction", "score"}:
        assert [info["values"].get(name) for info in infos] == wanted[name], name
        known = [value for value in wanted[name] if value is not None]
        assert scores[name].value == pytest.approx(np.mean(known))
        assert scores[name].n == len(known)
    right = [p == row["label"] for p, row in zip(wanted["prediction"], rows, strict=True)]
    assert result.score.metric == "accuracy" and result.score.value == pytest.approx(np.mean(right))


def test_features_of_templates_are_normalised_averaged_and_normalised(album: Album) -> None:
    rows = rows_of(30)
    album.write(rows)
    templates = ["a {}.", "{}!", "no photo of a {} here", "{}"]
    model = HashDual()
    task = album.task(metric="accuracy", zero_shot=BLOCK | {"templates": templates})
    result = evaluate(model, task, settings=album.settings)
    means = []
    for text in texts_of("taxon_com").values():
        total = np.zeros(model.dim)
        for template in templates:
            total += model.text_rows([template.replace("{}", text)])[0]
        means.append(total / np.linalg.norm(total))
    wanted = brute_force(album, model, rows, np.array(means))
    assert result.predictions["prediction"].to_list() == wanted["prediction"]
    assert result.predictions["score"].to_list() == pytest.approx(wanted["score"], abs=1e-5)


def test_classes_of_one_text_tie_exactly_and_the_first_is_chosen(album: Album) -> None:
    """For every image alike: chance must not decide by how a product is rounded."""
    rows = [row | {"common": "the same"} for row in rows_of()]
    album.write(rows)
    block = {"text": "com", "common": "common", "templates": "none"}
    result = evaluate(
        HashDual(dim=37), album.task(metric="accuracy", zero_shot=block), settings=album.settings
    )
    assert set(result.predictions["prediction"]) == {"bird"}
    assert result.predictions["score"].to_list() == pytest.approx([1 / 8] * len(rows))
    tops = {tuple(json.loads(info)["top"][0]) for info in result.predictions["info"]}
    assert tops == {("bird", 0.125)}


def test_fewer_test_images_offer_no_fewer_classes(album: Album) -> None:
    rows = rows_of()
    for row in rows[::2]:
        row["split"] = "train"
    album.write(rows)
    model = HashDual()
    task = album.task(metric="accuracy", zero_shot=BLOCK)
    few = evaluate(model, task, settings=album.settings, n_test=5)
    full = evaluate(model, task, settings=album.settings)
    assert few.score.n == 5 and full.score.n == 32
    both = few.predictions.join(full.predictions, on="id")
    assert both["prediction"].equals(both["prediction_right"].alias("prediction"))


# --- taxa ---


@pytest.mark.parametrize(
    ("taxa", "kept"),
    [
        (["Felidae"], {"lion", "tiger", "lynx"}),
        (["felidae", "Canis lupus"], {"lion", "tiger", "lynx", "wolf"}),
        (["the lion", "Panthera_tigris"], {"lion", "tiger"}),
        (["Panthera leo (Linnaeus, 1758)", "Aves"], {"lion", "bird"}),
        (["Plantae", "nobody knows this"], {"oak", "moss"}),
    ],
)
def test_taxa_restrict_what_is_asked_and_offered(
    album: Album, taxa: list[str], kept: set[str]
) -> None:
    album.write(rows_of())
    listed = album.place / "taxa.txt"
    listed.write_text("# of our region\n" + "\n".join(taxa) + "\n\n")
    model = HashDual()
    frames = []
    for given in (taxa, "taxa.txt"):
        task = album.task(metric="accuracy", zero_shot=BLOCK | {"taxa": given})
        result = evaluate(model, task, settings=album.settings)
        assert set(result.predictions["target"]) == kept
        assert set(result.predictions["prediction"]) <= kept
        frames.append(result.predictions)
    assert frames[0].equals(frames[1])


# --- lines ---


@pytest.mark.parametrize(
    ("block", "line"),
    [
        (
            {"common": "comon"},
            "album.yaml:6  zero_shot: dataset 'csv' has no column 'comon'. Did you mean 'common'?",
        ),
        (
            {"taxa": ["Canis lupus"]},
            "album.yaml:6  taxa leave 1 of 8 classes of task 'album': at least two are needed.",
        ),
        (
            {"taxa": ["Felidea"]},
            "album.yaml:6  taxa leave 0 of 8 classes of task 'album': at least two are needed. "
            "'Felidea' is not the name of any. Did you mean 'felidae'?",
        ),
        ({"taxa": "none.txt"}, "none.txt"),
        ({"taxa": "empty.txt"}, "empty.txt  contains no taxon: expected one a line."),
        ({"text": "foo"}, "album.yaml:7  zero_shot.text = 'foo': expected"),
        ({"templates": "a photo"}, "{}"),
    ],
)
def test_slips_are_told_before_anything_is_embedded(
    album: Album, block: dict[str, Any], line: str
) -> None:
    album.write(rows_of())
    (album.place / "empty.txt").write_text("# nothing\n")
    model = HashDual()
    with pytest.raises(FieldmarkError) as caught:
        task = album.task(metric="accuracy", zero_shot=BLOCK | block)
        evaluate(model, task, settings=album.settings)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value).strip()
    assert model.looked == []


def test_a_model_without_texts_and_training_images_are_refused(album: Album) -> None:
    album.write(rows_of())
    task = album.task(metric="accuracy", zero_shot=BLOCK)
    with pytest.raises(FieldmarkError, match="`zero_shot` needs a model that embeds texts"):
        evaluate("classical/colour", task, settings=album.settings, protocol="zero_shot")
    with pytest.raises(FieldmarkError, match="n_train: expected 0, `zero_shot` looks at no train"):
        evaluate(HashDual(), task, settings=album.settings, n_train=1)

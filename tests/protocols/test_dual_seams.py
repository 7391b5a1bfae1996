"""Seams of zero_shot, retrieve and rerank: what makes another run, what does not, what stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from fieldmark import evaluate
from fieldmark.experiments import rescore
from fieldmark.progress import Silent
from fieldmark.store import RunFilter, Store
from kit.duals import Album, HashDual, save_open_clip
from kit.made import make_dataset
from kit.pictures import write_image

TASKS: dict[str, dict[str, Any]] = {
    "zero_shot": {
        "metric": "accuracy",
        "zero_shot": {
            "text": "taxon_com",
            "common": "common",
            "lineage": ["family", "genus"],
            "templates": ["a {}"],
        },
    },
    "retrieve": {"metric": "recall_at_5", "retrieve": {}},
    "rerank": {"metric": "ap_at_k", "rerank": {"groups": ["kind"]}},
}


def rows_of() -> list[dict[str, str]]:
    return [
        {"id": f"{n:02}", "image": f"{n}.png", "label": f"c{n % 4}", "split": "test",
         "common": f"bird {n % 4}", "family": f"Family{n % 2}", "genus": f"Genus{n % 4}",
         "caption": f"words {n % 9}", "query_id": f"q{n % 3}", "query": f"birds {n % 3}",
         "relevant": ("yes", "no")[n % 2], "kind": ("x", "y")[n % 3 == 0]}
        for n in range(18)
    ]  # fmt: skip


@pytest.fixture
def album(tmp_path: Path) -> Album:
    own = Album(tmp_path)
    own.write(rows_of())
    return own


def changed(column: str, value: str, row: int = 0) -> Callable[[Album], None]:
    def change(album: Album) -> None:
        rows = album.rows()
        rows[row][column] = value
        album.write(rows)

    return change


def repainted(album: Album) -> None:
    write_image(album.photos / "0.png", 999)


def turned(album: Album) -> None:
    album.write(album.rows()[::-1])


MUST = [
    ("zero_shot", changed("common", "a wren")),
    ("zero_shot", changed("genus", "Parus")),
    ("zero_shot", changed("label", "c2")),
    ("zero_shot", repainted),
    ("retrieve", changed("caption", "other words")),
    ("retrieve", repainted),
    ("rerank", changed("relevant", "no")),
    ("rerank", changed("kind", "z")),
    ("rerank", repainted),
]


@pytest.mark.parametrize(("protocol", "change"), MUST)
def test_changed_data_make_another_run(
    album: Album, protocol: str, change: Callable[[Album], None]
) -> None:
    model, task = HashDual(), album.task(**TASKS[protocol])
    before = evaluate(model, task, settings=album.settings)
    change(album)
    after = evaluate(model, task, settings=album.settings)
    assert after.run.id != before.run.id


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "key", "value"),
    [
        ("zero_shot", "templates", ["the {}"]),
        ("zero_shot", "templates", "none"),
        ("zero_shot", "text", "com"),
        ("zero_shot", "projector", "caption"),
        ("zero_shot", "taxa", ["Family0"]),
        ("retrieve", "template", "a photo of {}"),
        ("retrieve", "projector", "caption"),
        ("rerank", "template", "see {}"),
        ("rerank", "k", 2),
    ],
)
def test_a_changed_block_makes_another_run(
    album: Album, protocol: str, key: str, value: Any
) -> None:
    model, keys = HashDual(), TASKS[protocol]
    before = evaluate(model, album.task(**keys), settings=album.settings)
    again = keys | {protocol: {**keys[protocol], key: value}}
    after = evaluate(model, album.task(**again), settings=album.settings)
    assert after.run.id != before.run.id


def test_the_content_of_a_list_of_taxa_counts_and_its_order_does_not(album: Album) -> None:
    listed, model = album.place / "taxa.txt", HashDual()
    keys = TASKS["zero_shot"]
    task = album.task(**keys | {"zero_shot": {**keys["zero_shot"], "taxa": "taxa.txt"}})
    runs = []
    for content in ("Family0\nGenus1\n", "# turned\nGenus1\nFamily0\n", "Family0\nFamily1\n"):
        listed.write_text(content)
        runs.append(evaluate(model, task, settings=album.settings).run.id)
    assert runs[0] == runs[1] != runs[2]


def work_of(model: HashDual) -> tuple[int, list[str]]:
    """Pictures and texts of the album that were embedded, besides those of the model's check."""
    checks = model.looked[:2]  # of test pictures: together, and one alone
    own = [text for text in model.said if text.startswith(("a Family", "words ", "birds "))]
    return sum(n for n in model.looked if n not in checks), sorted(own)


@pytest.mark.parametrize("protocol", TASKS)
def test_order_threads_batches_and_titles_change_nothing(album: Album, protocol: str) -> None:
    model, keys = HashDual(), TASKS[protocol]
    before = evaluate(model, album.task(**keys), settings=album.settings)
    done = work_of(model)
    assert done[0] == 18 and done[1]
    turned(album)
    settings = replace(album.settings, threads=1, batch_size=3)
    other = {**keys, "title": "Another title"}
    if protocol == "zero_shot":
        other["zero_shot"] = {**keys["zero_shot"], "seen_by": {"*": "seen by all"}}
    after = evaluate(model, album.task(**other), settings=settings)
    assert after.run.id == before.run.id
    assert work_of(model) == done, "nothing is done again"
    fresh = replace(settings, results=album.place / "again", cache=album.place / "other")
    again = evaluate(model, album.task(**other), settings=fresh)
    assert again.predictions.drop("score", "info").equals(before.predictions.drop("score", "info"))
    assert [s.value for s in again.scores] == pytest.approx([s.value for s in before.scores])


@pytest.mark.parametrize("protocol", TASKS)
def test_rescoring_keeps_every_score(album: Album, protocol: str) -> None:
    before = evaluate(HashDual(), album.task(**TASKS[protocol]), settings=album.settings)
    with Store.open(album.settings.store) as store:
        (done,) = rescore(store, RunFilter(), (), Silent())
        after = store.scores()[before.run.id]
    assert done.changed == [] and not done.is_left
    key = lambda score: (score.part, score.metric)  # noqa: E731
    assert sorted(after, key=key) == sorted(before.scores, key=key)


def test_texts_are_embedded_once_by_all_protocols(album: Album) -> None:
    rows = [row | {"query": f"words {row['query_id'][1:]}"} for row in rows_of()]
    album.write(rows)
    model = HashDual()
    for protocol in ("retrieve", "rerank", "retrieve"):
        evaluate(model, album.task(protocol, **TASKS[protocol]), settings=album.settings)
    assert work_of(model) == (18, [f"words {n}" for n in range(9)])


def test_vectors_and_answers_of_a_gallery_count(album: Album) -> None:
    root = album.place / "inquire"
    make_dataset("inquire", root, 60)
    settings = replace(album.settings, data={"inquire": root})
    model, how = HashDual(dim=16), {"rerank": {"gallery": "made-16", "k": 5}}

    def run() -> int:
        return evaluate(model, "inquire-fullrank", settings=settings, **how).run.id

    runs = [run(), run()]
    assert runs[0] == runs[1]
    answers = root / "inquire_annotations.csv"
    query = pl.read_csv(answers, infer_schema_length=0)["query_id"][0]
    with answers.open("a") as file:
        file.write(f"{query},1,train/nowhere/not-in-the-gallery.jpg\n")
    runs.append(run())
    path = next((root / "embs" / "made-16" / "img_emb").glob("*.npy"))
    content = bytearray(path.read_bytes())
    content[-1] ^= 0x80
    path.write_bytes(content)
    runs.append(run())
    assert len(set(runs)) == 3


def test_weights_of_the_text_tower_count(album: Album) -> None:
    import torch

    name = save_open_clip(album.place / "clip")
    task = album.task(**TASKS["zero_shot"])
    before = evaluate(name, task, settings=album.settings)
    path = album.place / "clip" / "open_clip_pytorch_model.bin"
    weights = torch.load(path)
    weights["text_projection"] = -weights["text_projection"]
    torch.save(weights, path)
    after = evaluate(name, task, settings=album.settings)
    assert after.run.id != before.run.id
    assert after.predictions["prediction"].to_list() != before.predictions["prediction"].to_list()

"""Reranking and full ranking: whole runs against scikit-learn, query by query and in groups."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import average_precision_score, ndcg_score

from fieldmark import evaluate
from fieldmark.errors import FieldmarkError
from kit.duals import Album, HashDual
from kit.made import make_dataset

FAR = -100.0


@pytest.fixture
def album(tmp_path: Path) -> Album:
    return Album(tmp_path)


def results(n_queries: int = 9) -> list[dict[str, str]]:
    """Queries with 1 to 13 results, some the same picture; one has no relevant result."""
    random, rows = np.random.default_rng(5), []
    for query in range(n_queries):
        for place in range(1 + 3 * query % 13):
            relevant = query != 4 and random.random() < 0.4
            rows.append(
                {"id": f"q{query}/{place}", "image": f"{random.integers(20)}.png", "label": "x",
                 "split": "test", "query_id": f"q{query}", "query": f"birds of kind {query}",
                 "relevant": "Yes" if relevant else "no", "kind": "odd" if query % 2 else "even",
                 "place": "" if query == 3 else "wood"}
            )  # fmt: skip
    return rows


def expected(relevant: np.ndarray, score: np.ndarray) -> dict[str, float]:
    """As INQUIRE's own code has it, but for ties of the first rank, which are averaged."""
    if not relevant.any():
        return {"ap_at_k": 0.0, "ndcg_at_k": 0.0, "mrr": 0.0}
    ndcg = 1.0 if len(score) == 1 else float(ndcg_score([relevant.astype(float)], [score]))
    top = score[relevant].max()
    better, at_top = int((score > top).sum()), score == top
    tied, n = int((at_top & relevant).sum()), int(at_top.sum())
    firsts = np.random.default_rng(0).permuted(np.tile(np.arange(n) < tied, (40_000, 1)), axis=1)
    mrr = float((1 / (better + 1 + firsts.argmax(axis=1))).mean())
    ap = float(average_precision_score(relevant, score))
    return {"ap_at_k": ap, "ndcg_at_k": ndcg, "mrr": mrr}


def test_a_run_is_what_scikit_learn_says_of_each_query(album: Album) -> None:
    rows = results()
    album.write(rows)
    model = HashDual()
    block = {"groups": ["kind", "place"]}
    task = album.task(metric="ap_at_k", also=["mrr"], rerank=block)
    result = evaluate(model, task, settings=album.settings)
    wanted: dict[str, dict[str, float]] = {}
    for query in sorted({row["query_id"] for row in rows}):
        own = [row for row in rows if row["query_id"] == query]
        text_d = model.text_rows([own[0]["query"]])[0]
        score = np.round(model.image_rows(album.paths(own)) @ text_d, 6)
        wanted[query] = expected(np.array([row["relevant"] == "Yes" for row in own]), score)
        (best,) = result.predictions.filter(pl.col("id") == query)["prediction"]
        assert score[[row["id"] for row in own].index(best)] == score.max()
    assert result.predictions["id"].to_list() == list(wanted)
    values = [json.loads(info)["values"] for info in result.predictions["info"]]
    for query, own_values in zip(wanted, values, strict=True):
        assert own_values["mrr"] == pytest.approx(wanted[query]["mrr"], abs=0.01)
        for name in ("ap_at_k", "ndcg_at_k"):
            assert own_values[name] == pytest.approx(wanted[query][name], abs=1e-9), query
    scores = {(score.metric, score.part): score for score in result.scores}
    members = {"": list(wanted), "kind: odd": [f"q{n}" for n in (1, 3, 5, 7)]}
    members |= {"kind: even": [f"q{n}" for n in (0, 2, 4, 6, 8)]}
    members |= {"place: wood": [query for query in wanted if query != "q3"]}
    assert {part for _, part in scores} == set(members)
    for part, queries in members.items():
        score = scores["ap_at_k", part]
        mean = np.mean([wanted[query]["ap_at_k"] for query in queries])
        assert score.value == pytest.approx(mean, abs=1e-9)
        assert score.n == score.n_units == len(queries)


def test_only_the_first_k_count(album: Album) -> None:
    rows = results()
    album.write(rows)
    model, k = HashDual(), 3
    task = album.task(metric="ap_at_k", rerank={"k": k})
    result = evaluate(model, task, settings=album.settings)
    for query, info in result.predictions.select("id", "info").iter_rows():
        own = [row for row in rows if row["query_id"] == query]
        text_d = model.text_rows([own[0]["query"]])[0]
        score = np.round(model.image_rows(album.paths(own)) @ text_d, 6)
        relevant = np.array([row["relevant"] == "Yes" for row in own])
        first = np.lexsort(([row["id"] for row in own], -score))[:k]
        ap = 0.0
        if relevant[first].any():
            ap = average_precision_score(relevant[first], score[first])
            ap *= relevant[first].sum() / min(relevant.sum(), len(first))
        assert json.loads(info)["values"]["ap_at_k"] == pytest.approx(ap, abs=1e-9), query


def test_n_test_is_a_number_of_queries_whose_bad_images_are_told(album: Album) -> None:
    rows = results()
    for row in rows:
        if row["id"].endswith("/0"):
            row["image"] = f"bad of {row['query_id']}.png"
    album.write(rows)
    for path in album.photos.glob("bad*"):
        path.write_bytes(b"no picture")
    from dataclasses import replace

    settings = replace(album.settings, bad_images="skip")
    task = album.task(metric="ap_at_k", rerank={})
    result = evaluate(HashDual(), task, settings=settings, n_test=4)
    from fieldmark.store import Store

    with Store.open(settings.store, read_only=True) as store:
        (part,) = store.finished_parts(result.run.id)
    asked = set(result.predictions["id"])
    told = {name.removeprefix("bad of ").removesuffix(".png") for name in part.info["bad_images"]}
    assert asked <= told and len(told) == 4 and part.info["n_bad_images"] == 4


@pytest.mark.parametrize(
    ("change", "keys", "line"),
    [
        (
            {"relevant": "maybe"},
            {},
            "album.yaml:6  column 'relevant' of dataset 'csv': 'maybe' of row 'q2/0': expected "
            "yes or no.",
        ),
        (
            {"query": ""},
            {},
            "album.yaml:6  column 'query' of dataset 'csv' has 'birds of kind 2' and nothing for "
            "the query 'q2': expected one text for each query.",
        ),
        (
            {"query": "a bird"},
            {},
            "album.yaml:6  column 'query' of dataset 'csv' has 'a bird' and 'birds of kind 2' for "
            "the query 'q2': expected one text for each query.",
        ),
        ({}, {"rerank": {"query": "qurey"}}, "has no column 'qurey'. Did you mean 'query'?"),
        (
            {},
            {"test": {"split": "val"}},
            "task 'album': no test images: no row of dataset 'csv' fits `split: val`",
        ),
        ({}, {"rerank": {"gallery": "x"}}, "dataset 'csv' has no gallery of photos"),
        ({}, {"rerank": {"groups": ["kin"]}}, "has no column 'kin'. Did you mean 'kind'?"),
        ({}, {"metric": "accuracy"}, "metric 'accuracy' scores labels, but `rerank` gives ranked"),
    ],
)
def test_slips_are_told_before_anything_is_embedded(
    album: Album, change: dict[str, str], keys: dict[str, Any], line: str
) -> None:
    album.write([row | (change if row["id"] == "q2/0" else {}) for row in results()])
    model = HashDual()
    with pytest.raises(FieldmarkError) as caught:
        task = album.task(**{"metric": "ap_at_k", "rerank": {}, **keys})
        evaluate(model, task, settings=album.settings)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value).strip()
    assert model.looked == []


# --- full ranking ---


@pytest.fixture(scope="module")
def inquire(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("inquire")
    make_dataset("inquire", root, 60)
    return root


@pytest.mark.parametrize(
    ("gallery", "dim", "k"), [("made-16", 16, 5), ("made-32", 24, 50), ("made-16", 16, 1)]
)
def test_full_ranking_is_brute_force_over_all_files(
    album: Album, inquire: Path, gallery: str, dim: int, k: int
) -> None:
    from dataclasses import replace

    folder = inquire / "embs" / gallery
    arrays = [np.load(path) for path in sorted((folder / "img_emb").glob("*.npy"))]
    assert len(arrays) == 2
    vectors = np.concatenate(arrays).astype(np.float64)
    tables = [pl.read_parquet(path) for path in sorted((folder / "metadata").glob("*.parquet"))]
    paths = pl.concat(tables)["image_path"].to_list()
    answers = pl.read_csv(inquire / "inquire_annotations.csv", infer_schema_length=0)
    model = HashDual(dim=dim)
    settings = replace(album.settings, data={"inquire": inquire})
    how = {"rerank": {"gallery": gallery, "k": k}}
    result = evaluate(model, "inquire-fullrank", settings=settings, **how)
    lists = [pl.read_csv(inquire / f"inquire_queries_{split}.csv", infer_schema_length=0)
             for split in ("val", "test")]  # fmt: skip
    queries = pl.concat(lists).select("query_id", "query_text").rows()
    assert set(result.predictions["id"]) == {query for query, _ in queries}
    values = {
        query: json.loads(info)["values"]
        for query, info in result.predictions.select("id", "info").iter_rows()
    }
    for query, text in queries:
        score = vectors @ model.text_rows([text])[0]
        right = set(answers.filter(pl.col("query_id") == query)["image_path"])
        first = np.argsort(-score, kind="stable")[:k]
        relevant = np.array([f"{paths[row]}.jpg" in right for row in first])
        ap = ndcg = mrr = 0.0
        if relevant.any():
            ap = average_precision_score(relevant, score[first]) * relevant.sum()
            ap /= min(len(right), k)
            missed = len(right) - int(relevant.sum())
            truth = np.append(relevant.astype(float), np.ones(missed))
            far = np.append(score[first], np.full(missed, FAR))
            ndcg = 1.0 if len(truth) == 1 else float(ndcg_score([truth], [far], k=k))
            mrr = 1 / (1 + int(relevant.argmax()))
        wanted = {"ap_at_k": ap, "ndcg_at_k": ndcg, "mrr": mrr}
        assert values[query] == pytest.approx(wanted, abs=1e-6), query


def test_a_gallery_of_another_name_or_width_is_told(album: Album, inquire: Path) -> None:
    from dataclasses import replace

    settings = replace(album.settings, data={"inquire": inquire})
    for how, line in (
        ({}, "the photos are in a gallery of features: say which model made them"),
        ({"gallery": "made-61"}, "'made-61'"),
        ({"gallery": "made-32"}, "contains vectors of 24 numbers, and 'hash-dual"),
    ):
        with pytest.raises(FieldmarkError) as caught:
            evaluate(HashDual(), "inquire-fullrank", settings=settings, rerank=how)
        assert line in str(caught.value)

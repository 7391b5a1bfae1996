"""Exports come back as they went out, and keep to the formats' own rules."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

from fieldmark.cli import main
from fieldmark.errors import DataError, UsageError
from fieldmark.report import read_table
from fieldmark.report.export import EXPORTS, choose, export
from fieldmark.report.export._chosen import plain_scores, yaml_text
from fieldmark.store import PartResult, Predictions, RunFilter, RunSpec, Score, Store

RARE, COLOUR = "rarespecies", "classical/colour"
BIOCLIP = "open-clip/hf-hub:imageomics/bioclip-2"


def ask(store: Store, spec: RunSpec, value: float, dataset: str, info: dict | None = None) -> None:
    task = {"dataset": dataset, "title": f"About {spec.task}", "about": ""}
    run = store.begin_run(spec, {"config": {"task": task}}, fingerprint="abc")
    answers = ["fox"] * 6 + ["hare", None] + ["fox"] * 4
    store.write_part(
        run,
        PartResult(
            Predictions(
                [f"{i}.jpg" for i in range(12)],
                ["fox"] * 8 + ['a "b", c\n'] * 4,
                answers,
                scores=[0.1 * i for i in range(12)],
                outcomes=["ok"] * 7 + ["unparsed"] + ["ok"] * 4,
                contents=[bytes(range(16))] * 11 + [None],
            ),
            info=info,
        ),
    )
    primary = Score("accuracy", value, "", value - 0.1, value + 0.1, n=11, n_units=11,
                    method="wilson", is_primary=True)  # fmt: skip
    other = Score("error_years", 3.25, n=11, higher_is_better=False, is_fraction=False)
    store.finish_run(run, [primary, other, replace(primary, part="night", is_primary=False)])


@pytest.fixture
def store(tmp_path: Path):
    with Store.open(tmp_path / "fieldmark.db") as opened:
        for place, model in enumerate((COLOUR, BIOCLIP)):
            spec = RunSpec(model, RARE, "probe/ridge", {"k": [1, {"a": None}]}, data="0a")
            ask(opened, spec, 0.1 + 2 / 3 * place, RARE)
            mine = replace(spec, task="mine", task_variant="v2", n_train=10)
            ask(opened, mine, 0.5, "nobody-knows-it")
        yield opened


def contents(form: str, store: Store, **choice) -> dict[str, bytes]:
    return {each.name: b"".join(each.chunks) for each in export(form, choose(store, **choice))}


def load_yaml(content: bytes):
    return yaml.safe_load(content.decode())


@pytest.mark.parametrize("form", list(EXPORTS))
def test_every_format_writes_the_same_twice(form, store):
    first = contents(form, store)
    assert first and all(first.values())
    assert first == contents(form, store)


def test_scores_say_how_photos_were_read(store):
    notes = {"decode": "gpu", "busy_s": {"read": 1.5}, "device_busy": 0.81, "images_per_s": 7730.0}
    ask(store, RunSpec("lab/net", RARE, "probe/ridge", data="0a"), 0.5, RARE, notes)
    (table,), (frame,) = (contents(form, store).values() for form in ("csv", "parquet"))
    exported = [
        json.loads(next(iter(contents("json", store).values()))),
        list(csv.DictReader(io.StringIO(table.decode()))),
        pl.read_parquet(io.BytesIO(frame)).to_dicts(),
    ]
    for rows in exported:
        decodes = {(row["model"], row["decode"]) for row in rows}
        assert decodes == {(COLOUR, ""), (BIOCLIP, ""), ("lab/net", "gpu")}


def test_json_holds_every_score(store):
    (content,) = contents("json", store).values()
    rows = json.loads(content)
    told = {
        "fit": None,
        "bad_images": {},
        "calibration": None,
        "by_position": [],
    }  # tests/report/test_fits.py has runs with both
    assert rows == [{**row, **told} for row in plain_scores(choose(store))]
    assert len(rows) == 4 * 3
    assert {(row["metric"], row["part"]) for row in rows} == {
        ("accuracy", ""), ("accuracy", "night"), ("error_years", "")
    }  # fmt: skip


def test_csv_comes_back(store):
    (content,) = contents("csv", store).values()
    for row, wanted in zip(
        csv.DictReader(io.StringIO(content.decode())), plain_scores(choose(store)), strict=True
    ):
        assert json.loads(row.pop("settings")) == wanted.pop("settings")
        assert row == {k: "" if v is None else str(v) for k, v in wanted.items()}


def test_parquet_comes_back(store):
    (content,) = contents("parquet", store).values()
    frame = pl.read_parquet(io.BytesIO(content))
    wanted = plain_scores(choose(store))
    assert frame["value"].to_list() == [row["value"] for row in wanted]
    assert frame["n_train"].to_list() == [row["n_train"] for row in wanted]
    assert [json.loads(each) for each in frame["settings"]] == [row["settings"] for row in wanted]


def test_seeds_together_are_the_table_s_own_number(tmp_path, filled):
    with Store.open(tmp_path / "seeds.db") as store:
        for seed, n_right in enumerate((10, 14, 15)):
            spec = RunSpec("m", "birds", "probe/svm", {}, n_train=8, seed=seed)
            filled(store, spec, {"": np.arange(20) < n_right})
        filled(
            store, RunSpec("other", "birds", "probe/svm", {}, n_train=8), {"": np.arange(20) < 9}
        )
        [shown] = [row for row in read_table(store).rows if row.model == "m"]
        (text,) = contents("csv", store).values()
        for form in ("json", "parquet"):
            assert contents(form, store)
    rows = list(csv.DictReader(io.StringIO(text.decode())))
    assert sorted(row["seeds"] for row in rows[:-1]) == ["0", "0", "1", "2"]
    last = rows[-1]
    assert last["seeds"] == "0 1 2"
    numbers = [float(last[name]) for name in ("value", "low", "high")]
    assert numbers == [shown.score.value, shown.score.low, shown.score.high]
    assert last["seed"] == last["run"] == "" and (last["repeats"], last["n_items"]) == ("3", "60")


def test_predictions_come_back_in_every_format(store):
    choice = {"has_predictions": True, "where": RunFilter(models=(COLOUR,))}
    (table,) = contents("parquet", store, **choice).values()
    frame = pl.read_parquet(io.BytesIO(table))
    assert len(frame) == 24 and set(frame["task"]) == {RARE, "mine@v2"}
    assert frame["outcome"].to_list().count("unparsed") == 2
    assert set(frame["content"]) == {bytes(range(16)).hex(), None}
    (text,) = contents("csv", store, **choice).values()
    again = pl.read_csv(text, schema_overrides=frame.schema)
    assert again.select(frame.columns).drop("part").equals(frame.drop("part"))
    (lines,) = contents("json", store, **choice).values()
    rows = [json.loads(line) for line in lines.decode().splitlines()]
    assert [row["target"] for row in rows] == frame["target"].to_list()


def test_formats_without_predictions_say_so(store):
    with pytest.raises(
        UsageError, match="card contains no predictions: --predictions works with csv"
    ):
        export("card", choose(store, has_predictions=True))


def test_model_index_is_what_the_hub_reads(store):
    files = contents("model-index", store, source="https://example.org/results")
    assert set(files) == {
        "classical_colour.yaml", "open-clip_hf-hub_imageomics_bioclip-2.yaml"
    }  # fmt: skip
    index = load_yaml(files["open-clip_hf-hub_imageomics_bioclip-2.yaml"])["model-index"]
    assert index[0]["name"] == "bioclip-2"
    rare = next(each for each in index[0]["results"] if each["dataset"]["config"] == RARE)
    assert rare["dataset"]["type"] == "imageomics/rare-species"
    assert rare["metrics"][0] == {
        "type": "accuracy", "value": 76.6667, "name": "accuracy, %",
        "args": {"low": 66.6667, "high": 86.6667, "level": 0.95, "n": 11},
    }  # fmt: skip
    assert rare["metrics"][1]["value"] == 3.25, "no percent of years"
    hub = pytest.importorskip("huggingface_hub.repocard_data")
    name, results = hub.model_index_to_eval_results(index)
    assert name == "bioclip-2" and len(results) == 4
    assert results[0].source_url == "https://example.org/results"


def test_eval_results_name_only_what_the_hub_has(store):
    chosen = choose(store)
    files = {each.name: b"".join(each.chunks) for each in export("eval-results", chosen)}
    assert set(files) == {
        f"{name}/.eval_results/rarespecies.yaml"
        for name in ("classical_colour", "open-clip_hf-hub_imageomics_bioclip-2")
    }
    assert chosen.left_out == ["data that are not on the Hub: mine@v2"]
    (entry,) = load_yaml(files["classical_colour/.eval_results/rarespecies.yaml"])
    assert entry["dataset"] == {"id": "imageomics/rare-species", "task_id": RARE}
    assert entry["value"] == 10.0
    assert entry["notes"].startswith("accuracy, 95 % interval 0.0 to 20.0, n=11; task=rarespecies")
    hub = pytest.importorskip("huggingface_hub")
    (parsed,) = hub.parse_eval_result_entries([entry])
    assert parsed.dataset_id == "imageomics/rare-species"


def test_a_card_tells_what_a_person_must_know(store):
    (content,) = contents("card", store, where=RunFilter(models=(BIOCLIP,))).values()
    text = content.decode()
    assert text.startswith("# BioCLIP-2 ViT-L/14: results on 2 tasks\n")
    assert "| rarespecies | probe/ridge | accuracy ↑ | 76.7 | [66.7, 86.7] | 11 | 91.7 % |" in text
    assert "fox 6 of 8 right, mostly taken for no answer" in text
    for head in ("Intended use", "Results", "Worst classes", "Licences", "Reproducibility"):
        assert f"## {head}\n" in text
    assert "- weights: mit, https://huggingface.co/imageomics/bioclip-2" in text
    assert "- data of nobody-knows-it: unknown" in text
    assert "task=mine@v2 data=0a protocol=probe/ridge" in text


def test_citations_are_bibtex(store):
    (content,) = contents("card", store, where=RunFilter(models=(BIOCLIP,))).values()
    block = content.decode().partition("```bibtex\n")[2].partition("```")[0]
    entries = re.findall(r"^@(\w+)\{([^,\s]+),$", block, re.M)
    assert [kind for kind, _ in entries] == ["misc", "misc", "misc", "software"]
    keys = [key for _, key in entries]
    assert keys == ["data-nobody-knows-it", "data-rarespecies", "model-bioclip-2", "fieldmark"]
    assert block.count("{") == block.count("}")
    assert not re.search(r"(?<!\\)[&%#$]", re.sub(r"\\url\{[^}]*\}", "", block))


@pytest.mark.parametrize(
    "value",
    [
        {"a": [{"b": [1, 2.5, None, True]}, {"c": "yes"}, []], "n": {}, "x y": "z: 1"},
        [["a", ["b"]], {"k": "- not a list", "date": "2026-01-02T03:04:05Z", "m": "0x10"}],
    ],
)
def test_yaml_comes_back(value):
    assert load_yaml(yaml_text(value).encode()) == value


def test_export_command(store, tmp_path, capsys):
    place = ["--results", str(tmp_path)]
    assert main(["export"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == list(EXPORTS)
    assert main(["export", "csv", "--model", COLOUR, *place]) == 0
    assert len(list(csv.reader(io.StringIO(capsys.readouterr().out)))) == 7
    out = tmp_path / "deep" / "scores.parquet"
    assert main(["export", "--out", str(out), *place]) == 0
    assert len(pl.read_parquet(out)) == 12
    assert main(["export", "card", "--out", str(tmp_path / "cards"), *place]) == 0
    assert len(list((tmp_path / "cards").glob("*.md"))) == 2
    assert not list(tmp_path.rglob("*.part"))


def test_nothing_to_export_is_told(tmp_path):
    with Store.open(tmp_path / "none.db", read_only=True) as empty, pytest.raises(DataError):
        choose(empty)


def test_every_seed_is_exported(tmp_path, filled):
    with Store.open(tmp_path / "seeds.db") as store:
        for seed in range(3):
            spec = RunSpec("a/one", "foxes", "probe/x", n_train=8, seed=seed)
            filled(store, spec, {"": np.arange(40) < 20 + seed})
        rows = plain_scores(choose(store))
    assert sorted(row["seed"] for row in rows if row["run"]) == [0, 1, 2]
    assert "setup" not in rows[0]

"""Class texts: six forms of names as data have them, with every combination of gaps."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fieldmark.protocols import PartItems
from fieldmark.protocols.zero_shot.block import ZeroShotBlock
from fieldmark.protocols.zero_shot.classes import (
    class_texts,
    openai_templates,
    rank_columns,
    templates_of,
)
from fieldmark.tasks import Task
from fieldmark.taxa import RANKS, names_of, scientific_name

KINDS = ("asis", "sci", "com", "taxon", "sci_com", "taxon_com")
LION = dict(
    zip(
        RANKS,
        ("Animalia", "Chordata", "Mammalia", "Carnivora", "Felidae", "Panthera", "leo"),
        strict=True,
    )
)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("asis", "the lion_of the zoo"),
        ("sci", "Panthera leo"),
        ("com", "African lion"),
        ("taxon", "Animalia Chordata Mammalia Carnivora Felidae Panthera leo"),
        ("sci_com", "Panthera leo with common name African lion"),
        (
            "taxon_com",
            "Animalia Chordata Mammalia Carnivora Felidae Panthera leo with common name "
            "African lion",
        ),
    ],
)
def test_six_forms(kind: str, text: str) -> None:
    names = names_of("the lion_of the zoo", "Panthera leo", "African lion", LION)
    assert names.text(kind) == text  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("Panthera leo (Linnaeus, 1758)", "Panthera leo"),
        ("panthera_leo", "Panthera leo"),
        ("PANTHERA LEO", "Panthera leo"),
        ("Panthera leo persica Meyer, 1826", "Panthera leo persica"),
        ("Quercus × rosacea Bechst.", "Quercus × rosacea"),
        ("Quercus x rosacea", "Quercus x rosacea"),
        ("Amanita sp.", "Amanita"),
        ("Amanita spp.", "Amanita"),
        ("Amanita sp", "Amanita"),
        ("Salix cf. alba", "Salix alba"),
        ("Amanita excelsa var. spissa (Fr.) Neville & Poumarat", "Amanita excelsa var. spissa"),
        ("  Parus   major ", "Parus major"),
        ("", ""),
        ("   ", ""),
        ("_", ""),
    ],
)
def test_scientific_names_as_data_write_them(written: str, name: str) -> None:
    assert scientific_name(written) == name
    assert names_of("a label", written, "", {}).text("sci") == (name or "a label")


@pytest.mark.parametrize(
    "species",
    ["leo", "Leo", "LEO", "Panthera leo", "panthera leo", "Panthera_leo", "leo (Linnaeus, 1758)"],
)
def test_a_species_is_its_epithet_however_it_is_written(species: str) -> None:
    ranks = {rank: name.lower() for rank, name in LION.items()} | {"species": species}
    names = names_of("x", "", "", ranks)
    assert names.taxon == "Animalia Chordata Mammalia Carnivora Felidae Panthera leo"
    assert names.text("sci") == "Panthera leo"


@pytest.mark.parametrize("species", ["sp.", "sp", "spp.", "sp. 3", "Panthera sp.", "", None])
def test_a_species_that_nobody_knows_is_left_out(species: str | None) -> None:
    names = names_of("x", "", "", LION | {"species": species})
    assert names.taxon == "Animalia Chordata Mammalia Carnivora Felidae Panthera"
    assert names.text("sci") == "Panthera"


def test_hybrids_keep_their_sign_in_all_forms() -> None:
    for species in ("× rosacea", "x rosacea", "Quercus × rosacea", "Quercus x rosacea Bechst."):
        names = names_of("x", "", "", {"genus": "Quercus", "species": species})
        sign = "×" if "×" in species else "x"
        assert names.text("sci") == names.text("taxon") == f"Quercus {sign} rosacea", species


RANK = st.one_of(
    st.none(),
    st.sampled_from(["", " ", "_", "aves", "AVES", "Aves", "incertae sedis", "Leo_ ", "sp.", "x"]),
)
NAME = st.one_of(
    RANK,
    st.sampled_from(
        ["Panthera leo", "panthera_leo (L.)", "Quercus × robur", "Amanita sp. 3", "×", "cf.", "12"]
    ),
    st.text(alphabet="aA_ ×.()1é", max_size=8),
)


@given(
    label=st.sampled_from(["a lion", "Tomato___Late_blight", "7"]),
    scientific=NAME,
    common=NAME,
    ranks=st.fixed_dictionaries(dict.fromkeys(RANKS, NAME)),
)
@example(label="a", scientific=None, common=None, ranks=dict.fromkeys(RANKS))
def test_no_combination_of_gaps_leaves_blanks_nones_or_nothing(
    label: str, scientific: str | None, common: str | None, ranks: dict[str, str | None]
) -> None:
    names = names_of(label, scientific, common, ranks)
    for kind in KINDS:
        text = names.text(kind)  # type: ignore[arg-type]
        assert text and text == text.strip()
        assert "  " not in text and "None" not in text
        assert kind == "asis" or "_" not in text
        assert not text.startswith("with common name") and not text.endswith("with common name")
    common_name = names.common
    for kind, plain in (("sci_com", "sci"), ("taxon_com", "taxon")):
        short, long = names.text(plain), names.text(kind)  # type: ignore[arg-type]
        assert long in (short, f"{short} with common name {common_name}", common_name)


@given(kept=st.sets(st.sampled_from(RANKS)))
def test_ranks_that_are_there_stand_in_order(kept: set[str]) -> None:
    ranks = {rank: LION[rank] if rank in kept else "" for rank in RANKS}
    names = names_of("label", "", "", ranks)
    wanted = " ".join(LION[rank] for rank in RANKS if rank in kept)
    assert names.text("taxon") == (wanted or "label")


# --- classes of a part ---


def part_of(rows: list[dict[str, object]], columns: tuple[str, ...]) -> PartItems:
    schema = dict.fromkeys(("id", "target", *columns), pl.String)
    frame = pl.DataFrame([{"id": str(n), **row} for n, row in enumerate(rows)], schema)
    return PartItems("", frame.clear(), frame)


TASK = Task(task="t", title="T", dataset="csv", metric="accuracy")


def test_rows_of_a_class_that_disagree_are_outvoted_and_ties_go_by_name() -> None:
    rows: list[dict[str, object]] = [
        {"target": "a", "common": "lion"},
        {"target": "a", "common": "tiger"},
        {"target": "a", "common": "lion "},
        {"target": "a", "common": None},
        {"target": "a", "common": ""},
        {"target": "a", "common": ""},
        {"target": "b", "common": "wolf"},
        {"target": "b", "common": "dog"},
        {"target": "c", "common": None},
    ]
    block = ZeroShotBlock(text="com", common="common")
    for order in (rows, rows[::-1]):
        classes = class_texts(TASK, block, part_of(order, ("common",)))
        assert dict(zip(classes.labels, classes.texts, strict=True)) == {
            "a": "lion", "b": "dog", "c": "c",
        }  # fmt: skip


def test_classes_of_one_text_are_told() -> None:
    rows: list[dict[str, object]] = [
        {"target": "male", "common": "duck"},
        {"target": "female", "common": "Duck"},
        {"target": "young", "common": "duck"},
    ]
    classes = class_texts(
        TASK, ZeroShotBlock(text="com", common="common"), part_of(rows, ("common",))
    )
    assert classes.shared == [("duck", ["male", "young"])]


def test_fewer_rank_columns_are_known_by_their_names() -> None:
    assert rank_columns(ZeroShotBlock(lineage=("genus", "family"))) == {
        "genus": "genus", "family": "family",
    }  # fmt: skip
    seven = ("k", "p", "c", "o", "f", "g", "s")
    assert rank_columns(ZeroShotBlock(lineage=seven)) == dict(zip(RANKS, seven, strict=True))
    assert rank_columns(ZeroShotBlock(lineage=("cls",))) == {"class": "cls"}


# --- templates ---


def test_openai_templates_are_the_eighty_of_open_clip() -> None:
    metadata = pytest.importorskip("open_clip.zero_shot_metadata")
    theirs = [template("{}") for template in metadata.OPENAI_IMAGENET_TEMPLATES]
    assert list(openai_templates()) == theirs
    assert len(theirs) == len(set(theirs)) == 80


def test_templates_are_none_eighty_one_or_ones_own() -> None:
    assert templates_of(ZeroShotBlock(templates="none")) == ("{}",)
    assert templates_of(ZeroShotBlock()) == openai_templates()
    assert templates_of(ZeroShotBlock(templates="a {} in the mud")) == ("a {} in the mud",)  # type: ignore[arg-type]
    assert templates_of(ZeroShotBlock(templates=("{}", "x {}"))) == ("{}", "x {}")

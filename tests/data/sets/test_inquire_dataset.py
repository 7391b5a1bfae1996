"""Do both forms of INQUIRE give every query its photos, and do lists and vectors fit together?"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fieldmark.data import Contents, ImageRef, load_image
from fieldmark.data.sets import inquire
from fieldmark.errors import DataError, UnknownName, UsageError
from fieldmark.world import World
from kit.dataset import finding_lines, jpeg, table_error

findings = partial(finding_lines, inquire)
refusal = partial(table_error, inquire)
TEST = "data/test-00000-of-00001.parquet"
HEADER = ",query_id,query_text,supercategory,category,iconic_group\n"
NOTHING = (
    "ROOT  contains no rows to rerank: expected data/validation-*.parquet and data/test-*.parquet. "
    "`fieldmark datasets inquire` shows layout and sources."
)
WREN, FOX = "A wren singing", "A fox with mange"


def row(image_id: int, query: str = WREN, relevant: object = 1, **more: object) -> dict:
    return {
        "image": {"bytes": jpeg(), "path": f"{image_id}.jpg"}, "query": query, "relevant": relevant,
        "inat24_image_id": image_id, "inat24_file_name": f"train/00001_A/{image_id}.jpg", **more,
    }  # fmt: skip


def write(root: Path, rows: list[dict], name: str = TEST) -> Path:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(rows).write_parquet(root / name)
    return root


def write_lists(root: Path, test: str = "", val: str = "", answers: str = "") -> None:
    (root / "inquire_queries_test.csv").write_text(HEADER + test)
    (root / "inquire_queries_val.csv").write_text(HEADER + val)
    (root / "inquire_annotations.csv").write_text("query_id,image_id,image_path\n" + answers)


# --- rows to rerank ---


def test_the_table_without_lists(tmp_path: Path):
    write(tmp_path, [row(1, iconic_group="Birds"), row(2, relevant=0, iconic_group="")])
    rows = inquire.table(tmp_path)
    assert rows.columns[6:] == [
        "query", "query_id", "image_id", "image_path", "supercategory", "category", "iconic_group",
        "relevant",
    ]  # fmt: skip
    number = rows["query_id"][0]
    assert len(number) == 12 and rows["unit"].to_list() == [number, number]
    assert rows.row(0) == (
        f"{number}/1", f"{TEST}::0", None, "test", "yes", number, WREN, number, "1",
        "train/00001_A/1", None, None, "Birds", "yes",
    )  # fmt: skip
    assert rows.select("id", "label", "relevant", "iconic_group").row(1) == (
        f"{number}/2", "no", "no", None,
    )  # fmt: skip
    assert load_image(tmp_path, ImageRef(rows["image"][1])).size == (20, 20)


def test_the_lists_give_numbers_and_kinds(tmp_path: Path):
    """By the text, whatever spaces stand around it, and within the split."""
    write(tmp_path, [row(1), row(2, FOX)])
    write(tmp_path, [row(1, FOX)], "data/validation-00000-of-00001.parquet")
    write_lists(
        tmp_path,
        test=f"0,7,{WREN},Behavior,Songs,Birds\n3,9,{FOX} ,Appearance,Health and Disease,\n",
        val=f"1,8,{FOX},Context,Other,Mammals\n",
    )
    rows = inquire.table(tmp_path)
    assert rows.select("split", "query_id", "supercategory", "iconic_group").rows() == [
        ("val", "8", "Context", "Mammals"),
        ("test", "7", "Behavior", "Birds"),
        ("test", "9", "Appearance", None),
    ]
    assert rows["id"].to_list() == ["8/1", "7/1", "9/2"]


def test_what_the_rows_say_goes_before_the_lists(tmp_path: Path):
    write(tmp_path, [row(1, supercategory="Species", category=None)])
    write_lists(tmp_path, test=f"0,7,{WREN},Behavior,Songs,Birds\n")
    assert inquire.table(tmp_path).select("supercategory", "category").row(0) == (
        "Species", "Songs",
    )  # fmt: skip


def test_rows_are_grouped_by_query_however_many(tmp_path: Path):
    """And wherever the files are cut."""
    first = [row(n, WREN if n < 3 else FOX) for n in range(5)]
    write(tmp_path, first, "default/test/0000.parquet")
    write(tmp_path, [row(n, FOX) for n in range(5, 12)], "default/test/0001.parquet")
    rows = inquire.table(tmp_path)
    assert rows["unit"].n_unique() == 2
    assert dict(rows.group_by("query").len().rows()) == {WREN: 3, FOX: 9}


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([row(1), row(2, relevant=2)], f"/{TEST}::1  relevant is '2': expected 0 or 1."),
        ([row(1), row(2, relevant=None)], f"/{TEST}::1  relevant is None: expected 0 or 1."),
        ([row(1, "  ")], f"/{TEST}::0  query is None: expected a text."),
        (
            [{"image": {"bytes": jpeg(), "path": "a"}, "query": "a"}],
            f"/{TEST}  lacks the columns 'relevant', 'inat24_image_id': it has image, query.",
        ),
    ],
)
def test_broken_rows(tmp_path: Path, rows: list[dict], says: str):
    write(tmp_path, rows)
    assert refusal(tmp_path) == f"ROOT{says}"


def test_a_photo_twice_for_one_query(tmp_path: Path):
    write(tmp_path, [row(1), row(1)])
    write_lists(tmp_path, test=f"0,7,{WREN},Behavior,Songs,Birds\n")
    assert refusal(tmp_path) == (
        "ROOT  1 ids are on more than one row ('7/1'): ids must be unique."
    )


def test_nothing_to_rerank(tmp_path: Path):
    assert refusal(tmp_path) == NOTHING
    with pytest.raises(UsageError, match=r"form is 'half': expected rerank or full\."):
        inquire.table(tmp_path, form="half")


def test_findings_of_the_rows(tmp_path: Path):
    write(
        tmp_path, [row(1), row(2, relevant=0), row(1, FOX, 0)], "data/test-00001-of-00002.parquet"
    )
    write_lists(tmp_path, f"0,7,{WREN},Behavior,Songs,Birds\n", answers="7,1,train/a.jpg\n")
    assert findings(tmp_path) == [
        "error: 1 of 2 files of test are missing: 'test-00000-of-00002'.",
        "note: not the published size: val 0 of 4,000, test 3 of 16,000.",
        f"note: 1 query to rerank without a relevant photo: '{FOX}'.",
        f"warning: 1 query to rerank that no list of queries has: '{FOX}'.",
        "note: not the published number of queries: val 0 of 50, test 1 of 200, Appearance 0 of "
        "66, Behavior 1 of 67, Context 0 of 49, Species 0 of 18.",
    ]


# --- queries, and the photos that answer them ---


def test_the_real_lists(shared: Path, tmp_path: Path):
    for split in ("val", "test"):
        name = f"inquire_queries_{split}.csv"
        shutil.copyfile(shared / "data" / name, tmp_path / name)
    test, val = inquire.read_queries(tmp_path, "test"), inquire.read_queries(tmp_path, "val")
    assert (len(test), len(val)) == (200, 50)
    assert test.columns == ["query_id", "query", "supercategory", "category", "iconic_group"]
    assert test.row(0) == (
        "3", "A mongoose standing upright alert", "Behavior", "Defensive and Survival Behaviors",
        "Mammals",
    )  # fmt: skip
    assert test["iconic_group"].null_count() == 2
    assert test["category"].n_unique() == val["category"].n_unique() == 16
    assert "red fox showing signs of sarcoptic mange" in val["query"].to_list()
    without = "inquire_annotations.csv is not here: all photos cannot be ranked without it."
    assert findings(tmp_path) == [f"error: {NOTHING}", f"warning: {without}"]
    write(tmp_path, [row(1, "A mongoose standing upright alert")])
    assert findings(tmp_path)[-1] == f"note: {without}"
    assert inquire.table(tmp_path)["query_id"].to_list() == ["3"]


def test_the_table_of_queries(tmp_path: Path):
    write_lists(
        tmp_path,
        test=f"0,7,{WREN},Behavior,Songs,Birds\n1,9,{FOX},Appearance,Health and Disease,\n",
        val="2,8,moss,Context,Other,Plants\n",
        answers="7,1,train/a.jpg\n7,2,train/b.JPG\n7,1,train/a.jpg\n8,3,train/c\n",
    )
    rows = inquire.table(tmp_path, form="full")
    assert rows.columns[6:] == [
        "query_id", "query", "supercategory", "category", "iconic_group", "n_positives",
    ]  # fmt: skip
    assert rows.select("id", "split", "label", "unit", "n_positives").rows() == [
        ("8", "val", "Context", "8", 1),
        ("7", "test", "Behavior", "7", 2),
        ("9", "test", "Appearance", "9", 0),
    ]
    assert rows["image"].to_list() == [[], [], []]
    assert inquire.read_positives(tmp_path).rows() == [
        ("7", "train/a"), ("7", "train/b"), ("8", "train/c"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("queries_test", f"{HEADER}0,7,,a,b,c\n", ":2  query_text is None: expected a text."),
        (
            "queries_test",
            f"{HEADER}0,7,x,a,b,c\n1,,y,a,b,c\n",
            ":3  query_id is None: expected a number.",
        ),
        (
            "queries_val",
            f"{HEADER}0,7,x,a,b,c\n1,7,y,a,b,c\n",
            ":3  id '7' is already on line 2: ids must be unique.",
        ),
        (
            "queries_val",
            "query_id,query\n1,x\n",
            ":1  lacks the columns 'query_text', 'supercategory', 'category' and 1 more: expected "
            "query_id, query_text, supercategory, category, iconic_group.",
        ),
        (
            "annotations",
            "query_id,image_id\n1,2\n",
            ":1  lacks the columns 'image_path': expected query_id, image_path.",
        ),
        ("annotations", "query_id,image_path\n7,\n", ":2  image_path is None: expected a path."),
    ],
)  # fmt: skip
def test_broken_lists_are_told_with_their_line(tmp_path: Path, file: str, text: str, says: str):
    write_lists(tmp_path, test=f"0,1,{WREN},a,b,c\n", val=f"0,2,{FOX},a,b,c\n")
    (tmp_path / f"inquire_{file}.csv").write_text(text)
    assert refusal(tmp_path, form="full") == f"ROOT/inquire_{file}.csv{says}"


def test_one_list_is_enough_for_its_split(tmp_path: Path):
    write_lists(tmp_path, f"0,7,{WREN},Behavior,Songs,Birds\n", answers="7,1,a.jpg\n8,2,b.jpg\n")
    (tmp_path / "inquire_queries_val.csv").unlink()
    assert inquire.table(tmp_path, form="full")["id"].to_list() == ["7"]
    write(tmp_path, [row(1)])
    assert inquire.table(tmp_path)["query_id"].to_list() == ["7"]
    assert [line for line in findings(tmp_path) if not line.startswith("note: ")] == []


def test_lists_that_are_missing(tmp_path: Path):
    with pytest.raises(DataError, match=r"inquire_queries_val\.csv  is missing: the list of"):
        inquire.read_queries(tmp_path, "val")
    with pytest.raises(UsageError, match="split is 'train': expected val or test"):
        inquire.read_queries(tmp_path, "train")
    with pytest.raises(DataError, match=r"inquire_annotations\.csv  is missing: the photos"):
        inquire.read_positives(tmp_path)
    (tmp_path / "inquire_annotations.csv").write_text("query_id,image_path\n7,a.jpg\n")
    assert refusal(tmp_path, form="full") == (
        "ROOT/inquire_queries_test.csv  is missing: the list of queries. `fieldmark datasets "
        "inquire` shows layout and sources."
    )


def test_findings_of_the_lists(tmp_path: Path):
    write_lists(
        tmp_path,
        test=f"0,7,{WREN},Behavior,Songs,Birds\n1,9,{FOX},a,b,c\n",
        val=f"2,8,{FOX},a,b,c\n",
        answers="7,1,train/a.jpg\n8,1,train/a.jpg\n5,1,train/a.jpg\n",
    )
    assert findings(tmp_path)[2:] == [
        f"warning: 1 query listed more than once: '{FOX}'.",
        "warning: 1 query without a photo that answers it: '9'.",
        "warning: 1 query in inquire_annotations.csv that no list of queries has: '5'.",
    ]


# --- the gallery ---


def embed(
    root: Path, parts: list[np.ndarray], names: list[list[str]] | None = None, first: int = 0
) -> Path:
    folder = root / "embs" / "vit"
    names = names or [[f"train/{i}-{n}" for n in range(len(part))] for i, part in enumerate(parts)]
    for kind in ("img_emb", "metadata"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    for number, (part, paths) in enumerate(zip(parts, names, strict=True), first):
        np.save(folder / "img_emb" / f"img_emb_{number}.npy", part)
        table = pl.DataFrame({"image_path": paths})
        table.write_parquet(folder / "metadata" / f"metadata_{number}.parquet")
    return folder


def vectors(n: int, dim: int = 4, start: float = 0.0, dtype: str = "float32") -> np.ndarray:
    return (start + np.arange(n * dim).reshape(n, dim)).astype(dtype)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("first", [0, 1])
def test_files_follow_their_numbers(tmp_path: Path, dtype: str, first: int):
    """10 comes after 9, of vectors and of paths alike."""
    parts = [vectors(2, start=100.0 * i, dtype=dtype) for i in range(12)]
    embed(tmp_path, parts, first=first)
    assert inquire.gallery_names(tmp_path) == ["vit"]
    gallery = inquire.open_gallery(tmp_path, "vit")
    assert (gallery.n_rows, gallery.dim) == (24, 4)
    blocks = list(gallery.blocks())
    assert all(isinstance(block, np.memmap) and block.dtype == dtype for block in blocks)
    assert np.array_equal(np.concatenate(blocks), np.concatenate(parts))
    assert gallery.paths.to_list() == [f"train/{i}-{n}" for i in range(12) for n in range(2)]
    assert gallery.paths_at([23, 0, 20, 0]) == [
        "train/11-1",
        "train/0-0",
        "train/10-0",
        "train/0-0",
    ]
    with pytest.raises(ValueError, match="read-only"):
        blocks[0][0, 0] = 1


def test_padded_numbers_and_one_table_for_all(tmp_path: Path):
    """What counts is the order of all rows, not how the files are cut."""
    folder = embed(tmp_path, [vectors(2), vectors(1)])
    for path in list((folder / "img_emb").iterdir()):
        path.rename(path.with_name(path.name.replace("emb_", "emb_000")))
    shutil.rmtree(folder / "metadata")
    (folder / "metadata").mkdir()
    pl.DataFrame({"image_path": ["a.jpg", "b", "c"]}).write_parquet(folder / "metadata/0.parquet")
    gallery = inquire.open_gallery(tmp_path, "vit")
    assert (gallery.lengths, gallery.paths.to_list()) == ((2, 1), ["a", "b", "c"])


def test_positives_are_found_and_those_that_lack_counted(tmp_path: Path):
    embed(tmp_path, [vectors(2), vectors(3)], [["train/a", "train/b"], ["c", "train/a", "d"]])
    write_lists(
        tmp_path,
        test=f"0,7,{WREN},Behavior,Songs,Birds\n1,9,{FOX},a,b,c\n",
        answers="7,1,train/a.jpg\n7,2,train/z.jpg\n9,3,d.jpg\n9,1,train/a.jpg\n",
    )
    gallery = inquire.open_gallery(tmp_path, "vit")
    found = inquire.find_positives(gallery, inquire.read_positives(tmp_path))
    assert found.rows.rows() == [
        ("7", "train/a", 0), ("7", "train/a", 3), ("9", "d", 4), ("9", "train/a", 0),
        ("9", "train/a", 3),
    ]  # fmt: skip
    assert found.missing.rows() == [("7", "train/z")]
    assert found.n_twins == gallery.n_twins() == 1
    assert findings(tmp_path)[1:] == [
        "warning: embs/vit: 1 row of a photo seen before.",
        "warning: embs/vit: 1 answer without a vector: 'train/z'.",
    ]


def test_the_digest_follows_every_byte(tmp_path: Path):
    folder = embed(tmp_path, [vectors(50), vectors(50)])

    def digest() -> str:
        return inquire.open_gallery(tmp_path, "vit").digest(Contents(None))

    before = digest()
    assert digest() == before
    path = folder / "img_emb/img_emb_1.npy"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    changed = digest()
    names = [f"train/1-{n}" for n in range(49)] + ["train/other"]
    pl.DataFrame({"image_path": names}).write_parquet(folder / "metadata/metadata_1.parquet")
    assert len({before, changed, digest()}) == 3
    embed(tmp_path, [vectors(50), vectors(50)])
    assert digest() == before


def test_an_unknown_model_gets_the_closest(tmp_path: Path):
    with pytest.raises(DataError) as none:
        inquire.open_gallery(tmp_path, "vit")
    assert str(none.value) == (
        f"{tmp_path}/embs  has no embeddings: expected MODEL/img_emb/img_emb_0.npy, … and "
        "MODEL/metadata/*.parquet."
    )
    embed(tmp_path, [vectors(2)])
    with pytest.raises(UnknownName) as caught:
        inquire.open_gallery(tmp_path, "vjt")
    assert str(caught.value) == (
        f"{tmp_path}/embs  embeddings 'vjt' is not known. Did you mean 'vit'?"
    )


def refused(root: Path) -> str:
    with pytest.raises(DataError) as caught:
        inquire.open_gallery(root, "vit")
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(str(root / "embs/vit"), "VIT")


FIRST, SECOND = "img_emb/img_emb_0.npy", "img_emb/img_emb_1.npy"
PATHS = "metadata/metadata_0.parquet"
EXPECTED = "expected rows of vectors, float16 or float32."


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        (SECOND, None, "VIT/img_emb  lacks img_emb_*.npy of number '1'."),
        (
            FIRST,
            None,
            "VIT  has 5 vectors in 2 files and 7 paths in 3 files: expected as many paths as "
            "vectors.",
        ),
        (
            "img_emb/img_emb_01.npy",
            vectors(2),
            "VIT/img_emb/img_emb_1.npy  has the same number as img_emb_01.npy: expected one of "
            "them.",
        ),
        (
            "metadata/all.parquet",
            b"",
            "VIT/metadata/all.parquet  has no number at the end of its name: expected one.",
        ),
        (
            SECOND,
            vectors(5),
            "VIT/metadata/metadata_1.parquet  has 2 rows: expected 5, the vectors of "
            "img_emb_1.npy.",
        ),
        (
            SECOND,
            vectors(2, 5),
            f"VIT/{SECOND}  has vectors of 5 numbers: those of img_emb_0.npy have 4.",
        ),
        (SECOND, vectors(2)[0], f"VIT/{SECOND}  contains 4 float32: {EXPECTED}"),
        (SECOND, vectors(2, dtype="float64"), f"VIT/{SECOND}  contains 2 × 4 float64: {EXPECTED}"),
        (SECOND, b"x" * 200, f"VIT/{SECOND}  cannot be read as a NumPy array: "),
        (PATHS, b"PAR1", f"VIT/{PATHS}  is not a parquet file that can be read: "),
        (
            PATHS,
            pl.DataFrame({"path": ["a"]}),
            f"VIT/{PATHS}  lacks the column 'image_path': it has path.",
        ),
    ],
)
def test_broken_galleries(tmp_path: Path, file: str, content: object, says: str):
    path = embed(tmp_path, [vectors(2), vectors(2), vectors(3)]) / file
    if content is None:
        path.unlink()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, pl.DataFrame):
        content.write_parquet(path)
    else:
        np.save(path, content)
    assert refused(tmp_path).startswith(says)


def test_files_that_were_cut_off_lost_or_renumbered(tmp_path: Path):
    folder = embed(tmp_path, [vectors(2), vectors(2)])
    whole = (folder / SECOND).read_bytes()
    (folder / SECOND).write_bytes(whole[:-9])
    assert refused(tmp_path).startswith(f"VIT/{SECOND}  cannot be read as a NumPy array: ")
    (folder / SECOND).unlink()
    (folder / FIRST).rename(folder / SECOND)
    (folder / "img_emb/img_emb_2.npy").write_bytes(whole)
    assert refused(tmp_path) == (
        "VIT/metadata/metadata_0.parquet  has number 0 where img_emb_1.npy has 1: expected the "
        "same numbers."
    )
    shutil.rmtree(folder / "metadata")
    assert refused(tmp_path) == "VIT/metadata  contains no *.parquet: expected one or more."
    write_lists(write(tmp_path, [row(1)]), test=f"0,7,{WREN},a,b,c\n")
    assert findings(tmp_path)[-1] == (
        "error: ROOT/embs/vit/metadata  contains no *.parquet: expected one or more."
    )


# --- the made copy ---


def test_the_made_copy_has_both_forms(made_copy: Callable[[str], Path]):
    root = made_copy("inquire")
    assert sorted(path.name for path in (root / "data").iterdir()) == [
        "test-00000-of-00002.parquet", "test-00001-of-00002.parquet",
        "validation-00000-of-00001.parquet",
    ]  # fmt: skip
    rows, queries = inquire.table(root), inquire.table(root, form="full")
    assert set(rows["query_id"]) == set(queries["id"])
    assert set(rows["split"]) == {"val", "test"}
    kinds = {"Appearance", "Behavior", "Context", "Species"}
    assert set(rows["supercategory"]) == set(queries["label"]) == kinds
    n_relevant = rows.group_by("query").agg((pl.col("label") == "yes").sum()).get_column("label")
    assert (n_relevant == 0).sum() == 1 and n_relevant.max() >= 2
    assert rows.group_by("query").len()["len"].min() >= 8
    assert queries["iconic_group"].null_count() == 1
    assert queries["n_positives"].min() >= 1


def test_what_is_relevant_in_the_made_copy_answers_the_query(made_copy: Callable[[str], Path]):
    """Rows and list agree, and every positive has a vector."""
    root = made_copy("inquire")
    positives = inquire.read_positives(root)
    answers = set(positives.rows())
    rows = inquire.table(root).select("query_id", "image_path", "label").rows()
    assert all(((query, path) in answers) == (label == "yes") for query, path, label in rows)
    assert inquire.gallery_names(root) == ["made-16", "made-32"]
    for name, dtype in (("made-16", np.float16), ("made-32", np.float32)):
        gallery = inquire.open_gallery(root, name)
        assert len(gallery.arrays) == 2 and {block.dtype.type for block in gallery.blocks()} == {
            dtype
        }
        found = inquire.find_positives(gallery, positives)
        assert found.missing.is_empty() and found.n_twins == 0
        assert len(found.rows) == len(positives)
        assert gallery.paths_at(found.rows["row"].to_list()) == found.rows["image_path"].to_list()


def test_a_copy_of_few_species_can_be_made(tmp_path: Path):
    inquire.make(tmp_path, World(seed=1, n_species=4), 1)
    rows = inquire.table(tmp_path)
    assert set(rows["split"]) == {"val", "test"} and set(rows["label"]) == {"yes", "no"}


@pytest.mark.slow
def test_a_larger_copy_has_a_hundred_photos_a_query(tmp_path: Path):
    inquire.make(tmp_path, World(seed=5, n_species=24), 420)
    assert inquire.table(tmp_path).group_by("query").len()["len"].unique().to_list() == [100]

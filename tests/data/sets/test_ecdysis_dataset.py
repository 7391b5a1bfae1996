"""Is the Ecdysis collection split by time, with no day on both sides?"""

import csv
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmark.data.sets import ecdysis
from kit.dataset import finding_lines, jpeg, table_error

findings = partial(finding_lines, ecdysis)
refusal = partial(table_error, ecdysis)

HEADER = list(ecdysis.FILE_COLUMNS)


def insect(
    number: int, day: str = "2021-06-01", path: str = "Insecta|Coleoptera|Cocc|Harmonia|H. axyridis"
) -> dict[str, object]:
    ranks = [f"gbif_{rank}" for rank in ecdysis.RANKS]
    return {
        "id": number, "specimen_id": 100 + number, "visit_date": day,
        "image_thumbnail_large": f"specimen_images/{number}.JPG", "country": "USA",
        **dict(zip(ranks, path.split("|"), strict=True)),
    }  # fmt: skip


def write(root: Path, rows: list[dict[str, object]], header: list[str] = HEADER) -> Path:
    root.mkdir(exist_ok=True)
    with (root / "metadata.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, header, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return root


def days(root: Path, *texts: str) -> list[str]:
    """The splits of photos of one species, taken on these days."""
    write(root, [insect(n, text) for n, text in enumerate(texts)])
    return ecdysis.table(root)["split"].to_list()


def test_the_table(tmp_path: Path):
    write(tmp_path, [insect(7), insect(8, path="Insecta|Diptera|||")])
    rows = ecdysis.table(tmp_path)
    assert rows.columns == [
        "id", "image", "crop", "split", "label", "unit", "rank", "scientific_name", *ecdysis.RANKS,
        "date", "country", "state_region", "county_region",
    ]  # fmt: skip
    assert rows.row(0) == (
        "7", "images/7.JPG", None, "train", "H. axyridis", "107", "species", "H. axyridis",
        "Insecta", "Coleoptera", "Cocc", "Harmonia", "H. axyridis", date(2021, 6, 1), "USA",
        None, None,
    )  # fmt: skip
    assert rows.select("label", "rank", "species").row(1) == ("Diptera", "order", None)


def test_labels_are_names_that_mean_one_group(tmp_path: Path):
    paths = [
        "I|C|F|Harmonia|axyridis",  # an epithet alone
        "I|C|F|Morus|Morus alba",
        "I|C|F|Morus|",
        "A|D|G|Morus|",  # another genus of the same name
        "||||",
    ]
    write(tmp_path, [insect(n, path=path) for n, path in enumerate(paths)])
    rows = ecdysis.table(tmp_path)
    assert rows["label"].to_list() == [
        "Harmonia axyridis", "Morus alba", "I|C|F|Morus|", "A|D|G|Morus|", None,
    ]  # fmt: skip
    assert rows["scientific_name"].to_list() == [
        "Harmonia axyridis", "Morus alba", "Morus", "Morus", None,
    ]  # fmt: skip


def test_the_split_is_by_time(tmp_path: Path):
    ten = [f"2021-06-{day:02}" for day in (9, 3, 1, 10, 5, 7, 2, 8, 4, 6)]
    assert days(tmp_path, *ten) == [
        "test", "train", "train", "test", "train", "train", "train", "train", "train", "train",
    ]  # fmt: skip
    # The fifth photo of five reaches 80 %, but its day began with the third.
    first, second = "2021-06-01", "2021-06-02"
    assert days(tmp_path, first, first, second, second, second) == ["train"] * 2 + ["test"] * 3
    # The first day alone is more than 80 %.
    assert days(tmp_path, *[first] * 9, second) == ["train"] * 9 + ["test"]
    assert days(tmp_path, first, first) == ["train", "train"]
    assert days(tmp_path, first) == ["train"]
    assert days(tmp_path, first, second) == ["train", "test"]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 28)), min_size=1, max_size=40))
def test_no_day_of_a_label_is_on_both_sides(
    tmp_path_factory: pytest.TempPathFactory, seen: list[tuple[int, int]]
):
    root = tmp_path_factory.mktemp("days")
    rows = [
        insect(n, f"2021-06-{day:02}", f"I|C|F|G|G s{kind}") for n, (kind, day) in enumerate(seen)
    ]
    table = ecdysis.table(write(root, rows))
    shuffled = ecdysis.table(write(root, rows[::-1]))
    assert table.sort("id").equals(shuffled.sort("id"))
    for _, of_label in table.group_by("label"):
        train, test = (of_label.filter(split=one)["date"] for one in ("train", "test"))
        assert len(train) and (not len(test) or train.max() < test.min())  # type: ignore[operator]
        assert len(test) or of_label["date"].n_unique() == 1


def test_rows_that_cannot_be_used_are_counted(tmp_path: Path):
    rows = [
        insect(1), insect(2, "2021-06-02"), insect(3) | {"image_thumbnail_large": ""},
        insect(4, "last summer"), insect(5, path="||||"), insect(6, path="I|Diptera|||"),
        insect(7, "2021-07-01T10:00:00", "I|Diptera|||"), insect(8, path="I|Odonata|||"),
    ]  # fmt: skip
    write(tmp_path, rows)
    (tmp_path / "images").mkdir()
    for number in (1, 2, 4, 5, 6, 7, 8):
        (tmp_path / "images" / f"{number}.JPG").write_bytes(jpeg())
    table = ecdysis.table(tmp_path)
    assert table.select("id", "split").rows() == [
        ("1", "train"), ("2", "test"), ("4", None), ("5", None), ("6", "train"), ("7", "test"),
        ("8", "train"),
    ]  # fmt: skip
    assert findings(tmp_path) == [
        "note: 1 row without a photo, left out.",
        "note: 1 row without a date (YYYY-MM-DD), in no split.",
        "note: 1 row without any name, in no split.",
        "note: 3 photos named to a higher rank than species, kept.",
        "note: 1 of 3 labels seen on one day only, all train: 'Odonata'.",
    ]


def test_check_of_what_is_left(tmp_path: Path):
    write(tmp_path, [insect(1), insect(2, path="I|Diptera|||")])
    assert findings(tmp_path)[1:] == [
        "error: no label was seen on two days: nothing is left for the test.",
        "error: 2 of 2 images are missing: 'images/1.JPG', 'images/2.JPG'.",
    ]
    write(tmp_path, [insect(1), insect(2, "")])
    assert "error: at least two labels with a date are needed, found 1." in findings(tmp_path)


def test_broken_files(tmp_path: Path):
    assert refusal(tmp_path) == (
        "ROOT/metadata.csv  is missing: the table of the Ecdysis collection. `fieldmark datasets "
        "ecdysis` shows layout and sources."
    )
    write(tmp_path, [insect(1)], ["id", "visit_date"])
    assert refusal(tmp_path) == (
        "ROOT/metadata.csv:1  lacks the columns 'image_thumbnail_large', 'gbif_class', "
        "'gbif_order' and 3 more: expected id, image_thumbnail_large, visit_date, gbif_class, "
        "gbif_order, gbif_family, gbif_genus, gbif_species."
    )
    write(tmp_path, [insect(1), insect(2) | {"id": ""}])
    assert refusal(tmp_path) == "ROOT/metadata.csv:3  id is None: expected an id."
    write(tmp_path, [insect(1), insect(1)])
    assert refusal(tmp_path) == (
        "ROOT/metadata.csv  1 ids are on more than one row ('1'): ids must be unique."
    )


def test_the_made_layout(made_copy: Callable[[str], Path]):
    root = made_copy("ecdysis")
    header = (root / "metadata.csv").read_text().splitlines()[0].split(",")
    assert header == HEADER and len(header) == 17
    rows = ecdysis.table(root)
    assert len(ecdysis.specimens(root)) > len(rows)
    tested = rows.filter(pl.col("split") == "test")
    assert set(tested["label"]) <= set(rows.filter(pl.col("split") == "train")["label"])
    assert tested["label"].n_unique() >= 4

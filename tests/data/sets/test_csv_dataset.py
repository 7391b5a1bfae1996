"""Is any table with image and label columns understood, and what is said of one that is not?"""

import io
from functools import partial
from pathlib import Path

import polars as pl
import pytest
from PIL import Image

from fieldmark.data import load_dataset, read_bytes
from fieldmark.data.get.urls import UrlColumns, read_files
from fieldmark.data.sets import csv
from kit.dataset import table_error

refusal = partial(table_error, csv)


def png(colour: str = "red") -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (4, 4), colour).save(buffer, "PNG")
    return buffer.getvalue()


def write(root: Path, text: str | bytes, name: str = "labels.csv") -> Path:
    path = root / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def shown(rows: pl.DataFrame) -> list[tuple[object, ...]]:
    return rows.select("id", "image", "split", "label", "unit").rows()


def test_a_folder_with_one_table(tmp_path: Path):
    write(tmp_path, "image,label,split\na.jpg,oak,train\nb.jpg,elm,Valid\n")
    rows = csv.table(tmp_path)
    assert rows.columns == ["id", "image", "crop", "split", "label", "unit"]
    assert shown(rows) == [
        ("a.jpg", "a.jpg", "train", "oak", None),
        ("b.jpg", "b.jpg", "val", "elm", None),
    ]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
def test_encodings_and_separators(tmp_path: Path, separator: str, encoding: str):
    text = f"filename{separator}species\nç.jpg{separator}Früh, ja\n"
    text = text if separator != "," else text.replace("Früh, ja", '"Früh, ja"')
    path = write(tmp_path, text.encode(encoding), "t.tsv")
    assert shown(csv.table(path)) == [("ç.jpg", "ç.jpg", None, "Früh, ja", None)]


def test_values_stay_as_written(tmp_path: Path):
    write(tmp_path, "id,path,class,n\n007,1.jpg,010,3\n008, 2.jpg ,1e3,4\n")
    rows = csv.table(tmp_path)
    assert shown(rows) == [("007", "1.jpg", None, "010", None), ("008", "2.jpg", None, "1e3", None)]
    assert rows["n"].to_list() == [3, 4]


def test_columns_can_be_named(tmp_path: Path):
    write(
        tmp_path,
        "label,image,photo,bird,cam,part,key\nx,0,a.jpg,finch,c1,test,k1\ny,1,b.jpg,tit,c2,train,k2\n",
    )
    rows = csv.table(tmp_path, image="photo", label="bird", unit="cam", split="part", id="key")
    assert shown(rows) == [
        ("k1", "a.jpg", "test", "finch", "c1"),
        ("k2", "b.jpg", "train", "tit", "c2"),
    ]
    assert rows.select("file_label", "file_image", "photo").rows()[0] == ("x", "0", "a.jpg")


def test_class_is_not_a_label_beside_the_other_ranks(tmp_path: Path):
    write(
        tmp_path,
        "filepath,phylum,class,order,species\na.jpg,Chordata,Aves,Passeriformes,Pica pica\n",
    )
    assert csv.table(tmp_path)["label"].to_list() == ["Pica pica"]


def test_a_unit_is_guessed_when_it_can_carry_an_interval(tmp_path: Path):
    lines = [f"{n}.jpg,oak,site1,s{n % 6}" for n in range(12)]
    write(tmp_path, "\n".join(["image,label,location_id,sequence_id", *lines]))
    assert csv.table(tmp_path)["unit"].n_unique() == 6
    assert set(csv.table(tmp_path, unit="location_id")["unit"]) == {"site1"}


def test_several_rows_of_one_image_get_ids_of_their_own(tmp_path: Path):
    write(tmp_path, "image,label\na.jpg,oak\nb.jpg,elm\na.jpg,yew\n")
    assert csv.table(tmp_path)["id"].to_list() == ["a.jpg", "b.jpg", "a.jpg#2"]


def test_images_folder_is_found(tmp_path: Path):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "1.png").write_bytes(png())
    write(tmp_path, "FILE_NAME,CATEGORY,SUPER_CATEGORY\n1.png,oak,tree\n2.png,elm,tree\n")
    assert csv.table(tmp_path)["image"].to_list() == ["images/1.png", "images/2.png"]


def test_darwin_core_lists_several_photos_of_an_occurrence(tmp_path: Path):
    rows = [f"o{n},Vulpes vulpes,a{n}.jpg | https://x.org/{n}.html | b{n}.jpg\n" for n in range(6)]
    text = "occurrenceID,scientificName,associatedMedia\n" + "".join(rows)
    frame = csv.table(write(tmp_path, text))
    assert frame["image"].to_list()[:3] == ["a0.jpg", "b0.jpg", "a1.jpg"]
    assert frame["unit"].to_list()[:3] == ["o0", "o0", "o1"]
    assert set(frame["label"]) == {"Vulpes vulpes"}


@pytest.mark.parametrize("key", ["id", "number"])
def test_photos_of_an_export_are_found_where_they_were_downloaded(tmp_path: Path, key: str):
    """iNaturalist names photos by their addresses; an id names the file that is downloaded."""
    rows = [f"{n},https://x.org/photos/{n}0.jpg?v=1,Vulpes vulpes\n" for n in (7, 8)]
    table = write(tmp_path, f"{key},image_url,scientific_name\n" + "".join(rows))
    (tmp_path / "photos").mkdir()
    files, _ = read_files(table, tmp_path / "photos", UrlColumns(("image_url",)))
    for file in files:
        file.target.write_bytes(png())
    assert [f"photos/{file.target.name}" for file in files] == csv.table(table)["image"].to_list()
    assert files[0].target.name == ("7.jpg" if key == "id" else "70.jpg")


def test_timelapse_keeps_folder_and_file_apart(tmp_path: Path):
    text = "File,RelativePath,species\n1.jpg,site A\\day 1,fox\n2.jpg,,owl\n"
    assert csv.table(write(tmp_path, text))["image"].to_list() == ["site A/day 1/1.jpg", "2.jpg"]


def test_windows_and_absolute_paths(tmp_path: Path):
    write(tmp_path, "image,label\nphotos\\a.jpg,oak\n.\\b.jpg,elm\n")
    assert csv.table(tmp_path)["image"].to_list() == ["photos/a.jpg", "b.jpg"]
    write(tmp_path, f"image,label\n{tmp_path.resolve()}/photos/a.jpg,oak\n./b.jpg,elm\n")
    assert csv.table(tmp_path)["image"].to_list() == ["photos/a.jpg", "b.jpg"]


@pytest.mark.parametrize("is_pair", [True, False])
@pytest.mark.parametrize("column", ["image", "photo"])
def test_parquet_with_images_inside(tmp_path: Path, is_pair: bool, column: str):
    data = [png("red"), png("blue"), png("green"), png("white")]
    cells = [{"bytes": one, "path": "x.png"} for one in data] if is_pair else data
    pl.DataFrame({column: cells, "label": [3, 4, 3, 4]}).write_parquet(tmp_path / "train.parquet")
    for root in (tmp_path, tmp_path / "train.parquet"):
        rows = csv.table(root)
        assert rows["label"].to_list() == ["3", "4", "3", "4"]
        assert [read_bytes(root, image) for image in rows["image"]] == data
        assert load_dataset("csv").check(root) == []


def test_parquet_of_paths(tmp_path: Path):
    pl.DataFrame({"image": ["a.jpg"], "label": ["oak"]}).write_parquet(tmp_path / "t.parquet")
    assert shown(csv.table(tmp_path)) == [("a.jpg", "a.jpg", None, "oak", None)]


def test_which_table(tmp_path: Path):
    expected = "ROOT  contains no .csv, .tsv or .parquet file: expected exactly one."
    assert refusal(tmp_path) == expected
    write(tmp_path, "image,label\na,b\n", "a.csv")
    write(tmp_path, "image,label\na,b\n", "b.tsv")
    assert refusal(tmp_path) == (
        "ROOT  contains 2 tables (a.csv, b.tsv): name the one to use, such as ROOT/a.csv "
        "(with --task: --data csv=ROOT/a.csv)."
    )
    assert refusal(tmp_path / "no") == (
        "ROOT  does not exist: expected a table file, or a folder with one in it."
    )
    assert refusal(write(tmp_path, "x", "a.xlsx")) == (
        "ROOT  is not a table: expected a .csv, .tsv or .parquet file."
    )


def test_columns_that_are_not_there(tmp_path: Path):
    path = write(tmp_path, "picture,bird_name,n\na.jpg,finch,1\n")
    assert refusal(path) == (
        "ROOT  has no label column: found 'picture', 'bird_name', 'n', expected one like label, "
        "class, category, target, sciname, species, taxon. Say which it is: `fieldmark try "
        "--label NAME`, or `options: {label: NAME}` in a task file."
    )
    assert refusal(path, label="bird_name") == (
        "ROOT  has no image column: found 'picture', 'bird_name', 'n', expected one like image, "
        "img, path, filepath, filename, file, photo. Say which it is: `fieldmark try "
        "--image NAME`, or `options: {image: NAME}` in a task file."
    )
    assert refusal(path, label="birdname") == (
        "ROOT  has no column 'birdname' for label: did you mean 'bird_name'?"
    )
    assert refusal(path, split="zzz") == (
        "ROOT  has no column 'zzz' for split: found 'picture', 'bird_name', 'n'."
    )


def test_bad_rows(tmp_path: Path):
    assert refusal(write(tmp_path, "image,label\na.jpg,oak\n,elm\n")) == (
        "ROOT:3  no image in column 'image': every row needs one."
    )
    assert refusal(write(tmp_path, "image,label\na.jpg,oak,tree\n")) == (
        "ROOT:2  3 fields where the header has 2: quote values that hold the separator."
    )
    assert refusal(write(tmp_path, "image,label\n")) == (
        "ROOT  lists no photos: an empty dataset cannot be used."
    )
    assert refusal(write(tmp_path, "")) == "ROOT  is empty: expected a header line and rows."
    assert refusal(write(tmp_path, "image,label\nhttps://x.org/a.jpg,oak\n")) == (
        "ROOT  column 'image' holds web addresses. Download the photos first: `fieldmark data get "
        f"--urls ROOT --url-column image --out {tmp_path / 'photos'}`."
    )
    assert refusal(write(tmp_path, "key,image,label\n1,a.jpg,oak\n1,b.jpg,elm\n"), id="key") == (
        "ROOT:3  id '1' is already on line 2: ids must be unique."
    )
    broken = write(tmp_path, b"PAR1 this is not parquet", "x.parquet")
    assert refusal(broken).startswith("ROOT  is not a parquet file that can be read: ")


def test_defect_parquet_damaged_where_its_rows_lie(tmp_path: Path):
    """The schema at the end was whole, and reading the rows was a traceback."""
    path = tmp_path / "x.parquet"
    names = [f"{number}.jpg" for number in range(500)]
    pl.DataFrame({"image": names, "split": "train", "label": names}).write_parquet(path)
    data = path.read_bytes()
    path.write_bytes(data[:40] + bytes(100) + data[140:])
    assert refusal(path).startswith("ROOT  is not a parquet file that can be read: ")


def test_check(tmp_path: Path):
    (tmp_path / "a.png").write_bytes(png())
    (tmp_path / "b.png").write_bytes(png()[:40])
    write(tmp_path, "image,label\na.png,oak\nb.png,oak\nc.png,\nd.png,elm\n../e.png,oak\n")
    assert [
        f"{finding.level}: {finding.text}" for finding in load_dataset("csv").check(tmp_path)
    ] == [
        "warning: 1 row has no label.",
        "warning: 1 class of 2 with only one image: 'elm'.",
        "error: 2 of 5 images are missing: 'c.png', 'd.png'.",
        "error: 2 of 5 images cannot be read: '../e.png' (image '../e.png' is outside the "
        "dataset's folder: give a path inside it), 'b.png' (is cut off: "
        "the PNG has no IEND chunk).",
    ]


REAL = {
    "ENA24-balanced.csv": (1120, 20),
    "desert-lion-balanced.csv": (352, 32),
    "ohio-small-animals-balanced.csv": (468, 39),
    "meta-album_FNG_Mini_metadata.csv": (1000, 25),
    "meta-album_INS_2_Mini_metadata.csv": (4080, 102),
    "meta-album_INS_Mini_metadata.csv": (4160, 104),
    "meta-album_PLT_DOC_Mini_metadata.csv": (1080, 27),
    "meta-album_PLT_NET_Mini_metadata.csv": (1000, 25),
    "meta-album_PLT_VIL_Mini_metadata.csv": (1520, 38),
    "wildlife-tools_BelugaID_metadata.csv": (5902, 788),
    "wildlife-tools_LeopardID2022_metadata.csv": (6825, 431),
}


@pytest.mark.parametrize("name", REAL)
def test_real_tables(shared: Path, name: str):
    rows = csv.table(shared / "data" / name)
    assert (rows.height, rows["label"].n_unique()) == REAL[name]


def test_real_camera_traps_have_cameras_as_units(shared: Path):
    rows = csv.table(shared / "data" / "ohio-small-animals-balanced.csv")
    assert rows["unit"].n_unique() == 85
    assert csv.table(shared / "data" / "ENA24-balanced.csv")["unit"].null_count() == 1120


def test_a_table_without_images(shared: Path):
    assert refusal(shared / "data" / "inquire_queries_val.csv").startswith(
        "ROOT  has no image column: found '', 'query_id', 'query_text', "
    )

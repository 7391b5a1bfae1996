"""Are both layouts of Meta-Album read, with class strings as they are and names where sure?"""

import csv
import io
import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from fieldmark.data.sets import meta_album
from fieldmark.errors import UsageError
from kit.dataset import finding_lines, jpeg, table_error

findings = partial(finding_lines, meta_album)
refusal = partial(table_error, meta_album)

FUNGI = [
    ("1.jpg", "Amanita excelsa Gonn. & Rabenh.", "Amanitaceae"),
    ("2.jpg", "Amanita muscaria (L.) Lam., 1783", "Amanitaceae"),
]


def rows_of(*rows: tuple[str, ...]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue()


def official(folder: Path, rows: list[tuple[str, str, str]], **facts: object) -> Path:
    (folder / "images").mkdir(parents=True)
    header = ("FILE_NAME", "CATEGORY", "SUPER_CATEGORY")
    (folder / "labels.csv").write_text(rows_of(header, *rows), encoding="utf-8")
    (folder / "info.json").write_text(json.dumps(facts))
    for file, *_ in rows:
        (folder / "images" / file).write_bytes(jpeg())
    return folder


def bioclip(folder: Path, *classes: str, images: str = ".") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    rows = [(str(n), f"{name}/{n}.jpg", name) for n, name in enumerate(classes)]
    text = rows_of(("", "filepath", "class"), *rows)
    (folder / "metadata.csv").write_text(text, encoding="utf-8")
    for _, path, _ in rows:
        (folder / images / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / images / path).write_bytes(jpeg())
    return folder


def test_the_official_table(tmp_path: Path):
    official(tmp_path / "FNG_Mini", FUNGI, dataset_name="FNG_Mini")
    rows = meta_album.table(tmp_path, set="fng")
    assert rows.columns[6:] == ["set", "scientific_name", "common_name", "super_category"]
    assert rows.row(1) == (
        "fng/2.jpg", "FNG_Mini/images/2.jpg", None, None, "Amanita muscaria (L.) Lam., 1783", None,
        "fng", "Amanita muscaria", None, "Amanitaceae",
    )  # fmt: skip


def test_the_table_of_bioclip(tmp_path: Path):
    bioclip(tmp_path / "PLT_VIL_Mini", "Tomato___Late_blight", "Grape___Esca_(Black_Measles)")
    rows = meta_album.table(tmp_path, set="plt_vil")
    assert rows.row(1) == (
        "plt_vil/Grape___Esca_(Black_Measles)/1.jpg",
        "PLT_VIL_Mini/Grape___Esca_(Black_Measles)/1.jpg", None, None,
        "Grape___Esca_(Black_Measles)", None, "plt_vil", None, "Grape Esca (Black Measles)", None,
    )  # fmt: skip


def test_info_json_names_the_columns(tmp_path: Path):
    folder = official(tmp_path / "FNG_Mini", FUNGI, image_column_name="F", category_column_name="C")
    (folder / "labels.csv").write_text("F,C\n1.jpg,Russula vesca Fr.\n")
    rows = meta_album.table(tmp_path)
    assert rows.select("label", "super_category").row(0) == ("Russula vesca Fr.", None)
    (folder / "labels.csv").write_text("F,X\n1.jpg,Russula vesca Fr.\n")
    assert refusal(tmp_path) == (
        "ROOT/FNG_Mini/labels.csv:1  lacks the columns 'C': expected F, C."
    )


def test_no_super_categories_are_null(tmp_path: Path):
    official(tmp_path / "PLK_Mini", [("1.jpg", "Akashiwo", "NAN"), ("2.jpg", "bubble", "")])
    assert meta_album.table(tmp_path)["super_category"].null_count() == 2


def test_official_images_may_lie_beside_the_table(tmp_path: Path):
    folder = official(tmp_path / "FNG_Mini", FUNGI)
    for path in (folder / "images").iterdir():
        path.rename(folder / path.name)
    assert meta_album.table(tmp_path)["image"][0] == "FNG_Mini/1.jpg"


@pytest.mark.parametrize("home", ["INS_2_Mini", "ins_2_mini", "ins2", "set1/INS_2_Mini"])
@pytest.mark.parametrize("images", [".", "val"])
def test_names_and_places_of_folders(tmp_path: Path, home: str, images: str):
    bioclip(tmp_path / home, "Lycorma delicatula", "red spider", images=images)
    for asked in ("ins2", "INS_2_Mini", "ins-2", ""):
        rows = meta_album.table(tmp_path, set=asked)
        assert rows["id"][0] == "ins2/Lycorma delicatula/0.jpg"
        assert (tmp_path / rows["image"][0]).is_file()


def test_a_table_in_the_folder_of_the_images(tmp_path: Path):
    bioclip(tmp_path / "PLK_Mini" / "val", "Akashiwo")
    assert meta_album.table(tmp_path)["image"][0] == "PLK_Mini/val/Akashiwo/0.jpg"


def test_root_may_be_one_set(tmp_path: Path):
    root = bioclip(tmp_path / "FNG_Mini", "Russula vesca Fr.", "Boletus edulis Bull.")
    rows = meta_album.table(root)
    assert rows.select("id", "image", "set").row(0) == (
        "fng/Russula vesca Fr./0.jpg", "Russula vesca Fr./0.jpg", "fng",
    )  # fmt: skip
    assert meta_album.table(root, set="fng").equals(rows)
    assert refusal(root, set="plk") == "ROOT  is the set 'fng': expected 'plk'."
    assert not [line for line in findings(root) if "sets not there" in line]


def test_a_root_that_nothing_names_is_what_is_asked_for(tmp_path: Path):
    root = bioclip(tmp_path / "data", "Russula vesca Fr.", "Boletus edulis Bull.")
    rows = meta_album.table(root, set="fng")
    assert rows.select("set", "scientific_name").row(0) == ("fng", "Russula vesca")
    rows = meta_album.table(root)
    assert rows.select("id", "set", "scientific_name").row(0) == (
        "Russula vesca Fr./0.jpg", None, None,
    )  # fmt: skip
    assert findings(root) == ["note: 2 classes of 2 with only one image: 'Boletus edulis Bull.', "
                              "'Russula vesca Fr.'."]  # fmt: skip
    (root / "info.json").write_text('{"dataset_name": "FNG_Mini"}')
    assert set(meta_album.table(root)["set"]) == {"fng"}


NAMES = {
    "fng": {
        "Agaricus impudicus (Rea) Pilát": ("Agaricus impudicus", None),
        "Mycena × pura (Pers.) Sacc.": ("Mycena × pura", None),
        "Amanita muscaria var. formosa Pers.": ("Amanita muscaria var. formosa", None),
        "Mycena sp.": (None, None),
    },
    "ins": {
        "Apidae": (None, None),
        "La Punaise du Chou (Eurydema oleracea)": ("Eurydema oleracea", None),
        "Le Bibion précoce (femelle) (Bibio hortulanus)": ("Bibio hortulanus", None),
        "Les Chrysotoxes (Chrysotoxum)": (None, None),
        "Les Bibions et autres (Bibio et autres)": (None, None),
        "Les Syrphes difficiles à déterminer": (None, None),
    },
    "ins2": {"Lycorma delicatula": (None, None), "Mango flat beak leafhopper": (None, None)},
    "med_lf": {
        "Alpinia Galanga (Rasna)": ("Alpinia galanga", "Rasna"),
        "Ficus_Religiosa_(Peepal_Tree)": ("Ficus religiosa", "Peepal Tree"),
        "Neem": (None, None),
    },
    "plk": {"Chaetoceros_didymus": (None, None), "mix_elongated": (None, None)},
    "plt_doc": {"Bell_pepper leaf spot": (None, "Bell pepper leaf spot")},
    "plt_net": {"Lamium_galeobdolon": ("Lamium galeobdolon", None)},
    "plt_vil": {
        "Corn___Cercospora_leaf_spot Gray_leaf_spot":
            (None, "Corn Cercospora leaf spot Gray leaf spot"),
    },
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_what_class_strings_name(tmp_path: Path, name: str):
    bioclip(tmp_path / meta_album.SETS[name].folder, *NAMES[name])
    rows = meta_album.table(tmp_path, set=name)
    names = {label: pair for label, *pair in rows.select("label", "^.*_name$").rows()}
    assert names == {label: list(pair) for label, pair in NAMES[name].items()}


def test_what_check_says(tmp_path: Path):
    bioclip(tmp_path / "FNG_Mini", "Russula vesca Fr.", "Boletus edulis Bull.")
    (tmp_path / "FNG_Mini" / "Russula vesca Fr." / "0.jpg").unlink()
    bioclip(tmp_path / "PLK_Mini", "Akashiwo", "Akashiwo")
    assert findings(tmp_path) == [
        "note: 6 of 8 sets not there: 'INS_Mini', 'INS_2_Mini', 'MED_LF_Mini' and 3 more.",
        "note: fng: not the published size: images 2 of 1,000, classes 2 of 25.",
        "note: plk: not the published size: images 2 of 3,440, classes 1 of 86.",
        "note: 2 classes of 2 with only one image: 'Boletus edulis Bull.', 'Russula vesca Fr.'.",
        "error: at least two classes are needed, found: 'Akashiwo'.",
        "error: 1 of 4 images are missing: 'FNG_Mini/Russula vesca Fr./0.jpg'.",
    ]


def test_broken_inputs(tmp_path: Path):
    assert refusal(tmp_path) == (
        "ROOT  contains no set of Meta-Album: expected folders like FNG_Mini, each with "
        "labels.csv or "
        "metadata.csv. `fieldmark datasets meta_album` shows layout and sources."
    )
    assert refusal(tmp_path, set="plt_net") == (
        "ROOT/PLT_NET_Mini  is missing or contains neither labels.csv nor metadata.csv. `fieldmark "
        "datasets meta_album` shows layout and sources."
    )
    with pytest.raises(UsageError) as caught:
        meta_album.table(tmp_path, set="brd")
    assert str(caught.value) == (
        "set is 'brd': expected one of fng, ins, ins2, med_lf, plk, plt_doc, plt_net, plt_vil."
    )


@pytest.mark.parametrize(
    ("file", "text", "line"),
    [
        ("metadata.csv", ",filepath\n0,a.jpg\n",
         "metadata.csv:1  lacks the columns 'class': expected filepath, class."),
        ("metadata.csv", ",filepath,class\n0,a/1.jpg,a\n1,b/1.jpg,\n",
         "metadata.csv:3  class is None: expected a class."),
        ("metadata.csv", ",filepath,class\n0,,a\n",
         "metadata.csv:2  filepath is None: expected the path of an image."),
        ("labels.csv", "FILE_NAME,CATEGORY\n1.jpg,a\n,b\n",
         "labels.csv:3  FILE_NAME is None: expected a file name."),
        ("labels.csv", "FILE_NAME,CATEGORY\n1.jpg,NAN\n",
         "labels.csv:2  CATEGORY is None: expected a class."),
    ],
)  # fmt: skip
def test_broken_tables(tmp_path: Path, file: str, text: str, line: str):
    (tmp_path / "FNG_Mini").mkdir()
    (tmp_path / "FNG_Mini" / file).write_text(text)
    assert refusal(tmp_path) == f"ROOT/FNG_Mini/{line}"


def test_broken_files_of_a_set(tmp_path: Path):
    folder = official(tmp_path / "FNG_Mini", FUNGI)
    (folder / "info.json").write_text('{\n"dataset_name": ')
    assert refusal(tmp_path).startswith("ROOT/FNG_Mini/info.json:2  is not valid JSON: ")
    (folder / "info.json").write_text("[]")
    assert refusal(tmp_path) == (
        "ROOT/FNG_Mini/info.json  contains a list: expected a JSON object, facts of the set."
    )
    (folder / "info.json").unlink()
    (folder / "labels.csv").write_text("FILE_NAME,CATEGORY,SUPER_CATEGORY\n")
    assert refusal(tmp_path) == "ROOT  lists no photos: an empty dataset cannot be used."


@pytest.mark.parametrize("name", ["fng", "ins", "ins2", "plt_doc", "plt_net", "plt_vil"])
def test_the_published_tables(real_table: Callable[[str], Path], tmp_path: Path, name: str):
    album = meta_album.SETS[name]
    path = real_table(f"meta-album_{album.folder}_metadata.csv")
    (tmp_path / album.folder).mkdir()
    shutil.copy(path, tmp_path / album.folder / "metadata.csv")
    rows = meta_album.table(tmp_path, set=name)
    assert (len(rows), rows["label"].n_unique()) == (album.n_images, album.n_classes)
    # Labels are as published but for their Unicode form: fng and ins decompose some accents.
    published = pl.read_csv(path)["class"].str.normalize("NFC").alias("label")
    assert rows["label"].equals(published), "strings as they are, composed"
    classes = rows.unique("label")
    n_species = classes["scientific_name"].drop_nulls().n_unique()
    assert n_species == {"fng": 25, "plt_net": 25, "ins": 20}.get(name, 0)
    assert classes["scientific_name"].drop_nulls().str.contains("^[A-Z][a-z]+ [a-z]+$").all()
    is_plain = name in ("plt_doc", "plt_vil")
    assert classes["common_name"].n_unique() == (album.n_classes if is_plain else 1)


def test_the_made_layout(made_copy: Callable[[str], Path]):
    root = made_copy("meta_album")
    folders = [album.folder for album in meta_album.SETS.values()]
    assert {path.name for path in root.iterdir()} == set(folders)
    forms = [(root / folder / "labels.csv").is_file() for folder in folders]
    assert forms == [True, False] * 4
    parts = {name: meta_album.table(root, set=name) for name in meta_album.SETS}
    assert pl.concat(list(parts.values())).equals(meta_album.table(root))
    assert all(part["label"].n_unique() >= 4 for part in parts.values())
    assert parts["fng"].group_by("label").len()["len"].min() == 1
    assert parts["fng"]["scientific_name"].null_count() == 0
    assert parts["fng"]["label"].str.contains(" × ").any()
    assert parts["plt_vil"]["label"].str.contains("___").all()
    assert 0 < parts["ins"]["scientific_name"].null_count() < len(parts["ins"])

"""Is every known whale of the COCO file an item, and every unknown one counted?"""

import io
import json
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest
from PIL import Image

from fieldmark.data import ImageRef, load_image
from fieldmark.data.sets import beluga
from kit.dataset import finding_lines, table_error

findings = partial(finding_lines, beluga)
refusal = partial(table_error, beluga)


def jpeg(width: int = 40, height: int = 20) -> bytes:
    buffer = io.BytesIO()
    picture = Image.new("RGB", (width, height), "red")
    picture.paste("blue", (width // 2, 0, width, height))
    picture.save(buffer, "JPEG", quality=95)
    return buffer.getvalue()


def whale(image: int, name: str | None, **more: object) -> dict[str, object]:
    return {
        "id": 100 + image, "image_id": image, "name": name, "bbox": [0, 0, 40, 20],
        "viewpoint": "top", "segmentation": [[0, 0, 40, 0, 40, 20, 0, 20]], "category_id": 0,
        **more,
    }  # fmt: skip


def photo(image: int, minute: int = 0) -> dict[str, object]:
    hour, minute = divmod(minute, 60)
    return {
        "id": image,
        "file_name": f"{image:03}.jpg",
        "date_captured": f"2017-08-07 {10 + hour:02}:{minute:02}:30",
    }


def write(
    root: Path, images: list[dict[str, object]], whales: list[dict[str, object]],
    home: str = "beluga.coco",
) -> Path:  # fmt: skip
    (root / home / "annotations").mkdir(parents=True)
    (root / home / "images" / "train2022").mkdir(parents=True)
    content = {"images": images, "annotations": whales, "categories": [{"id": 0, "name": "beluga"}]}
    (root / home / beluga.ANNOTATIONS).write_text(json.dumps(content))
    for image in images:
        (root / home / beluga.IMAGES / str(image["file_name"])).write_bytes(jpeg())
    return root


@pytest.mark.parametrize("home", ["beluga.coco", "beluga/beluga.coco", "."])
def test_the_table(tmp_path: Path, home: str):
    write(tmp_path, [photo(1), photo(2)], [whale(1, "whale000"), whale(2, "whale001")], home)
    rows = beluga.table(tmp_path)
    folder = "" if home == "." else f"{home}/"
    assert rows.columns == [
        "id", "image", "crop", "split", "label", "unit", "viewpoint", "date", "encounter",
        "closed_split",
    ]  # fmt: skip
    assert rows.row(0) == (
        "001.jpg", f"{folder}images/train2022/001.jpg", None, None, "whale000", "whale000", "top",
        datetime(2017, 8, 7, 10, 0, 30), "whale000@2017-08-07 10:00", None,
    )  # fmt: skip
    assert load_image(tmp_path, ImageRef(rows["image"][0])).size == (40, 20)


def test_defect_beluga_unknown_is_no_individual(tmp_path: Path):
    names = ["whale000", "____", "whale001", "____", " ", None, "whale000", "whale001"]
    write(tmp_path, [photo(n) for n in range(8)], [whale(n, name) for n, name in enumerate(names)])
    assert beluga.table(tmp_path)["label"].to_list() == ["whale000", "whale001"] * 2
    assert beluga.sightings(tmp_path)["label"].null_count() == 4
    assert findings(tmp_path) == ["note: 4 annotations of unknown individuals, left out."]


def test_defect_beluga_every_annotation_is_an_item(tmp_path: Path):
    """Only the first annotation of an image used to count."""
    whales = [
        whale(1, "whale000", id=7, bbox=[0, 0, 20, 20]),
        whale(1, "whale001", id=8, bbox=[20, 0, 20, 20]),
        whale(2, "whale000", bbox=[5, 5, 10, 10]),
        whale(3, "whale001"),
    ]
    write(tmp_path, [photo(1), photo(2), photo(3)], whales)
    rows = beluga.table(tmp_path)
    assert rows.select("id", "label", "crop").rows() == [
        ("001.jpg#7", "whale000", [0.0, 0.0, 20.0, 20.0]),
        ("001.jpg#8", "whale001", [20.0, 0.0, 20.0, 20.0]),
        ("002.jpg", "whale000", None),
        ("003.jpg", "whale001", None),
    ]
    x, y, width, height = rows["crop"][1]
    part = load_image(tmp_path, ImageRef(rows["image"][1], (x, y, width, height)))
    red, _, blue = part.getpixel((10, 10))
    assert part.size == (20, 20) and blue > 200 > 100 > red
    assert findings(tmp_path) == ["note: 1 image with several animals: each is cut out of it."]


def test_an_unknown_neighbour_still_means_a_crop(tmp_path: Path):
    whales = [whale(1, "whale000", bbox=[0, 0, 20, 20]), whale(1, "____", id=9)]
    write(tmp_path, [photo(1)], whales)
    assert beluga.table(tmp_path)["crop"].to_list() == [[0.0, 0.0, 20.0, 20.0]]


def test_encounters_end_after_an_hour_without_a_photo(tmp_path: Path):
    minutes = [50, 0, 100, 170, 20]
    names = ["a", "a", "a", "a", "b"]
    write(
        tmp_path,
        [photo(n, minute) for n, minute in enumerate(minutes)],
        [whale(n, name) for n, name in enumerate(names)],
    )
    assert beluga.table(tmp_path)["encounter"].to_list() == [
        "a@2017-08-07 10:00",
        "a@2017-08-07 10:00",
        "a@2017-08-07 10:00",
        "a@2017-08-07 12:50",
        "b@2017-08-07 10:20",
    ]


def test_encounters_of_the_file_and_missing_dates(tmp_path: Path):
    undated = {"id": 2, "file_name": "002.jpg"}
    odd = {"id": 3, "file_name": "003.jpg", "date_captured": "summer"}
    write(
        tmp_path,
        [photo(1), undated, odd],
        [whale(1, "a", encounter_id="e9"), whale(2, "a"), whale(3, "b")],
    )
    rows = beluga.table(tmp_path)
    assert rows["encounter"].to_list() == ["e9", None, None]
    assert rows["date"].null_count() == 2


def test_the_published_split(tmp_path: Path):
    write(tmp_path, [photo(1), photo(2)], [whale(1, "a"), whale(2, "b")])
    (tmp_path / "metadata.csv").write_text(
        ",image_id,identity,path,date,split\n"
        "0,0,b,beluga.coco/images/train2022/002.jpg,2017-08-07,test\n"
    )
    assert beluga.table(tmp_path)["closed_split"].to_list() == [None, "test"]
    (tmp_path / "metadata.csv").write_text("a,b\n1,2\n")
    assert refusal(tmp_path) == (
        "ROOT/metadata.csv  cannot be used: expected the columns path and split."
    )


def test_broken_files(tmp_path: Path):
    assert refusal(tmp_path) == (
        "ROOT/beluga.coco/annotations/instances_train2022.json  is missing: the annotations of "
        "BelugaID. `fieldmark datasets beluga` shows layout and sources."
    )
    assert findings(tmp_path) == [f"error: {refusal(tmp_path)}"]
    write(tmp_path, [photo(1)], [whale(1, "a"), whale(5, "b")])
    path = tmp_path / "beluga.coco" / beluga.ANNOTATIONS
    shown = "ROOT/beluga.coco/annotations/instances_train2022.json"
    assert refusal(tmp_path) == (
        f"{shown}  annotation 105 is of image 5, which the file does not list."
    )
    path.write_text("{")
    assert refusal(tmp_path).startswith(f"{shown}:1  is not valid JSON: ")
    path.write_text('{"images": []}')
    assert (
        refusal(tmp_path) == f"{shown}  has no list 'annotations' of objects: expected a COCO file."
    )
    path.write_text('{"images": [], "annotations": []}')
    assert refusal(tmp_path) == f"{shown}  lists no photos: an empty dataset cannot be used."


def test_check(tmp_path: Path):
    write(tmp_path, [photo(n) for n in range(4)], [whale(n, f"w{n // 3}") for n in range(4)])
    folder = tmp_path / "beluga.coco" / beluga.IMAGES
    (folder / "000.jpg").unlink()
    (folder / "001.jpg").write_bytes(jpeg()[:100])
    assert findings(tmp_path) == [
        "note: 1 of 2 individuals with only one image: nothing can match it.",
        "error: 1 of 4 images are missing: 'beluga.coco/images/train2022/000.jpg'.",
        "error: 1 of 4 images cannot be read: 'beluga.coco/images/train2022/001.jpg' "
        "(is cut off: the JPEG has no end marker).",
    ]
    one = tmp_path / "one"
    write(one, [photo(1), photo(2)], [whale(1, "a"), whale(2, "a")])
    assert findings(one) == ["error: at least two individuals are needed, found 'a'."]


def test_the_real_split_matches_by_file_name(tmp_path: Path, shared: Path):
    table = shared / "data" / "wildlife-tools_BelugaID_metadata.csv"
    (tmp_path / "metadata.csv").write_bytes(table.read_bytes())
    images = [photo(n) | {"file_name": f"{n:012}_{n - 1}.jpg"} for n in range(1, 6)]
    write(tmp_path, images, [whale(n, f"whale{n:03}") for n in range(1, 6)])
    assert beluga.table(tmp_path)["closed_split"].to_list() == ["train"] * 4 + ["test"]

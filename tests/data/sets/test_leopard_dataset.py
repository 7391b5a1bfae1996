"""Is every known leopard an item cut to its box, and every unknown one counted?"""

import io
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import polars as pl
import pytest
from PIL import Image

from fieldmark.data import ImageRef, load_image
from fieldmark.data.sets import leopard
from fieldmark.errors import DataError
from kit.dataset import finding_lines

findings = partial(finding_lines, leopard)


def jpeg() -> bytes:
    buffer = io.BytesIO()
    picture = Image.new("RGB", (40, 20), "red")
    picture.paste("blue", (20, 0, 40, 20))
    picture.save(buffer, "JPEG", quality=95)
    return buffer.getvalue()


def cat(image: int, name: str | None, **more: object) -> dict[str, object]:
    return {
        "id": 100 + image, "image_id": image, "name": name, "bbox": [20, 0, 20, 20],
        "viewpoint": "left", **more,
    }  # fmt: skip


def write(root: Path, cats: list[dict[str, object]], with_images: bool = True) -> Path:
    home = root / "leopard.coco"
    (home / "annotations").mkdir(parents=True, exist_ok=True)
    (home / "images" / "train2022").mkdir(parents=True, exist_ok=True)
    numbers = dict.fromkeys(cat["image_id"] for cat in cats)
    images = [
        {"id": n, "file_name": f"{n:03}.jpg", "date_captured": "NA"} for n in numbers
    ]  # fmt: skip
    (home / leopard.ANNOTATIONS).write_text(json.dumps({"images": images, "annotations": cats}))
    for one in images if with_images else ():
        (home / leopard.IMAGES / str(one["file_name"])).write_bytes(jpeg())
    return root


def test_defect_leopard_photos_are_cut_to_the_animal(tmp_path: Path):
    write(tmp_path, [cat(1, "a"), cat(2, "b")])
    rows = leopard.table(tmp_path)
    assert rows.row(0) == (
        "001.jpg", "leopard.coco/images/train2022/001.jpg", [20.0, 0.0, 20.0, 20.0], None, "a",
        "a", "left", None, None, None,
    )  # fmt: skip
    shown = load_image(tmp_path, ImageRef(rows["image"][0], tuple(rows["crop"][0])))
    red, _, blue = shown.getpixel((10, 10))
    assert shown.size == (20, 20) and blue > 200 > 100 > red


def test_defect_leopard_unknown_is_no_individual(tmp_path: Path):
    names = ["a", "____", "b", "unknown", "", None, "a", "b"]
    write(tmp_path, [cat(n, name) for n, name in enumerate(names)])
    assert leopard.table(tmp_path)["label"].to_list() == ["a", "b", "a", "b"]
    assert leopard.sightings(tmp_path)["label"].null_count() == 4
    assert findings(tmp_path) == [
        "note: 8 annotations where 6,825 are published.",
        "note: 4 annotations of unknown individuals, left out.",
    ]


def test_check(tmp_path: Path):
    cats = [cat(1, "a"), cat(2, "a", bbox=[3, 3, 0, 9]), cat(3, "b", bbox=None)]
    write(tmp_path, cats)
    folder = tmp_path / "leopard.coco" / leopard.IMAGES
    (folder / "001.jpg").unlink()
    (folder / "extra.jpg").write_bytes(jpeg())
    (tmp_path / "metadata.csv").write_text("path,split\nx/001.jpg,train\nx/002.jpg,test\n")
    assert findings(tmp_path)[1:] == [
        "warning: 1 annotation without a box: the whole image is used.",
        "error: 1 box without area: '002.jpg'.",
        "note: 1 of 2 individuals with only one image: nothing can match it.",
        "warning: 1 of 3 items without a split in metadata.csv.",
        "note: 1 file in images/train2022 that no annotation names: 'extra.jpg'.",
        "error: 1 of 3 images are missing: 'leopard.coco/images/train2022/001.jpg'.",
    ]


def test_a_box_of_another_form_is_refused(tmp_path: Path):
    write(tmp_path, [cat(1, "a", bbox=[1, 2, 3])])
    with pytest.raises(DataError) as caught:
        leopard.table(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path / 'leopard.coco' / leopard.ANNOTATIONS}  annotation 101 has the bbox "
        "[1, 2, 3]: expected four numbers (x, y, width, height)."
    )


def test_the_real_table(tmp_path: Path, shared: Path):
    """The published closed split, over annotations as it lists them."""
    path = shared / "data" / "wildlife-tools_LeopardID2022_metadata.csv"
    (tmp_path / "metadata.csv").write_bytes(path.read_bytes())
    listed = pl.read_csv(path, infer_schema=False)
    images, cats = [], []
    for number, identity, file in listed.select("image_id", "identity", "path").rows():
        name = file.rpartition("/")[2]
        images.append({"id": int(number), "file_name": name, "date_captured": "NA"})
        cats.append(cat(int(number), "____" if identity == "unknown" else identity))
    home = tmp_path / "leopard.coco"
    (home / "annotations").mkdir(parents=True)
    (home / leopard.ANNOTATIONS).write_text(json.dumps({"images": images, "annotations": cats}))
    rows = leopard.table(tmp_path)
    assert len(leopard.sightings(tmp_path)) == 6825 and len(rows) == 6806
    assert dict(rows.group_by("closed_split").len().rows()) == {"train": 5373, "test": 1433}
    counts = rows.group_by("label").len()
    assert len(counts) == 430 and counts.filter(pl.col("len") == 1).height == 50
    lines = [finding.text for finding in leopard.check(tmp_path)]
    assert "19 annotations of unknown individuals, left out." in lines
    assert "50 of 430 individuals with only one image: nothing can match it." in lines


def test_the_made_layout(made_copy: Callable[[str], Path]):
    root = made_copy("leopard")
    assert {path.name for path in root.iterdir()} == {"leopard.coco", "metadata.csv"}
    rows = leopard.table(root)
    assert rows["crop"].null_count() == 0 and set(rows["closed_split"]) == {"train", "test"}
    assert all(w < 256 or h < 256 for _, _, w, h in rows["crop"])
    listed = pl.read_csv(root / "metadata.csv", infer_schema=False)
    assert listed.columns == ["", "image_id", "identity", "path", "split"]
    assert len(leopard.sightings(root)) == 48

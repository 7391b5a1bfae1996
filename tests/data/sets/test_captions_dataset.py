"""Do lists of captions give every row its text, its species and its image, and tell what is odd?"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from fieldmark.data.sets import cornell_bird, plantid
from fieldmark.world import World
from kit.dataset import finding_lines, jpeg, table_error

findings = partial(finding_lines, cornell_bird)
refusal = partial(table_error, cornell_bird)
HEADER = ",id,source_url,captions,md5\n"
RED, BLUE = jpeg(colour="red"), jpeg(colour="blue")


def md5(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()


def write(root: Path, *lines: str, header: str = HEADER, file: str = "cornell_bird.csv") -> Path:
    root.mkdir(parents=True, exist_ok=True)
    (root / file).write_text(header + "".join(f"{line}\n" for line in lines))
    return root


def photo(path: Path, data: bytes = RED) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def test_the_table(tmp_path: Path):
    digest = md5(RED)
    write(
        tmp_path,
        f'0,22552061,https://a.org/1200,"Aberts_Towhee, Large, with a thick bill. ",{digest}',
        f'1,402356,,"Bog_Wren (north), Song is ""peet-sah!""",{digest.upper()}',
        "2,7,https://a.org/7,no name at all,",
    )
    rows = cornell_bird.table(tmp_path)
    assert rows.columns[6:] == ["caption", "source_url", "md5"]
    assert rows.rows() == [
        (
            "22552061", "images/22552061.jpg", None, "test", "Aberts Towhee", None,
            "Aberts_Towhee, Large, with a thick bill.", "https://a.org/1200", digest,
        ),
        (
            "402356", "images/402356.jpg", None, "test", "Bog Wren (north)", None,
            'Bog_Wren (north), Song is "peet-sah!"', None, digest,
        ),
        ("7", "images/7.jpg", None, "test", None, None, "no name at all", "https://a.org/7", None),
    ]  # fmt: skip


def test_addresses_and_checksums_may_be_absent(tmp_path: Path):
    """An older form of the list has no addresses."""
    write(tmp_path, '0,5,"A, b"', header=",id,captions\n")
    rows = cornell_bird.table(tmp_path)
    assert rows.select("id", "caption", "source_url", "md5").row(0) == ("5", "A, b", None, None)


@pytest.mark.parametrize(
    ("folder", "prefix"),
    [("images", "images/"), ("plantid", "plantid/"), ("plantID", "plantID/"), (".", "")],
)
def test_places_of_the_images(tmp_path: Path, folder: str, prefix: str):
    """The folder with most of them; links that died leave no trace of a place."""
    write(tmp_path, *(f'{n},{n},,"A, b {n}",' for n in range(9)), file="plantID.csv")
    photo(tmp_path / folder / "8.jpg")
    assert plantid.table(tmp_path)["image"].to_list() == [f"{prefix}{n}.jpg" for n in range(9)]


def test_rows_whose_image_is_gone_are_kept_and_counted(tmp_path: Path):
    write(tmp_path, *(f'{n},{n},,"A_{n}, b {n}",' for n in range(3)))
    photo(tmp_path / "images/1.jpg")
    assert len(cornell_bird.table(tmp_path)) == 3
    assert findings(tmp_path)[-1] == (
        "error: 2 of 3 images are missing: 'images/0.jpg', 'images/2.jpg'."
    )


def test_findings(tmp_path: Path):
    write(
        tmp_path,
        f'0,1,,"Bog_Wren, small",{md5(RED)}',
        f'1,2,,"Bog_Wren, small",{md5(RED)}',
        f'2,3,,"Fen_Wren, tiny",{md5(RED)}',
        '3,4,,"Fen_Wren, brown",',
    )
    for name, data in (("1", RED), ("2", RED), ("3", BLUE), ("4", b"\xff\xd8\xff")):
        photo(tmp_path / f"images/{name}.jpg", data)
    assert findings(tmp_path) == [
        "note: not the published size: images 4 of 7,007, classes 2 of 700.",
        "note: 3 different captions: 5,913 are published.",
        "note: 2 rows share a caption with another row.",
        "note: 3 rows share an image with another row.",
        "error: 1 of 4 images cannot be read: 'images/4.jpg' (is cut off: the JPEG has no end "
        "marker).",
        "warning: 1 of 3 images are not the listed ones (md5): 'images/3.jpg'.",
    ]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (['0,1,,"A, b",', "1,2,,,"], "3  captions is None: expected a text."),
        (['0,1,,"A, b",', "1,2,,  ,"], "3  captions is None: expected a text."),
        (['0,,,"A, b",'], "2  id is None: expected the name of a file without .jpg."),
        (['0,../x,,"A, b",'], "2  id is '../x': expected the name of a file without .jpg."),
        (['0,..,,"A, b",'], "2  id is '..': expected the name of a file without .jpg."),
        (['0,1,,"A, b",abc'], "2  md5 is 'abc': expected 32 hex digits."),
        (
            ['0,1,,"A, b",', '1,2,,"A, c",', '2,1,,"A, d",'],
            "4  id '1' is already on line 2: ids must be unique.",
        ),
    ],
)
def test_broken_rows_are_told_with_their_line(tmp_path: Path, lines: list[str], says: str):
    write(tmp_path, *lines)
    assert refusal(tmp_path) == f"ROOT/cornell_bird.csv:{says}"
    assert findings(tmp_path) == [f"error: ROOT/cornell_bird.csv:{says}"]


def test_broken_files(tmp_path: Path):
    assert refusal(tmp_path) == (
        "ROOT/cornell_bird.csv  is missing: the table of captions. `fieldmark datasets "
        "cornell_bird` shows layout and sources."
    )
    write(tmp_path, "1,a", header="id,text\n")
    assert refusal(tmp_path) == (
        "ROOT/cornell_bird.csv:1  lacks the columns 'captions': expected id, captions."
    )
    write(tmp_path)
    assert refusal(tmp_path) == (
        "ROOT/cornell_bird.csv  lists no photos: an empty dataset cannot be used."
    )


def test_listed_sources(tmp_path: Path):
    write(tmp_path, f'0,1,https://a.org/1,"A, b",{md5(RED)}', '1,2,,"A, c",')
    first, second = cornell_bird.listed_sources(tmp_path)
    assert (first.url, first.filename, first.md5, first.kind) == (
        "https://a.org/1", "images/1.jpg", md5(RED), "images",
    )  # fmt: skip
    assert (second.url, second.filename, second.md5) == ("", "images/2.jpg", "")


def test_the_made_copy_of_cornell_shares_captions(made_copy: Callable[[str], Path]):
    root = made_copy("cornell_bird")
    assert (root / "cornell_bird.csv").read_text().startswith(HEADER)
    rows = cornell_bird.table(root)
    assert len(rows) == 48
    assert rows["caption"].str.contains(r"^[A-Z][a-z-]+(_[A-Z][a-z-]+)+, ").all()
    assert rows["label"].n_unique() == 12
    n_words = rows["caption"].str.split(" ").list.len()
    assert n_words.max() == 117 and (n_words < 30).sum() == 47
    assert 36 <= rows["caption"].n_unique() < 48
    assert rows["md5"].n_unique() == 48
    for image, digest in rows.select("image", "md5").rows():
        assert md5((root / image).read_bytes()) == digest


def test_the_made_copy_of_plantid_shares_an_image(made_copy: Callable[[str], Path]):
    root = made_copy("plantid")
    assert (root / "plantID.csv").read_text().startswith(HEADER)
    rows = plantid.table(root)
    assert rows["caption"].n_unique() == len(rows) == 49
    assert rows["md5"].n_unique() == rows["source_url"].n_unique() == 48
    assert rows["caption"].str.contains(r"^[A-Z][a-z]+ [a-z]+, ").all()
    assert "note: 2 rows share an image with another row." in finding_lines(plantid, root)


@pytest.mark.parametrize("size", [1, 20])
def test_small_copies_can_be_made(tmp_path: Path, size: int):
    for dataset in (cornell_bird, plantid):
        dataset.make(tmp_path, World(seed=1, n_species=6), size)
        assert dataset.table(tmp_path)["label"].n_unique() >= 4

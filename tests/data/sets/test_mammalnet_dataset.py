"""Is every MammalNet clip 32 frames of one behaviour, and a clip without them told?"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from fieldmark.data.sets import mammalnet
from kit.dataset import finding_lines, jpeg, table_error

findings = partial(finding_lines, mammalnet)
refusal = partial(table_error, mammalnet)


def write(root: Path, n_frames: int = 32, **splits: list[str]) -> Path:
    """Lines are `NAME behaviour species`."""
    folder = root / "annotation" / "composition"
    folder.mkdir(parents=True, exist_ok=True)
    for split, lines in splits.items():
        parts = [line.split(" ", 1) for line in lines]
        text = "".join(f"trimmed_videos/{name}.mp4 {rest}\n" for name, rest in parts)
        (folder / f"{split}.csv").write_text(text)
        for name, _ in parts:
            (root / "frames" / name).mkdir(parents=True, exist_ok=True)
            for number in range(1, n_frames + 1):
                (root / "frames" / name / f"frame_{number:02}.jpg").write_bytes(jpeg())
    return root


PLAIN = {"train": ["a 0 5", "b 1 6"], "test": ["c 1 5"]}


def test_the_table(tmp_path: Path):
    write(tmp_path, **PLAIN)
    rows = mammalnet.table(tmp_path)
    assert rows.columns == ["id", "image", "crop", "split", "label", "unit", "species"]
    frames = [f"frames/a/frame_{n:02}.jpg" for n in range(1, 33)]
    assert rows.row(0) == ("a", frames, None, "train", "0", "a", "5")
    assert rows["split"].to_list() == ["train", "train", "test"]
    assert findings(tmp_path) == [
        "note: annotation/behavior_to_id.txt is not there: numbers are shown in place of names.",
        "note: annotation/genus_to_id.txt is not there: numbers are shown in place of names.",
    ]


def test_names_come_from_two_files(tmp_path: Path):
    """Numbers of behaviours and of animals overlap: 8 is fighting, and 8 is canis."""
    write(tmp_path, train=["a 8 0", "b 0 8"], test=["c 8 8"])
    (tmp_path / "annotation" / "behavior_to_id.txt").write_text("eats food\t0\nfights\t8\n")
    (tmp_path / "annotation" / "genus_to_id.txt").write_text("panthera\t0\ncanis\t8\n\n")
    assert mammalnet.table(tmp_path).select("label", "species").rows() == [
        ("fights", "panthera"), ("eats food", "canis"), ("fights", "canis"),
    ]  # fmt: skip
    (tmp_path / "annotation" / "genus_to_id.txt").write_text("panthera\t0\ncanis 8\n")
    assert refusal(tmp_path) == (
        "ROOT/annotation/genus_to_id.txt:2  found 'canis 8': expected a name, a tab and a number."
    )


def test_clips_of_one_video_share_a_unit(tmp_path: Path):
    names = ["OT88wS6FLoQ", "OT88wS6_LoQ_1", "OT88wS6_LoQ_2", "OT88wS6_LoQ2", "OT_1"]
    write(tmp_path, train=[f"{name} {n % 2} 0" for n, name in enumerate(names)], test=["c 0 0"])
    assert mammalnet.table(tmp_path)["unit"].to_list() == [
        "OT88wS6FLoQ", "OT88wS6_LoQ", "OT88wS6_LoQ", "OT88wS6_LoQ2", "OT_1", "c",
    ]  # fmt: skip


def test_val_is_read_where_it_is(tmp_path: Path):
    write(tmp_path, **PLAIN, val=["d 0 0"])
    assert mammalnet.table(tmp_path)["split"].to_list() == ["train", "train", "test", "val"]


def test_clips_without_their_frames_are_left_out_and_counted(tmp_path: Path):
    write(tmp_path, **PLAIN)
    write(tmp_path, test=["c 1 5", "made 1 5", "short 0 5"])
    for path in (tmp_path / "frames" / "made").iterdir():
        path.unlink()
    (tmp_path / "frames" / "short" / "frame_32.jpg").unlink()
    assert mammalnet.table(tmp_path)["id"].to_list() == ["a", "b", "c"]
    assert findings(tmp_path)[0] == (
        "warning: 2 of 5 clips without all 32 frames, left out: 'made (0)', 'short (31)'."
    )


def test_check_of_leaks_and_classes(tmp_path: Path):
    write(tmp_path, train=["OT88wS6FLoQ_1 0 0", "b 1 0"], test=["OT88wS6FLoQ_2 2 0"])
    assert findings(tmp_path)[2:] == [
        "warning: 1 video in more than one split: 'OT88wS6FLoQ'.",
        "warning: 1 behaviour without a training clip: '2'.",
    ]
    write(tmp_path, train=["b 1 0"], test=["c 1 0"])
    assert findings(tmp_path)[2:] == [
        "error: at least two behaviours are needed in train, found: '1'."
    ]


def test_broken_files(tmp_path: Path):
    assert refusal(tmp_path) == (
        "ROOT/annotation/composition/train.csv  is missing: the train clips of MammalNet. "
        "`fieldmark datasets mammalnet` shows layout and sources."
    )
    write(tmp_path, n_frames=0, **PLAIN)
    assert refusal(tmp_path) == (
        "ROOT/frames  contains all 32 frames of none of the 3 clips: cut them out of the videos. "
        "`fieldmark datasets mammalnet` shows how."
    )
    shown = "ROOT/annotation/composition/test.csv"
    write(tmp_path, train=PLAIN["train"], test=["c 1 5", "d sleeps 5"])
    assert refusal(tmp_path) == (
        f"{shown}:2  behavior is 'sleeps': expected the number of a behaviour."
    )
    write(tmp_path, train=PLAIN["train"], test=["c 1"])
    assert refusal(tmp_path) == f"{shown}:1  has 2 fields: expected 3, path behavior species."
    (tmp_path / "annotation" / "composition" / "test.csv").write_text("videos/c.avi 1 2\n")
    assert refusal(tmp_path) == (
        f"{shown}:1  path is 'videos/c.avi': expected trimmed_videos/NAME.mp4."
    )


def test_the_made_layout(made_copy: Callable[[str], Path]):
    root = made_copy("mammalnet")
    assert {one.name for one in root.iterdir()} == {"annotation", "frames"}
    line = (root / "annotation" / "composition" / "test.csv").read_text().splitlines()[0]
    path, behaviour, species = line.split(" ")
    assert path.startswith("trimmed_videos/") and behaviour.isdigit() and species.isdigit()
    rows = mammalnet.table(root)
    assert set(rows["image"].list.len()) == {32}
    assert set(rows.filter(split="test")["label"]) == set(rows.filter(split="train")["label"])
    frames = rows["image"][0].to_list()
    assert len({(root / frame).read_bytes() for frame in frames}) > 20

"""Are KABR's clips cut the same way everywhere, and odd frame numbers told?"""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from fieldmark.data.sets import kabr
from fieldmark.data.sets.kabr import ORDER_FAULTS, most_common, order_faults, pick_frames
from kit.dataset import finding_lines, jpeg, table_error

findings = partial(finding_lines, kabr)
refusal = partial(table_error, kabr)

CLASSES = {"Walk": 0, "Graze": 1, "Head Up": 3}


def clip(
    video: int, labels: Sequence[int], original: str = "", frames: Sequence[int] = ()
) -> list[str]:
    """The lines of a clip; frames are numbered from 1 unless told otherwise."""
    name = original or f"G{video:04}"
    numbers = frames or range(1, len(labels) + 1)
    return [
        f"{name} {video} {number} {name}/{number}.jpg {label}"
        for number, label in zip(numbers, labels, strict=True)
    ]


def write(root: Path, train: list[str], val: list[str], has_images: bool = False) -> Path:
    (root / "annotation").mkdir(exist_ok=True)
    (root / "annotation" / "classes.json").write_text(json.dumps(CLASSES))
    header = "original_vido_id video_id frame_id path labels"
    for name, lines in (("train", train), ("val", val)):
        (root / "annotation" / f"{name}.csv").write_text("\n".join([header, *lines]) + "\n")
        for line in lines if has_images else []:
            path = root / "dataset" / "image" / line.split()[3]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(jpeg())
    return root


def test_the_table(tmp_path: Path):
    write(tmp_path, clip(4, [1] * 16), clip(4, [0] * 17, "Z9"))
    rows = kabr.table(tmp_path)
    assert rows.columns == [
        "id", "image", "crop", "split", "label", "unit", "n_frames", "start", "step",
    ]  # fmt: skip
    assert rows.row(0) == (
        "train/4", [f"dataset/image/G0004/{n}.jpg" for n in range(1, 17)], None, "train", "Graze",
        "G0004", 16, 0, 1,
    )  # fmt: skip
    assert rows.select("id", "split", "label", "unit").row(1) == ("val/4", "val", "Walk", "Z9")


@pytest.mark.parametrize(
    ("length", "step"), [(16, 1), (30, 1), (31, 2), (46, 3), (61, 4), (75, 4), (76, 5), (90, 5)]
)
def test_the_step_shrinks_for_short_clips(length: int, step: int):
    starts = set()
    for video in range(200):
        start, chosen_step = pick_frames(length, 16, 5, 42, "kabr", video)
        assert chosen_step == step and start >= 0 and start + 15 * step < length
        starts.add(start)
    assert starts == set(range(length - 15 * step))


def test_defect_kabr_frames_do_not_depend_on_workers(tmp_path: Path):
    """One generator copied into every loader used to make the frames depend on their number."""
    lines = [clip(video, [video % 2] * (16 + 7 * video)) for video in range(10)]
    write(tmp_path, [line for one in lines for line in one], clip(99, [0] * 40))
    whole = kabr.table(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        assert all(one.equals(whole) for one in pool.map(kabr.table, [tmp_path] * 8))
    # A clip's frames are the same alone, last, and among others.
    others = [*lines[7], *lines[2]]
    write(tmp_path, others, clip(99, [0] * 40))
    part = kabr.table(tmp_path)
    frames = dict(whole.select("id", "image").rows())
    assert part["id"].to_list() == ["train/7", "train/2", "val/99"]
    assert all(frames[name] == image for name, image in part.select("id", "image").rows())


def test_the_label_is_the_mode_of_the_frames_taken(tmp_path: Path):
    tie = [3] * 8 + [1] * 8
    mostly = [1] * 5 + [0] * 11
    write(tmp_path, [*clip(1, tie), *clip(2, mostly)], clip(3, [3] * 16))
    assert kabr.table(tmp_path)["label"].to_list() == ["Graze", "Walk", "Head Up"]
    assert most_common([5, 2, 5, 2, 7]) == 2


def test_short_clips_are_left_out_and_counted(tmp_path: Path):
    train = [*clip(1, [0] * 16), *clip(2, [1] * 15), *clip(3, [1] * 20)]
    write(tmp_path, train, clip(4, [0] * 3) + clip(5, [1] * 16), has_images=True)
    assert kabr.table(tmp_path)["id"].to_list() == ["train/1", "train/3", "val/5"]
    assert findings(tmp_path) == [
        "note: 2 of 5 clips with fewer than 16 frames, left out: 'train/2', 'val/4'."
    ]


@pytest.mark.parametrize(
    ("frames", "answer"),
    [
        ([1, 2, 3], (False, False, False)),
        ([1, 2, 4], (True, False, False)),
        ([1, 3, 2], (False, True, False)),
        ([4, 1, 2], (True, True, False)),
        ([1, 2, 2, 3], (False, False, True)),
        ([1, 2, 2, 4], (True, False, True)),
        ([91, 92, 93], (False, False, False)),
    ],
)
def test_defect_kabr_gaps_and_disorder_are_two_things(
    frames: list[int], answer: tuple[bool, bool, bool]
):
    """Only gaps used to be found."""
    faults = order_faults(frames)
    assert tuple(fault in faults for fault in ORDER_FAULTS) == answer


def test_disorder_is_told_and_mended(tmp_path: Path):
    plain = list(range(1, 17))
    train = [
        *clip(1, [0] * 16, frames=plain[::-1]),
        *clip(2, [1] * 16, frames=[*plain[:-1], 20]),
        *clip(3, [1] * 16, frames=[*plain[:-1], 15]),
    ]
    write(tmp_path, train, clip(4, [0] * 16), has_images=True)
    assert findings(tmp_path) == [
        "warning: 1 clip with missing frames in between: 'train/2'.",
        "warning: 1 clip whose frames are not in order in the file (they are put in order): "
        "'train/1'.",
        "warning: 1 clip with a frame listed twice: 'train/3'.",
    ]
    assert kabr.table(tmp_path)["image"][0].to_list() == [
        f"dataset/image/G0001/{n}.jpg" for n in plain
    ]


def test_check_of_leaks_and_classes(tmp_path: Path):
    write(tmp_path, clip(1, [0] * 16, "G1"), clip(2, [3] * 16, "G1"))
    assert findings(tmp_path)[:2] == [
        "warning: 1 video in more than one split: 'G1'.",
        "error: at least two behaviours are needed in train, found: 'Walk'.",
    ]
    write(tmp_path, clip(1, [0] * 16) + clip(2, [1] * 16), clip(3, [3] * 16))
    assert findings(tmp_path) == [
        "warning: 1 behaviour without a training clip: 'Head Up'.",
        "error: 48 of 48 images are missing: 'dataset/image/G0001/1.jpg', "
        "'dataset/image/G0001/10.jpg', 'dataset/image/G0001/11.jpg' and 45 more.",
    ]


def test_broken_files(tmp_path: Path):
    assert refusal(tmp_path) == (
        "ROOT/annotation/classes.json  is missing: the classes of KABR. `fieldmark datasets kabr` "
        "shows layout and sources."
    )
    write(tmp_path, clip(1, [0] * 16), [*clip(2, [1] * 2), "G3 3 one G3/1.jpg 0"])
    shown = "ROOT/annotation/val.csv"
    assert refusal(tmp_path) == f"{shown}:4  frame_id is 'one': expected a whole number."
    write(tmp_path, clip(1, [0] * 16), clip(2, [7] * 2))
    assert refusal(tmp_path) == (
        f"{shown}:2  labels is '7': expected a number of annotation/classes.json."
    )
    write(tmp_path, clip(1, [0] * 15), clip(2, [1] * 2))
    assert refusal(tmp_path) == (
        "ROOT/annotation  lists no photos: an empty dataset cannot be used."
    )
    (tmp_path / "annotation" / "train.csv").write_text("original_vido_id,video_id\nG1,1\n")
    assert refusal(tmp_path).startswith(
        "ROOT/annotation/train.csv:1  lacks the columns 'original_vido_id', 'video_id', 'frame_id' "
    )
    (tmp_path / "annotation" / "classes.json").write_text('["Walk"]')
    assert refusal(tmp_path) == (
        "ROOT/annotation/classes.json  cannot be used: expected names with a number each, "
        '{"Walk": 0, "Graze": 1}.'
    )


def test_the_made_layout(made_copy: Callable[[str], Path]):
    root = made_copy("kabr")
    lines = (root / "annotation" / "train.csv").read_text().splitlines()
    assert lines[0] == "original_vido_id video_id frame_id path labels"
    assert all(len(line.split(" ")) == 5 for line in lines)
    assert list(json.loads((root / "annotation" / "classes.json").read_text())) == [
        "Walk", "Graze", "Browse", "Head Up", "Auto-Groom", "Trot", "Run", "Occluded",
    ]  # fmt: skip
    rows, every = kabr.table(root), kabr.clips(root)
    assert len(rows) == len(every) - 1 and every["n"].min() < 16
    assert not set(rows.filter(split="val")["unit"]) & set(rows.filter(split="train")["unit"])
    frames = (root / "dataset" / "image" / "Z0001").iterdir()
    assert len({frame.read_bytes() for frame in frames}) > 10

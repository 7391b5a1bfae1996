"""Whatever can change a prediction makes another run; whatever cannot leaves it done.

Each case changes one thing in a copy of a world where everything was run once.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fieldmark.embed import cached_models
from fieldmark.store import Store
from kit.identity import (
    edit,
    make_world,
    plan_of,
    read_items,
    run_it,
    runs_at,
    settings_at,
    status_of,
    write_items,
)
from kit.pictures import mark_drawn, write_image

CHAT = "chat/mock/wren?skill=0.8"
Case = tuple[str, Callable[[Path], dict[str, Any] | None]]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a probe, a chat model and documents were run."""
    place = mark_drawn(make_world(tmp_path_factory.mktemp("world") / "w"))
    run_it(place, own(place), "zoo.yaml")
    run_it(place, CHAT, "zoo.yaml", n_train=2)
    run_it(place, CHAT, "docs.yaml", n_train=1)
    return place


@pytest.fixture
def world(done: Path, tmp_path: Path) -> Path:
    """A copy elsewhere: equal content under another path is the same run."""
    return Path(shutil.copytree(done, tmp_path / "copy", symlinks=True))


def own(place: Path) -> str:
    return f"{place}/m.py:Mine?weights={place}/weights"


def kept_stamp(path: Path, change: Callable[[], None]) -> None:
    """A change in place that keeps size and modification time."""
    before = path.stat()
    change()
    assert path.stat().st_size == before.st_size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def change_row(place: Path, n: int, **values: str) -> None:
    rows = read_items(place)
    rows[n].update(values)
    write_items(place, rows)


def first_of(place: Path, split: str, is_clip: bool) -> tuple[int, list[str]]:
    for n, row in enumerate(read_items(place)):
        frames = row["image"].split(";")
        if row["split"] == split and (len(frames) > 1) == is_clip:
            return n, frames
    raise AssertionError(split)


def photo(split: str) -> Callable[[Path], None]:
    """All of that split: which of them a prompt shows as examples is drawn."""

    def change(w: Path) -> None:
        for n, row in enumerate(read_items(w)):
            if row["split"] == split:
                write_image(w / "photos" / row["image"].split(";")[0], 900 + n)

    return change


def last_frame(w: Path) -> None:
    write_image(w / "photos" / first_of(w, "test", True)[1][1], 999)


def gone(w: Path) -> dict[str, Any]:
    (w / "photos" / first_of(w, "test", False)[1][0]).unlink()
    return {"changes": {"bad_images": "skip"}}


def other_label(w: Path) -> None:
    change_row(w, first_of(w, "test", False)[0], label="ant", common="an ant")


def other_name(w: Path) -> None:
    rows = read_items(w)
    write_items(w, [row | {"common": row["common"].replace("a bee", "a honeybee")} for row in rows])


def crop(w: Path) -> None:
    n, _ = first_of(w, "test", False)
    change_row(w, n, crop="1 1 9 9")


def other_folder(w: Path) -> dict[str, Any]:
    shutil.copytree(w / "photos", w / "others")
    write_image(w / "others" / first_of(w, "test", False)[1][0], 77)
    return {"changes": {"data": {"zoo": w / "others"}}}


def weights_in_place(w: Path) -> None:
    path = w / "weights" / "deep" / "w.npy"
    kept_stamp(path, lambda: np.save(path, np.full(3, 2.0)))


def opened_file_in_place(w: Path) -> None:
    path = w / "gain.npy"
    kept_stamp(path, lambda: np.save(path, np.linspace(0, 1, 12, dtype=np.float32)))


def edited(name: str, old: str, new: str) -> Callable[[Path], None]:
    return lambda w: edit(w / name, old, new)


def with_axes(**axes: Any) -> Callable[[Path], dict[str, Any]]:
    return lambda _: axes


DATA: list[Case] = [
    ("test image", photo("test")),
    ("training image", photo("train")),
    ("a clip's second frame", last_frame),
    ("an image is gone", gone),
    ("a label", other_label),
    ("a unit", lambda w: change_row(w, first_of(w, "test", False)[0], unit="burst-99")),
    ("a crop", crop),
    ("another folder", other_folder),
    ("task version", edited("zoo.yaml", "title: Zoo", "title: Zoo\nversion: 2")),
    ("metric", edited("zoo.yaml", "metric: accuracy", "metric: macro_accuracy")),
    ("an item less", lambda w: write_items(w, read_items(w)[:-1])),
    ("seed of a draw", with_axes(seed=1, n_test=4)),
    ("n_test", with_axes(n_test=4)),
]
PROBE: list[Case] = [
    ("weights in place, same size and mtime", weights_in_place),
    ("a file the model opens itself", opened_file_in_place),
    ("transform", edited("m.py", "resize((2, 2))", "resize((2, 2), 0)")),
    ("the model's code", edited("m.py", "* self.gain)", "* self.gain + 1)")),
    ("a module the model imports", edited("helper.py", "255.0", "254.0")),
    ("precision", lambda _: {"changes": {"precision": "bf16"}, "model": "timm"}),
    ("the probe's code", edited("pr.py", "return self.y[", "return self.y[::1][")),
    ("a module the probe imports", edited("pr_help.py", ".sum(axis=1)", ".max(axis=1)")),
    ("the probe's settings", with_axes(probe={"k": 2})),
    ("n_train", with_axes(n_train=5)),
]
ASK: list[Case] = [
    ("prompt", edited("zoo.yaml", "Which animal is this?", "What animal is it?")),
    ("the name a label is shown by", other_name),
    ("system text", with_axes(system="Be brief.")),
    ("temperature", with_axes(temp=0.5)),
    ("reasons first", with_axes(cot_enabled=True)),
    ("n_train", with_axes(n_train=3)),
    ("the model", lambda _: {"model": "chat/mock/wren?skill=0.7"}),
]
DOCUMENTS: list[Case] = [
    ("a picture", lambda w: write_image(w / "d" / "2.png", 999) and None),
    ("a document", edited("documents.jsonl", "Which (3)?", "Whose (3)?")),
    ("prompt", edited("docs.yaml", "with one word", "in one word")),
    ("system text", with_axes(system="Be brief.")),
    ("temperature 0 in place of the file's own", with_axes(temp=0.0)),
    ("the file's temperature", edited("docs.yaml", "0.7", "0.6")),
    ("the task's code", edited("utils.py", 'convert("RGB")', 'convert("L").convert("RGB")')),
    ("a module its code imports", edited("util_help.py", 'doc["image"]', 'str(doc["image"])')),
    ("metric", edited("docs.yaml", "metric: exact_match", "metric: anls")),
    ("n_train", with_axes(n_train=2)),
    ("n_test", with_axes(n_train=1, n_test=3)),
]


def named(cases: list[Case]) -> Any:
    return pytest.mark.parametrize("change", [c for _, c in cases], ids=[n for n, _ in cases])


def asked(place: Path, model: str, task: str, change: Any, **axes: Any) -> str:
    more = change(place) or {}
    model = more.pop("model", model)
    return status_of(place, model, task, **(axes | more))


@named([*DATA, *PROBE])
def test_what_changes_a_probe_is_run(world: Path, change: Any) -> None:
    if change is dict(PROBE)["precision"]:
        pytest.importorskip("timm")
        tiny = "timm/test_vit?pretrained=false"
        run_it(world, tiny, "zoo.yaml")
        assert status_of(world, tiny, "zoo.yaml") == "done"
        assert status_of(world, tiny, "zoo.yaml", changes={"precision": "bf16"}) == "run"
        return
    assert status_of(world, own(world), "zoo.yaml") == "done"
    assert asked(world, own(world), "zoo.yaml", change) == "run"


NET = """
import torch
from fieldmark.models import Recipe, TorchBackbone
class Net(TorchBackbone):
    def __init__(self):
        torch.manual_seed(0)
        layers = torch.nn.Conv2d(3, 4, 8, 8), torch.nn.Flatten()
        super().__init__(torch.nn.Sequential(*layers), Recipe((16, 16)))
"""


@pytest.mark.parametrize("kind", ["family", "own"])
def test_each_way_of_reading_photos_is_a_run_of_its_own(world: Path, kind: str) -> None:
    pytest.importorskip("timm")
    name = "timm/test_vit?pretrained=false" if kind == "family" else f"{world}/net.py:Net"
    (world / "net.py").write_text(NET)
    features = world / "cache" / "features"
    auto, exact = {"device": "cpu"}, {"device": "cpu", "decode": "reference"}
    before, folders = {run.id for run in runs_at(world)}, set(features.iterdir())

    def plans(how: dict[str, Any]) -> set[str]:
        loads = (plan_of(world, name, "zoo.yaml", how, may_load=may) for may in (False, True))
        return {planned.status for plan in loads for planned in plan.jobs}

    run_it(world, name, "zoo.yaml", changes=auto)
    assert (plans(auto), plans(exact)) == ({"done"}, {"run"})
    run_it(world, name, "zoo.yaml", changes=exact)
    assert plans(auto) == plans(exact) == plans({"device": "cpu", "decode": "cpu"}) == {"done"}
    runs = [run for run in runs_at(world) if run.id not in before]
    assert len(runs) == len({run.spec.model_version for run in runs}) == 2
    assert len(set(features.iterdir()) - folders) == 2
    with Store.open(world / "results" / "fieldmark.db", read_only=True) as store:
        notes = [part.info or {} for run in runs for part in store.finished_parts(run.id)]
    assert [note["decode"] for note in notes] == ["cpu", "reference"]
    assert all(note["images_per_s"] > 0 and note["busy_s"] for note in notes)
    cached = {cache.throughput.decode for cache in cached_models(world / "cache", name)}
    assert cached == {"cpu", "reference"}


@named([*DATA, *ASK])
def test_what_changes_a_question_is_asked(world: Path, change: Any) -> None:
    assert status_of(world, CHAT, "zoo.yaml", n_train=2) == "done"
    assert asked(world, CHAT, "zoo.yaml", change, n_train=2) == "run"


@named(DOCUMENTS)
def test_what_changes_a_document_is_asked(world: Path, change: Any) -> None:
    pytest.importorskip("datasets")
    assert status_of(world, CHAT, "docs.yaml", n_train=1) == "done"
    assert asked(world, CHAT, "docs.yaml", change, n_train=1) == "run"


def reversed_rows(w: Path) -> None:
    write_items(w, read_items(w)[::-1])


def touched(w: Path) -> None:
    for path in [*(w / "photos").iterdir(), *(w / "d").iterdir()]:
        os.utime(path)


def link(w: Path) -> None:
    (w / "photos").rename(w / "elsewhere")
    (w / "photos").symlink_to("elsewhere")


def linked_images(w: Path) -> None:
    (w / "store").mkdir()
    for path in (w / "photos").glob("*.png"):
        path.rename(w / "store" / path.name)
        path.symlink_to(w / "store" / path.name)


def renamed_images(w: Path) -> None:
    rows = read_items(w)
    for row in rows:
        frames = row["image"].split(";")
        for frame in frames:
            (w / "photos" / frame).rename(w / "photos" / f"n{frame}")
        row["image"] = ";".join(f"n{frame}" for frame in frames)
    write_items(w, rows)


def unrelated_file(w: Path) -> None:
    (w / "notes.txt").write_text("lunch at one")
    (w / "other.py").write_text("x = 1")
    (w / "photos" / "left-over.png").write_bytes(b"not in the table")


SAME: list[Case] = [
    ("nothing", lambda _: None),
    ("order of rows", reversed_rows),
    ("threads", lambda _: {"changes": {"threads": 5}}),
    ("batch size", lambda _: {"changes": {"batch_size": 3}}),
    ("the folder is a link", link),
    ("the images are links", linked_images),
    ("other file names, same bytes", renamed_images),
    ("times of files", touched),
    ("files nobody uses", unrelated_file),
    ("the cache is gone", lambda w: shutil.rmtree(w / "cache")),
    ("the title", edited("zoo.yaml", "title: Zoo", "title: Animals")),
]


@named(SAME)
def test_what_changes_nothing_stays_done(world: Path, change: Any) -> None:
    more = change(world) or {}
    assert status_of(world, own(world), "zoo.yaml", **more) == "done"
    assert status_of(world, CHAT, "zoo.yaml", n_train=2, **more) == "done"
    if change is not dict(SAME)["the cache is gone"]:
        pytest.importorskip("datasets")
    assert status_of(world, CHAT, "docs.yaml", n_train=1, **more) == "done"


@named([case for case in (*DATA, *PROBE) if case[0] in ("test image", "a label", "a crop")])
def test_the_number_is_that_of_a_fresh_start_and_the_old_one_is_kept(
    world: Path, tmp_path: Path, change: Any
) -> None:
    change(world)
    value = run_it(world, own(world), "zoo.yaml")
    fresh = Path(shutil.copytree(world, tmp_path / "fresh"))
    shutil.rmtree(fresh / "cache")
    shutil.rmtree(fresh / "results")
    assert run_it(fresh, own(fresh), "zoo.yaml") == value
    probes = [run for run in runs_at(world) if run.spec.protocol.startswith("probe")]
    assert len(probes) == 2 and len({run.spec.data for run in probes}) == 2


def test_a_plan_reads_a_new_world_without_leaving_anything(tmp_path: Path) -> None:
    place = mark_drawn(make_world(tmp_path / "w"))
    before = sorted(place.rglob("*"))
    jobs = [each.job for each in plan_of(place, "classical/colour", "zoo.yaml").jobs]
    shutil.rmtree(place / "cache", ignore_errors=True)
    from fieldmark.experiments import make_plan

    make_plan(jobs, settings_at(place))
    assert [p for p in sorted(place.rglob("*")) if "__pycache__" not in str(p)] == before

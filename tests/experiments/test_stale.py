"""Every door through which version 0.1.0 gave a number of other photos, labels or models.

Through the command line, as a user would; "right" is the same command with a fresh cache and fresh
results. None of them needs --force.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fieldmark.cli import main
from fieldmark.store import Store
from kit.kills import kill_when, start, wait_for
from kit.pictures import mark_drawn

COLOURS = {"ant": (200, 40, 40), "bee": (40, 200, 40), "cat": (40, 40, 200)}
TASK = """task: mine
title: Mine
dataset: folder
metric: accuracy
probe: {classifier: simpleshot}
"""
MODEL = """import numpy as np
from fieldmark.models import Features

class Mine:
    dim = 3
    def transform(self, image):
        return np.asarray(image.resize((4, 4)), np.float32)
    def embed_images(self, batch):
        return Features(batch.mean(axis=(1, 2)))
"""
CONSTANT = ("batch.mean(axis=(1, 2))", "np.ones((len(batch), 3), np.float32)")


def paint(path: Path, colour: tuple[int, int, int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    pixels = np.clip(np.array(colour) + rng.integers(-20, 20, (12, 12, 3)), 0, 255)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.astype(np.uint8)).save(path)


def make_photos(root: Path) -> Path:
    for place, (name, colour) in enumerate(COLOURS.items()):
        for n in range(16):
            split = ("train", "test")[n % 2]
            paint(root / split / name / f"{name}{n}.png", colour, 100 * place + n)
    return root


def spoil(root: Path) -> None:
    """One class's test photos now show another's colour: a third of the answers are wrong."""
    for n, path in enumerate(sorted((root / "test" / "bee").iterdir())):
        paint(path, COLOURS["ant"], 900 + n)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FIELDMARK_CACHE", "cache")
    make_photos(tmp_path / "photos")
    (tmp_path / "t.yaml").write_text(TASK)
    (tmp_path / "m.py").write_text(MODEL)
    return tmp_path


def run(*words: str) -> float:
    """The value that the command leaves as the newest of its question."""
    given = list(words)
    if "--task" not in given:
        given += ["--task", "t.yaml"]
    if "--model" not in given:
        given += ["--model", "classical/colour"]
    if "--data" not in given:
        given += ["--data", "folder=photos"]
    assert main(["run", *given, "--quiet"]) == 0
    results = given[given.index("--results") + 1] if "--results" in given else "results"
    with Store.open(Path(results) / "fieldmark.db", read_only=True) as store:
        shown = [run for run in store.runs() if run.id not in store.superseded()]
        model = given[given.index("--model") + 1]
        data = given[given.index("--data") + 1].partition("=")[2]
        root = Path(data).absolute()
        mine = [r for r in shown if r.spec.model == model and Path(r.root) == root]
        newest = max(mine, key=lambda run: run.id)
        (value,) = (s.value for s in store.scores()[newest.id] if s.is_primary)
        return float(value)


def right(*words: str) -> float:
    """The same with a fresh cache and fresh results."""
    if "--cache" in words:  # a flag is given once
        at = words.index("--cache")
        words = words[:at] + words[at + 2 :]
    with tempfile.TemporaryDirectory() as fresh:
        kept = words[: words.index("--cache")] if "--cache" in words else words
        return run(*kept, "--results", f"{fresh}/results", "--cache", f"{fresh}/cache")


Change = Callable[[Path], tuple[str, ...] | None]


def other_folder(here: Path) -> tuple[str, ...]:
    shutil.copytree(here / "photos", here / "cropped")
    spoil(here / "cropped")
    return "--data", "folder=cropped"


def photos_changed(here: Path) -> None:
    spoil(here / "photos")


def cleaned(here: Path) -> None:
    assert main(["cache", "clean", "--all"]) == 0
    spoil(here / "photos")


def another_cache(here: Path) -> tuple[str, ...]:
    spoil(here / "photos")
    return "--cache", "elsewhere"


@pytest.mark.slow
def test_another_folder_with_the_same_file_names(here: Path) -> None:
    first = run()
    words = other_folder(here)
    assert first == 1.0 and run(*words) == right(*words) == pytest.approx(2 / 3)
    assert run() == 1.0, "and the first folder keeps its own"


@pytest.mark.parametrize(
    "change", [photos_changed, cleaned, another_cache], ids=["young photos", "clean", "cache"]
)
def test_changed_photos(here: Path, change: Change) -> None:
    """Also those that were younger than two seconds when they were first run."""
    assert run() == 1.0
    words = change(here) or ()
    assert run(*words) == right(*words) == pytest.approx(2 / 3)


@pytest.mark.parametrize("which", ["one", "all"])
def test_photos_of_a_camera_whose_clock_runs_ahead(here: Path, which: str) -> None:
    every = sorted((here / "photos").rglob("*.png"))
    later = time.time() + 10**6
    for path in every if which == "all" else every[:1]:
        os.utime(path, (later, later))
    assert run() == 1.0
    spoil(here / "photos")
    for path in every:
        os.utime(path, (later, later))
    assert run() == pytest.approx(2 / 3)


def test_a_table_given_as_a_file(here: Path) -> None:
    (here / "t.yaml").write_text(TASK.replace("dataset: folder", "dataset: csv"))
    paths = sorted((here / "photos").rglob("*.png"))
    lines = [f"{p.relative_to(here)},{p.parent.parent.name},{p.parent.name}" for p in paths]
    (here / "labels.csv").write_text("\n".join(["image,split,label", *lines]) + "\n")
    words = ("--data", "csv=labels.csv")
    assert run(*words) == 1.0
    spoil(here / "photos")
    assert run(*words) == right(*words) == pytest.approx(2 / 3)


def test_a_broken_photo_left_out_and_mended(here: Path) -> None:
    victim = here / "photos" / "test" / "cat" / "cat1.png"
    whole = victim.read_bytes()
    victim.write_bytes(whole[:40])
    assert run("--bad-images", "skip") == 1.0
    spoil(here / "photos")
    skipped = run("--bad-images", "skip")
    assert skipped == right("--bad-images", "skip") == pytest.approx(15 / 23)
    victim.write_bytes(whole)
    assert run() == pytest.approx(16 / 24)


def test_a_file_name_that_looks_like_a_member_of_another_file(here: Path) -> None:
    odd = here / "photos" / "test" / "bee" / "bee1.png::x.png"
    paint(odd, COLOURS["bee"], 1)
    assert run() == 1.0
    paint(odd, COLOURS["ant"], 2)
    assert run() == right() == pytest.approx(24 / 25)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (photos_changed, "its images have changed since it was done"),
        (
            lambda h: (h / "photos/test/bee/bee1.png").rename(h / "photos/test/cat/bee1.png"),
            "its photos or labels have changed since it was done",
        ),
    ],
    ids=["images", "labels"],
)
def test_plan_says_what_changed(
    here: Path, capsys: pytest.CaptureFixture[str], change: Callable[[Path], object], why: str
) -> None:
    run()
    change(here)
    capsys.readouterr()
    words = ["--model", "classical/colour", "--task", "t.yaml", "--data", "folder=photos"]
    assert main(["plan", *words, "--json"]) == 0
    (job,) = json.loads(capsys.readouterr().out)["jobs"]
    assert (job["status"], job["why"]) == ("run", why)


@pytest.mark.slow
def test_chat_models_notice_changed_photos(here: Path) -> None:
    (here / "t.yaml").write_text(TASK + "ask: {prompt: Which?}\n")
    mark_drawn(here / "photos")
    words = ("--model", "chat/mock/wren?skill=0.7")
    run(*words)
    spoil(here / "photos")
    assert run(*words) == right(*words)
    with Store.open("results/fieldmark.db", read_only=True) as store:
        assert len(store.runs()) == 2


def edit(path: Path, old: str, new: str) -> None:
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


HELPER = "import numpy as np\ndef see(batch):\n    return batch.mean(axis=(1, 2))\n"
WITH_HELPER = MODEL.replace("import numpy as np", "import numpy as np\nfrom {} import see").replace(
    CONSTANT[0], "see(batch)"
)
WITH_FILE = MODEL.replace(
    "    dim = 3\n",
    "    dim = 3\n    def __init__(self, weights='w'):\n"
    "        from pathlib import Path\n"
    "        files = sorted(Path(weights).rglob('*.npy'))\n"
    "        self.w = np.load(files[0])\n",
).replace(CONSTANT[0], "batch.mean(axis=(1, 2)) * self.w")
FACTORY = MODEL + "\ndef make():\n    return Mine()\n"
TORCH = """import numpy as np, torch
from fieldmark.models import TorchBackbone

def encode(module, images, patches):
    return images.mean(dim=(2, 3)), None

def preprocess(image):
    array = np.asarray(image.resize((8, 8)), np.float32)
    return torch.from_numpy(array.transpose(2, 0, 1).copy())

def make():
    return TorchBackbone(torch.nn.Identity(), preprocess, encode=encode)
"""


def write_helper(here: Path) -> str:
    (here / "helper.py").write_text(HELPER)
    (here / "m.py").write_text(WITH_HELPER.format("helper"))
    return "m.py:Mine"


def write_package(here: Path) -> str:
    (here / "pack").mkdir()
    (here / "pack" / "__init__.py").write_text("from .inner import see\n")
    (here / "pack" / "inner.py").write_text(HELPER)
    (here / "m.py").write_text(WITH_HELPER.format("pack"))
    return "m.py:Mine"


def write_weights(here: Path, option: str = "?weights=w") -> str:
    (here / "w" / "deep").mkdir(parents=True)
    np.save(here / "w" / "deep" / "w.npy", np.ones(3, np.float32))
    (here / "m.py").write_text(WITH_FILE)
    return f"m.py:Mine{option}"


def write_factory(here: Path) -> str:
    (here / "other.py").write_text(MODEL)
    (here / "m.py").write_text("from other import Mine\ndef make():\n    return Mine()\n")
    return "m.py:make"


def write_torch(here: Path) -> str:
    pytest.importorskip("torch")
    (here / "m.py").write_text(TORCH)
    return "m.py:make"


def flat_weights(here: Path) -> None:
    np.save(here / "w" / "deep" / "w.npy", np.zeros(3, np.float32))


def write_outside(here: Path) -> str:
    """A weight file beyond the model's folder, found by a name that only running the code gives."""
    (here / "code").mkdir()
    load = "self.w = np.load(sorted((Path(__file__).parents[1] / 'w').rglob('*.npy'))[0])"
    text = WITH_FILE.replace("weights='w'", "").replace("(self, )", "(self)")
    text = text.replace("files = sorted(Path(weights).rglob('*.npy'))", load)
    write_weights(here)
    (here / "m.py").unlink()
    (here / "code" / "m.py").write_text(text.replace("        self.w = np.load(files[0])\n", ""))
    return "code/m.py:Mine"


def write_imported_by_text(here: Path, name: str = "'hel' + 'per'") -> str:
    (here / "helper.py").write_text(HELPER)
    load = f"import importlib\nimport numpy as np\nsee = importlib.import_module({name}).see"
    (here / "m.py").write_text(WITH_HELPER.format("x").replace(
        "import numpy as np\nfrom x import see", load))  # fmt: skip
    return "m.py:Mine"


def write_hidden_part(here: Path) -> str:
    """Code behind a loader of its own, which no import names."""
    (here / "part.py").write_text(HELPER)
    load = "import importlib.util as u\nfrom pathlib import Path\nimport numpy as np\n"
    load += "s = u.spec_from_file_location('x', str(Path(__file__).parent / 'part.py'))\n"
    load += "part = u.module_from_spec(s); s.loader.exec_module(part)\nsee = part.see"
    (here / "m.py").write_text(WITH_HELPER.format("x").replace(
        "import numpy as np\nfrom x import see", load))  # fmt: skip
    return "m.py:Mine"


OWN: dict[str, tuple[Callable[[Path], str], Callable[[Path], None]]] = {
    "its file": (lambda _: "m.py:Mine", lambda h: edit(h / "m.py", *CONSTANT)),
    "helper module": (
        write_helper,
        lambda h: edit(h / "helper.py", CONSTANT[0], CONSTANT[1]),
    ),
    "package": (
        write_package,
        lambda h: edit(h / "pack" / "inner.py", CONSTANT[0], CONSTANT[1]),
    ),
    "weights it opens itself": (lambda h: write_weights(h, ""), flat_weights),
    "weights outside its folder": (write_outside, flat_weights),
    "a module it loads by hand": (
        write_hidden_part, lambda h: edit(h / "part.py", CONSTANT[0], CONSTANT[1]),
    ),
    "a module it imports by text": (
        write_imported_by_text, lambda h: edit(h / "helper.py", CONSTANT[0], CONSTANT[1]),
    ),
    "a module of a computed name": (
        lambda h: write_imported_by_text(h, "''.join(['hel', 'per'])"),
        lambda h: edit(h / "helper.py", CONSTANT[0], CONSTANT[1]),
    ),
    "a folder of weights": (write_weights, flat_weights),
    "the file of a factory": (
        write_factory,
        lambda h: edit(h / "m.py", "return Mine()", "m = Mine(); m.embed_images = lambda b: "
                       "__import__('numpy').ones((len(b), 3), 'float32'); return m"),
    ),
    "the class behind a factory": (
        write_factory, lambda h: edit(h / "other.py", CONSTANT[0], CONSTANT[1]),
    ),
    "encode": (
        write_torch, lambda h: edit(h / "m.py", "images.mean(dim=(2, 3))",
                                    "images.mean(dim=(2, 3)) * 0 + 1"),
    ),
    "preprocess, for some images only": (
        write_torch,
        lambda h: edit(h / "m.py", "np.float32)\n    return",
                       "np.float32) * (image.size != (12, 12))\n    return"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OWN)
def test_a_changed_model(here: Path, name: str) -> None:
    write, change = OWN[name]
    words = ("--model", write(here))
    assert run(*words) == 1.0
    change(here)
    assert run(*words) == right(*words) == pytest.approx(1 / 3)
    with Store.open("results/fieldmark.db", read_only=True) as store:
        assert len({run.spec.model_version for run in store.runs()}) == 2


PROBE = """import numpy as np
from fixed import answer

class P:
    def get_params(self, deep=True):
        return {}
    def fit(self, x, y):
        self.x, self.y = x, np.asarray(y)
        return self
    def predict(self, x):
        near = ((x[:, None] - self.x[None]) ** 2).sum(-1).argmin(1)
        return answer(self.y[near])
"""


def test_a_module_of_a_probe(here: Path) -> None:
    (here / "pr.py").write_text(PROBE)
    (here / "fixed.py").write_text("def answer(y):\n    return y\n")
    (here / "t.yaml").write_text(TASK.replace("simpleshot", '"pr.py:P"'))
    assert run() == 1.0
    (here / "fixed.py").write_text("def answer(y):\n    return y[:1].repeat(len(y))\n")
    assert run() == right() == pytest.approx(1 / 3)


def test_environment_variables_do_not_count_as_the_docs_say(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They differ between the machines of a cluster and hold keys. Parameters count."""
    (here / "pr.py").write_text(PROBE.replace("from fixed import answer", "import os").replace(
        "answer(self.y[near])", "self.y[near] if os.environ['SEES'] else self.y[:1].repeat(len(x))"
    ))  # fmt: skip
    (here / "t.yaml").write_text(TASK.replace("simpleshot", '"pr.py:P"'))
    monkeypatch.setenv("SEES", "yes")
    assert run() == 1.0
    monkeypatch.setenv("SEES", "")
    assert run() == 1.0 and right() == pytest.approx(1 / 3)
    docs = Path(__file__).parents[2] / "docs"
    assert "Environment variables do not count" in (docs / "add-a-probe.md").read_text()
    assert (
        "Not counted: where the files are, other files in the folder, environment variables"
        in (docs / "add-a-model.md").read_text()
    )


def test_a_renamed_weights_file_is_the_same_model_with_a_row_of_its_own(here: Path) -> None:
    write_weights(here)
    run("--model", "m.py:Mine?weights=w")
    (here / "w").rename(here / "v")
    assert run("--model", "m.py:Mine?weights=v") == 1.0
    with Store.open("results/fieldmark.db", read_only=True) as store:
        one, other = store.runs()
    (version,) = {run.spec.model_version.partition("#")[2] for run in (one, other)}
    assert version and one.spec.key != other.spec.key


def in_store(read: Callable[[Store], Any]) -> bool:
    """Has another process begun to write it?"""
    with suppress(Exception), Store.open("results/fieldmark.db", read_only=True) as store:
        return bool(read(store))
    return False


@pytest.mark.slow
def test_a_killed_run_whose_photos_changed_mixes_nothing(here: Path) -> None:
    """Parts that were there are of the old photos: another run is made of the new ones."""
    (here / "t.yaml").write_text(TASK + "parts: {a: {train: {split: train}, test: {split: test}}, "
                                 "b: {train: {split: train}, test: {split: test}}}\n")  # fmt: skip
    slow = MODEL.replace("return Features", "import time; time.sleep(0.2); return Features")
    (here / "m.py").write_text(slow + "    batch_size = 4\n")
    words = ["run", "--model", "m.py:Mine", "--task", "t.yaml", "--data", "folder=photos"]
    kill_when(start(words), lambda: in_store(Store.runs))
    spoil(here / "photos")
    assert run("--model", "m.py:Mine") == right("--model", "m.py:Mine") == pytest.approx(2 / 3)


def test_two_folders_for_one_dataset_are_refused_or_named_by_task(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other_folder(here)
    words = ["run", "--model", "classical/colour", "--task", "t.yaml", "--quiet"]
    assert main([*words, "--data", "folder=photos", "--data", "folder=cropped"]) == 2
    assert "--data folder=photos was given as well" in capsys.readouterr().err
    (here / "a.yaml").write_text(TASK.replace("mine", "cam-a"))
    (here / "b.yaml").write_text(TASK.replace("mine", "cam-b") + "data: cropped\n")
    words = ["run", "--model", "classical/colour", "--task", "a.yaml", "--task", "b.yaml"]
    assert main([*words, "--data", "cam-a=photos", "--quiet"]) == 0
    with Store.open("results/fieldmark.db", read_only=True) as store:
        found = {
            run.spec.task: score.value
            for run in store.runs()
            for score in store.scores()[run.id]
            if score.is_primary
        }
    assert found == {"cam-a": 1.0, "cam-b": pytest.approx(2 / 3)}


def test_a_path_that_leads_out_is_refused_with_and_without_cached_features(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run()
    (here / "t.yaml").write_text(TASK.replace("dataset: folder", "dataset: csv"))
    (here / "labels").mkdir()
    paths = sorted((here / "photos").rglob("*.png"))
    lines = [f"../{p.relative_to(here)},{p.parent.parent.name},{p.parent.name}" for p in paths]
    (here / "labels" / "l.csv").write_text("\n".join(["image,split,label", *lines]) + "\n")
    words = ["run", "--model", "classical/colour", "--task", "t.yaml", "--data", "csv=labels"]
    for more in ([], ["--cache", "fresh"]):
        assert main([*words, *more, "--quiet"]) == 3
        assert "is outside the dataset's folder" in capsys.readouterr().err


def test_force_keeps_the_finished_run_until_its_successor_is_done(here: Path) -> None:
    (here / "m.py").write_text(
        MODEL.replace("return Features", "import os\n        if os.environ.get('BREAK'): "
                      "raise RuntimeError('no')\n        return Features")
    )  # fmt: skip
    words = ("--model", "m.py:Mine")
    assert run(*words) == 1.0
    os.environ["BREAK"] = "1"
    try:
        given = ["run", *words, "--task", "t.yaml", "--data", "folder=photos", "--quiet"]
        assert main([*given, "--force"]) != 0
    finally:
        del os.environ["BREAK"]
    with Store.open("results/fieldmark.db", read_only=True) as store:
        (kept,) = (run for run in store.runs() if run.state == "done")
        assert store.scores()[kept.id][0].value == 1.0
    assert run(*words, "--force") == 1.0


def test_a_class_folder_that_is_a_link_takes_nothing_from_another(here: Path) -> None:
    """Defect: the first name won, and the linked class vanished."""
    (here / "photos" / "all").symlink_to("train")
    (here / "photos" / "test" / "zebra").symlink_to("cat")
    assert run() == right() == pytest.approx(24 / 32), "the zebra is a cat to every model"


def test_a_corrected_label_makes_no_second_column(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "u.yaml").write_text(TASK.replace("mine", "other"))
    run()
    run("--task", "u.yaml")
    wrong = here / "photos" / "test" / "bee" / "bee1.png"
    wrong.rename(here / "photos" / "test" / "cat" / "bee1.png")
    assert run() == pytest.approx(23 / 24)
    capsys.readouterr()
    assert main(["table"]) == 0
    told = capsys.readouterr()
    assert "superseded" in told.out + told.err
    assert "data=" not in told.out.partition("signature")[0].partition("task=")[0]


@pytest.mark.slow
def test_data_make_killed_half_way_leaves_no_dataset(here: Path) -> None:
    words = ["data", "make", "folder", "--size", "3000", "--out", "made"]
    kill_when(start(words), lambda: any(Path(".made.making").rglob("*.jpg")))
    assert any(Path(".made.making").rglob("*.jpg")) and not Path("made").exists()
    assert main(["data", "make", "folder", "--size", "30", "--out", "made"]) == 0
    assert not Path(".made.making").exists()


def test_data_make_touches_nothing_of_the_user_s(here: Path) -> None:
    words = ["data", "make", "folder", "--size", "30", "--out", "made"]
    assert main(words) == 0
    mine = next(Path("made").rglob("*.jpg"))
    paint(mine.with_suffix(".png"), COLOURS["ant"], 1)
    mine.write_bytes(mine.with_suffix(".png").read_bytes())
    mine.with_suffix(".png").unlink()
    before = mine.read_bytes()
    assert main(words) == 3 and mine.read_bytes() == before


@pytest.mark.slow
def test_plan_of_an_edited_model_says_that_all_is_to_be_embedded(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Defect: the cache was looked up by the model's name."""
    monkeypatch.setattr("fieldmark.files.RACY_NS", 0)  # young files would count as unknown

    def to_embed() -> tuple[str, int]:
        capsys.readouterr()
        words = ["--model", "m.py:Mine", "--task", "t.yaml", "--data", "folder=photos"]
        assert main(["plan", *words, "--json"]) == 0
        (job,) = json.loads(capsys.readouterr().out)["jobs"]
        return job["status"], job["to embed"]

    assert to_embed() == ("run", 48)
    run("--model", "m.py:Mine")
    assert to_embed() == ("done", 0)
    edit(here / "m.py", *CONSTANT)
    assert to_embed() == ("run", 48)
    run("--model", "m.py:Mine")
    edit(here / "m.py", CONSTANT[1], CONSTANT[0])
    (here / "t.yaml").write_text(TASK + "version: 2\n")
    assert to_embed() == ("run", 0), "the first version's features are there still"


@pytest.mark.slow
def test_a_run_that_another_process_holds_is_not_a_success(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Defect: "skipped (claimed)", and exit 0."""
    slow = MODEL.replace("return Features", "import time; time.sleep(1); return Features")
    (here / "m.py").write_text(slow + "    batch_size = 4\n")
    words = ["run", "--model", "m.py:Mine", "--task", "t.yaml", "--data", "folder=photos"]
    other = start(words)
    wait_for(other, lambda: in_store(Store.claims))
    assert main(words) == 5
    assert "fieldmark runs free" in capsys.readouterr().err
    kill_when(other, lambda: True)
    assert run("--model", "m.py:Mine") == 1.0, "a dead process holds nothing"


def test_a_file_that_a_probe_reads(here: Path) -> None:
    (here / "pr.py").write_text(
        PROBE.replace("from fixed import answer", "import json, pathlib\n"
                      "HERE = pathlib.Path(__file__).parent\n"
                      "def answer(y):\n"
                      "    flat = json.loads((HERE / 'p.json').read_text())\n"
                      "    return y[:1].repeat(len(y)) if flat else y\n")
    )  # fmt: skip
    (here / "p.json").write_text("false")
    (here / "t.yaml").write_text(TASK.replace("simpleshot", '"pr.py:P"'))
    assert run() == 1.0
    (here / "p.json").write_text("true")
    assert run() == right() == pytest.approx(1 / 3)


HIDDEN = MODEL.replace("import numpy as np", "import os\nimport numpy as np").replace(
    CONSTANT[0], f"({CONSTANT[0]} if os.environ.get('MODE') != 'b' else {CONSTANT[1]})"
)


@pytest.mark.slow
def test_a_model_told_apart_by_what_it_does_stays_so_without_its_cache(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "m.py").write_text(HIDDEN)
    words = ("--model", "m.py:Mine")
    assert run(*words) == 1.0
    assert main(["cache", "clean", "--all"]) == 0
    monkeypatch.setenv("MODE", "b")
    assert run(*words) == right(*words) == pytest.approx(1 / 3)
    assert run(*words, "--cache", "another") == pytest.approx(1 / 3)


def test_weights_replaced_while_the_command_runs(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first load says what the model is, the second one computes: each file as it is then."""
    write_weights(here, "")
    weights = here / "w" / "deep" / "w.npy"
    other = MODEL.replace(
        "    dim = 3\n",
        "    dim = 3\n    def __init__(self):\n        import os, numpy\n"
        "        if os.environ.get('SWAP'):\n"
        f"            numpy.save({str(weights)!r}, numpy.zeros(3, 'float32'))\n",
    )
    (here / "other.py").write_text(other)
    monkeypatch.setattr("fieldmark.files.RACY_NS", 0)
    monkeypatch.setenv("SWAP", "1")
    words = ["--task", "t.yaml", "--data", "folder=photos", "--quiet"]
    assert main(["run", "--model", "m.py:Mine", "--model", "other.py:Mine", *words]) == 0
    monkeypatch.delenv("SWAP")
    np.save(weights, np.ones(3, np.float32))
    assert main(["cache", "clean", "--all"]) == 0
    assert run("--model", "m.py:Mine") == right("--model", "m.py:Mine") == 1.0


def test_a_run_that_left_images_out_is_not_taken_for_a_whole_one(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "photos" / "test" / "cat" / "cat1.png").write_bytes(b"junk")
    assert run("--bad-images", "skip") == 1.0
    words = ["run", "--model", "classical/colour", "--task", "t.yaml", "--data", "folder=photos"]
    assert main(words) == 3
    assert "cat1.png" in capsys.readouterr().err
    assert run("--bad-images", "skip") == 1.0, "and is there still"


def test_equal_folders_share_a_run_until_one_changes(here: Path) -> None:
    shutil.copytree(here / "photos", here / "second")
    assert run() == 1.0
    assert run("--data", "folder=second") == 1.0
    spoil(here / "photos")
    assert run() == pytest.approx(2 / 3)
    assert run("--data", "folder=second") == 1.0
    with Store.open("results/fieldmark.db", read_only=True) as store:
        assert len(store.runs()) == 2 and not store.superseded()


def test_plan_knows_a_model_with_hidden_weights_only_once_it_is_loaded(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--model", write_outside(here))
    run(*words)
    run(*words)
    with Store.open("results/fieldmark.db", read_only=True) as store:
        assert len(store.runs()) == 1, "`run` loads it: nothing has changed"
    capsys.readouterr()
    assert main(["plan", *words, "--task", "t.yaml", "--data", "folder=photos", "--json"]) == 0
    (job,) = json.loads(capsys.readouterr().out)["jobs"]
    assert job["status"] == "run" and "cannot be checked until it is loaded" in job["why"]


def test_plan_does_not_call_a_random_model_done(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "m.py").write_text(
        MODEL.replace("    dim = 3\n", "    dim = 3\n    def __init__(self):\n"
                      "        self.w = np.random.default_rng().normal(size=3)\n")
        .replace(CONSTANT[0], f"{CONSTANT[0]} * self.w")
    )  # fmt: skip
    run("--model", "m.py:Mine")
    run("--model", "m.py:Mine")
    capsys.readouterr()
    words = ["--model", "m.py:Mine", "--task", "t.yaml", "--data", "folder=photos"]
    assert main(["plan", *words, "--json"]) == 0
    (job,) = json.loads(capsys.readouterr().out)["jobs"]
    assert job["status"] == "run" and "cannot be checked until it is loaded" in job["why"]

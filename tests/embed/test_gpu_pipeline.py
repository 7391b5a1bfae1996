"""The pipeline for CUDA devices, with everything real but the card: Pillow decodes into the canvas
in the place of nvJPEG, and the network runs on the CPU.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from fieldmark.data import ImageRef, open_image  # noqa: E402
from fieldmark.embed import EmbedOptions, bucket, embed, read_keys  # noqa: E402
from fieldmark.embed.gpu import pipeline  # noqa: E402
from fieldmark.embed.shards import LeasedBuckets  # noqa: E402
from fieldmark.errors import DataError, FieldmarkError, ModelError, OutOfMemory  # noqa: E402
from fieldmark.leases import LeaseFolder  # noqa: E402
from fieldmark.models import Recipe, TorchBackbone  # noqa: E402
from kit.mixed_photos import NOT_FOR_THE_CARD, scene, write_mixed  # noqa: E402
from kit.pillow_decoder import PillowDecoder  # noqa: E402

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs memfd (Linux)")


class Tiny(TorchBackbone):
    """A network that runs on a CPU, and is fed as if it ran on a card."""

    batch_size = 8

    def __init__(self, recipe: Recipe) -> None:
        torch.manual_seed(0)
        net = torch.nn.Sequential(
            torch.nn.Conv2d(3, 24, 8, 8), torch.nn.GELU(), torch.nn.AdaptiveAvgPool2d(2),
            torch.nn.Flatten(),
        )  # fmt: skip
        super().__init__(net, recipe, device="cpu")
        self.seen: list[int] = []

    @property
    def decode(self) -> str:
        return "gpu"

    def embed_pixels(self, pixels, *, patches=False):
        self.seen.append(len(pixels))
        return super().embed_pixels(pixels, patches=patches)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Tiny:
    monkeypatch.setattr(pipeline, "nvjpeg_decoders", lambda device: PillowDecoder)
    monkeypatch.setattr(pipeline, "N_READERS", 2)
    return Tiny(Recipe((64, 64), (72, 72)))


def reference(model: Tiny, root: Path, refs: list[ImageRef]) -> np.ndarray:
    seen = [model.transform(open_image((root / ref.image).read_bytes(), ref.crop)) for ref in refs]
    return model.embed_images(np.stack(seen)).pooled


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe((64, 64), (72, 72)),
        Recipe((64, 64), fit="squash", interpolation="bilinear"),
        Recipe((64, 48), fit="longest", fill=(9, 80, 200)),
        Recipe((48, 80), interpolation="lanczos"),
    ],
    ids=lambda recipe: f"{recipe.fit}-{recipe.interpolation}",
)
def test_every_image_is_seen_as_the_reference_sees_it(
    recipe: Recipe, tmp_path: Path, model: Tiny
) -> None:
    refs, names = write_mixed(tmp_path / "photos")
    mine = Tiny(recipe)
    embedded = embed(mine, tmp_path / "photos", refs, EmbedOptions(tmp_path / "cache"))
    assert not embedded.bad
    cosine = cosines(embedded.features, reference(mine, tmp_path / "photos", refs))
    far = {name: c for name, c in zip(names, cosine, strict=True) if c < 0.9995}
    assert far == {}
    assert embedded.throughput.n_fallback == len(NOT_FOR_THE_CARD)
    assert embedded.throughput.decode == "gpu"


def test_filters_that_the_card_does_not_have_are_pillows(tmp_path: Path, model: Tiny) -> None:
    refs, _ = write_mixed(tmp_path / "photos")
    mine = Tiny(Recipe((64, 64), interpolation="hamming"))
    embedded = embed(mine, tmp_path / "photos", refs, EmbedOptions(tmp_path / "cache"))
    exact = reference(mine, tmp_path / "photos", refs)
    assert cosines(embedded.features, exact).min() >= 0.99999
    assert embedded.throughput.n_fallback == len(refs)


@pytest.mark.slow
def test_batches_are_full_and_every_image_is_embedded_once(tmp_path: Path, model: Tiny) -> None:
    refs, names = write_mixed(tmp_path / "photos")
    first = (tmp_path / "photos" / refs[0].image).read_bytes()
    (tmp_path / "photos" / "again.jpg").write_bytes(first)
    refs = [*refs, ImageRef("again.jpg"), refs[0]]
    embedded = embed(model, tmp_path / "photos", refs, EmbedOptions(tmp_path / "cache"))
    assert embedded.n_computed == len(names)
    assert set(model.seen) == {model.batch_size}
    assert np.array_equal(embedded.features[0], embedded.features[-1])
    again = embed(model, tmp_path / "photos", refs, EmbedOptions(tmp_path / "cache"))
    assert again.n_computed == 0
    assert np.array_equal(again.features, embedded.features)


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [2, 64])
def test_what_another_process_holds_is_waited_for_with_nothing_in_the_pipeline(
    tmp_path: Path, model: Tiny, batch_size: int
) -> None:
    root = tmp_path / "photos"
    refs, names = write_mixed(root)
    expected = embed(model, root, refs, EmbedOptions(tmp_path / "alone")).features
    options = EmbedOptions(tmp_path / "cache", batch_size=batch_size, leases=True)
    with LeaseFolder(tmp_path / "cache/features" / model.fingerprint / "leases") as other:
        held = LeasedBuckets(other, root, refs[:1], lambda: None)
        assert list(held.take())
        with ThreadPoolExecutor(1) as pool:
            coming = pool.submit(embed, model, root, refs, options)
            n_kept, same = 0, sum(bucket(ref.image) == bucket(refs[0].image) for ref in refs)
            while n_kept < len(names) - same or len(list(other.folder.iterdir())) > 1:
                time.sleep(0.02)
                n_kept = len(read_keys(other.folder.parent))
                assert not coming.done()
            held.release()
            embedded = coming.result(60)
    assert embedded.n_computed == len(names)
    assert cosines(embedded.features, expected).min() >= 0.99999
    assert not list(other.folder.iterdir())


def test_a_jpeg_the_card_refuses_is_decoded_by_pillow(tmp_path: Path, model: Tiny) -> None:
    refs, _ = write_mixed(tmp_path / "photos")
    scene(200, 150, 3).save(tmp_path / "photos" / "odd.jpg", comment=PillowDecoder.refused)
    refs.append(ImageRef("odd.jpg"))
    embedded = embed(model, tmp_path / "photos", refs, EmbedOptions(tmp_path / "cache"))
    cosine = cosines(embedded.features, reference(model, tmp_path / "photos", refs))
    assert cosine.min() >= 0.9995
    assert embedded.throughput.n_fallback == len(NOT_FOR_THE_CARD) + 1


def test_broken_images_are_counted_and_the_others_kept(tmp_path: Path, model: Tiny) -> None:
    root = tmp_path / "photos"
    refs, names = write_mixed(root)
    (root / "cut.jpg").write_bytes((root / refs[0].image).read_bytes()[:900])
    (root / "text.png").write_bytes(b"<html>no image</html>")
    refs += [ImageRef("cut.jpg"), ImageRef("text.png")]
    refs.append(ImageRef(refs[0].image, (5000.0, 0.0, 10.0, 10.0)))
    options = EmbedOptions(tmp_path / "cache", bad_images="skip")
    embedded = embed(model, root, refs, options)
    assert set(embedded.bad) >= {"cut.jpg", "text.png"}
    assert embedded.n_computed == len(names)
    with pytest.raises(DataError, match="images cannot be read"):
        embed(model, root, refs, EmbedOptions(tmp_path / "cache"))


def test_images_larger_than_a_buffer_and_many_crops(
    tmp_path: Path, model: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "BUFFER_BYTES", 1 << 16)
    root = tmp_path / "photos"
    root.mkdir()
    scene(900, 700, 9).save(root / "large.jpg", quality=99)
    for name in ("a.png", "b.jpg", "c.jpg"):
        scene(120, 110, 8).save(root / name)
    assert (root / "large.jpg").stat().st_size > 16 * 3 * 64 * 64
    refs = [
        ImageRef(name, (float(x), 1.0, 50.0, 60.0))
        for name in ("large.jpg", "a.png")
        for x in range(40)
    ]
    refs += [ImageRef(path.name) for path in sorted(root.iterdir())]
    embedded = embed(model, root, refs, EmbedOptions(tmp_path / "cache"))
    cosine = cosines(embedded.features, reference(model, root, refs))
    assert cosine.min() >= 0.9995


def test_out_of_memory_halves_the_batch(tmp_path: Path, model: Tiny) -> None:
    refs, names = write_mixed(tmp_path / "photos")
    forward = model.embed_pixels

    def scarce(pixels, **rest):
        if len(pixels) > 3:
            raise OutOfMemory("too much at once")
        return forward(pixels, **rest)

    model.embed_pixels = scarce  # type: ignore[method-assign]
    embedded = embed(model, tmp_path / "photos", refs, EmbedOptions(tmp_path / "cache"))
    assert embedded.n_computed == len(names)
    assert embedded.throughput.batch_size == 2


@pytest.mark.parametrize("fault", ["network", "nan", "transform"])
def test_an_error_anywhere_ends_in_one_line(
    fault: str, tmp_path: Path, model: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    refs, _ = write_mixed(tmp_path / "photos")
    if fault == "network":
        monkeypatch.setattr(model, "embed_pixels", lambda pixels: pixels.no_such_thing)
    elif fault == "nan":
        monkeypatch.setattr(model, "embed_pixels", lambda p: torch.full((len(p), 96), np.nan))
    else:
        model.preprocess = Recipe((64, 64), interpolation="no such filter")
    with pytest.raises(ModelError) as caught:
        embed(model, tmp_path / "photos", refs, EmbedOptions(tmp_path / "cache"))
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.slow
def test_a_reader_that_dies_ends_the_run_with_what_was_done_kept(
    tmp_path: Path, model: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "photos"
    root.mkdir()
    for index in range(200):
        scene(80, 70, index).save(root / f"{index}.jpg")
    refs = [ImageRef(f"{index}.jpg") for index in range(200)]
    forward = model.embed_pixels

    def killing(pixels):
        if len(model.seen) == 3:
            kill_children()
        time.sleep(0.05)
        return forward(pixels)

    monkeypatch.setattr(model, "embed_pixels", killing)
    with pytest.raises(FieldmarkError, match="process that reads images has ended"):
        embed(model, root, refs, EmbedOptions(tmp_path / "cache", threads=4))
    monkeypatch.setattr(model, "embed_pixels", forward)
    embedded = embed(model, root, refs, EmbedOptions(tmp_path / "cache"))
    assert 0 < embedded.n_computed < 200
    assert embedded.is_ok.all()


def kill_children() -> None:
    for child in children(os.getpid()):
        os.kill(child, signal.SIGKILL)


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


@pytest.mark.slow
def test_no_reader_outlives_a_killed_run(tmp_path: Path) -> None:
    script = tmp_path / "slow.py"
    script.write_text(
        "import sys, time; sys.path[:0] = sys.argv[1:4]\n"
        "from pathlib import Path\n"
        "import test_gpu_pipeline as t\n"
        "from fieldmark.embed import EmbedOptions, embed\n"
        "t.pipeline.nvjpeg_decoders = lambda device: t.PillowDecoder\n"
        "model = t.Tiny(t.Recipe((64, 64)))\n"
        "refs, _ = t.write_mixed(Path('photos'))\n"
        "model.embed_pixels = lambda pixels: print('at work', flush=True) or time.sleep(60)\n"
        "embed(model, Path('photos'), refs, EmbedOptions(Path('cache')))\n"
    )
    here = str(Path(__file__).parent)
    source = str(Path(pipeline.__file__).parents[3])
    process = subprocess.Popen(
        [sys.executable, str(script), here, str(Path(here).parent), source],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"at work\n"
    readers = children(process.pid)
    assert readers
    process.kill()
    process.wait()
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{reader}").exists() for reader in readers):
        assert time.monotonic() < deadline, "a reader is still there"
        time.sleep(0.05)


def test_readers_start_without_torch() -> None:
    """Six of them with torch would take seconds and gigabytes."""
    code = (
        "import sys, fieldmark.embed.gpu.reader_process, fieldmark.models;"
        "print({'torch', 'polars', 'sklearn'} & set(sys.modules))"
    )
    source = str(Path(pipeline.__file__).parents[3])
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "set()\n"

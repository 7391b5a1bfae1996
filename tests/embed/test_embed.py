"""Same model, same bytes, same crop: never computed twice, and never a stale feature."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from fieldmark.data import MEMORY, Contents, ImageRef
from fieldmark.embed import EmbedOptions, cached_models, clean_cache, embed
from fieldmark.errors import DataError, OutOfMemory
from fieldmark.models import Features
from kit.pictures import write_image


class Mean:
    """The mean colour; counts what it is asked."""

    name = "test/mean"
    dim = 3
    fingerprint = "mean-1"

    def __init__(self, most: int = 10**9) -> None:
        self.n_images, self.most, self.batches = 0, most, []

    def transform(self, image):  # type: ignore[no-untyped-def]
        return np.asarray(image.resize((4, 4)), np.float32)

    def embed_images(self, batch):  # type: ignore[no-untyped-def]
        if len(batch) > self.most:
            raise OutOfMemory("too many")
        self.n_images += len(batch)
        self.batches.append(len(batch))
        return Features(batch.mean(axis=(1, 2)))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for number in range(20):
        write_image(tmp_path / "photos" / f"{number:02d}.png", number)
    return tmp_path / "photos"


def refs(photos: Path) -> list[ImageRef]:
    return [ImageRef(path.name) for path in sorted(photos.glob("*.png"))]


def options(tmp_path: Path, **changes) -> EmbedOptions:  # type: ignore[no-untyped-def]
    return EmbedOptions(tmp_path / "cache", **changes)


def test_second_time_computes_nothing_and_gives_the_same(photos: Path, tmp_path: Path) -> None:
    model = Mean()
    first = embed(model, photos, refs(photos), options(tmp_path))
    second = embed(model, photos, refs(photos)[::-1], options(tmp_path))
    assert model.n_images == first.n_computed == 20
    assert second.n_computed == 0
    assert np.array_equal(first.features, second.features[::-1])


def test_order_threads_and_batch_size_do_not_matter(photos: Path, tmp_path: Path) -> None:
    items = refs(photos)
    plain = embed(Mean(), photos, items, options(tmp_path / "a")).features
    other = embed(
        Mean(), photos, items[::-1], options(tmp_path / "b", threads=5, batch_size=3)
    ).features
    assert np.array_equal(plain, other[::-1])


def test_same_bytes_under_another_name_and_in_another_folder_are_known(
    photos: Path, tmp_path: Path
) -> None:
    model = Mean()
    embed(model, photos, refs(photos), options(tmp_path))
    copy = tmp_path / "elsewhere"
    copy.mkdir()
    (copy / "copy.png").write_bytes((photos / "03.png").read_bytes())
    assert embed(model, copy, [ImageRef("copy.png")], options(tmp_path)).n_computed == 0


def test_crop_is_part_of_the_key(photos: Path, tmp_path: Path) -> None:
    model = Mean()
    whole, part, same = (
        embed(model, photos, [ImageRef("00.png", crop)], options(tmp_path))
        for crop in (None, (0.0, 0.0, 5.0, 5.0), (0.0, 0.0, 5.0, 5.0))
    )
    assert (whole.n_computed, part.n_computed, same.n_computed) == (1, 1, 0)
    assert not np.array_equal(whole.features, part.features)


def test_changed_file_never_meets_a_stale_feature(photos: Path, tmp_path: Path) -> None:
    """Same name, same size, even the same modification time: the content decides."""
    model = Mean()
    target = photos / "00.png"
    old_time = time.time() - 3600
    os.utime(target, (old_time, old_time))
    before = embed(model, photos, [ImageRef("00.png")], options(tmp_path))
    write_image(target, seed=17)
    os.utime(target, (old_time, old_time))
    after = embed(model, photos, [ImageRef("00.png")], options(tmp_path))
    assert after.n_computed == 1
    assert not np.array_equal(before.features, after.features)


def test_another_fingerprint_is_another_model(photos: Path, tmp_path: Path) -> None:
    one, two = Mean(), Mean()
    two.fingerprint = "mean-2"
    embed(one, photos, refs(photos), options(tmp_path))
    assert embed(two, photos, refs(photos), options(tmp_path)).n_computed == 20


def test_batches_are_halved_until_they_fit(photos: Path, tmp_path: Path) -> None:
    model = Mean(most=3)
    result = embed(model, photos, refs(photos), options(tmp_path, batch_size=16))
    assert result.is_ok.all() and max(model.batches) <= 3
    assert np.array_equal(
        result.features, embed(Mean(), photos, refs(photos), options(tmp_path / "b")).features
    )


def test_too_little_memory_for_one_image_is_an_error(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(OutOfMemory):
        embed(Mean(most=0), photos, refs(photos), options(tmp_path))


def test_defect_biobench_one_unreadable_image_kills_the_run(photos: Path, tmp_path: Path) -> None:
    """Defect: one unreadable image killed the run, after hours."""
    (photos / "05.png").write_bytes((photos / "05.png").read_bytes()[:100])
    (photos / "06.png").unlink()
    items = [ImageRef(f"{number:02d}.png") for number in range(20)]
    model = Mean()
    with pytest.raises(DataError, match=r"2 of 20 images cannot be read: .*05\.png.*06\.png"):
        embed(model, photos, items, options(tmp_path))
    assert model.n_images == 0
    kept = embed(model, photos, items, options(tmp_path, bad_images="skip"))
    assert kept.is_ok.sum() == 18 and set(kept.bad) == {"05.png", "06.png"}
    assert np.isnan(kept.features[5]).all()


@pytest.mark.parametrize("where", ["values", "keys"])
def test_damaged_rows_are_computed_again(photos: Path, tmp_path: Path, where: str) -> None:
    clean = embed(Mean(), photos, refs(photos), options(tmp_path)).features
    (path,) = (tmp_path / "cache" / "features").rglob(f"rows-000.{where}")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 255
    path.write_bytes(data)
    again = embed(Mean(), photos, refs(photos), options(tmp_path))
    assert again.n_computed == 1
    assert np.array_equal(again.features, clean)
    assert embed(Mean(), photos, refs(photos), options(tmp_path)).n_computed == 0


@pytest.mark.parametrize("cut", [1, 11, 23, 24, 25])
def test_cut_off_tail_is_forgotten_and_overwritten(photos: Path, tmp_path: Path, cut: int) -> None:
    clean = embed(Mean(), photos, refs(photos), options(tmp_path)).features
    for path in (tmp_path / "cache" / "features").rglob("rows-000.*"):
        path.write_bytes(path.read_bytes()[:-cut])
    again = embed(Mean(), photos, refs(photos), options(tmp_path))
    assert 1 <= again.n_computed <= 3
    assert np.array_equal(again.features, clean)


def test_damaged_memory_of_contents_is_made_anew(photos: Path, tmp_path: Path) -> None:
    embed(Mean(), photos, refs(photos), options(tmp_path))
    (tmp_path / "cache" / MEMORY).write_bytes(b"not a database, at all" * 100)
    assert embed(Mean(), photos, refs(photos), options(tmp_path)).n_computed == 0


CHILD = """
import sys
from pathlib import Path

sys.path[:0] = {paths!r}
from test_embed import Mean, options, refs

from fieldmark.embed import embed

photos, place = Path({photos!r}), Path({place!r})
{body}
"""


def child(photos: Path, place: Path, body: str) -> list[str]:
    """The command of another process that embeds the photos."""
    here = Path(__file__).parent
    paths = [str(here), str(here.parent)]
    script = CHILD.format(
        paths=paths, photos=str(photos), place=str(place), body=textwrap.dedent(body)
    )
    return [sys.executable, "-B", "-c", script]  # -B: the full disk must not cut off bytecode


def test_full_disk_says_so_and_keeps_what_is_there(photos: Path, tmp_path: Path) -> None:
    body = """
        import resource, signal
        resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        embed(Mean(), photos, refs(photos), options(place, batch_size=4))
    """
    embed(Mean(), photos, refs(photos)[:1], options(tmp_path))  # the memory already exists
    done = subprocess.run(child(photos, tmp_path, body), capture_output=True, text=True)
    assert "cannot be written: File too large. Free some space" in done.stderr
    assert embed(Mean(), photos, refs(photos), options(tmp_path)).is_ok.all()


def test_two_writers_at_once_lose_nothing(photos: Path, tmp_path: Path) -> None:
    body = "print(embed(Mean(), photos, refs(photos), options(place, batch_size=1)).is_ok.all())"
    command = child(photos, tmp_path, body)
    both = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    assert [each.communicate()[0].strip() for each in both] == [b"True", b"True"]
    assert embed(Mean(), photos, refs(photos), options(tmp_path)).n_computed == 0


def test_usage_and_cleaning(photos: Path, tmp_path: Path) -> None:
    model = Mean()
    embed(model, photos, refs(photos), options(tmp_path))
    (known,) = cached_models(tmp_path / "cache")
    assert (known.model, known.n_features, known.dim) == ("test/mean", 20, 3)
    assert clean_cache(tmp_path / "cache", "nothing") == []
    assert len(clean_cache(tmp_path / "cache", "mean")) == 1
    assert embed(model, photos, refs(photos), options(tmp_path)).n_computed == 20


def test_an_image_replaced_while_others_are_embedded_ends_the_run_and_poisons_nothing(
    photos: Path, tmp_path: Path
) -> None:
    """Defect: the first pass hashed, the second read again: a feature of other bytes stayed."""
    before = {path: path.read_bytes() for path in photos.iterdir()}

    class Swapping(Mean):
        def embed_images(self, batch):  # type: ignore[no-untyped-def]
            write_image(photos / "19.png", seed=99)
            return super().embed_images(batch)

    known = Contents(None)
    known.learn(photos, [ref.image for ref in refs(photos)])
    how = options(tmp_path, batch_size=2, threads=1, contents=known)
    with pytest.raises(DataError, match=r"19\.png was changed while it was being read"):
        embed(Swapping(), photos, refs(photos), how)
    for path, data in before.items():
        path.write_bytes(data)
    kept = embed(Mean(), photos, refs(photos), how).features
    fresh = embed(Mean(), photos, refs(photos), options(tmp_path / "fresh")).features
    assert np.array_equal(kept, fresh)


def test_speed_is_that_of_all_features_not_of_the_last_handful(
    photos: Path, tmp_path: Path
) -> None:
    class Slow(Mean):
        def embed_images(self, batch):  # type: ignore[no-untyped-def]
            time.sleep(0.3)
            return super().embed_images(batch)

    embed(Mean(), photos, refs(photos)[:19], options(tmp_path))
    embed(Slow(), photos, refs(photos)[19:], options(tmp_path))
    speed = cached_models(tmp_path / "cache")[0].images_per_s
    assert speed is not None and 1 / 0.3 < speed < 20 / 0.3, "20 images in a bit more than 0.3 s"


def test_without_locks_a_process_writes_one_file(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Defect: on a file system without flock one feature made 10,002 files."""
    import fcntl

    def refuse(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    for some in (refs(photos)[:3], refs(photos)[3:9], refs(photos)):
        embed(Mean(), photos, some, options(tmp_path))
    files = sorted((tmp_path / "cache" / "features").rglob("rows-*"))
    assert [path.suffix for path in files] == [".keys", ".values"]
    assert embed(Mean(), photos, refs(photos), options(tmp_path)).n_computed == 0


def test_a_cache_cleaned_during_a_run_is_told(photos: Path, tmp_path: Path) -> None:
    class Cleaning(Mean):
        def embed_images(self, batch):  # type: ignore[no-untyped-def]
            clean_cache(tmp_path / "cache")
            return super().embed_images(batch)

    embed(Mean(), photos, refs(photos)[:10], options(tmp_path))
    with pytest.raises(DataError, match="Run the same command again"):
        embed(Cleaning(), photos, refs(photos), options(tmp_path))


def test_a_file_is_read_once_for_all_its_crops(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crops = [ImageRef("00.png", (float(x), 0.0, 4.0, 4.0)) for x in range(4)]
    reads = []
    monkeypatch.setattr(
        "fieldmark.data._content.read_bytes",
        lambda root, name: reads.append(name) or (root / name).read_bytes(),
    )
    made = embed(Mean(), photos, crops, options(tmp_path))
    assert made.n_computed == 4 and reads == ["00.png"]


def test_last_batch_is_filled_up_for_models_that_want_one_shape(
    photos: Path, tmp_path: Path
) -> None:
    model = Mean()
    model.wants_full_batches = True
    filled = embed(model, photos, refs(photos), options(tmp_path, batch_size=8))
    assert model.batches == [8, 8, 8]
    assert filled.n_computed == 20
    plain = embed(Mean(), photos, refs(photos), options(tmp_path / "b"))
    assert np.array_equal(filled.features, plain.features)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["timm/test_resnet?pretrained=false", "timm/test_vit?pretrained=false"]
)
def test_defect_biobench_batchnorm_network_sees_its_batch(
    name: str, photos: Path, tmp_path: Path
) -> None:
    """Defect: backbones ran in train mode, so features followed what else was in the batch."""
    pytest.importorskip("torch")
    from fieldmark.models import load_model

    items = refs(photos)
    plain = embed(load_model(name), photos, items, options(tmp_path / "a")).features
    for changes in ({"batch_size": 1}, {"batch_size": 7, "threads": 4}, {"batch_size": 64}):
        model = load_model(name)
        place = options(tmp_path / repr(changes), **changes)
        before = model.fingerprint
        shuffled = embed(model, photos, items[::-1], place).features[::-1]
        assert np.allclose(plain, shuffled, rtol=1e-5, atol=1e-6)
        assert load_model(name).fingerprint == before


def test_full_batches_make_resumed_torch_features_bit_equal(photos: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from fieldmark.models import load_model

    items, name = refs(photos), "timm/test_resnet?pretrained=false"
    whole = embed(load_model(name), photos, items, options(tmp_path / "a")).features
    for part in (items[3:9], items[:11], items):
        resumed = embed(load_model(name), photos, part, options(tmp_path / "b")).features
    assert np.array_equal(whole, resumed)

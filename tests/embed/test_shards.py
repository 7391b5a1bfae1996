"""Many processes fill one cache: every image is embedded once, by one of them, and none waits for
ever.

Each scenario runs in a process of its own that forks the others: forking is safe there.
"""

from __future__ import annotations

import io
import os
import tarfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmark.data import Contents, ImageRef, load_dataset
from fieldmark.embed import (
    N_BUCKETS,
    EmbedOptions,
    bucket,
    clean_cache,
    embed,
    embed_texts,
    fill,
    in_shard,
    read_keys,
)
from fieldmark.embed.rows import FeatureRows
from fieldmark.embed.shards import LeasedBuckets
from fieldmark.leases import LeaseFolder
from fieldmark.models import Features, load_model
from fieldmark.progress import Silent
from fieldmark.world import World
from kit.duals import HashDual
from kit.kills import Victim, run_apart
from kit.pictures import write_image

BATCH, N_PROCESSES = 4, 8
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and kill -9")


class Counting:
    """The mean colour, many times over; takes its time and says what it has computed."""

    name, dim, fingerprint = "test/counting", 40, "counting-1"

    def __init__(self, pause_s: float = 0.0, report: Callable[[int], object] | None = None) -> None:
        self.pause_s, self.report, self.n_images = pause_s, report, 0

    def transform(self, image):  # type: ignore[no-untyped-def]
        return np.asarray(image.resize((4, 4)), np.float32)

    def embed_images(self, batch):  # type: ignore[no-untyped-def]
        time.sleep(self.pause_s)
        self.n_images += len(batch)
        if self.report:
            self.report(len(batch))
        return Features(np.repeat(batch.mean(axis=(1, 2)), 14, axis=1)[:, : self.dim])


def photos(place: Path, n: int = 160) -> list[ImageRef]:
    paths = [write_image(place / f"{number:03d}.png", number) for number in range(n)]
    return [ImageRef(path.name) for path in paths]


def mixture(place: Path) -> list[ImageRef]:
    """Files, crops of files, and members of archives."""
    refs = photos(place, 60)
    boxes = [(0.0, 0.0, 12.0, 10.0), (4.0, 4.0, 20.0, 18.0)]
    refs += [ImageRef(f"{number:03d}.png", box) for number in range(40) for box in boxes]
    for number in range(9):
        with tarfile.open(place / f"{number}.tar", "w") as archive:
            for member in range(8):
                path = write_image(place / "member.png", 1000 + 8 * number + member)
                data = path.read_bytes()
                info = tarfile.TarInfo(f"{member}.png")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
                refs.append(ImageRef(f"{number}.tar::{member}.png"))
    (place / "member.png").unlink()
    return refs


def embed_shared(
    place: Path, root: Path, refs: Sequence[ImageRef], model: object, **changes: object
) -> np.ndarray:
    """As a worker on a node does: what it learns of files is its own."""
    known = Contents(place / f"{os.getpid()}.db")
    given_options = {"contents": known, "leases": True, "batch_size": BATCH} | changes
    options = EmbedOptions(place / "cache", **given_options)  # type: ignore[arg-type]
    return embed(model, root, refs, options).features  # type: ignore[arg-type]


def alone(place: Path, root: Path, refs: Sequence[ImageRef], model: object) -> np.ndarray:
    return embed(model, root, refs, EmbedOptions(place / "alone")).features  # type: ignore[arg-type]


def check_whole(place: Path, root: Path, refs: Sequence[ImageRef], model: Counting) -> None:
    """Each feature is there once and right, and nobody's lease is left."""
    folder = place / "cache" / "features" / model.fingerprint
    n_rows = sum(path.stat().st_size // 24 for path in folder.glob("rows-*.keys"))
    assert n_rows == len(refs), (n_rows, len(refs))
    keys = sorted(read_keys(folder))
    rows = FeatureRows(folder, model.dim)
    assert len(keys) == len(refs) and not rows.missing(keys).any() and not rows.n_damaged
    assert not list((folder / "leases").iterdir())
    fresh = type(model)()
    made = embed(fresh, root, refs, EmbedOptions(place / "cache")).features  # type: ignore[arg-type]
    assert fresh.n_images == 0
    assert np.array_equal(made, alone(place, root, refs, Counting()))


def many_at_once(place: Path, refs: Sequence[ImageRef], n: int, **changes: object) -> list[int]:
    """How many images each of the processes has embedded."""
    root = place / "photos"
    expected = alone(place, root, refs, Counting())
    rng = np.random.default_rng(2)

    def work(report: Callable[[int], object], order: np.ndarray) -> None:
        model = Counting(0.004)
        made = embed_shared(place, root, [refs[at] for at in order], model, **changes)
        assert np.array_equal(made, expected[order])
        report(model.n_images)

    orders = [rng.permutation(len(refs)) for _ in range(n)]
    victims = [Victim(lambda report, order=order: work(report, order)) for order in orders]  # type: ignore[misc]
    reports = [victim.end() for victim in victims]
    assert all(len(own) == 1 for own in reports), reports
    counts = [own[0] for own in reports]
    assert sum(counts) == len(refs), counts
    check_whole(place, root, refs, Counting())
    return counts


def eight_embed_photos(place: Path) -> None:
    counts = many_at_once(place, photos(place / "photos"), N_PROCESSES)
    assert sum(n > 0 for n in counts) > 1, "the others had nothing to do"


def eight_embed_a_mixture(place: Path) -> None:
    many_at_once(place, mixture(place / "photos"), N_PROCESSES)


def eight_embed_clips(place: Path) -> None:
    dataset = load_dataset("kabr")
    dataset.make(place / "photos", World(), 12)
    frames = dataset.table(place / "photos").get_column("image").explode().unique().sort()
    many_at_once(place, [ImageRef(image) for image in frames.to_list()], N_PROCESSES)


def two_with_batches_larger_than_buckets(place: Path) -> None:
    """Each has the other's buckets to wait for, and its own in a batch that is never full."""
    take = LeasedBuckets.take

    def side_by_side(self: LeasedBuckets) -> Iterator[tuple[int, list[ImageRef]]]:
        for taken in take(self):
            (place / f"has-leased-{os.getpid()}").touch()
            while len(list(place.glob("has-leased-*"))) < 2:
                time.sleep(0.01)
            yield taken

    LeasedBuckets.take = side_by_side  # type: ignore[method-assign]
    refs = photos(place / "photos")
    assert all(many_at_once(place, refs, 2, batch_size=1000, threads=1))


@pytest.mark.slow
@forks
@pytest.mark.parametrize(
    "scenario",
    [eight_embed_photos, eight_embed_a_mixture, eight_embed_clips],
    ids=lambda scenario: scenario.__name__,
)
def test_of_many_processes_one_embeds_an_image(
    scenario: Callable[[Path], None], tmp_path: Path
) -> None:
    run_apart(scenario, tmp_path, limit_s=300)


@pytest.mark.slow
@forks
def test_two_processes_never_wait_for_each_other(tmp_path: Path) -> None:
    run_apart(two_with_batches_larger_than_buckets, tmp_path, limit_s=300)


def some_are_killed(place: Path) -> None:
    root, refs = place / "photos", photos(place / "photos", 240)
    expected = alone(place, root, refs, Counting())

    def work(report: Callable[[int], object]) -> None:
        assert np.array_equal(embed_shared(place, root, refs, Counting(0.02, report)), expected)
        report(0)  # to its end

    victims = [Victim(work) for _ in range(N_PROCESSES)]
    rng = np.random.default_rng(4)
    killed = [victim.kill(int(rng.integers(1, 5)), rng.uniform(0, 0.02)) for victim in victims[:3]]
    rest = [victim.end() for victim in victims[3:]]
    assert all(own[-1:] == [0] for own in rest), rest
    assert not any(0 in own for own in killed), "the kills came too late to show anything"
    n_again = sum(map(sum, [*killed, *rest])) - len(refs)
    assert 0 <= n_again <= BATCH * len(killed), n_again
    check_whole(place, root, refs, Counting())


@pytest.mark.slow
@forks
def test_after_kills_only_the_batches_in_flight_are_embedded_again(tmp_path: Path) -> None:
    run_apart(some_are_killed, tmp_path, limit_s=300)


def eight_embed_with_the_classical_model(place: Path) -> None:
    root, refs = place / "photos", photos(place / "photos")
    model = load_model("classical/colour")
    expected = alone(place, root, refs, model)

    def work(report: Callable[[int], object]) -> None:
        options = EmbedOptions(place / "cache", batch_size=BATCH, leases=True)
        made = embed(model, root, refs, options)
        assert np.array_equal(made.features, expected)
        report(made.n_computed)

    victims = [Victim(work) for _ in range(N_PROCESSES)]
    reports = [victim.end() for victim in victims]
    assert all(len(own) == 1 for own in reports), reports
    assert (
        sum(map(sum, reports))
        == len(refs)
        == len(read_keys(place / "cache" / "features" / model.fingerprint))
    )


@pytest.mark.slow
@forks
def test_a_shipped_model_embeds_each_image_once(tmp_path: Path) -> None:
    run_apart(eight_embed_with_the_classical_model, tmp_path, limit_s=300)


def four_embed_texts(place: Path) -> None:
    texts = [f"a photo of species {number}" for number in range(700)]

    def work(report: Callable[[int], object]) -> None:
        model = HashDual(tag="texts")
        made = embed_texts(model, texts, EmbedOptions(place, leases=True))
        assert np.array_equal(made, HashDual(tag="texts").embed_texts(texts))
        report(len(model.said))

    reports = [victim.end() for victim in [Victim(work) for _ in range(4)]]
    assert all(len(own) == 1 for own in reports), reports
    assert sum(map(sum, reports)) == len(texts)


@forks
def test_texts_are_embedded_by_one_process(tmp_path: Path) -> None:
    run_apart(four_embed_texts, tmp_path, limit_s=300)


# --- one process


class Status(Silent):
    def __init__(self) -> None:
        self.texts: list[str] = []
        self.n_done = self.n_total = 0

    def start(self, label: str, total: int) -> None:
        self.n_total += total

    def advance(self, n: int = 1) -> None:
        self.n_done += n

    def status(self, text: str) -> None:
        self.texts.append(text)


def held_bucket(folder: LeaseFolder, root: Path, image: str) -> LeasedBuckets:
    buckets = LeasedBuckets(folder, root, [ImageRef(image)], lambda: None)
    assert list(buckets.take())
    return buckets


@pytest.mark.parametrize("is_embedded", [False, True])
def test_what_another_holds_is_waited_for_and_computed_where_it_was_not(
    tmp_path: Path, is_embedded: bool
) -> None:
    root, refs = tmp_path / "photos", photos(tmp_path / "photos", 30)
    for path in root.iterdir():
        os.utime(path, (1e9, 1e9))
    shown, model = Status(), Counting()
    options = EmbedOptions(tmp_path / "cache", leases=True)
    with LeaseFolder(tmp_path / "cache/features/counting-1/leases") as other:
        held = held_bucket(other, root, refs[7].image)
        thread = threading.Thread(target=fill, args=(model, root, refs, options, shown))
        thread.start()
        while not any("waiting for process" in text for text in shown.texts):
            time.sleep(0.01)
        own = [ref for ref in refs if bucket(ref.image) == bucket(refs[7].image)]
        assert model.n_images == 30 - len(own), "all that nobody holds is done"
        assert len(list(other.folder.iterdir())) == 1, "who waits holds nothing"
        if is_embedded:
            fill(Counting(), root, own, EmbedOptions(tmp_path / "cache"))  # type: ignore[arg-type]
            held.count_done({bucket(refs[7].image): 1})
        held.release()
        thread.join(30)
    assert model.n_images == 30 - len(own) * is_embedded
    assert shown.n_done == shown.n_total == 30
    check_whole(tmp_path, root, refs, Counting())


def test_datasets_of_one_model_do_not_wait_for_each_other(tmp_path: Path) -> None:
    root, refs = tmp_path / "photos", photos(tmp_path / "photos", 5)
    with LeaseFolder(tmp_path / "cache/features/counting-1/leases") as other:
        for ref in refs:
            list(LeasedBuckets(other, tmp_path / "elsewhere", [ref], lambda: None).take())
        embed_shared(tmp_path, root, refs, Counting())


def test_leases_go_with_the_features_of_a_model(tmp_path: Path) -> None:
    root, refs = tmp_path / "photos", photos(tmp_path / "photos", 3)
    embed_shared(tmp_path, root, refs, Counting())
    assert (tmp_path / "cache/features/counting-1/leases").is_dir()
    clean_cache(tmp_path / "cache")
    assert not list((tmp_path / "cache/features").iterdir())


def test_images_that_cannot_be_read_leave_no_lease(tmp_path: Path) -> None:
    root, refs = tmp_path / "photos", photos(tmp_path / "photos", 12)
    (root / "003.png").write_bytes((root / "003.png").read_bytes()[:60])
    (root / "004.png").write_bytes(b"no image")
    options = EmbedOptions(tmp_path / "cache", leases=True, bad_images="skip")
    filled = fill(Counting(), root, refs, options)  # type: ignore[arg-type]
    assert sorted(filled.bad) == ["003.png", "004.png"] and len(filled.keys) == 10
    assert not list((tmp_path / "cache/features/counting-1/leases").iterdir())


def test_an_error_gives_up_all_leases(tmp_path: Path) -> None:
    class Failing(Counting):
        def embed_images(self, batch):  # type: ignore[no-untyped-def]
            raise RuntimeError("no")

    root, refs = tmp_path / "photos", photos(tmp_path / "photos", 12)
    with pytest.raises(Exception, match="no"):
        embed_shared(tmp_path, root, refs, Failing())
    model = Counting()
    embed_shared(tmp_path, root, refs, model)
    assert model.n_images == 12
    check_whole(tmp_path, root, refs, Counting())


# --- buckets


def test_a_bucket_is_the_same_everywhere(tmp_path: Path) -> None:
    names = ["a.png", "folder/ü.jpg", "x.tar::1.jpg", "x.tar::2.jpg", "x.tar"]
    here = [bucket(name) for name in names]
    assert here == [230, 147, 18, 18, 18]
    assert [bucket("\udcff.png")] == [bucket("\udcff.png")]


@given(st.text(min_size=1), st.integers(1, N_BUCKETS))
def test_an_image_is_in_one_shard(image: str, n: int) -> None:
    assert 0 <= bucket(image) < N_BUCKETS
    assert sum(in_shard(image, index, n) for index in range(n)) == 1


def test_shards_are_of_nearly_equal_size() -> None:
    sizes = Counter(next(i for i in range(4) if in_shard(f"{n}.jpg", i, 4)) for n in range(20_000))
    assert max(sizes.values()) < 1.1 * min(sizes.values())

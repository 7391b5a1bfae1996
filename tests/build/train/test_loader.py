"""Loader of training: the same batches however they are made, bad images by name, nobody left."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

torch = pytest.importorskip("torch")

from fieldmark.build.train.feed import loader  # noqa: E402
from fieldmark.build.train.feed.index import TrainData, open_data  # noqa: E402
from fieldmark.build.train.feed.loader import LoaderOptions, TrainBatch, open_loader  # noqa: E402
from fieldmark.build.train.feed.sample_reader import draw_crop  # noqa: E402
from fieldmark.build.train.recipe import TrainRecipe  # noqa: E402
from fieldmark.data import open_image  # noqa: E402
from fieldmark.errors import DataError, FieldmarkError  # noqa: E402
from kit.captions import write_shard  # noqa: E402
from kit.mixed_photos import encoded, mixed_set, scene  # noqa: E402
from kit.pillow_decoder import PillowDecoder  # noqa: E402

SIZE, BATCH, N_STEPS = 32, 12, 6
HERE = LoaderOptions(n_readers=0, decode="reference")
PER_SAMPLE = ("images", "type_ids", "projectors", "text_ids")


class Words:
    """A tokeniser: a number for each word, 1 at the end."""

    context, end = 20, 1

    def __init__(self, can_trim: bool = True) -> None:
        self.can_trim, self.asked = can_trim, list[str]()

    def __call__(self, texts: Sequence[str]) -> Any:
        self.asked += texts
        rows = torch.zeros((len(texts), self.context), dtype=torch.int64)
        for row, text in zip(rows, texts, strict=True):
            words = [2 + zlib.crc32(word.encode()) % 1000 for word in text.split()]
            row[: len(words) + 1] = torch.tensor([*words, 1][: self.context])
        return rows


CARD = LoaderOptions(n_readers=0, decode="gpu", new_decoder=PillowDecoder)


def recipe(batch: int = BATCH, **data: Any) -> TrainRecipe:
    return TrainRecipe.model_validate(
        {
            "model": {"projectors": ["taxonomic", "caption"]},
            "texts": {"types": {"taxon": 1.0, "com": 1.0, "caption": 1.0}},
            "data": {"window_shards": 2, **data},
            "train": {"batch": batch, "seed": 7},
        }
    )


def sample(number: int, image: bytes) -> tuple[str, dict[str, bytes]]:
    return f"{number:06}", {
        "jpg": image,
        "taxon.txt": f"a photo of Corvus species{number % 3}.".encode(),
        "com.txt": b"a photo of a raven.",
        "caption.txt": f"a black bird, number {number}, on a branch of a tree".encode(),
    }


def photos() -> list[bytes]:
    """Of all kinds, small ones."""
    return [data for name, (data, _) in mixed_set().items() if name not in ("1600x1200", "8x8")]


def make_data(folder: Path, images: Sequence[bytes], n_shards: int = 4) -> TrainData:
    parts = np.array_split(np.arange(len(images)), n_shards)
    for number, part in enumerate(parts):
        samples = [sample(int(k), images[int(k)]) for k in part]
        write_shard(folder / f"s-{number}.tar", samples)
    return open_data([folder], None, folder / "index", recipe())


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> TrainData:
    return make_data(tmp_path_factory.mktemp("shards"), photos())


def batches(data: TrainData, options: LoaderOptions = HERE, **changes: Any) -> list[TrainBatch]:
    settings = {"image_size": SIZE, "last_step": N_STEPS, "options": options, **changes}
    how = settings.pop("recipe", recipe())
    tokenise = settings.pop("tokenise", Words())
    with open_loader(data, how, tokenise, "cpu", **settings) as made:
        return list(made)


def same(one: Sequence[TrainBatch], other: Sequence[TrainBatch]) -> bool:
    assert [batch.step for batch in one] == [batch.step for batch in other]
    return all(
        torch.equal(getattr(a, name), getattr(b, name))
        for a, b in zip(one, other, strict=True)
        for name in (*PER_SAMPLE, "tokens")
    )


# --- what is in a batch ---


def test_images_and_texts_are_those_of_the_samples(data: TrainData) -> None:
    how, tokenise = recipe(), Words()
    order = data.order(how)
    for batch in batches(data, tokenise=tokenise, recipe=how):
        assert batch.images.dtype == torch.uint8
        assert batch.images.shape == (BATCH, 3, SIZE, SIZE)
        assert batch.images.is_contiguous()
        for place, number in enumerate(order.batch(batch.step).tolist()):
            raw = data.read(number)
            upright = open_image(raw.image)
            x, y, width, height = draw_crop(
                upright.height, upright.width, how.data.scale, how.train.seed, batch.step, number
            )
            part = upright.crop((int(x), int(y), int(x + width), int(y + height)))
            exact = np.asarray(part.resize((SIZE, SIZE), PIL.Image.Resampling.BICUBIC))
            assert np.array_equal(batch.images[place].permute(1, 2, 0).numpy(), exact)
            name = how.text_types[int(batch.type_ids[place])]
            row = Words()([raw.texts[name]])[0]
            assert torch.equal(batch.tokens[place], row[: batch.tokens.shape[1]])
            assert int(batch.projectors[place]) == (name == "caption")


def test_texts_are_cut_to_the_longest_where_the_network_allows_it(data: TrainData) -> None:
    assert {batch.tokens.shape[1] for batch in batches(data)} == {16}
    assert {b.tokens.shape[1] for b in batches(data, tokenise=Words(can_trim=False))} == {20}


def test_texts_that_fill_the_context_are_counted(
    data: TrainData, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches(data)
    assert "tokens" not in caplog.text
    monkeypatch.setattr(Words, "context", 11)
    batches(data)
    assert "reach the 11 tokens that the model reads: longer ones are cut off" in caplog.text
    assert caplog.text.count("tokens") == 1


def test_a_text_that_comes_again_is_not_tokenised_again(data: TrainData) -> None:
    tokenise = Words()
    assert len(batches(data, tokenise=tokenise)) == N_STEPS
    assert len(tokenise.asked) == len(set(tokenise.asked))


def test_equal_ids_are_equal_texts(data: TrainData) -> None:
    for batch in batches(data):
        rows = [tuple(row) for row in batch.tokens.tolist()]
        assert len(set(rows)) == len(set(batch.text_ids.tolist()))


# --- what must not change it ---


@pytest.mark.slow
@pytest.mark.parametrize("n_readers", [1, 3])
def test_the_number_of_readers_changes_nothing(data: TrainData, n_readers: int) -> None:
    options = LoaderOptions(n_readers=n_readers, decode="reference")
    assert same(batches(data), batches(data, options))


def test_ranks_share_the_batches_of_one(data: TrainData) -> None:
    whole = batches(data, tokenise=Words(can_trim=False))
    parts = [
        batches(data, tokenise=Words(can_trim=False), rank=rank, n_ranks=3) for rank in range(3)
    ]
    for step, batch in enumerate(whole):
        for name in (*PER_SAMPLE, "tokens"):
            together = torch.cat([getattr(part[step], name) for part in parts])
            assert torch.equal(getattr(batch, name), together)


def test_a_restart_goes_on_with_the_same_batches(data: TrainData) -> None:
    assert same(batches(data)[3:], batches(data, first_step=3))


@pytest.mark.slow
def test_a_batch_that_is_kept_is_not_overwritten(data: TrainData) -> None:
    kept, copies = [], []
    with open_loader(
        data, recipe(), Words(), "cpu", image_size=SIZE, last_step=20, options=HERE
    ) as made:
        for batch in made:
            kept.append(batch)
            copies.append(batch.images.clone())
    assert all(torch.equal(b.images, c) for b, c in zip(kept, copies, strict=True))


def test_another_seed_or_step_gives_other_crops(data: TrainData) -> None:
    assert draw_crop(300, 400, (0.5, 1.0), 7, 0, 5) != draw_crop(300, 400, (0.5, 1.0), 8, 0, 5)
    assert draw_crop(300, 400, (0.5, 1.0), 7, 0, 5) != draw_crop(300, 400, (0.5, 1.0), 7, 1, 5)


@pytest.mark.slow
def test_decoding_with_torch_is_within_a_grey_level(data: TrainData) -> None:
    fast = batches(data, LoaderOptions(n_readers=0, decode="cpu"))
    for one, other in zip(batches(data), fast, strict=True):
        far = (one.images.int() - other.images.int()).abs()
        assert int(far.max()) <= 2
        assert float((far > 1).float().mean()) < 1e-4
        assert torch.equal(one.tokens, other.tokens)
    assert same(fast[:2], batches(data, LoaderOptions(n_readers=1, decode="cpu"), last_step=2))


@pytest.mark.slow
def test_the_recipe_says_how_many_readers(data: TrainData) -> None:
    before = set(children(os.getpid()))
    with open_loader(
        data,
        recipe(readers=3),
        Words(),
        "cpu",
        image_size=SIZE,
        last_step=9,
        options=LoaderOptions(decode="reference"),
    ):
        assert len(set(children(os.getpid())) - before) == 3


def test_no_steps_are_no_batches(data: TrainData) -> None:
    assert batches(data, first_step=4, last_step=4) == []


def test_samples_drawn_with_replacement_and_replay(tmp_path: Path) -> None:
    images = [encoded(scene(80, 70, number)) for number in range(30)]
    make_data(tmp_path / "main", images[:20])
    general = [(f"g{k}", {"jpg": image, "txt": b"a chair"}) for k, image in enumerate(images[20:])]
    write_shard(tmp_path / "replay" / "g.tar", general)
    how = recipe(mode="resampled", replay_shards=[str(tmp_path / "replay")], replay_share=0.25)
    data = open_data([tmp_path / "main"], None, tmp_path / "index", how)
    whole = batches(data, recipe=how)
    for batch in whole:
        is_replay = batch.type_ids == how.text_types.index("replay")
        assert int(is_replay.sum()) == 3
        assert len(set(batch.text_ids[is_replay].tolist())) == 1
    assert same(whole[2:], batches(data, recipe=how, first_step=2))


# --- the card, with Pillow in its place ---


@pytest.mark.slow
def test_the_card_gives_the_same_batches(data: TrainData) -> None:
    PillowDecoder.n_decoded = 0
    for one, other in zip(batches(data), batches(data, CARD), strict=True):
        far = (one.images.int() - other.images.int()).abs()
        assert float((far > 1).float().mean()) < 1e-3
        assert float(far.float().mean()) < 0.1
        for name in ("tokens", *PER_SAMPLE[1:]):
            assert torch.equal(getattr(one, name), getattr(other, name))
    assert PillowDecoder.n_decoded > 40


@pytest.mark.slow
def test_readers_and_ranks_change_nothing_on_the_card(data: TrainData) -> None:
    whole = batches(data, CARD)
    options = LoaderOptions(n_readers=2, decode="gpu", new_decoder=PillowDecoder)
    assert same(whole[2:], batches(data, options, first_step=2))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_real_card_is_as_near_as_for_embedding(data: TrainData) -> None:
    options = LoaderOptions(n_readers=2, decode="gpu")
    with open_loader(
        data, recipe(), Words(), "cuda", image_size=SIZE, last_step=N_STEPS, options=options
    ) as made:
        card = list(made)
    for one, other in zip(batches(data), card, strict=True):
        assert other.images.is_cuda
        assert not other.images.is_inference()
        far = (one.images.int() - other.images.cpu().int()).abs()
        assert float(far.float().mean()) < 0.5
        assert int(far.max()) <= 8
        for name in ("tokens", *PER_SAMPLE[1:]):
            assert torch.equal(getattr(one, name), getattr(other, name).cpu())


@pytest.mark.slow
def test_buffers_that_are_too_small_are_filled_in_turns(
    data: TrainData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "CARD_BUFFER_BYTES", 1 << 16)
    whole = batches(data, CARD)
    monkeypatch.undo()
    assert same(whole, batches(data, CARD))


def test_what_the_card_refuses_is_decoded_or_replaced(tmp_path: Path) -> None:
    images = [encoded(scene(100, 90, number)) for number in range(240)]
    images[3] = encoded(scene(100, 90, 3), comment=PillowDecoder.refused)
    images[5] = damaged(encoded(scene(100, 90, 5), comment=PillowDecoder.refused))
    data = make_data(tmp_path, images)
    own = batches(data, CARD, last_step=20)
    lines = [line for batch in own for line in batch.replaced]
    assert len(lines) == 1
    assert "key '000005'" in lines[0]
    exact = batches(data, last_step=20)
    assert [b.replaced for b in own] == [b.replaced for b in exact]
    for one, other in zip(own, exact, strict=True):
        assert float((one.images.float() - other.images.float()).abs().mean()) < 0.1
        assert torch.equal(one.tokens, other.tokens)


def damaged(jpeg: bytes) -> bytes:
    """Whole at both ends, with Huffman tables that no decoder takes."""
    at = jpeg.index(b"\xff\xc4")
    return jpeg[: at + 5] + b"\xff" * 16 + jpeg[at + 21 :]


# --- what goes wrong ---


def test_a_bad_image_is_replaced_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    images = [encoded(scene(80, 70, number)) for number in range(240)]
    images[17] = b"<html>no image</html>"
    data = make_data(tmp_path, images)
    with caplog.at_level(logging.INFO):
        own = batches(data, last_step=20)
    lines = [line for batch in own for line in batch.replaced]
    assert len(lines) == 1
    assert "s-0.tar  key '000017': " in lines[0]
    assert "s-0.tar  key '000017'" in caplog.text
    options = LoaderOptions(n_readers=2, decode="reference")
    assert same(own, batches(data, options, last_step=20))


def test_more_than_one_percent_of_bad_images_stops_with_one_line(tmp_path: Path) -> None:
    images = [encoded(scene(80, 70, number)) for number in range(120)]
    for number in (11, 50, 90):
        images[number] = images[number][:300]
    data = make_data(tmp_path, images)
    with pytest.raises(DataError, match=r"2 of the 120 images of an epoch cannot be") as caught:
        batches(data, last_step=10)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.slow
def test_a_killed_reader_is_one_clear_line(data: TrainData) -> None:
    options = LoaderOptions(n_readers=2, decode="reference")
    with (
        pytest.raises(FieldmarkError, match="process that reads images has ended") as caught,
        open_loader(
            data, recipe(), Words(), "cpu", image_size=SIZE, last_step=10_000, options=options
        ) as made,
    ):
        for batch in made:
            if batch.step == 2:
                os.kill(children(os.getpid())[-1], signal.SIGKILL)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.slow
def test_leaving_early_ends_the_readers(data: TrainData) -> None:
    options = LoaderOptions(n_readers=2, decode="reference")
    before = set(children(os.getpid()))
    with open_loader(
        data, recipe(), Words(), "cpu", image_size=SIZE, last_step=10_000, options=options
    ) as made:
        next(made)
        assert set(children(os.getpid())) - before
    assert set(children(os.getpid())) == before


def test_a_fault_of_the_tokeniser_reaches_the_caller(data: TrainData) -> None:
    def broken(texts: Sequence[str]) -> Any:
        if texts != [""]:
            raise ValueError("no words")
        return torch.zeros((1, 8), dtype=torch.int64)

    with pytest.raises(ValueError, match="no words"):
        batches(data, tokenise=broken)


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


@pytest.mark.slow
def test_no_reader_outlives_a_killed_run(data: TrainData, tmp_path: Path) -> None:
    script = tmp_path / "slow.py"
    script.write_text(
        "import sys, time; sys.path[:0] = sys.argv[1:4]\n"
        "import test_loader as t\n"
        "from pathlib import Path\n"
        "folder = Path(sys.argv[4])\n"
        "data = t.open_data([folder], None, folder / 'index', t.recipe())\n"
        "options = t.LoaderOptions(n_readers=2, decode='reference')\n"
        "with t.open_loader(data, t.recipe(), t.Words(), 'cpu', image_size=32, last_step=999,\n"
        "                   options=options) as made:\n"
        "    next(made); print('at work', flush=True); time.sleep(60)\n"
    )
    here = Path(__file__).parent
    source = Path(loader.__file__).parents[3]
    shards = data.shards[0].parent
    process = subprocess.Popen(
        [sys.executable, str(script), str(here), str(here.parents[1]), str(source), str(shards)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"at work\n"
    readers = children(process.pid)
    assert len(readers) == 2
    for reader in readers:  # Ctrl-C reaches the whole group: the run answers it, not its readers
        os.kill(reader, signal.SIGINT)
    time.sleep(0.2)
    assert children(process.pid) == readers
    process.kill()
    process.wait()
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{reader}").exists() for reader in readers):
        assert time.monotonic() < deadline, "a reader is still there"
        time.sleep(0.05)


def test_decoders_are_closed_when_something_fails(data: TrainData) -> None:
    made: list[PillowDecoder] = []
    closed: list[PillowDecoder] = []

    class Broken(PillowDecoder):
        def __init__(self) -> None:
            made.append(self)

        def decode(self, *_: Any) -> bool:
            raise RuntimeError("the card is gone")

        def close(self) -> None:
            closed.append(self)

    with pytest.raises(RuntimeError, match="the card is gone"):
        batches(data, LoaderOptions(n_readers=0, decode="gpu", new_decoder=Broken))
    assert made and made == closed


@pytest.mark.parametrize(("kind", "may_go_on"), [("cuda", True), ("mps", False), ("cpu", False)])
def test_only_copies_that_are_waited_for_go_on_by_themselves(kind: str, may_go_on: bool) -> None:
    class Slot:
        def to(self, device: Any, non_blocking: bool) -> Any:
            assert (device.type, non_blocking) == (kind, may_go_on)
            return torch.zeros(1, 2, 2, 3)

    made = loader._BatchLoader.__new__(loader._BatchLoader)
    made.device, made.is_on_card = torch.device(kind), False
    assert made._images(Slot()).shape == (1, 3, 2, 2)


@pytest.mark.slow
def test_waiting_is_measured(data: TrainData, monkeypatch: pytest.MonkeyPatch) -> None:
    from fieldmark.build.train.feed import sample_reader

    read = sample_reader.SampleReader.read

    def slow(self: Any, place: Any, on_card: bool) -> Any:
        time.sleep(0.02)
        return read(self, place, on_card)

    monkeypatch.setattr(sample_reader.SampleReader, "read", slow)
    began = time.perf_counter()
    waits = [batch.wait_s for batch in batches(data, last_step=4)]
    assert sum(waits) <= time.perf_counter() - began
    assert sum(waits) > 4 * BATCH * 0.02 * 0.8
    with open_loader(
        data, recipe(), Words(), "cpu", image_size=SIZE, last_step=3, options=HERE
    ) as made:
        time.sleep(2.0)
        assert next(made).wait_s < 0.2


def test_readers_start_without_torch() -> None:
    code = (
        "import sys, fieldmark.build.train.feed.sample_reader;"
        "print({'torch', 'sklearn'} & set(sys.modules))"
    )
    source = str(Path(loader.__file__).parents[3])
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "set()\n"


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(n_threads)

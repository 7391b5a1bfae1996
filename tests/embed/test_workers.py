"""Several devices, one process each: the same features, each computed once, whoever fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tarfile
import textwrap
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from fieldmark.data import MEMORY, Contents, ImageRef, snapshot_contents
from fieldmark.embed import (
    DeviceWorkers,
    Embedded,
    EmbedOptions,
    PatchFeatures,
    cached_models,
    devices_for,
    embed,
    read_keys,
)
from fieldmark.embed import workers as workers_module
from fieldmark.embed.workers import share_out
from fieldmark.errors import DataError
from fieldmark.models import load_model, register_model
from kit.pictures import write_image
from kit.registries import forget

N = 40
SLOW = """
import os, time
from pathlib import Path
import numpy as np

HERE = Path(__file__).parent
CALLS = []
if os.environ.get("NOT_IN_WORKERS"):
    raise RuntimeError("no licence here.")

class Slow:
    dim = 3
    batch_size = 2
    def __init__(self) -> None:
        self.shift = float(os.environ.get("SHIFT", "0"))
    def transform(self, image):
        return np.asarray(image.resize((4, 4)), np.float32)
    def embed_images(self, batch):
        time.sleep(float(os.environ.get("PAUSE_S", "0")))
        CALLS.append(len(batch))
        if len(CALLS) >= 3:  # it is in the middle of its work
            (HERE / "pids" / str(os.getpid())).mkdir(exist_ok=True)
        return batch.mean(axis=(1, 2)) + self.shift
"""


class Log:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.starts: list[tuple[str, int]] = []
        self.n = 0

    def start(self, label: str, total: int) -> None:
        self.starts.append((label, total))
        self.n = 0

    def advance(self, n: int = 1) -> None:
        self.n += n

    def status(self, text: str) -> None: ...

    def say(self, text: str) -> None:
        self.lines.append(text)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_module, "START_S", 0.0)
    monkeypatch.setattr(workers_module, "AGAIN_S", 0.0)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for number in range(N):
        write_image(tmp_path / "photos" / f"{number:02d}.png", number)
    return tmp_path / "photos"


@pytest.fixture
def slow(tmp_path: Path) -> str:
    """A model of the user's that notes the processes it is at work in."""
    (tmp_path / "pids").mkdir()
    (tmp_path / "slow.py").write_text(SLOW)
    return f"{tmp_path / 'slow.py'}:Slow"


def refs(photos: Path) -> list[ImageRef]:
    return [ImageRef(path.name) for path in sorted(photos.glob("*.png"))]


def pids(tmp_path: Path) -> set[int]:
    return {int(path.name) for path in (tmp_path / "pids").iterdir()} - {os.getpid()}


def run(name: str, photos: Path, cache: Path, *devices: str) -> tuple[Embedded, Log]:
    log = Log()
    model = load_model(name, device="cpu")
    with DeviceWorkers(devices) as workers:
        options = EmbedOptions(cache, workers=workers)
        return embed(model, photos, refs(photos), options, log), log


def test_parts_are_even_and_keep_archives_whole() -> None:
    items = [ImageRef(f"f{number}.jpg") for number in range(101)]
    items += [ImageRef(f"f{number}.jpg", (0.0, 0.0, 2.0, 2.0)) for number in range(50)]
    for archive, size in (("a.tar", 40), ("b.parquet", 7), ("c.tar.gz", 70), ("d.tar", 1)):
        items += [ImageRef(f"{archive}::{number}") for number in range(size)]
    items = items[::2] + items[1::2]
    for n in (1, 2, 3, 8):
        parts = share_out(items, n)
        assert Counter(ref for part in parts for ref in part) == Counter(items)
        assert all(part == sorted(part, key=items.index) for part in parts)
        images = [{ref.image for ref in part} for part in parts]
        sizes = [len(names) for names in images]
        assert sum(sizes) == 219 and max(sizes) - min(sizes) <= 1
        holders = Counter(
            archive for names in images for archive in {name.partition("::")[0] for name in names}
        )
        archives = [holders[name] for name in ("a.tar", "b.parquet", "c.tar.gz", "d.tar")]
        assert sum(count - 1 for count in archives) <= n - 1
    first, _ = share_out([ImageRef(f"{number:03d}") for number in range(200)], 2)
    assert len({ref.image < "100" for ref in first}) == 2, "not one half of the folder"
    assert share_out([], 3) == [[], [], []]


def test_devices_are_all_gpus_unless_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    every = ("cuda:0", "cuda:1", "cuda:2")
    assert devices_for("auto") == devices_for("cuda") == every
    assert devices_for("cuda:1") == devices_for("cpu") == ()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert devices_for("auto") == ()


def test_gpus_are_of_no_use_to_a_model_without_a_device(photos: Path, tmp_path: Path) -> None:
    shared, log = run("classical/pixels", photos, tmp_path, "cuda:0", "cuda:1")
    assert shared.is_ok.all() and not any("devices" in label for label, _ in log.starts)


def test_few_images_are_computed_here(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers_module, "START_S", 10.0)
    shared, log = run("classical/pixels", photos, tmp_path, "cpu", "cpu")
    assert shared.is_ok.all() and not any("devices" in label for label, _ in log.starts)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n_devices"),
    [("classical/colour", 3), ("timm/test_vit.r160_in1k?pretrained=false", 2)],
)
def test_features_are_those_of_one_process_and_are_computed_once(
    name: str, n_devices: int, photos: Path, tmp_path: Path
) -> None:
    if name.startswith("timm"):
        pytest.importorskip("timm")
    devices = ["cpu"] * n_devices
    alone, _ = run(name, photos, tmp_path / "alone")
    shared, log = run(name, photos, tmp_path / "shared", *devices)
    assert shared.is_ok.all() and np.array_equal(alone.features, shared.features)
    assert shared.n_computed == N
    (kept,) = cached_models(tmp_path / "shared")
    assert kept.n_features == N
    assert log.starts == [(f"embedding with {name} on {n_devices} devices", N)] and not log.lines
    again, _ = run(name, photos, tmp_path / "shared", *devices)
    assert again.n_computed == 0


def test_gpu_gives_the_same_features_in_two_processes(photos: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    model = load_model("timm/vit_small_patch16_224?pretrained=false", device="cuda")
    alone = embed(model, photos, refs(photos), EmbedOptions(tmp_path / "alone"))
    with DeviceWorkers(("cuda:0", "cuda:0")) as workers:
        options, log = EmbedOptions(tmp_path / "shared", workers=workers), Log()
        shared = embed(model, photos, refs(photos), options, log)
    assert np.array_equal(alone.features, shared.features) and not log.lines
    assert log.starts == [(f"embedding with {model.name} on 2 devices", N)]


def test_what_others_have_read_is_not_read_again(photos: Path, tmp_path: Path) -> None:
    """Files opened here are those of the part that this process computes."""
    with opened() as files:
        shared, _ = run("classical/pixels", photos, tmp_path / "cache", "cpu", "cpu")
    here = Counter(Path(file).name for file in files if Path(file).parent == photos)
    assert shared.n_computed == N and sum(here.values()) == len(here) == N // 2


@contextmanager
def opened() -> Iterator[list[str]]:
    """Every file that this process opens meanwhile; a hook cannot be taken away again."""
    files: list[str] = []
    is_on = True

    def note(event: str, args: tuple[object, ...]) -> None:
        if is_on and event == "open" and isinstance(args[0], str):
            files.append(args[0])

    sys.addaudithook(note)
    yield files
    is_on = False


@pytest.mark.slow
def test_many_processes_remember_contents_at_once(photos: Path, tmp_path: Path) -> None:
    """Each reads its own file names, all of them write one memory, with hardly a pause."""
    script = """
        import sys
        from pathlib import Path
        from fieldmark.data import Contents, _content

        _content.COMMIT_EVERY_S = 0.0
        memory, root, *names = sys.argv[1:]
        Contents(Path(memory)).learn(Path(root), names)
    """
    names = [ref.image for ref in refs(photos)]
    time.sleep(2.1)  # what is younger is not remembered
    start = [sys.executable, "-c", textwrap.dedent(script), tmp_path / "contents.db", photos]
    processes = [subprocess.Popen([*start, *names[at::5]]) for at in range(5)]
    assert [process.wait(60) for process in processes] == [0] * 5
    assert set(Contents(tmp_path / "contents.db").known(photos, names)) == set(names)


def test_processes_are_kept_for_the_next_images_and_models(
    slow: str, photos: Path, tmp_path: Path
) -> None:
    items, log = refs(photos), Log()
    with DeviceWorkers(("cpu", "cpu")) as workers:
        for name in (slow, "classical/pixels"):
            alone = embed(load_model(name), photos, items, EmbedOptions(tmp_path / "alone"))
            contents = Contents(None)
            options = EmbedOptions(tmp_path / "shared", contents=contents, workers=workers)
            for some in (items[:10], items):
                shared = embed(load_model(name), photos, some, options, log)
            assert np.array_equal(shared.features, alone.features)
        (worker,) = pids(tmp_path)
        assert is_alive(worker)
    assert not is_alive(worker)
    assert [total for _, total in log.starts] == [10, N - 10] * 2 and not log.lines


@pytest.mark.slow
def test_idle_processes_end_and_others_take_their_place(
    slow: str, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers_module, "IDLE_S", 0.3)
    items, log, model = refs(photos), Log(), load_model(slow)
    with DeviceWorkers(("cpu", "cpu")) as workers:
        options = EmbedOptions(tmp_path / "cache", contents=Contents(None), workers=workers)
        embed(model, photos, items[: N // 2], options, log)
        (first,) = pids(tmp_path)
        wait_until(lambda: not is_alive(first))
        time.sleep(0.5)  # its threads may outlast it for a moment
        embed(model, photos, items, options, log)
        assert len(pids(tmp_path) - {first}) == 1
    assert [total for _, total in log.starts] == [N // 2, N // 2] and not log.lines


@pytest.mark.parametrize("policy", ["skip", "fail"])
def test_bad_images_are_those_of_one_process(photos: Path, tmp_path: Path, policy: str) -> None:
    """Some show when they are read, some only when they are decoded."""
    for number in range(0, N, 4):
        cut = (photos / f"{number:02d}.png").read_bytes()
        (photos / f"{number:02d}.png").write_bytes(cut[:40] if number % 8 else cut[:40] + cut[60:])
    with tarfile.open(photos / "more.tar", "w") as archive:
        for number in range(5):
            archive.add(photos / f"{number:02d}.png", f"{number}.png")
    items = [*refs(photos), *(ImageRef(f"more.tar::{number}.png") for number in range(5))]
    model, outcomes, logs = load_model("classical/colour"), [], []
    with DeviceWorkers(("cpu", "cpu", "cpu")) as workers:
        for cache, pool in ((tmp_path / "alone", None), (tmp_path / "shared", workers)):
            options = EmbedOptions(cache, bad_images=policy, workers=pool)
            logs.append(Log())
            try:
                embedded = embed(model, photos, items, options, logs[-1])
                outcomes.append((embedded.features.tobytes(), embedded.bad, embedded.n_computed))
            except DataError as error:
                outcomes.append((str(error), {}, 0))
    assert outcomes[0] == outcomes[1] and logs[0].lines == logs[1].lines
    assert logs[1].starts[0][0].endswith("on 3 devices")
    n_bad = len(outcomes[0][1]) if policy == "skip" else int(str(outcomes[0][0]).split()[1])
    assert n_bad == N // 4 + 2


@pytest.mark.slow
def test_worker_that_is_killed_costs_no_result(
    slow: str, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAUSE_S", "0.1")
    alone, _ = run(slow, photos, tmp_path / "alone")

    class Killer(Log):
        def advance(self, n: int = 1) -> None:
            super().advance(n)
            for pid in pids(tmp_path) - victims:
                victims.add(pid)
                os.kill(pid, signal.SIGKILL)

    log, victims = Killer(), set[int]()
    with DeviceWorkers(("cpu", "cpu")) as workers:
        options = EmbedOptions(tmp_path / "shared", workers=workers)
        shared = embed(load_model(slow), photos, refs(photos), options, log)
    assert len(victims) == 1
    assert np.array_equal(alone.features, shared.features)
    (line,) = log.lines
    assert line.startswith("cpu: its process failed (ended by SIGKILL).")


@pytest.mark.parametrize(
    ("variable", "reason"),
    [("NOT_IN_WORKERS", "RuntimeError: no licence here"), ("SHIFT", "is not the same there")],
)
def test_worker_without_the_model_is_done_without(
    slow: str,
    photos: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    reason: str,
) -> None:
    model, log = load_model(slow), Log()
    monkeypatch.setenv(variable, "100")
    with DeviceWorkers(("cpu", "cpu")) as workers:
        options = EmbedOptions(tmp_path / "shared", workers=workers)
        shared = embed(model, photos, refs(photos), options, log)
        n_starts = len(log.starts)
        write_image(photos / "one more.png", N)
        embed(model, photos, refs(photos), options, log)
    assert [label for label, _ in log.starts[n_starts:]] == [f"embedding with {slow}"], "not again"
    (photos / "one more.png").unlink()
    monkeypatch.delenv(variable)
    alone, _ = run(slow, photos, tmp_path / "alone")
    assert np.array_equal(alone.features, shared.features) and shared.n_computed == N
    (line,) = log.lines
    assert reason in line


def test_model_that_no_other_process_knows_stays_here(photos: Path, tmp_path: Path) -> None:
    register_model("mine", lambda: load_model("classical/pixels"))
    try:
        alone, log = run("mine", photos, tmp_path, "cpu", "cpu")
    finally:
        forget("model", "mine")
    assert alone.is_ok.all() and not log.lines


PARENT = """
    import sys
    from pathlib import Path
    from fieldmark.data import ImageRef
    from fieldmark.embed import EmbedOptions, DeviceWorkers, embed
    from fieldmark.embed import workers
    from fieldmark.models import load_model

    workers.START_S = 0.0
    model, photos, cache = sys.argv[1:]
    items = [ImageRef(path.name) for path in sorted(Path(photos).glob("*.png"))]
    options = EmbedOptions(Path(cache), workers=DeviceWorkers(("cpu", "cpu", "cpu")))
    embed(load_model(model), Path(photos), items, options)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_workers_end_with_the_process_that_wants_them(
    how: signal.Signals, slow: str, photos: Path, tmp_path: Path
) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PARENT), slow, photos, tmp_path / "cache"],
        env={**os.environ, "PAUSE_S": "0.5"},
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: len(pids(tmp_path)) == 3)
    alive = pids(tmp_path) - {parent.pid}
    assert len(alive) == 2 and all(map(is_alive, alive))
    parent.send_signal(how)
    assert parent.wait(10) != 0
    wait_until(lambda: not any(map(is_alive, alive)), at_most_s=5)


def wait_until(is_so, at_most_s: float = 60.0) -> None:  # type: ignore[no-untyped-def]
    end = time.monotonic() + at_most_s
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    """A process that ended and was not yet buried does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
def test_pooled_patches_too(photos: Path, tmp_path: Path) -> None:
    pytest.importorskip("timm")
    model = PatchFeatures(load_model("timm/test_vit?pretrained=false", device="cpu"))
    log = Log()
    with DeviceWorkers(("cpu", "cpu")) as workers:
        options = EmbedOptions(tmp_path / "two", workers=workers)
        two = embed(model, photos, refs(photos), options, log)
    one = embed(model, photos, refs(photos), EmbedOptions(tmp_path / "one"))
    assert two.throughput.n_devices == 2, log.lines
    assert np.array_equal(one.features, two.features)


def test_devices_of_a_process_that_leases_what_it_embeds(
    slow: str, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No bucket is in two parts, and nothing is written to the memory of the cache."""
    monkeypatch.setattr("fieldmark.files.RACY_NS", 0)
    items, log, model = refs(photos), Log(), load_model(slow)
    alone = embed(model, photos, items, EmbedOptions(tmp_path / "alone"))
    known, copy = Contents(tmp_path / "known.db"), tmp_path / "copy.db"
    known.learn(photos, [ref.image for ref in items[:9]])
    snapshot_contents(tmp_path / "known.db", copy)
    with DeviceWorkers(("cpu", "cpu", "cpu")) as workers:
        own = Contents(tmp_path / "own.db", also=[copy])
        options = EmbedOptions(tmp_path / "cache", contents=own, workers=workers, leases=True)
        shared = embed(model, photos, items, options, log)
    assert np.array_equal(shared.features, alone.features)
    assert shared.n_computed == N and len(pids(tmp_path)) == 2 and not log.lines
    assert not (tmp_path / "cache" / MEMORY).exists()
    folder = tmp_path / "cache" / "features" / model.fingerprint
    assert len(read_keys(folder)) == N and not list((folder / "leases").iterdir())

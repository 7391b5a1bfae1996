"""What does it cost to decide that nothing changed, and to plan ten thousand jobs?

    python benchmarks/identity.py [--photos 100000] [--quick]

Two figures, in CPU seconds (user + system) of whole commands in processes of their own, with one
thread where numpy has a choice:

- a second `fieldmark run` over a folder of photos that are all unchanged, less the same command
  over a folder of twenty: what deciding takes. Bar: 1.5 s for 100,000 photos. Agreement: one photo
  is changed in place, with its size and modification time kept, and a third run must do it again.
- `fieldmark plan` of 85 models × 30 tasks × 4 seeds: in a store where nothing was done, and in
  one where all of it was. Bar: 10 s each.

Times are of this machine; ratios to hashing every byte again (what never trusting would cost
without a memory) are printed beside them.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from _quick import Flags, finish
from fieldmark.experiments import make_plan, read_grid
from fieldmark.experiments.identity import read_content, with_content
from fieldmark.models import known_models
from fieldmark.settings import load_settings
from fieldmark.store import Score, Store

TASK = """task: {name}
title: {name}
dataset: folder
data: {folder}
metric: accuracy
n_train: 8
n_test: 64
probe: {{classifier: simpleshot}}
"""
WHOLE = (
    "task: all\ntitle: all\ndataset: folder\nmetric: accuracy\nprobe: {classifier: simpleshot}\n"
)
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
BAR_UNCHANGED_S, BAR_PLAN_S = 1.5, 10.0


def write_photos(folder: Path, n: int, n_classes: int = 10) -> None:
    """Small JPEGs, each with bytes of its own, ten classes, half of them for testing."""
    rng = np.random.default_rng(0)
    encoded = []
    for label in range(n_classes):
        pixels = np.clip(rng.normal(25 * label, 20, (32, 32, 3)), 0, 255).astype(np.uint8)
        target = io.BytesIO()
        Image.fromarray(pixels).save(target, "JPEG")
        encoded.append(target.getvalue())
    for number in range(n):
        label = number % n_classes
        path = folder / ("train", "test")[number // n_classes % 2] / f"class-{label}"
        if number < 2 * n_classes:
            path.mkdir(parents=True, exist_ok=True)
        (path / f"{number:06d}.jpg").write_bytes(encoded[label] + number.to_bytes(8, "little"))


def cpu_s(words: list[str], cwd: Path) -> tuple[float, str]:
    """Bytecode is kept between commands, as on any ordinary machine."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | ONE_THREAD | {"PYTHONPYCACHEPREFIX": str(cwd.parent / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(done.stderr)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, done.stdout if "--json" in words else done.stderr


def unchanged(place: Path, n: int) -> float:
    """CPU seconds that deciding takes: the whole second command less that of twenty photos."""
    spent = {}
    for size in (20, n):
        here = place / str(size)
        write_photos(here / "photos", size)
        (here / "all.yaml").write_text(WHOLE)
        words = [sys.executable, "-m", "fieldmark", "run", "--model", "classical/colour"]
        words += ["--task", "all.yaml", "--data", "folder=photos", "--cache", "cache"]
        words += ["--threads", "1"]
        first, _ = cpu_s(words, here)
        time.sleep(2.5)
        cpu_s(words, here)  # photos that were younger than two seconds are remembered only now
        again, told = cpu_s(words, here)
        assert "0 runs finished, 1 done before" in told, told
        print(f"{size:>7,} photos: first run {first:.1f} s CPU, the same again {again:.2f} s")
        spent[size] = again
    began = time.process_time()
    for path in (place / str(n) / "photos").rglob("*.jpg"):
        hashlib.blake2b(path.read_bytes(), digest_size=16).digest()
    naive = time.process_time() - began
    one = next((place / str(n) / "photos" / "test").rglob("*.jpg"))
    stat = one.stat()
    one.write_bytes(one.read_bytes()[:-1] + b"x")
    os.utime(one, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    _, told = cpu_s(words, place / str(n))
    assert "1 run finished" in told, told
    deciding = spent[n] - spent[20]
    print(f"{n:>7,} photos: deciding {deciding:.2f} s CPU; reading and hashing all {naive:.2f} s")
    print("one photo changed in place, size and mtime kept: run again, as it must be")
    return deciding


def planning(place: Path, n_models: int, n_tasks: int) -> tuple[float, int]:
    """CPU seconds of the slower of two `fieldmark plan`s, each a whole command; how many jobs."""
    models = [row.name for row in known_models() if not row.name.startswith(("chat", "hf-chat"))]
    tasks = []
    for number in range(n_tasks):
        write_photos(place / f"p{number}", 200)
        (place / f"t{number}.yaml").write_text(TASK.format(name=f"t{number}", folder=f"p{number}"))
        tasks.append(f"t{number}.yaml")
    grid = f"models = {models[:n_models]}\ntasks = {tasks}\nseed = [0, 1, 2, 3]\n"
    (place / "grid.toml").write_text(grid.replace("'", '"'))
    (place / "cache").mkdir()
    words = [sys.executable, "-m", "fieldmark", "plan", "grid.toml", "--json", "--cache", "cache"]
    worst, n_jobs = 0.0, 0
    for expected in ("run", "done"):
        cpu_s(words, place)  # once for the bytecode, and to know the photos
        took, told = cpu_s(words, place)
        statuses = Counter(job["status"] for job in json.loads(told)["jobs"])
        print(f"plan of {statuses.total():,} jobs, {dict(statuses)}: {took:.1f} s CPU")
        assert set(statuses) == {expected}
        worst, n_jobs = max(worst, took), statuses.total()
        if expected == "run":
            finish_all(place)
    return worst, n_jobs


def finish_all(place: Path) -> None:
    """Every run as if it had been done."""
    settings = replace(load_settings(), results=place / "results", cache=place / "cache")
    with contextlib.chdir(place):
        plan = make_plan(read_grid(Path("grid.toml")).jobs, settings)
    with Store.open(settings.store) as store:
        for each in plan.jobs:
            assert each.question is not None and each.spec is not None
            version = plan.models.identity(each.job.model).version
            seen = read_content(each.question, plan.workspace)
            spec = with_content(each.spec, version, seen.digest)
            run = store.begin_run(spec, root=str(each.question.root))
            store.finish_run(run, [Score("accuracy", 0.5, is_primary=True)])


def main() -> int:
    flags = Flags(__doc__)
    flags.add_argument("--photos", type=int, default=100_000)
    given = flags.parse(photos=100)
    place = Path(tempfile.mkdtemp())
    try:
        deciding = unchanged(place, given.photos)
        plan, n_jobs = planning(place / "plan", *((2, 2) if given.quick else (85, 30)))
    finally:
        shutil.rmtree(place)
    figure = (
        f"identity: {deciding:.2f} s CPU to see that {given.photos:,} photos are unchanged, "
        f"{plan:.1f} s for a plan of {n_jobs:,} jobs"
    )
    bars = {
        f"unchanged ≤ {BAR_UNCHANGED_S} s": deciding <= BAR_UNCHANGED_S,
        f"plan ≤ {BAR_PLAN_S:.0f} s": plan <= BAR_PLAN_S,
    }
    return finish(figure, bars, given.quick)


if __name__ == "__main__":
    sys.exit(main())

"""How much sooner do the probes answer on a GPU than in main memory, with the same answers?

    OMP_NUM_THREADS=16 python benchmarks/probes_gpu.py [--only ridge,inat21,exemplar]

Seconds by the clock: on the GPU the second run of two, features already there and the answers back
in main memory; at home as many threads as OMP_NUM_THREADS says. Both sides are fieldmark. At
iNat21's size only the GPU runs the whole grid: its chosen model is compared on some rows.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from _features import features  # isort: skip  (sets one thread before numpy loads)

import numpy as np
import torch

from _rows import Row, note, show, watched
from fieldmark.probes.exemplar import Exemplar
from fieldmark.probes.ridge import Ridge
from probes_exemplar import CASES as GALLERIES
from probes_exemplar import Case as Gallery
from probes_exemplar import make_gallery

HOME = "fieldmark at home"


def clock(work: Callable[[], Any]) -> tuple[float, Any]:
    torch.cuda.synchronize()
    began = time.monotonic()
    result = work()
    torch.cuda.synchronize()
    return time.monotonic() - began, result


def on_gpu(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds of the second run, the device memory it took beyond what was there, the result."""
    first_s, _ = clock(work)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    second_s, result = clock(work)
    note(f"  first run {first_s:.2f} s, second {second_s:.3f} s")
    return second_s, (torch.cuda.max_memory_allocated() - before) / 1e6, result


def there(x: np.ndarray) -> Any:
    return torch.as_tensor(x, device="cuda")


def ridge(weight: str | None, select_by: str) -> Row:
    x, y = features(50_000, 1_000)
    new, _ = features(5_000, 1_000, seed=1)
    x_there, new_there = there(x), there(new)

    def fit(rows: Any) -> Ridge:
        return Ridge(class_weight=weight, select_by=select_by).fit(rows, y)

    ours_s, memory, ours = on_gpu(lambda: fit(x_there))
    home_s, home = clock(lambda: fit(x))
    equal = float((ours.predict(new_there) == home.predict(new)).mean())
    is_same = ours.alpha_ == home.alpha_
    return Row(
        f"ridge n=50000 C=1000 {weight or 'plain'} {select_by}",
        HOME,
        home_s,
        ours_s,
        most_s=0.2,
        agreement=f"alpha {ours.alpha_:g} {'same' if is_same else 'DIFFERENT'}, score off by "
        f"{abs(ours.cv_score_ - home.cv_score_):.0e}, predictions {equal:.2%} equal",
        is_equal=is_same and equal >= 0.9999,
        memory_mb=memory,
    )


def inat21() -> Row:
    x, y = features(500_000, 10_000)
    x_there = there(x)
    ours_s, memory, ours = on_gpu(lambda: Ridge().fit(x_there, y))
    some = slice(0, 4_000)
    home = ours.classes_[ours.model_.decide(x[some])[0]]
    equal = float((ours.predict(x_there[some]) == home).mean())
    return Row(
        "ridge n=500000 C=10000, 26 strengths × 5 folds",
        "not run",
        float("nan"),
        ours_s,
        most_s=3,
        agreement=f"model's predictions {equal:.2%} equal",
        is_equal=equal >= 0.9999,
        memory_mb=memory,
    )


def exemplar(case: Gallery) -> Row:
    x, y = make_gallery(case, case.most)
    probe = Exemplar().fit(there(x), y)
    ours_s, memory, (best, _) = on_gpu(probe.retrieve_leave_one_out)
    home_s, (best_home, _) = clock(Exemplar().fit(x, y).retrieve_leave_one_out)
    equal = float((best == best_home).mean())
    return Row(
        f"exemplar SVM {case.name}, n={case.most}",
        HOME,
        home_s,
        ours_s,
        most_s=0.3,
        agreement=f"top-1 {equal:.2%} equal",
        is_equal=equal >= 0.995,
        memory_mb=memory,
    )


PARTS: dict[str, tuple[Callable[[], Row], ...]] = {
    "ridge": (lambda: ridge(None, "accuracy"), lambda: ridge("balanced", "macro_f1")),
    "exemplar": (lambda: exemplar(GALLERIES[0]), lambda: exemplar(GALLERIES[1])),
    "inat21": (inat21,),
}


def rows(parts: list[str]) -> Iterator[Row]:
    for part in parts:
        for work in PARTS[part]:
            note(f"— {part}")
            yield work()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {','.join(PARTS)}")
    asked = parser.parse_args().only.split(",")
    if unknown := [part for part in asked if part not in PARTS]:
        parser.error(f"--only {','.join(unknown)} is not known: expected {','.join(PARTS)}.")
    if not torch.cuda.is_available():
        print("no GPU here", file=sys.stderr)
        return 1
    print(f"{torch.cuda.get_device_name()}; torch {torch.__version__}; seconds by the clock\n")
    show(list(watched(rows(asked))))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Label new photos with a model that `fieldmark try` has made.

examples:
  fieldmark predict try/model new_photos/
  fieldmark predict try/model new_photos/ --copy-into sorted
  fieldmark predict try/model camtrap_package/ --camtrap-dp observations.csv
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from fieldmark.cli.flags import Common, CommonFlags, Only
from fieldmark.cli.show import print_json, show, talk

if TYPE_CHECKING:
    from fieldmark.tryout.fitted import About
    from fieldmark.tryout.predict import Prediction

COMPUTING = ("cache", "device", "decode", "threads", "batch_size", "offline", "quiet")


@dataclass(frozen=True, slots=True)
class PredictArgs:
    model: Annotated[Positional[Path], arg(metavar="MODEL", help_behavior_hint="")]
    """the folder that `fieldmark try` has written, such as try/model"""
    photos: Annotated[Positional[Path], arg(metavar="PHOTOS", help_behavior_hint="")]
    """a folder of photos, or one photo"""
    out: Path = Path("predictions.csv")
    """table to write, one row per photo"""
    copy_into: Path | None = None
    """a new folder: each photo is copied into it, sorted into one folder per answer; copies keep
    their metadata, positions included"""
    camtrap_dp: Path | None = None
    """also write Camtrap DP observations to this file; PHOTOS is then a Camtrap DP"""
    json: bool = False
    """print the predictions as JSON"""
    common: Annotated[CommonFlags, Only(COMPUTING)] = Common()


def run(args: PredictArgs) -> int:
    from fieldmark.data.read.own_formats import check_package
    from fieldmark.progress import for_people
    from fieldmark.tryout.fitted import load_fitted
    from fieldmark.tryout.predict import (
        copy_photos,
        predict,
        refuse_copies,
        refuse_other,
        write_csv,
        write_observations,
    )
    from fieldmark.words import counted

    refuse_other(args.out)
    if args.copy_into is not None:
        refuse_copies(args.photos, args.copy_into)
    if args.camtrap_dp is not None:
        check_package(args.photos)
    with for_people(args.common.quiet) as progress:
        settings = args.common.settings()
        predictions = predict(args.model, args.photos, settings, progress)
    about = load_fitted(args.model).about
    replaced = " (replaces the last one)" if args.out.exists() else ""
    write_csv(predictions, about.labels, args.out)
    if args.json:
        every = [dataclasses.asdict(prediction) for prediction in predictions]
        for one in every:
            one["by_label"] = dict(zip(about.labels, one["by_label"], strict=False))
        print_json(every)
    else:
        counts = Counter(prediction.answer for prediction in predictions)
        for answer, n in counts.most_common():
            show(f"{n:>7,}  {answer}")
    if args.camtrap_dp is not None:
        n = write_observations(predictions, about, args.photos, args.camtrap_dp)
        talk(f"{counted(n, 'observation')}: {args.camtrap_dp}")
    if args.copy_into is not None:
        n, n_there, n_removed = copy_photos(predictions, args.photos, args.copy_into)
        n_bad = sum(bool(prediction.problem) for prediction in predictions)
        bad = f"; {n_bad:,} of them cannot be read" if n_bad else ""
        there = (
            f", {n_there:,} {'was' if n_there == 1 else 'were'} there already" if n_there else ""
        )
        talk(f"{counted(n, 'file')} copied into {args.copy_into}{there}{bad}")
        if n_removed:
            copies = counted(n_removed, "copy", "copies")
            talk(f"{copies} with another answer of an earlier command removed")
    if not args.common.quiet:
        for line in tell_trust(predictions, about):
            talk(line)
        talk(f"{counted(len(predictions), 'photo')}: {args.out}{replaced}")
    if n_used := sum(prediction.is_training_photo for prediction in predictions):
        used = counted(n_used, "of these photos (or a copy of it) was", "of these photos were")
        talk(f"{used} used to make this model, which is no test. See the column is_training_photo.")
    return 0


def tell_trust(predictions: list[Prediction], about: About) -> Iterator[str]:
    """What to know before the answers are used."""
    from fieldmark.tryout.judge.confidence import POOR
    from fieldmark.tryout.predict import UNLIKE, UNREADABLE, UNSURE
    from fieldmark.words import counted

    counts = Counter(photo.answer for photo in predictions)
    n_named = len(predictions) - sum(counts[word] for word in (UNSURE, UNLIKE, UNREADABLE))
    if about.threshold is None:
        yield (
            "This model is never sure: in its test, too many of its answers were wrong. Its "
            "guesses are in the column best_guess. Check them all, or try it on more photos."
        )
    elif n := counts[UNSURE]:
        yield (
            f"{counted(n, 'photo is', 'photos are')} unsure: the model gives a name only where it "
            f"is at least {100 * about.threshold:.0f} % sure. The column best_guess has its guess. "
            "Check it yourself."
        )
    if n_named and about.wrong_of_named >= POOR:
        wrong = f"{100 * about.wrong_of_named:.0f} % of the names that it gave were wrong"
        yield f"In its test, {wrong}: check them all."
    elif n_named and not about.is_promise:
        yield (
            f"This model was tested on {about.n_units} {about.unit_word}, too few to promise how "
            "often its names are wrong. Check them."
        )

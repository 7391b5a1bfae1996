"""The whole of `fieldmark try`: photos in; a verdict, a page, a table and a model out.

A first answer comes from a sample of 200 photos, and says so. Every later one replaces it. Features
are cached photo by photo, so that the same command goes on where it was stopped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fieldmark import draws
from fieldmark.errors import FieldmarkError, MissingExtra, ModelError
from fieldmark.progress import Progress, Silent
from fieldmark.settings import Settings, load_settings
from fieldmark.tryout.evaluate import (
    Entry,
    TrialSample,
    Verdict,
    choose_entry,
    conclude,
    prepare,
    score,
)
from fieldmark.tryout.judge.choice import ModelChoice
from fieldmark.tryout.look.formats import read_photos
from fieldmark.tryout.look.photos import Columns, LabelledPhotos
from fieldmark.tryout.models import (
    CLASSICAL,
    DOWNLOADS,
    chosen_models,
    has_torch,
    told_absent,
    told_before,
)
from fieldmark.tryout.survey import Survey, look_at, refuse_small

if TYPE_CHECKING:
    from fieldmark.tryout.chat import ChatTrial

FIRST = 200
"""photos of the first answer"""
MUCH = 400
"""photos from which a first answer is worth the wait"""


@dataclass(frozen=True, slots=True)
class TrialOptions:
    """What to try."""

    columns: Columns = Columns()
    models: Sequence[str] = ("auto",)
    wanted: float = 0.95
    """of a label's photos that a person wants to find"""
    chat: ChatTrial | None = None
    """a chat model to ask about some photos"""


@dataclass(frozen=True, slots=True)
class TrialAnswer:
    """An answer on the way to the last one."""

    tried: str
    """the model that was tried last"""
    model: str
    """the best so far"""
    choice: ModelChoice
    n_photos: int
    is_first: bool
    """from a sample of the photos"""


def try_photos(
    path: str | Path,
    *,
    models: Sequence[str] = ("auto",),
    image: str = "",
    label: str = "",
    unit: str = "",
    out: str | Path | None = None,
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> Verdict:
    """Which model tells these photos apart? A folder with a folder per label, or a table.

    `out` is a folder for the page, the tables and the model; None writes nothing.

    verdict = fieldmark.try_photos("photos/")
    print(verdict)
    """
    options = TrialOptions(Columns(image, label, unit), models)
    settings, progress = settings or load_settings(), progress or Silent()
    verdict = run_trial(Path(path), options, settings, progress)
    if out is not None:
        from fieldmark.tryout.products import write_products

        write_products(verdict, Path(out), settings, progress)
    return verdict


def run_trial(
    path: Path,
    options: TrialOptions,
    settings: Settings,
    progress: Progress,
    show: Callable[[Survey | TrialAnswer], None] = lambda _: None,
) -> Verdict:
    """Looks at the photos, tries the models one after the other, and shows each answer."""
    names = chosen_models(options.models)
    photos = read_photos(path, options.columns)
    refuse_small(photos)
    if options.chat is not None:
        options.chat.check(photos)
    if len(photos.table) > MUCH and CLASSICAL[0] in names:
        some = look_at(_some(photos), settings, progress)
        if not some.too_little:  # of hundreds of labels, a sample has a photo or two
            first = prepare(some)
            tried = score(first, CLASSICAL[0], settings, progress)
            show(_answer(first, tried, is_first=True))
    survey = look_at(photos, settings, progress)
    sample = prepare(survey)
    show(survey)
    entries, notes, absent = list[Entry](), list[str](), list[str]()
    for name in names:
        if name in DOWNLOADS and not settings.offline:
            progress.say(told_before(name))
        try:
            entries += score(sample, name, settings, progress)
        except FieldmarkError as error:
            if name in DOWNLOADS:
                absent.append(name)
            else:
                notes.append(f"{name} was not tried: {error}")
            continue
        show(_answer(sample, entries, is_first=False))
    if not entries:
        raise ModelError(f"No model could be run. {' '.join(notes) or told_absent(absent)}")
    verdict = conclude(sample, entries, settings, progress, options.wanted)
    if options.chat is not None:
        verdict = _with_chat(verdict, options.chat, settings, progress, notes)
    return dataclasses.replace(verdict, notes=(*notes, *_told_last(absent)))


def _answer(sample: TrialSample, entries: Sequence[Entry], is_first: bool) -> TrialAnswer:
    choice = choose_entry(sample, entries)
    best = entries[choice.best].model
    return TrialAnswer(entries[-1].model, best, choice, len(sample.rows), is_first)


def _told_last(absent: Sequence[str]) -> Iterator[str]:
    """What to do for better models."""
    if absent:
        yield told_absent(absent)
    if not has_torch():
        extra = MissingExtra("Every better model", "vision", "torch")
        yield f"{extra} Then give the same command again: it continues from here."


def _with_chat(
    verdict: Verdict, chat: ChatTrial, settings: Settings, progress: Progress, notes: list[str]
) -> Verdict:
    """With the chat model's score; a note where it could not be asked everything."""
    from fieldmark.tryout.chat import ask_chat

    try:
        score = ask_chat(verdict, chat, settings, progress)
    except FieldmarkError as error:
        notes.append(f"{chat.model.name} has no score: {error}")
        return verdict
    return dataclasses.replace(verdict, chat=score)


def _some(photos: LabelledPhotos) -> LabelledPhotos:
    """A sample with every label in it, as far as it reaches; neighbours in a folder stay together
    only by chance, so that it is honest about bursts where the whole is.
    """
    order = draws.shuffled(photos.table.get_column("id").to_list(), "first answer")
    chosen = set(order[:FIRST])
    rows = [row for row, name in enumerate(photos.table.get_column("id")) if name in chosen]
    return dataclasses.replace(photos, table=photos.table[np.array(rows)])

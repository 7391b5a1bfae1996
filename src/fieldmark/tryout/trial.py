"""The whole of `fieldmark try`: photos in; a verdict, a page, a table and a model out.

Models are those that work here without a download and, where torch is installed and downloads are
allowed, a short list. Size and licence are told before anything is fetched.

A first answer comes from a sample of 200 photos, and says so. Every later one replaces it. Features
are cached photo by photo, so that the same command goes on where it was stopped.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fieldmark import draws
from fieldmark.data.read.own_formats import read_photos
from fieldmark.data.read.own_photos import Columns, LabelledPhotos
from fieldmark.errors import FieldmarkError, MissingExtra, ModelError, UsageError
from fieldmark.models import check_model_name
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
from fieldmark.tryout.products import refuse_others, write_products
from fieldmark.tryout.survey import look_at, refuse_small
from fieldmark.tryout.words import tell_data, tell_short

if TYPE_CHECKING:
    from fieldmark.tryout.chat import ChatTrial

FIRST = 200
"""photos of the first answer"""
MUCH = 400
"""photos from which a first answer is worth the wait"""
CLASSICAL = ("classical/colour", "classical/texture", "classical/all")
WORDS = ("auto", "small", "best", "classical")


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model whose weights come from a hub."""

    name: str
    mb: int
    licence: str


SMALL = (
    HubModel("timm/mobilenetv4_conv_small.e2400_r224_in1k", 15, "Apache-2.0"),
    HubModel("timm/efficientnet_b0.ra4_e3600_r224_in1k", 21, "Apache-2.0"),
    HubModel("hf/facebook/dinov2-small", 88, "Apache-2.0"),
)
BEST = (
    *SMALL,
    HubModel("open-clip/hf-hub:imageomics/bioclip", 599, "MIT"),
    HubModel("timm/vit_base_patch16_siglip_224.v2_webli", 372, "Apache-2.0"),
    HubModel("open-clip/hf-hub:imageomics/bioclip-2", 1710, "MIT"),
)
DOWNLOADS = {model.name: model for model in BEST}


@dataclass(frozen=True, slots=True)
class TrialOptions:
    """What to try."""

    columns: Columns = Columns()
    models: Sequence[str] = ("auto",)
    wanted: float = 0.95
    """of a label's photos that a person wants to find"""
    chat: ChatTrial | None = None
    """a chat model to ask about some photos"""
    out: Path | None = None
    """where the answer will be written; refused where it holds something else"""


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
    where = None if out is None else Path(out)
    options = TrialOptions(Columns(image, label, unit), models, out=where)
    settings, progress = settings or load_settings(), progress or Silent()
    verdict = run_trial(Path(path), options, settings, progress)
    if where is not None:
        write_products(verdict, where, settings, progress)
    return verdict


def run_trial(
    path: Path,
    options: TrialOptions,
    settings: Settings,
    progress: Progress,
    show: Callable[[str], None] = lambda _: None,
) -> Verdict:
    """Looks at the photos, tries the models one after the other, and shows each answer."""
    names = chosen_models(options.models)
    photos = read_photos(path, options.columns)
    refuse_small(photos)
    if options.out is not None:
        refuse_others(options.out, photos)
    if options.chat is not None:
        options.chat.check(photos)
    if len(photos.table) > MUCH and CLASSICAL[0] in names:
        some = look_at(_some(photos), settings, progress)
        if not some.too_little:  # of hundreds of labels, a sample has a photo or two
            first = prepare(some)
            show(_told(first, score(first, CLASSICAL[0], settings, progress), is_first=True))
    survey = look_at(photos, settings, progress)
    sample = prepare(survey)
    for line in (*tell_data(survey), ""):
        show(line)
    if options.chat is not None:
        from fieldmark.tryout.chat import ask_one

        ask_one(sample, options.chat, settings)
    entries, notes, absent = list[Entry](), list[str](), list[str]()
    for name in names:
        if (hub := DOWNLOADS.get(name)) and not settings.offline:
            show(f"{name}: downloads {hub.mb} MB, unless it is here already ({hub.licence}).")
        try:
            entries += score(sample, name, settings, progress)
        except FieldmarkError as error:
            if name in DOWNLOADS:
                absent.append(name)
            else:
                notes.append(f"{name} was not tried: {error}")
            continue
        show(_told(sample, entries, is_first=False))
    if not entries:
        raise ModelError(
            f"No model could be run. {' '.join(notes or _told_last(absent, settings.offline))}"
        )
    verdict = conclude(sample, entries, settings, progress, options.wanted)
    if options.chat is not None:
        verdict = _with_chat(verdict, options.chat, settings, progress, notes)
    return dataclasses.replace(verdict, notes=(*notes, *_told_last(absent, settings.offline)))


def _told(sample: TrialSample, entries: Sequence[Entry], is_first: bool) -> str:
    choice = choose_entry(sample, entries)
    n_first = len(sample.rows) if is_first else 0
    best = entries[choice.best]
    return tell_short(entries[-1].model, best.model, sample.accuracy(best), n_first)


def _told_last(absent: Sequence[str], offline: bool) -> Iterator[str]:
    """What to do for better models; `absent` are those whose weights could not be fetched."""
    if absent and has_torch():
        total, were = sum(DOWNLOADS[name].mb for name in absent), ("were", "was")[len(absent) == 1]
        how = "Once it is online, the same command downloads them and continues from here."
        if offline:
            how = "`--offline` forbids the download: leave it out to continue with them."
        yield (
            f"{', '.join(absent)} {were} not tried: the weights ({total} MB) are not on this "
            f"machine. {how}"
        )
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


# --- which models


def has_torch() -> bool:
    return importlib.util.find_spec("torch") is not None


def chosen_models(words: Sequence[str]) -> list[str]:
    """Names of models, in the order they are tried: the fast ones first."""
    names: dict[str, None] = {}
    for word in words:
        if word in WORDS:
            lists = {"classical": (), "auto": SMALL if has_torch() else ()}
            downloads = lists.get(word, BEST if word == "best" else SMALL)
            names |= dict.fromkeys((*CLASSICAL, *(model.name for model in downloads)))
        else:
            check_model_name(word)
            names[word] = None
    if not names:
        raise UsageError(f"--models needs a name or one of {', '.join(WORDS)}.")
    return list(names)

"""Model comparison on one's own photos: how often is each model right on units it never saw?

Four steps: `look_at` looks at the photos; `prepare` decides what is tested and how it is split;
`score` gives every photo the answers of one model with each head; `conclude` chooses, and works out
what can be said about the choice. Features come from the cache, so that a step done again costs
little.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from fieldmark import draws
from fieldmark.data.read.own_photos import LabelledPhotos
from fieldmark.embed import throughput_of
from fieldmark.errors import DataError
from fieldmark.metrics import load_metric
from fieldmark.models import Backbone, abilities, load_model
from fieldmark.progress import Progress
from fieldmark.registry import EMBEDS_TEXTS
from fieldmark.settings import Settings
from fieldmark.stats import Comparison, Items, compare, compare_many, errors, tiers
from fieldmark.taxa import plain, taxon_columns
from fieldmark.tryout.judge.choice import ModelChoice, choose
from fieldmark.tryout.judge.confidence import SureThreshold, fit_temperature, fit_threshold, softmax
from fieldmark.tryout.judge.findings import (
    HeldOut,
    MixUp,
    SearchPlan,
    Suspects,
    Weakness,
    conditions,
    find_mix_ups,
    find_suspects,
    find_weak_places,
    find_weaknesses,
    genus_of,
    plan_search,
)
from fieldmark.tryout.judge.heads import LABEL_NAMES, Head, kinds_for, out_of_unit
from fieldmark.tryout.judge.split import make_folds
from fieldmark.tryout.survey import Survey, embed_options, embed_photos

if TYPE_CHECKING:
    from fieldmark.tryout.chat import ChatScore


@dataclass(frozen=True, slots=True)
class TrialSample:
    """Which photos are tested, and on which side of which fold."""

    survey: Survey
    rows: np.ndarray
    """the photos that are tested, by row of the table; what follows has one entry for each"""
    labels: tuple[str, ...]
    code_n: np.ndarray
    unit_n: np.ndarray
    fold_n: np.ndarray

    @property
    def photos(self) -> LabelledPhotos:
        return self.survey.photos

    @property
    def unit_word(self) -> str:
        """What units are: cameras, sites, photos."""
        return self.survey.unit_word

    @property
    def table(self) -> pl.DataFrame:
        return self.photos.table[self.rows]

    @property
    def n_units(self) -> int:
        return int(self.unit_n.max()) + 1

    @property
    def n_folds(self) -> int:
        return len(np.unique(self.fold_n))

    def accuracy(self, entry: Entry) -> float:
        """Of the tested photos; higher than on new ones for the entry that is chosen by it."""
        return float((entry.answer_n == self.code_n).mean())


@dataclass(frozen=True, slots=True)
class Entry:
    """One model with one head, and its answers."""

    model: str
    head: str
    answer_n: np.ndarray
    images_per_s: float
    untrained: Head | None = None
    """the head itself, where it needs no training"""
    score_nc: np.ndarray | None = None
    """of the photos, float32; None = too many to keep: they are computed again if it is chosen"""

    @property
    def fits(self) -> str | Head:
        """What `fit_head` takes."""
        return self.untrained or self.head


@dataclass(frozen=True, slots=True)
class Rival:
    """The best entry of another model, compared with the chosen one."""

    model: str
    accuracy: float
    is_as_good: bool
    """could be as good as the chosen one"""
    units_to_decide: int
    """more units with which a paired test would tell them apart 4 times in 5; 0 = not worth it"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What there is to say about the photos and the models."""

    sample: TrialSample
    entries: tuple[Entry, ...]
    choice: ModelChoice
    held_out: HeldOut
    temperature: float
    threshold: SureThreshold
    rivals: tuple[Rival, ...]
    majority: float
    """how often the most common label is right"""
    leak: Comparison | None
    """what a random split would have added; None where each photo is a unit"""
    doubling: Comparison | None
    """what the last doubling of the training units has added; None where they are few"""
    mix_ups: tuple[MixUp, ...]
    weaknesses: tuple[Weakness, ...]
    suspects: Suspects
    searches: tuple[SearchPlan, ...]
    wanted: float
    """of a label's photos that a person wants to find"""
    ranks: tuple[tuple[str, ModelChoice], ...]
    """at the ranks of genus and family, as far as they are known"""
    chat: ChatScore | None = None
    """a chat model on some of the photos; None where none was asked"""
    notes: tuple[str, ...] = field(default=())
    """models that could not be run, and why"""

    @property
    def best(self) -> Entry:
        return self.entries[self.choice.best]

    @property
    def is_useful(self) -> bool:
        """Is it better than always giving the most common label?"""
        return self.choice.has_interval and self.choice.low > self.majority

    @property
    def lines(self) -> list[str]:
        """The answer in words."""
        from fieldmark.tryout.words import tell

        return list(tell(self))

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def _repr_markdown_(self) -> str:
        """What a notebook shows."""
        return "\n".join(f"- {line}" for line in self.lines)


# --- split


def prepare(survey: Survey) -> TrialSample:
    """Decides which photos are tested, and on which side of which fold."""
    if why := survey.too_little:
        raise DataError(why)
    rows = np.flatnonzero(survey.is_ok_n)
    labels, code_all = np.unique(survey.audit.label_n[rows], return_inverse=True)
    can_test = survey.can_test_c
    kept = can_test[code_all]
    rows = rows[kept]
    code_n = np.unique(code_all[kept], return_inverse=True)[1]
    unit_n = np.unique(survey.unit_n[rows], return_inverse=True)[1]
    names = tuple(map(str, labels[can_test]))
    return TrialSample(survey, rows, names, code_n, unit_n, make_folds(code_n, unit_n))


# --- models


MOST_KEPT = 1_000_000
"""scores of one entry: 4 MB"""
_NAME = re.compile(r"[^\W\d_]{3}")
"""three letters: a label without them (A1, 007) is no name that a model may have read"""


def score(sample: TrialSample, name: str, settings: Settings, progress: Progress) -> list[Entry]:
    """The answers of one model, with each head that suits the photos."""
    model: Any = open_model(name, settings)
    x_nd = features_of(sample, model, settings, progress)
    speed = throughput_of(settings.cache, model.fingerprint).images_per_s
    heads: dict[str, Head | None] = dict.fromkeys(kinds_for(len(x_nd), len(sample.labels)))
    if EMBEDS_TEXTS in abilities(name) and all(map(_NAME.search, sample.labels)):
        from fieldmark.protocols.zero_shot.classes import openai_templates
        from fieldmark.protocols.zero_shot.run import text_features

        names, options = [plain(label) for label in sample.labels], embed_options(settings)
        text_cd = text_features(model, names, openai_templates(), options, progress)
        zero_d, zero_c = np.zeros(text_cd.shape[1]), np.zeros(len(text_cd))
        heads[LABEL_NAMES] = Head(zero_d, True, np.asarray(text_cd.T, np.float64), zero_c)
    entries = []
    for kind, head in heads.items():
        score_nc = _held_out(sample, head or kind, x_nd)
        kept = score_nc if score_nc.size <= MOST_KEPT else None
        entries.append(Entry(name, kind, score_nc.argmax(axis=1), speed, head, kept))
    return entries


def _held_out(
    sample: TrialSample, head: str | Head, x_nd: np.ndarray, may_train: np.ndarray | bool = True
) -> np.ndarray:
    """Scores of the tested photos by heads that saw no photo of their unit."""
    n_labels = len(sample.labels)
    score_nc = out_of_unit(head, x_nd, sample.code_n, sample.fold_n, n_labels, may_train)
    return score_nc.astype(np.float32)


def open_model(name: str, settings: Settings) -> Backbone:
    """The backbone, as the settings want it."""
    return load_model(
        name,
        device=settings.device,
        precision=settings.precision,
        decode=settings.decode,
        offline=settings.offline,
    )


def features_of(
    sample: TrialSample, model: Backbone, settings: Settings, progress: Progress
) -> np.ndarray:
    """Features of the tested photos."""
    return embed_photos(model, sample.photos.root, sample.table, settings, progress).features


# --- what follows


def choose_entry(sample: TrialSample, entries: Sequence[Entry]) -> ModelChoice:
    """The model and head to use; among equals the first, for models are tried from the fastest to
    the slowest. A measured speed would make the answer another one each time.
    """
    hits = [entry.answer_n == sample.code_n for entry in entries]
    return choose(np.stack(hits, axis=1).astype(float), sample.unit_n)


def conclude(
    sample: TrialSample,
    entries: Sequence[Entry],
    settings: Settings,
    progress: Progress,
    wanted: float = 0.95,
) -> Verdict:
    """Chooses a model and works out all that can be said about it."""
    choice = choose_entry(sample, entries)
    best = entries[choice.best]
    x_nd = features_of(sample, open_model(best.model, settings), settings, progress)
    kept = best.score_nc
    score_nc = (_held_out(sample, best.fits, x_nd) if kept is None else kept).astype(np.float64)
    weight_n = 1 / np.bincount(sample.unit_n)[sample.unit_n]
    temperature = fit_temperature(score_nc, sample.code_n, weight_n)
    prob_nc = softmax(score_nc, temperature)
    held_out = HeldOut(sample.code_n, prob_nc, sample.unit_n, sample.labels)
    mix_ups = tuple(find_mix_ups(held_out))
    others = _others(sample, entries, best)
    return Verdict(
        sample,
        tuple(entries),
        choice,
        held_out,
        temperature,
        fit_threshold(prob_nc.max(axis=1), held_out.is_right_n, sample.unit_n),
        _rivals(sample, best, others),
        float(np.bincount(sample.code_n).max() / len(sample.code_n)),
        _leak(sample, best, x_nd),
        _doubling(sample, best, x_nd),
        mix_ups,
        (
            *find_weaknesses(held_out, conditions(sample.survey.looks, sample.rows)),
            *_weak_places(sample, held_out),
        ),
        _suspects(sample, held_out, others, mix_ups),
        tuple(
            plan_search(held_out, code, wanted, are_bursts=not sample.survey.photos.unit_from)
            for code in range(len(sample.labels))
        ),
        wanted,
        tuple(_ranks(sample, held_out)),
    )


def _suspects(
    sample: TrialSample, held_out: HeldOut, others: Sequence[Entry], mix_ups: Sequence[MixUp]
) -> Suspects:
    """Labels that look wrong to two good models or more: a single model doubts each photo that it
    mistakes, and one that guesses says nothing about a label.
    """
    common = int(np.bincount(sample.code_n).argmax())

    def is_good(answer_n: np.ndarray) -> bool:
        return compare_answers(sample, answer_n, np.full_like(answer_n, common)).low > 0

    good = [entry.answer_n for entry in others if is_good(entry.answer_n)]
    if not good or not is_good(held_out.answer_n):
        return Suspects((), (), 0.0, is_checked=False)
    return find_suspects(held_out, good, mix_ups)


_PLACES = ("cam", "site", "station", "plot", "trap", "deploy", "loc", "place", "transect", "unit")
"""how the words for units that are places begin; a folder's units have no other word"""


def _weak_places(sample: TrialSample, held_out: HeldOut) -> list[Weakness]:
    """Places at which it fails, where units are places."""
    word = sample.survey.unit_name
    if not word.startswith(_PLACES):
        return []
    unit_row = np.unique(sample.unit_n, return_index=True)[1]
    names = [str(name) for name in sample.table.get_column("unit").gather(unit_row)]
    if word != "unit":  # camera 5, and not camera cam5
        names = [n if n.lower().startswith(word[:3]) else f"{word} {n}" for n in names]
    return find_weak_places(held_out, names, sample.survey.audit.burst_n[sample.rows])


def _others(sample: TrialSample, entries: Sequence[Entry], chosen: Entry) -> list[Entry]:
    """The better head of each other model, in the order of models."""
    best: dict[str, Entry] = {}
    for entry in entries:
        other = best.setdefault(entry.model, entry)
        if sample.accuracy(entry) > sample.accuracy(other):
            best[entry.model] = entry
    return [entry for entry in best.values() if entry.model != chosen.model]


def _rivals(sample: TrialSample, chosen: Entry, others: Sequence[Entry]) -> tuple[Rival, ...]:
    """Other models, best first, by the joint test that the tiers of `table` rest on."""
    if not others:
        return ()
    answers_mn = np.stack([entry.answer_n for entry in (chosen, *others)])
    scores = errors(Items(sample.code_n, sample.unit_n), answers_mn, load_metric("accuracy"))
    letters = tiers(scores)
    pairs = compare_many(scores, 0, range(1, len(letters)))
    rivals = []
    for entry, letter, pair in zip(others, letters[1:], pairs, strict=True):
        difference, is_as_good = abs(pair.difference), letter == letters[0]
        # Below a point it does not matter which of the two is used.
        is_worth_it = is_as_good and difference >= 0.01
        needed = pair.spread.units_to_detect(difference) if is_worth_it else None
        more = max(0, (needed or 0) - pair.n_units)
        rivals.append(Rival(entry.model, sample.accuracy(entry), is_as_good, more))
    return tuple(sorted(rivals, key=lambda rival: -rival.accuracy))


def _leak(sample: TrialSample, best: Entry, x_nd: np.ndarray) -> Comparison | None:
    """What the same model shows when photos are split at random, units or not."""
    if best.untrained or sample.n_units == len(sample.unit_n):
        return None
    fold_n = make_folds(sample.code_n, np.arange(len(sample.code_n)), "random")
    at_random = replace(sample, fold_n=fold_n)
    # Whoever splits at random also chooses by what that shows.
    answers = [
        _held_out(at_random, kind, x_nd).argmax(axis=1)
        for kind in kinds_for(len(x_nd), len(sample.labels))
    ]
    shown = max(answers, key=lambda answer_n: int((answer_n == sample.code_n).sum()))
    return compare_answers(sample, shown, best.answer_n)


def _doubling(sample: TrialSample, best: Entry, x_nd: np.ndarray) -> Comparison | None:
    """What half of the training units would have cost."""
    if best.untrained or sample.n_units < 20:
        return None
    order = draws.generator("half", sample.n_units).permutation(sample.n_units)
    is_half_n = order[sample.unit_n] < sample.n_units / 2
    answer_n = _held_out(sample, best.fits, x_nd, is_half_n).argmax(axis=1)
    return compare_answers(sample, best.answer_n, answer_n)


def compare_answers(
    sample: TrialSample, more_n: np.ndarray, less_n: np.ndarray, rows: Any = slice(None)
) -> Comparison:
    """Paired difference of two sets of answers to all photos, or to some rows of them."""
    items = Items(sample.code_n[rows], sample.unit_n[rows])
    return compare(items, more_n, less_n, load_metric("accuracy"))


def _ranks(sample: TrialSample, held_out: HeldOut) -> Iterator[tuple[str, ModelChoice]]:
    """How often genus and family are right, where labels or a column say them."""
    names_n = np.array(sample.labels)[sample.code_n].tolist()
    # Without a column of families labels stand for them, of which each then has its own.
    (column, *_) = taxon_columns(sample.table.columns).get("family", ["label"])
    families = sample.table.get_column(column).to_list()
    ranks = {"genus": genus_of(sample.labels), "family": dict(zip(names_n, families, strict=True))}
    for rank, taxon_of in ranks.items():
        taxa = [taxon_of.get(label) for label in sample.labels]
        if None not in taxa and 2 <= len(set(taxa)) < len(taxa):
            taxon_c = np.unique(np.array(taxa, str), return_inverse=True)[1]
            hit_n = taxon_c[held_out.answer_n] == taxon_c[sample.code_n]
            yield rank, choose(hit_n[:, None].astype(float), sample.unit_n)

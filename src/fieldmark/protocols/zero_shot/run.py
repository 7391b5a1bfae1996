"""Zero-shot classification (prompt ensembling): which class's text is nearest to an image?

Every class text is put into every template; features are normalised, averaged over the templates
and normalised again. Logits are cosines times the model's scale (plus the bias of a model that was
trained with a sigmoid), as the model's authors compute them. arXiv:2103.00020, 2303.15343
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from scipy.sparse import csr_array

from fieldmark.embed import EmbedOptions, count_cut, embed_texts
from fieldmark.errors import DataError
from fieldmark.progress import Progress
from fieldmark.protocols._dual import logits, projected, unit_rows
from fieldmark.protocols._features import RowFeatures, embed_options, embed_rows
from fieldmark.protocols._predictions import FitNotes, PartPredictions, answer_frame, left_out
from fieldmark.protocols._question import Question, Workspace
from fieldmark.protocols.zero_shot.block import ZeroShotBlock
from fieldmark.protocols.zero_shot.classes import (
    ClassTexts,
    class_texts,
    templates_of,
)
from fieldmark.tasks.split import PartItems, draw_test, rows_of
from fieldmark.taxa import RANKS

if TYPE_CHECKING:
    from fieldmark.models import DualEncoder

N_SHOWN = 5
"""likeliest classes that are stored with an answer"""
BLOCK = 1 << 24
"""logits at a time: 64 MB"""
CLASSES = 512
"""classes whose texts are averaged at a time: 80 templates of width 512 are 84 MB"""


def run(
    question: Question,
    part_names: Collection[str],
    model: DualEncoder,
    workspace: Workspace,
    progress: Progress,
) -> Iterator[PartPredictions]:
    """The predictions of each wanted part, as they come; none depends on which are wanted."""
    options = embed_options(workspace)
    task, draw = question.task, question.draw
    block: ZeroShotBlock = task.block("zero_shot")
    model = projected(model, block.projector)
    parts = [part for part in question.parts if part.name in part_names]
    rows = rows_of(task, parts, draw, has_training=False)
    features = embed_rows(model, question.root, rows, options, progress)
    for part in parts:
        began = time.monotonic()
        part_run = _Asked(question, block, part, model)
        yield part_run.answer(features, options, progress).timed(time.monotonic() - began)


@dataclass(frozen=True, slots=True)
class _Asked:
    """One part on its way from features to predictions."""

    question: Question
    block: ZeroShotBlock
    part: PartItems
    model: DualEncoder

    def answer(
        self, features: RowFeatures, options: EmbedOptions, progress: Progress
    ) -> PartPredictions:
        task, draw = self.question.task, self.question.draw
        classes = class_texts(task, self.block, self.part)
        fits = FitNotes("zero_shot")
        text_cd = self._class_features(classes, options, progress, fits)
        rows = draw_test(task, self.part, draw, 0)
        n_asked = len(rows)
        rows = rows.filter(pl.col("target").is_in(classes.labels))
        if rows.is_empty():
            raise DataError(
                f"task {task.task!r}: none of the {n_asked} test images is of one of its "
                f"{len(classes.labels)} classes: test more (n_test), or take other taxa."
            )
        test = features.readable(rows, f"task {task.task!r}: none of the {{}} test")
        frame = choose(self.model, features.matrix(test), text_cd, classes, test)
        notes: dict[str, Any] = fits.noted() | {"n_classes": len(classes.labels)}
        if len(rows) < n_asked:
            notes["n_of_other_taxa"] = n_asked - len(rows)
        notes |= left_out(task, self.part, draw, features.bad)
        return PartPredictions(self.part.name, frame, 0, notes, groups=self.part.groups)

    def _class_features(
        self, classes: ClassTexts, options: EmbedOptions, progress: Progress, fits: FitNotes
    ) -> np.ndarray:
        """float32, classes × dim, of length one."""
        templates = templates_of(self.block)
        longest = max(templates, key=len)
        cut = count_cut(self.model, [longest.replace("{}", text) for text in classes.texts])
        # What the task's file says of the model's training data.
        name, pairs = self.model.name.partition("?")[0], self.block.seen_by.items()
        seen = [note for pattern, note in pairs if fnmatchcase(name, pattern)]
        notes = [*seen, *cut.words("class texts"), *classes.notes]
        fits.add(None, {}, notes)
        return text_features(self.model, classes.texts, templates, options, progress)


def text_features(
    model: DualEncoder,
    texts: Sequence[str],
    templates: Sequence[str],
    options: EmbedOptions,
    progress: Progress,
) -> np.ndarray:
    """float32, texts × dim, of length one: the mean over the templates around each text."""
    means = [np.zeros((0, model.dim), np.float32)]
    for start in range(0, len(texts), CLASSES):
        some = texts[start : start + CLASSES]
        prompts = [template.replace("{}", text) for text in some for template in templates]
        features = unit_rows(embed_texts(model, prompts, options, progress))
        means.append(unit_rows(features.reshape(len(some), len(templates), -1).mean(axis=1)))
    return np.concatenate(means)


def choose(
    model: DualEncoder,
    image_nd: np.ndarray,
    text_cd: np.ndarray,
    classes: ClassTexts,
    rows: pl.DataFrame,
) -> pl.DataFrame:
    """The likeliest class of each row, with what it was worth by top-k and at each rank."""
    labels = np.array(classes.labels, dtype=object)
    index_of = {label: index for index, label in enumerate(classes.labels)}
    truth_n = np.array([index_of[target] for target in rows["target"]])
    taxonomy = [(rank, code) for rank in RANKS if (code := rank_codes(classes, rank)) is not None]
    # Classes of one text have one column: a product of the same rows need not round the same.
    _, first_t, text_c = np.unique(classes.texts, return_index=True, return_inverse=True)
    text_td = text_cd[first_t]
    step = max(1, BLOCK // max(1, len(labels)))
    answers: list[str] = []
    sure: list[float] = []
    infos: list[str] = []
    for start in range(0, len(image_nd), step):
        truth = truth_n[start : start + step]
        logit_nc = logits(model, unit_rows(image_nd[start : start + step]), text_td)[:, text_c]
        prob_nc = probabilities(logit_nc, getattr(model, "logit_bias", None) is not None)
        order_nk = likeliest(logit_nc, N_SHOWN)
        values = item_worth(logit_nc, prob_nc, truth, taxonomy)
        for number, top in enumerate(order_nk):
            answers.append(labels[top[0]])
            sure.append(float(prob_nc[number, top[0]]))
            shown = [[labels[c], round(float(prob_nc[number, c]), 6)] for c in top]
            worth = {name: float(column[number]) for name, column in values.items()}
            defined = {name: value for name, value in worth.items() if value == value}
            infos.append(json.dumps({"values": defined, "top": shown}, ensure_ascii=False))
    return answer_frame(rows, answers, sure).with_columns(pl.Series("info", infos, pl.String))


def likeliest(logit_nc: np.ndarray, k: int) -> np.ndarray:
    """The k best classes of each row, best first; of equal ones the first comes first."""
    k = min(k, logit_nc.shape[1])
    floor_n1 = -np.partition(-logit_nc, k - 1, axis=1)[:, k - 1 : k]
    above_nc = np.where(logit_nc >= floor_n1, logit_nc, -np.inf)
    if (np.isfinite(above_nc).sum(axis=1) == k).all():  # no tie at the last place
        rows, at = np.nonzero(np.isfinite(above_nc))
        at_nk, best_nk = at.reshape(-1, k), logit_nc[rows, at].reshape(-1, k)
        return np.take_along_axis(at_nk, np.argsort(-best_nk, axis=1, kind="stable"), axis=1)
    return np.argsort(-above_nc, axis=1, kind="stable")[:, :k]


def item_worth(
    logit_nc: np.ndarray,
    prob_nc: np.ndarray,
    truth_n: np.ndarray,
    taxonomy: Sequence[tuple[str, np.ndarray]],
) -> dict[str, np.ndarray]:
    """Metric → what each item was worth: 1, 0, or NaN where its truth has no such rank."""
    n = np.arange(len(truth_n))
    truth_n1 = logit_nc[n, truth_n][:, None]
    is_before = np.arange(logit_nc.shape[1]) < truth_n[:, None]
    rank_n = ((logit_nc > truth_n1) | ((logit_nc == truth_n1) & is_before)).sum(axis=1)
    values = {f"top{k}_accuracy": (rank_n < k).astype(np.float64) for k in (3, 5)}
    for rank, code_c in taxonomy:
        coded = np.flatnonzero(code_c >= 0)
        shape = (int(code_c.max()) + 1, len(code_c))
        member_tc = csr_array((np.ones(len(coded)), (code_c[coded], coded)), shape)
        right = (member_tc @ prob_nc.T).argmax(axis=0) == code_c[truth_n]
        values[f"{rank}_accuracy"] = np.where(code_c[truth_n] >= 0, right, np.nan)
    return values


def rank_codes(classes: ClassTexts, rank: str) -> np.ndarray | None:
    """The taxon of each class at a rank, numbered by name; -1: it has none. None: none has.

    A name means another taxon in another kingdom, and an epithet in another genus.
    """
    taxa = []
    for names in classes.names.values():
        ranks = names.ranks or {}
        context = (ranks.get("kingdom"), ranks.get("genus") if rank == "species" else "")
        is_whole = rank in ranks and (rank != "species" or "genus" in ranks)
        taxa.append((*map(str, context), ranks[rank]) if is_whole else None)
    numbers = {taxon: index for index, taxon in enumerate(sorted(filter(None, set(taxa))))}
    if not numbers:
        return None
    return np.array([-1 if taxon is None else numbers[taxon] for taxon in taxa])


def probabilities(logit_nc: np.ndarray, is_sigmoid: bool) -> np.ndarray:
    """Softmax over the classes; of a model trained with a sigmoid, its probabilities made to sum to
    one.
    """
    logit_nc = logit_nc.astype(np.float64)
    if is_sigmoid:
        # log sigmoid, which does not underflow where every class is very unlikely
        logit_nc = -np.logaddexp(0.0, -logit_nc)
    prob_nc = np.exp(logit_nc - logit_nc.max(axis=1, keepdims=True))
    return np.asarray(prob_nc / prob_nc.sum(axis=1, keepdims=True))

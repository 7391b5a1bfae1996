"""Reranking with a language model (pointwise relevance): how well does it find an image to answer
a query?

Every result of every query is a request of its own. The score of an image is P(yes) / (P(yes) +
P(no)) of the first word of the answer, over all spellings of the two, as INQUIRE has it; or a grade
from 0 to 10 that the model writes, where it tells no likelihoods. One way holds for a whole run. A
image that was not answered stands where it is most wrong. arXiv:2411.02537
"""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from fieldmark.chat import (
    Answer,
    AnswerJournal,
    AskSession,
    ChatModel,
    Estimate,
    Estimator,
    LocalModel,
    Message,
    Option,
    Parsed,
    Picture,
    PictureCache,
    Request,
    Usual,
    estimate,
    first_word_shares,
    glance,
    letter_settings,
    parse_text,
    prepare,
    spread,
    system,
    user,
)
from fieldmark.chat.journal import request_key, stored_ids
from fieldmark.errors import DataError, ModelError, UsageError
from fieldmark.progress import Progress
from fieldmark.protocols._predictions import FitNotes, PartPredictions
from fieldmark.protocols._question import Question, refs_of
from fieldmark.protocols.ask.answers import outcome_of, spent
from fieldmark.protocols.ask.items import Images, judge_broken
from fieldmark.protocols.ask.sending import AskOptions, ask_session
from fieldmark.protocols.ask.settings import AskSettings
from fieldmark.protocols.rerank.block import RerankBlock
from fieldmark.protocols.rerank.queries import (
    Query,
    RankedQuery,
    drawn_rows,
    queries_of,
    ranked_frame,
    worth,
)
from fieldmark.store import OK

Way = Literal["likelihood", "grade"]
SPELLINGS = {
    word: tuple(
        f"{blank}{spelt}" for blank in ("", " ") for spelt in (word.title(), word, word.upper())
    )
    for word in ("yes", "no")
}
"""what a model on this machine is asked the likelihoods of. Where a tokeniser drops the blank, two
spellings are one and count twice, on both sides: the ratio stays."""
YES_NO = tuple(Option(word, word) for word in SPELLINGS)
GRADES = tuple(Option(str(grade), str(grade)) for grade in range(11))
_OF_TEN = re.compile(r"(?<=\d)\s*(?:/|out of)\s*10\b")
WORST = ("failed", "refused", "length", "unparsed")
"""outcomes of requests, the one first that a query takes"""
N_TRIED = 3
"""requests whose answers show whether an endpoint tells log-probabilities"""
N_LOOKED = 8
"""images whose prompts are built for an estimate"""


@dataclass(frozen=True, slots=True)
class JudgedImage:
    """What became of the request about one image."""

    score: float | None
    outcome: str
    answer: Answer
    """without its log-probabilities"""
    is_by_text: bool = False
    """Yes or No is known from the words alone"""


@dataclass(frozen=True, slots=True, eq=False)
class Reranking:
    """What the requests of a run have in common."""

    block: RerankBlock
    model: ChatModel | LocalModel
    images: Images
    settings: AskSettings
    seed: int

    def pictures(self, rows: pl.DataFrame) -> list[tuple[Picture, ...]]:
        """Of each row, as many as are sent."""
        most = self.settings.value("frames")
        return [spread(tuple(map(self.images.picture, refs)), most) for refs in refs_of(rows)]

    def request(
        self, query: Query, result: str, pictures: Sequence[Picture], way: Way, repeat: int = 0
    ) -> Request:
        prompt = self.block.prompt if way == "likelihood" else self.block.grade_prompt
        message = user(*pictures, prompt.replace("{}", query.text))
        opening = self.settings.value("system")
        messages: tuple[Message, ...] = (*([system(opening)] if opening else []), message)
        name, info = f"{query.id}#{result}", (query.id, result, repeat)
        # With one seed for all repeats an endpoint would say the same every time.
        how = self.model.settings(self.settings.sending(self.seed + repeat, None, self.model))
        if way == "grade":
            return Request(name, messages, how, repeat, info)
        if isinstance(self.model, LocalModel):
            every = tuple(text for texts in SPELLINGS.values() for text in texts)
            return Request(name, messages, how, repeat, info, continuations=every)
        how = replace(letter_settings(how), temperature=how.temperature)
        return Request(name, messages, how, repeat, info)

    def requests(self, queries: Sequence[Query], way: Way, n_repeats: int = 1) -> Iterator[Request]:
        for query in queries:
            shown = zip(query.rows["id"], self.pictures(query.rows), strict=True)
            for result, pictures in shown:
                for repeat in range(n_repeats):
                    yield self.request(query, result, pictures, way, repeat)


def estimate_reranking(
    question: Question, model: ChatModel | LocalModel, journal: Path | None, usual: Usual
) -> Estimate:
    """What the requests will take, from a few of them, spread over all; sends nothing."""
    images = Images(question.root)
    asker = _reranking(question, model, images)
    rows = drawn_rows(question.task, question.parts[0], question.draw)
    way = _known_way(asker) or "likelihood"
    limits, sized = model.picture_limits, []
    for query in queries_of(asker.block, rows[:: -(-len(rows) // N_LOOKED)]):
        for request in asker.requests([query], way):
            with suppress(DataError):  # running, not planning, tells which images cannot be read
                sizes = [glance(picture, limits) for picture in request.pictures]
                sized.append((request, [(size.width, size.height) for size in sizes]))
    n = len(rows) * question.draw.repeats
    if journal and not asker.settings.asks_again() and (ids := stored_ids(journal)):
        queries, shelf = list(queries_of(asker.block, rows)), PictureCache(limits)
        with AnswerJournal(journal) as stored, suppress(DataError):
            for request in asker.requests(queries, way, question.draw.repeats):
                if request.id in ids:
                    pictures = [shelf.prepare(picture) for picture in request.pictures]
                    n -= request_key(request, pictures, model.address) in stored
    return estimate(sized, Estimator(model.card), usual).scaled(max(0, n))


def rerank_by_answer(
    question: Question,
    model: ChatModel | LocalModel,
    options: AskOptions,
    progress: Progress,
) -> PartPredictions:
    """The order a language model puts the results of every query in."""
    began, task, draw = time.monotonic(), question.task, question.draw
    images = Images(question.root, options.contents, question.settings.detail)
    asker = _reranking(question, model, images)
    rows, broken = _readable(asker, question, options.bad_images, progress)
    queries = list(queries_of(asker.block, rows))
    progress.start(f"{task.task} with {model.name}", len(rows) * draw.repeats)
    judged: dict[tuple[str, str, int], JudgedImage] = {}
    seen = _what_a_mock_sees(asker, queries) if model.is_mock else None
    way: Way = _known_way(asker) or "likelihood"

    def outcome_of(_: Request, answer: Answer) -> str:
        return judge_image(answer, way).outcome

    with ask_session(model, options, progress, seen, outcome_of) as session:
        way = _known_way(asker) or _tried_way(asker, queries, session, task.task)

        def keep(request: Request, answer: Answer) -> None:
            judged[request.info] = judge_image(answer, way)
            progress.advance()

        session.ask(asker.requests(queries, way, draw.repeats), keep, task.task)
    frames = []
    for repeat in range(draw.repeats):
        ranked = [_ranked(query, judged, repeat, asker.block.k) for query in queries]
        frames.append(
            ranked_frame(ranked, task.metric).with_columns(pl.lit(repeat).alias("repeat"))
        )
    notes = _notes(list(judged.values()), way)
    if broken:
        notes |= {"n_bad_images": len(broken), "bad_images": broken}
    predictions = PartPredictions("", pl.concat(frames), 0, notes)
    return predictions.timed(time.monotonic() - began)


def _reranking(question: Question, model: ChatModel | LocalModel, images: Images) -> Reranking:
    block: RerankBlock = question.task.block("rerank")
    if block.by == "likelihood" and "logprobs" in model.lacks:
        raise UsageError(
            f"{question.task.line_of('rerank')}  by: likelihood needs a model that gives "
            f"log-probabilities, and {model.name!r} does not: expected auto or grade."
        )
    return Reranking(block, model, images, question.settings, question.draw.seed)


def _readable(
    asker: Reranking, question: Question, bad_images: str, progress: Progress
) -> tuple[pl.DataFrame, dict[str, str]]:
    """The results whose pictures can all be read, and why others cannot."""
    rows = drawn_rows(question.task, question.parts[0], question.draw)
    shown = [[picture.name for picture in pictures] for pictures in asker.pictures(rows)]
    every = dict.fromkeys(name for names in shown for name in names)
    broken = asker.images.find_broken(list(every), progress)
    judge_broken(question.root, broken, len(every), bad_images, progress)
    kept = rows.filter(pl.Series([broken.keys().isdisjoint(names) for names in shown]))
    if kept.is_empty():
        image, why = next(iter(broken.items()))
        raise DataError(
            f"task {question.task.task!r}: none of the {len(rows)} images can be read "
            f"(first: {image} {why})."
        )
    return kept, broken


def _known_way(asker: Reranking) -> Way | None:
    """The way of the run; None where the endpoint's answers must show it."""
    by = asker.block.by
    if by == "grade" or "logprobs" in asker.model.lacks:
        return "grade"
    return "likelihood" if isinstance(asker.model, LocalModel) else None


def _tried_way(asker: Reranking, queries: Sequence[Query], session: AskSession, title: str) -> Way:
    """By a few of the requests that likelihoods need. Their answers are journalled: a run that goes
    on after a kill goes on in its way.
    """
    answers: list[Answer] = []
    samples = list(islice(asker.requests(queries, "likelihood"), N_TRIED))
    session.ask(samples, lambda _, answer: answers.append(answer), title)
    spoken = [answer for answer in answers if answer.outcome in ("ok", "length")]
    if not spoken or any(answer.logprobs for answer in spoken):
        return "likelihood"
    if asker.block.by == "likelihood":
        raise ModelError(
            f"model {asker.model.name!r} gives no log-probabilities, and `by: likelihood` needs "
            "them: expected `by: auto` or `by: grade` in the task's `rerank` block."
        )
    return "grade"


def judge_image(answer: Answer, way: Way) -> JudgedImage:
    """The score of an image by the answer about it, between 0 and 1; or why there is none."""
    bare = replace(answer, logprobs=(), likelihoods=())
    if answer.outcome in ("failed", "refused"):
        return JudgedImage(None, answer.outcome, bare)
    if way == "grade":
        parsed = _read_grade(answer)
        score = None if parsed.label is None else int(parsed.label) / 10
        return JudgedImage(score, outcome_of(answer.outcome, parsed), bare)
    likely = _share_of_yes(answer)
    if likely is not None:
        return JudgedImage(likely, OK, bare)
    parsed = parse_text(answer.text, YES_NO, "yes_no", is_cut=answer.outcome == "length")
    score = None if parsed.label is None else float(parsed.label == "yes")
    return JudgedImage(score, outcome_of(answer.outcome, parsed), bare, score is not None)


def _share_of_yes(answer: Answer) -> float | None:
    """P(yes) / (P(yes) + P(no)); None where neither is among what might have been said."""
    if answer.likelihoods:
        every = [likelihood.logprob for likelihood in answer.likelihoods]
        n = len(SPELLINGS["yes"])
        yes, no = np.logaddexp.reduce(every[:n]), np.logaddexp.reduce(every[n:])
        return float(1 / (1 + math.exp(min(no - yes, 700.0))))
    shares = first_word_shares(answer)
    yes, no = shares.get("yes", 0.0), shares.get("no", 0.0)
    return yes / (yes + no) if yes + no > 0 else None


def _read_grade(answer: Answer) -> Parsed:
    """A number from 0 to 10 that is the answer by itself, not a number of birds."""
    text = _OF_TEN.sub("", answer.text)
    parsed = parse_text(text, GRADES, "count", is_cut=answer.outcome == "length")
    return Parsed(None, parsed.how, "no number alone") if parsed.is_loose else parsed


def _ranked(
    query: Query, judged: Mapping[tuple[str, str, int], JudgedImage], repeat: int, k: int
) -> RankedQuery:
    """What the order was worth. An image without a score stands where it is most wrong: a relevant
    one last, any other first.
    """
    results = query.rows["id"].to_list()
    judgements = [judged[query.id, result, repeat] for result in results]
    scores = {result: one.score for result, one in zip(results, judgements, strict=True)}
    about: dict[str, Any] = {"scores": scores}
    outcomes = {one.outcome for one in judgements}
    outcome = next((name for name in WORST if name in outcomes), OK)
    if outcome != OK:
        about["unscored"] = {
            result: [one.outcome, one.answer.error or one.answer.text]
            for result, one in zip(results, judgements, strict=True)
            if one.score is None
        }
    wrong = np.where(query.is_relevant, -1.0, 2.0)  # scores lie between 0 and 1
    given = np.array([one.score for one in judgements], np.float64)
    score = np.where(np.isnan(given), wrong, given)
    top = results[int(score.argmax())] if outcome == OK else None
    return RankedQuery(query, worth(query.is_relevant, score, k), top, outcome, about)


def _notes(judged: Sequence[JudgedImage], way: Way) -> dict[str, Any]:
    """What the requests cost, what became of them, and in which way scores were made."""
    fits = FitNotes("rerank")
    fits.chosen.append({"by": way})
    n_by_text = sum(one.is_by_text for one in judged)
    if n_by_text:
        fits.notes[
            f"{n_by_text:,} of {len(judged):,} answers have no log-probability of Yes or No: "
            f"their text is used, as if certain"
        ] += 1
    outcomes = dict(sorted(Counter(one.outcome for one in judged).items()))
    return spent([one.answer for one in judged]) | {"outcomes": outcomes, "by": way} | fits.noted()


def _what_a_mock_sees(asker: Reranking, queries: Sequence[Query]) -> dict[str, tuple[str, ...]]:
    """SHA-256 of the pictures as they are sent → the queries that they answer."""
    truths: dict[str, tuple[str, ...]] = {}
    limits = asker.model.picture_limits
    for query in queries:
        shown = zip(asker.pictures(query.rows), query.is_relevant, strict=True)
        for pictures, is_relevant in shown:
            key = "+".join(prepare(picture, limits).sha256 for picture in pictures)
            truths[key] = (*truths.get(key, ()), *([query.text] if is_relevant else []))
    return truths

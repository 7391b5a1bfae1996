"""Results: which values does each document get, and what is stored of it?

Responses go through the task's pipelines of filters, thoughts are taken out, and the task's
`process_results`, or the metrics it names, give the values. Code of the task draws from global
random states: these are set for each document, so that a value depends on no other one. Stored is
everything a later score, an export or a reader needs: what was asked, what came back, what the
filters and metrics made of it, and hashes that tell whether two runs asked the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from fieldmark.errors import UsageError
from fieldmark.lmms.ask.choices import has_many_inputs
from fieldmark.lmms.ask.generate import DocumentReply
from fieldmark.lmms.ask.prompts import Setup, choices_of
from fieldmark.lmms.ask.shots import answer_of
from fieldmark.lmms.code.call import call, load_function, seeded
from fieldmark.lmms.code.trust import Function
from fieldmark.lmms.metrics.values import (
    TextMetric,
    choice_values,
    gold_places,
    likelihood_values,
    rolling_values,
    text_values,
)
from fieldmark.lmms.read.schema import DocumentTask, Pipeline
from fieldmark.lmms.score.encoding import as_number, encode, plain_json
from fieldmark.lmms.score.filters import make_filter, reasoning_tags, run_pipeline, strip_response
from fieldmark.lmms.score.scores import higher_is_better
from fieldmark.protocols.ask.answers import spent
from fieldmark.store import OK

WRITTEN = ("generate_until", "generate_until_multi_round")
"""output types whose responses are words"""
OF_SEVERAL = ("majority_vote", "take_first_k")
"""steps that make sense of several responses only"""
MOST_KEPT = 16_000
"""characters of a document that is kept whole with its answer"""


@dataclass(slots=True, eq=False)
class ScoredDocument:
    """A document with its values; none where it was not answered."""

    reply: DocumentReply
    target: Any
    filtered: dict[str, list[Any]] = field(default_factory=dict)
    """pipeline → what it made of each request's responses"""
    values: dict[str, dict[str, Any]] = field(default_factory=dict)
    """pipeline → metric → value"""
    repeats: list[tuple[Any, Any]] = field(default_factory=list)
    """of several repeats: the answer and the first metric's value of each"""
    odd: str = ""
    """what makes the document look like a mistake in its task"""


def score_replies(
    setup: Setup, replies: Sequence[DocumentReply], seed: int
) -> list[ScoredDocument]:
    """Values of all documents that were answered, under every pipeline."""
    part, target = setup.part, setup.fields.target
    judged = [ScoredDocument(one, target(part.document(one.row), one.row)) for one in replies]
    answered = [document for document in judged if document.reply.outcome == OK]
    scorer = _Scorer(setup, seed)
    for pipeline in setup.task.pipelines:
        filters = _filters(setup.task, pipeline)
        resps = [[list(response) for response in document.reply.responses] for document in answered]
        filtered = _filtered(setup, filters, answered, resps)
        for document, made in zip(answered, filtered, strict=True):
            document.filtered[pipeline.name] = made
            document.values[pipeline.name] = scorer.values(document, made)
    for document in answered:
        document.odd = _odd(setup, document)
    if setup.task.n_repeats > 1:
        _judge_repeats(setup, answered, scorer)
    return judged


def _filters(task: DocumentTask, pipeline: Pipeline) -> list[Any]:
    """The steps of a pipeline, ready to be applied."""
    index = [task_pipeline.name for task_pipeline in task.pipelines].index(pipeline.name)
    steps = []
    for number, step in enumerate(pipeline.filter):
        where = task.line_of("filter_list", index, "filter", number)
        function: Any = step.function
        if isinstance(function, Function):
            function = load_function(function, task.trust)
        steps.append(make_filter(function, step.options, where))
    if task.auto_strip_thinking and not reasoning_tags(task.reasoning_tags):
        steps.insert(0, make_filter("strip_thinking"))
    return steps


def _judge_repeats(setup: Setup, answered: Sequence[ScoredDocument], scorer: _Scorer) -> None:
    """Each repeat by itself, through the first pipeline without the steps that need several."""
    pipeline = setup.task.pipelines[0]
    steps = tuple(step for step in pipeline.filter if step.function not in OF_SEVERAL)
    filters = _filters(setup.task, pipeline.model_copy(update={"filter": steps}))
    if not any(step.function == "take_first" for step in steps):
        filters.append(make_filter("take_first"))
    name = setup.task.metrics[0].name
    for repeat in range(setup.task.n_repeats):
        alone = [
            [[response[repeat]] for response in document.reply.responses] for document in answered
        ]
        filtered = _filtered(setup, filters, answered, alone)
        for document, made in zip(answered, filtered, strict=True):
            document.repeats.append((made[0], scorer.values(document, made).get(name)))


def _odd(setup: Setup, judged: ScoredDocument) -> str:
    """Counted in the warning of the scores: such a document is wrong whatever was answered."""
    task, fields, row = setup.task, setup.fields, judged.reply.row
    if task.process_results is not None:
        return ""
    if fields.has_choices:
        is_input = task.output_type not in WRITTEN and has_many_inputs(setup, row)
        gold = fields.text(setup.part.document(row), row) if is_input else judged.target
        is_known = gold_places(gold, choices_of(setup, row))
        return "" if is_known else "the target is not one of the choices"
    return fields.odd_target


def _filtered(
    setup: Setup,
    filters: Sequence[Any],
    judged: Sequence[ScoredDocument],
    resps: Sequence[Sequence[list[Any]]],
) -> list[list[Any]]:
    """Per document, one entry per request; filters see all requests of the task at once."""
    sizes = [len(requests) for requests in resps]
    rows = [one.reply.row for one, size in zip(judged, sizes, strict=True) for _ in range(size)]
    docs = [setup.part.document(row) for row in rows]
    flat = [responses for requests in resps for responses in requests]
    where = setup.task.line_of("filter_list")
    made = iter(run_pipeline(filters, flat, docs, where))
    tags = reasoning_tags(setup.task.reasoning_tags)
    return [[strip_response(next(made), tags) for _ in range(size)] for size in sizes]


@dataclass(eq=False)
class _Scorer:
    """The task's own way from responses to values."""

    setup: Setup
    seed: int

    def values(self, judged: ScoredDocument, responses: Sequence[Any]) -> dict[str, Any]:
        task, row = self.setup.task, judged.reply.row
        with seeded(self.seed, task.task, row):
            if task.process_results is not None:
                return self._own(task.process_results, row, responses)
            if task.output_type in WRITTEN:
                return self._text(judged, responses)
            return self._likelihood(judged, responses)

    def _own(self, function: Function, row: int, responses: Sequence[Any]) -> dict[str, Any]:
        task = self.setup.task
        doc = self.setup.part.document(row, media=task.process_results_use_image)
        results = _stripped(responses) if task.output_type == "generate_until" else list(responses)
        code = self.setup.fields.function("process_results")
        values = call(code, doc, results, where=function.where, document=row)
        if not isinstance(values, dict):
            raise UsageError(
                f"{function.where}  document {row}: {function.text} gave "
                f"{type(values).__name__}: expected a mapping of metrics to values."
            )
        return {str(name): value for name, value in values.items()}

    def _text(self, judged: ScoredDocument, responses: Sequence[Any]) -> dict[str, Any]:
        """Where there are choices, the target is the text of one."""
        setup, row, target = self.setup, judged.reply.row, judged.target
        if setup.fields.has_choices:
            choices = choices_of(setup, row)
            numbers = gold_places(target, choices)
            target = [choices[number] for number in numbers] or [str(target)]
        response = responses[0] if len(responses) == 1 else list(responses)
        safe_call = partial(call, where=setup.task.line_of("metric_list"), document=row)
        return text_values(self._text_metrics, response, target, safe_call)

    @cached_property
    def _text_metrics(self) -> list[TextMetric]:
        task = self.setup.task
        return [
            TextMetric(
                item.name,
                load_function(item.metric, task.trust)
                if isinstance(item.metric, Function)
                else None,
                item.options,
                higher_is_better(item),
            )
            for item in task.metrics
        ]

    def _likelihood(self, judged: ScoredDocument, responses: Sequence[Any]) -> dict[str, Any]:
        setup, row = self.setup, judged.reply.row
        metric_names = [item.name for item in setup.task.metrics]
        if setup.task.output_type == "loglikelihood":
            return likelihood_values(metric_names, *responses[0])
        if setup.task.output_type == "loglikelihood_rolling":
            return rolling_values(metric_names, str(judged.target), responses[0][0])
        doc = setup.part.document(row)
        choices = choices_of(setup, row)
        n, gold = len(choices), judged.target
        if has_many_inputs(setup, row):
            gold = setup.fields.text(doc, row)
        logprobs, greedy = zip(*responses[:n], strict=True)
        alone = [pair[0] for pair in responses[n:]] or None
        # Letters are of one length: nothing is to be made up for.
        shown = ["A"] * n if judged.reply.how else choices
        right = gold_places(gold, choices)
        return choice_values(metric_names, logprobs, greedy, list(right), shown, alone)


def _stripped(responses: Sequence[Any]) -> list[Any]:
    """Texts without blanks around them, "" for none; of a pipeline that keeps several, all."""
    several = responses[0] if responses and isinstance(responses[0], list) else responses
    texts = ("" if text is None else text for text in several)
    return [text.strip() if isinstance(text, str) else text for text in texts]


def row_of(setup: Setup, judged: ScoredDocument) -> tuple[Any, ...]:
    """A row of predictions (`FRAME`)."""
    doc = setup.part.document(judged.reply.row)
    target = target_text(setup, judged, doc)
    try:
        info = json.dumps(_info(judged, doc, target), ensure_ascii=False, sort_keys=True)
    except UsageError as error:  # a value of a kind that only the task's code knows
        where = setup.task.line_of("process_results")
        raise UsageError(f"{where}  document {judged.reply.row}: {error}") from error
    cluster = _cluster(setup, judged, doc)
    is_scored = judged.reply.outcome == OK
    prediction = _prediction(setup, judged) if is_scored else None
    value = _value(setup, judged)
    return (
        str(judged.reply.row), target, cluster, prediction, value, 0, judged.reply.outcome, info,
    )  # fmt: skip


def target_text(setup: Setup, judged: ScoredDocument, doc: dict[str, Any]) -> str:
    """In words where one is right; a list as JSON."""
    if isinstance(judged.target, (list, tuple)) and not setup.fields.has_choices:
        return plain_json(judged.target)
    return answer_of(setup.fields, doc, judged.reply.row)


def _prediction(setup: Setup, judged: ScoredDocument) -> str:
    """The first pipeline's response; of choices the text of the one that was found likeliest."""
    responses = judged.filtered[setup.task.pipelines[0].name]
    if setup.task.output_type == "multiple_choice":
        choices = choices_of(setup, judged.reply.row)
        scores = [pair[0] for pair in responses[: len(choices)]]
        return choices[scores.index(max(scores))]
    response = responses[0] if len(responses) == 1 else responses
    return response if isinstance(response, str) else plain_json(response)


def _value(setup: Setup, judged: ScoredDocument) -> float | None:
    """The first metric's value, where it is a number."""
    value = _first_value(setup, judged)
    if isinstance(value, dict):
        value = value.get(setup.task.score_key)
    return as_number(value)


def _first_value(setup: Setup, judged: ScoredDocument) -> Any:
    """Of the first metric under the first pipeline."""
    values = judged.values.get(setup.task.pipelines[0].name, {})
    return values.get(setup.task.metrics[0].name)


def _cluster(setup: Setup, judged: ScoredDocument, doc: dict[str, Any]) -> str | None:
    """What is independent: `cluster_key` inside the first metric's value, else a column."""
    key = setup.task.cluster_key
    if key is None:
        return None
    inside = _first_value(setup, judged)
    cluster = inside.get(key) if isinstance(inside, dict) else doc.get(key)
    return None if cluster is None else str(cluster)


def _info(judged: ScoredDocument, doc: dict[str, Any], target: str) -> dict[str, Any]:
    reply = judged.reply
    answers = reply.answers
    cost, document_text = spent(answers), plain_json(doc)
    fields: dict[str, Any] = {
        "doc": json.loads(document_text) if len(document_text) <= MOST_KEPT else None,
        "choices": list(reply.choices),
        "input": reply.input,
        "resps": json.loads(plain_json(reply.responses)),
        "filtered": json.loads(plain_json(judged.filtered)),
        "values": {
            pipeline: {name: encode(value) for name, value in values.items()}
            for pipeline, values in judged.values.items()
        },
        "each": [[plain_json(answer), encode(value)] for answer, value in judged.repeats],
        "how": reply.how,
        "odd": judged.odd,
        "doc_hash": _hash(document_text),
        "prompt_hash": _hash(reply.input),
        "target_hash": _hash(target),
        **{name: cost[name] for name in ("tokens_in", "tokens_out", "usd")},
        "finish_reason": next((answer.finish_reason for answer in answers), ""),
        "latency_s": round(sum(answer.latency_s for answer in answers), 3),
        "error": next((answer.error for answer in answers if answer.error), ""),
    }
    return {key: value for key, value in fields.items() if value not in (None, "", 0, [], {})}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def summed_up(setup: Setup, judged: Sequence[ScoredDocument]) -> dict[str, Any]:
    """What holds for the whole run: the file as it was read, what it cost, how it was asked."""
    answers = [answer for document in judged for answer in document.reply.answers]
    part, task = setup.part, setup.task
    idle = ["repeats"] if task.repeats > task.n_repeats else []
    hows = sorted({one.reply.how for one in judged if one.reply.how})
    about: dict[str, Any] = {
        "config": task.plain(),
        "n_original": len(part.documents.test),
        "n_shot": part.k,
        "fallback": "; ".join(hows),
        "prompt_key": setup.prompt_key,
        "ignored": [*setup.generation.ignored, *idle],
        "higher_is_better": {metric.name: higher_is_better(metric) for metric in task.metrics},
        "version": task.version,
    }
    return {"documents": about, **spent(answers)}

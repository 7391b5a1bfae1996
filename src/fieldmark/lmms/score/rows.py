"""What is stored of a document that was asked?

Everything a later score, an export or a reader needs: what was asked, what came back, what the
filters and metrics made of it, and hashes that tell whether two runs asked the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import polars as pl

from fieldmark.errors import UsageError
from fieldmark.lmms import DocumentTask, plain_task
from fieldmark.lmms.ask.prompts import Setup, choices_of
from fieldmark.lmms.ask.shots import answer_of
from fieldmark.lmms.score.results import Judged
from fieldmark.lmms.score.values import as_number, encode, plain_json
from fieldmark.lmms.score.wanted import (
    higher_is_better,
    metrics_of,
    pipelines_of,
    repeats_of,
)
from fieldmark.protocols.ask.answers import FRAME, spent
from fieldmark.store import OK

MOST_KEPT = 16_000
"""characters of a document that is kept whole with its answer"""


def rows_of(setup: Setup, judged: Sequence[Judged]) -> pl.DataFrame:
    rows = [_row(setup, each) for each in judged]
    return pl.DataFrame(rows, schema=FRAME, orient="row")


def _row(setup: Setup, judged: Judged) -> tuple[Any, ...]:
    doc = setup.part.document(judged.reply.row)
    target = target_text(setup, judged, doc)
    info = json.dumps(_told(setup, judged, doc, target), ensure_ascii=False, sort_keys=True)
    cluster = _cluster(setup, judged, doc)
    is_scored = judged.reply.outcome == OK
    prediction = _prediction(setup, judged) if is_scored else None
    value = _value(setup, judged)
    return (
        str(judged.reply.row), target, cluster, prediction, value, 0, judged.reply.outcome, info,
    )  # fmt: skip


def target_text(setup: Setup, judged: Judged, doc: dict[str, Any]) -> str:
    """In words where one is right; a list as JSON."""
    if isinstance(judged.target, (list, tuple)) and not setup.fields.has_choices:
        return plain_json(judged.target)
    return answer_of(setup.fields, doc, judged.reply.row)


def _prediction(setup: Setup, judged: Judged) -> str:
    """The first pipeline's response; of choices the text of the one that was found likeliest."""
    found = judged.filtered[pipelines_of(setup.task)[0].name]
    if setup.task.output_type == "multiple_choice":
        choices = choices_of(setup, judged.reply.row)
        scores = [pair[0] for pair in found[: len(choices)]]
        return choices[scores.index(max(scores))]
    first = found[0] if len(found) == 1 else found
    return first if isinstance(first, str) else plain_json(first)


def _value(setup: Setup, judged: Judged) -> float | None:
    """The first metric's value, where it is a number."""
    values = judged.values.get(pipelines_of(setup.task)[0].name, {})
    value = values.get(metrics_of(setup.task)[0].name)
    if isinstance(value, dict):
        value = value.get(setup.task.score_key)
    return as_number(value)


def _cluster(setup: Setup, judged: Judged, doc: dict[str, Any]) -> str | None:
    """What is independent: `cluster_key` inside the first metric's value, else a column."""
    key = setup.task.cluster_key
    if key is None:
        return None
    values = judged.values.get(pipelines_of(setup.task)[0].name, {})
    inside = values.get(metrics_of(setup.task)[0].name)
    found = inside.get(key) if isinstance(inside, dict) else doc.get(key)
    return None if found is None else str(found)


def _told(setup: Setup, judged: Judged, doc: dict[str, Any], target: str) -> dict[str, Any]:
    try:
        return _info(judged, doc, target)
    except UsageError as error:  # a value of a kind that only the task's code knows
        where = setup.task.place_of("process_results")
        raise UsageError(f"{where}  document {judged.reply.row}: {error}") from error


def _info(judged: Judged, doc: dict[str, Any], target: str) -> dict[str, Any]:
    reply = judged.reply
    answers = reply.answers
    cost, words = spent(answers), plain_json(doc)
    told: dict[str, Any] = {
        "doc": json.loads(words) if len(words) <= MOST_KEPT else None,
        "choices": list(reply.choices),
        "input": reply.input,
        "resps": json.loads(plain_json(reply.responses)),
        "filtered": json.loads(plain_json(judged.filtered)),
        "values": {
            pipeline: {name: encode(value) for name, value in values.items()}
            for pipeline, values in judged.values.items()
        },
        "each": [[plain_json(said), encode(value)] for said, value in judged.each],
        "how": reply.how,
        "odd": judged.odd,
        "doc_hash": _hash(words),
        "prompt_hash": _hash(reply.input),
        "target_hash": _hash(target),
        **{name: cost[name] for name in ("tokens_in", "tokens_out", "usd")},
        "finish_reason": next((each.finish_reason for each in answers), ""),
        "latency_s": round(sum(each.latency_s for each in answers), 3),
        "error": next((each.error for each in answers if each.error), ""),
    }
    return {key: value for key, value in told.items() if value not in (None, "", 0, [], {})}


def _idle(task: DocumentTask) -> list[str]:
    return ["repeats"] if task.repeats > repeats_of(task) else []


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def summed_up(setup: Setup, judged: Sequence[Judged]) -> dict[str, Any]:
    """What holds for the whole run: the file as it was read, what it cost, how it was asked."""
    answers = [answer for each in judged for answer in each.reply.answers]
    part, task = setup.part, setup.task
    hows = sorted({each.reply.how for each in judged if each.reply.how})
    about: dict[str, Any] = {
        "config": plain_task(task),
        "n_original": len(part.documents.test),
        "n_shot": part.k,
        "fallback": "; ".join(hows),
        "prompt_key": setup.prompt_key,
        "ignored": [*setup.generation.ignored, *_idle(task)],
        "higher_is_better": {each.name: higher_is_better(each) for each in metrics_of(task)},
        "version": task.version,
        "groups": list(part.memberships),
    }
    return {"documents": about, **spent(answers)}
